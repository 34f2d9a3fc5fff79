"""Gradient suppression: in a sum only the chosen client's first layer has a gradient."""

import pytest
import torch
from observing import seen_of
from torch import nn
from torch.nn.functional import cross_entropy

from leakbench.attacks.imprint import imprint
from leakbench.base.errors import UserError
from leakbench.federation import servers
from leakbench.federation.servers import Held
from leakbench.networks import victims

SHAPE, PLACE, CLIENTS = (6, 6, 1), (1, 6, 6), [5, 4, 6]


def samples(count: int, seed: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(count, 1, 1, 1, generator=rng) * torch.rand(count, *PLACE, generator=rng)


def held(clients: list[int] = CLIENTS, own: int = 5000) -> Held:
    of_server = samples(own, 1) if own else None
    return Held(PLACE, sum(clients), torch.Generator().manual_seed(0), of_server, clients)


def network(module: str = "mlp", **more: object) -> nn.Module:
    torch.manual_seed(0)
    return victims.build(module, SHAPE, 5, {"hidden": [100, 20], **more}).eval()


@pytest.mark.parametrize("normalise", ["none", "mnist"])
@pytest.mark.parametrize("chosen", [0, 2])
def test_a_sum_is_read_as_the_chosen_client_s_update(chosen: int, normalise: str) -> None:
    model = network(normalise=normalise)
    written = servers.build("suppression", {"chosen": chosen})(model, held())
    # By hand: in a hundred bins, of the 15 samples of all.
    own = CLIENTS[chosen]
    assert written.expected == {"exact": pytest.approx(own / 15 * 0.99 ** (own - 1))}
    named, whole = dict(model.named_parameters()), [samples(n, 7 + n) for n in CLIENTS]
    ((bias, sent),) = written.each.items()
    total: dict[str, torch.Tensor] = {}
    alone = torch.zeros(0)
    layer = model.get_submodule(bias.removesuffix(".bias"))
    for client, images in enumerate(whole):
        model.load_state_dict({bias: sent[client]}, strict=False)
        out: list[torch.Tensor] = []
        hook = layer.register_forward_hook(lambda _, inputs, output, out=out: out.append(output))
        loss = cross_entropy(model(images), torch.arange(len(images)) % 5)
        hook.remove()
        found = torch.autograd.grad(loss, list(named.values()))
        if client == chosen:
            place = (out[0] > 0).sum(1)
            alone = torch.bincount(place, minlength=101)[place] == 1
        else:
            assert not found[0].any()
            assert not found[1].any()
        for name, value in zip(named, found, strict=True):
            total[name] = total.get(name, 0) + value * len(images) / 15
    model.load_state_dict({bias: sent[chosen]}, strict=False)
    parameters = {"hidden": [100, 20], "normalise": normalise}
    observation = seen_of(
        model,
        {"module": "mlp", "parameters": parameters, "shape": SHAPE, "classes": 5},
        {name: value[None] for name, value in total.items()},
        15,
        each={name: value.numpy()[None] for name, value in written.each.items()},
    )
    read = imprint(observation, torch.Generator())
    images = read.images[0, 0][read.usable[0, 0]]
    near = torch.cdist(whole[chosen].flatten(1), images.flatten(1), p=torch.inf) < 0.1 / 255
    assert torch.equal(near.any(1), alone)
    assert alone.any()


@pytest.mark.parametrize(
    ("model", "of", "chosen", "told"),
    [
        (network, held([12]), 0, "two clients or more"),
        (network, held(), 3, "there is no client 3 of 3"),
        (network, held(own=0), 0, "give the server auxiliary ones"),
        (lambda: network(activation="sigmoid"), held(), 0, "such as ReLUs"),
        (lambda: victims.build("lenet_dlg", SHAPE, 5, {}), held(), 0, "begins with Conv2d"),
    ],
)
def test_what_does_not_fit_is_one_line(model: object, of: Held, chosen: int, told: str) -> None:
    with pytest.raises(UserError, match=told) as refused:
        servers.build("suppression", {"chosen": chosen})(model(), of)
    assert str(refused.value).startswith("malicious: ")
