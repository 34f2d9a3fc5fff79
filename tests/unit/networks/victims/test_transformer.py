"""The transformer sees no later token, and clients train its adapters alone."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from leakbench.base.errors import UserError
from leakbench.networks import victims
from leakbench.networks.layers import thawed, tokens

SHAPE, VOCABULARY = (1, 8, 1), 30


def built(module: str = "transformer", **parameters: object) -> nn.Module:
    torch.manual_seed(0)
    return victims.build(module, SHAPE, VOCABULARY, {"width": 16, "heads": 2} | parameters)


def sentences(n: int = 4) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (n, 8), generator=torch.Generator().manual_seed(0))


def images(of: torch.Tensor) -> torch.Tensor:
    return (of / VOCABULARY)[:, None, None]


def test_a_token_changes_no_earlier_prediction() -> None:
    before, after = sentences(), sentences()
    after[:, 4] = (after[:, 4] + 1) % VOCABULARY
    one, two = (built()(images(each)) for each in (before, after))
    assert one.shape == (4, VOCABULARY, 7)
    assert torch.equal(one[:, :, :4], two[:, :, :4])
    assert not torch.allclose(one[:, :, 4], two[:, :, 4])


def test_a_token_after_a_beginning_is_that_of_the_whole_sentence() -> None:
    block, begun, x = built().blocks[0], torch.randn(2, 4, 16), torch.randn(3, 16)  # type: ignore[index]
    found = block.after(begun, x)
    for n, m in itertools.product(range(2), range(3)):
        assert torch.allclose(found[n, m], block(torch.cat([begun[n], x[m, None]])[None])[0, -1], atol=1e-6)


def test_every_token_of_an_encoder_changes_its_prediction_and_the_others_have_no_loss() -> None:
    before, after = sentences(), sentences()
    after[:, -2] = (after[:, -2] + 1) % VOCABULARY
    one, two = (built("encoder")(images(each)) for each in (before, after))
    assert not torch.allclose(one[:, :, -1], two[:, :, -1])
    assert cross_entropy(one[:, :, :-1], before[:, 1:-1]) == 0
    # A mixture that has all of its weight on a sentence is that sentence.
    block, x = built("encoder").blocks[0], torch.randn(5, 16)  # type: ignore[index]
    assert torch.allclose(block.amid(x[:1], x)(torch.ones(1, 5)), block(x[None])[0, :1], atol=1e-6)


def test_every_token_number_is_stored_exactly() -> None:
    every = torch.arange(50_257)
    assert torch.equal(tokens((every / 50_257)[None, None, None], 50_257)[0], every)


@pytest.mark.parametrize(("down", "trained"), [(True, {"up", "down"}), (False, {"up"})])
def test_clients_train_the_adapters_alone(down: bool, trained: set[str]) -> None:
    model = built(rank=4, down=down)
    assert {name.rpartition(".")[2] for name, _ in model.named_parameters()} == trained
    assert built(rank=4).state_dict().keys() == built(rank=4, down=down).state_dict().keys()


def test_untrained_adapters_change_nothing_at_first() -> None:
    model = built(rank=4)
    before = model(images(sentences()))
    for name, value in model.named_parameters():
        if name.endswith(".down"):
            nn.init.normal_(value)
    assert torch.equal(model(images(sentences())), before)


@pytest.mark.parametrize("begun", [False, True])
def test_the_frozen_network_is_trained_before_clients_train(begun: bool) -> None:
    model = built(rank=4, begun=begun)
    names = [name for name, _ in model.named_parameters()]
    old = {name: value.clone() for name, value in model.state_dict().items()}
    with thawed(model):
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(2):
            optimiser.zero_grad()
            cross_entropy(model(images(sentences())), sentences()[:, 1:]).backward()
            optimiser.step()
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, old[name])}
    assert "embedding.weight" in moved
    assert "head.weight" in moved
    assert bool(moved & {name for name in names if name.endswith("up")}) == begun
    assert [name for name, _ in model.named_parameters()] == names
    assert all(value.requires_grad for value in model.parameters())


def test_a_tied_head_is_the_embedding() -> None:
    model = built(tied=True)
    assert not any(name.startswith("head") for name in model.state_dict())
    cross_entropy(model(images(sentences())), sentences()[:, 1:]).backward()
    assert model.embedding.weight.grad is not None  # type: ignore[union-attr]
    assert bool(model.embedding.weight.grad.any(1).all())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"heads": 3}, "no multiple of heads"),
        ({"down": False}, "no adapters"),
        ({"begun": True}, "no adapters"),
    ],
)
def test_sizes_that_do_not_fit_are_one_line(parameters: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        built(**parameters)
    with pytest.raises(UserError, match="no sentence"):
        victims.build("encoder", (28, 28, 1), VOCABULARY, {})
