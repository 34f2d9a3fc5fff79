"""What was drawn is an unknown, or its gradients are left out; label rules see the last layer."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from observing import LOCAL, seen_of, sent_by
from torch import Tensor
from torch.func import functional_call, grad
from torch.nn.functional import cross_entropy

from leakbench.attacks.adaptive import adaptation
from leakbench.attacks.label_inference import LastLayer
from leakbench.attacks.labels import labels
from leakbench.attacks.matching.engines.plain import plain_gradients
from leakbench.attacks.matching.engines.tape import tape_gradients
from leakbench.attacks.matching.labelling import last_layer
from leakbench.attacks.matching.objectives.before_layer import before_layer
from leakbench.attacks.matching.trials import groups
from leakbench.base.errors import Unfit
from leakbench.networks import victims
from leakbench.networks.generators import build
from leakbench.networks.layers import draw_masks
from leakbench.networks.per_trial import drawn, lent
from leakbench.observations.adaptation import Adaptation
from leakbench.observations.observation import Observation
from leakbench.observations.threat_model import ThreatModel

SHAPE, CLASSES, TRIALS, BATCH = (8, 8, 1), 4, 3, 2
KEEP = "bottleneck.keep"
NETWORK = {
    "module": "precode", "parameters": {"network": "lenet-dlg", "width": 6, "weight": 1e-3},
    "shape": list(SHAPE), "classes": CLASSES,
}  # fmt: skip


def network(weight: float = 1e-3, seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    parameters = {"network": "lenet-dlg", "width": 6, "weight": weight}
    return victims.build("precode", SHAPE, CLASSES, parameters).eval()


def of_clients(model: torch.nn.Module, images: Tensor, labels: Tensor, keep: Tensor) -> dict[str, Tensor]:
    """Return the gradients [trials, *shape] of clients who drew `keep`, one after the other."""

    def loss(weights: Any, x: Tensor, y: Tensor, own: Tensor) -> Tensor:
        return cross_entropy(functional_call(model, {**weights, KEEP: own}, (x,)), y)

    weights = {name: value.detach() for name, value in model.named_parameters()}
    each = [grad(loss)(weights, x, y, own) for x, y, own in zip(images, labels, keep, strict=True)]
    return {name: torch.stack([one[name] for one in each]) for name in weights}


def made() -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(1)
    images = torch.rand(TRIALS, BATCH, 1, 8, 8, dtype=torch.float64, generator=rng)
    labels = torch.randint(0, CLASSES, (TRIALS, BATCH), generator=rng)
    return images, labels, torch.randn(TRIALS, BATCH, 6, dtype=torch.float64, generator=rng)


@pytest.mark.parametrize("engine", [plain_gradients, tape_gradients])
def test_with_what_a_client_drew_gradients_are_the_client_s(engine: Any) -> None:
    model = network(0.5).double()
    images, labels, keep = made()
    expected = of_clients(model, images, labels, keep)
    images.requires_grad_()
    keep.requires_grad_()
    with lent(model, {KEEP: keep}):
        assert torch.equal(drawn(model, TRIALS)[KEEP], keep)
        found, _ = engine(model, images, labels)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)
    (slope,) = torch.autograd.grad(sum(value.square().sum() for value in found.values()), keep)
    # Each trial has a slope of its own, also in what it drew.
    assert (slope.flatten(1).norm(dim=1) > 0).all()
    assert drawn(model, TRIALS) == {}


def seen(defence: str | None = None) -> tuple[Observation, Tensor]:
    """Return two rounds of one client with one image each, and the images [2, 1, …]."""
    model, rng = network(), torch.Generator().manual_seed(2)
    images, labels = torch.rand(2, 1, 1, 8, 8, generator=rng), torch.tensor([[0], [3]])
    updates = of_clients(model, images, labels, draw_masks(model, (2, 1), rng)[KEEP])
    more = {"labels": [labels.numpy()], "labelling": "oracle", "knows": ThreatModel(defence=defence)}
    return seen_of(model, NETWORK, updates, 1, local=LOCAL, **more), images


def test_who_adapts_seeks_what_was_drawn() -> None:
    observation, _ = seen()
    nuisance = adaptation(observation).nuisance(observation, 0, torch.arange(2), torch.Generator())
    assert {name: tuple(value.shape) for name, value in nuisance.start.items()} == {KEEP: (2, 1, 6)}
    assert adaptation(observation, adaptive=False) == Adaptation()
    assert (
        adaptation(replace(observation, knows=ThreatModel(defence="none"))).nuisance
        is not Adaptation().nuisance
    )
    # A defence beside it is what is adapted to.
    assert adaptation(replace(observation, knows=ThreatModel(defence="prune"))).mechanism is not None


def test_gradients_before_the_bottleneck_count_alone() -> None:
    observation, _ = seen()
    (group,) = groups(observation)
    weights = before_layer(layer="bottleneck").of(group)(group.observed(torch.arange(2)))
    assert {name.split(".")[0] for name, value in weights.items() if (value == 1).all()} == {
        "conv1", "conv2", "conv3",
    }  # fmt: skip
    rest = {name: value for name, value in weights.items() if not name.startswith("conv")}
    assert rest
    assert all((value == 0).all() and value.shape == (2,) for value in rest.values())


@pytest.mark.parametrize("layer", ["conv1", "nowhere", "bottle"])
def test_a_layer_with_nothing_before_it_fits_no_attack(layer: str) -> None:
    observation, _ = seen()
    (group,) = groups(observation)
    with pytest.raises(Unfit, match=f"no parameters of the victim stand before '{layer}'"):
        before_layer(layer=layer).of(group)


LARGE, LR, STEPS = (32, 32, 3), 0.05, 3


Stepped = tuple[Observation, Tensor, LastLayer]


@pytest.fixture(scope="module")
def stepped() -> Stepped:
    """A client took three steps on eight images, twice: what was stepped, labels, the last layer."""
    torch.manual_seed(0)
    model = victims.build("lenet5", LARGE, 10, {})
    truth, local = torch.randint(0, 10, (2, 8)), {"lr": LR, "batch_size": None, "epochs": STEPS}
    update = sent_by(model, torch.rand(2, 8, 3, 32, 32), truth, "model", local)
    network = {"module": "lenet5", "shape": LARGE}
    observation = seen_of(model, network, update, 8, kind="model", local=local, labelling="zlg")
    return observation, truth, last_layer(observation, 0, torch.arange(2), observation.model())


def test_the_mean_gradient_over_the_steps_is_told(stepped: Stepped) -> None:
    observation, _, known = stepped
    bias = torch.from_numpy(observation.updates["dense3.bias"][:, 0])
    assert torch.allclose(known.bias, -bias / (LR * STEPS))
    assert (known.steps, known.batch, known.weight.shape) == (STEPS, 8, (2, 10, 84))


def test_noise_is_answered_by_the_model_that_was_sent_and_by_each_clients_own(stepped: Stepped) -> None:
    observation, _, known = stepped
    model, before = observation.model(), known.noise.before()
    assert torch.allclose(before.logits, model.dense3(before.inputs), atol=1e-6)
    later = known.noise.later()
    for trial in range(2):
        moved = observation.model()
        for name, parameter in moved.named_parameters():
            parameter.data += torch.from_numpy(observation.updates[name][trial, 0])
        assert torch.allclose(later.logits[trial], moved.dense3(later.inputs[trial]), atol=1e-5)
    assert not torch.allclose(later.logits[0], later.logits[1])


@pytest.mark.parametrize("rule", ["counted", "llg-star", "zlg", "ilrg"])
def test_labels_of_several_local_steps_are_read(stepped: Stepped, rule: str) -> None:
    observation, truth, _ = stepped
    found = labels(replace(observation, labelling=rule), torch.Generator()).labels
    counts, own = (torch.nn.functional.one_hot(each, 10).sum(1) for each in (found[:, 0], truth))
    assert int(torch.minimum(counts, own).sum()) >= 14


def test_rlu_takes_the_attackers_own_samples_and_is_refused_without(stepped: Stepped) -> None:
    observation, truth, _ = stepped
    asked = replace(observation, labelling="rlu")
    with pytest.raises(Unfit, match="rlu needs labelled samples"):
        labels(asked, torch.Generator())
    own = build("samples", (10,), LARGE, {"each": 2})
    own.images.uniform_(generator=torch.Generator().manual_seed(1))
    found = labels(replace(asked, generator=own), torch.Generator()).labels
    for some, own in zip(found[:, 0].tolist(), truth.tolist(), strict=True):
        assert len({*some} & {*own}) > 0.7 * len({*own})


@pytest.mark.parametrize("labelling", ["none", "oracle", "joint"])
def test_an_attack_on_labels_without_a_rule_is_refused(stepped: Stepped, labelling: str) -> None:
    with pytest.raises(Unfit, match=f"labels: {labelling} infers nothing"):
        labels(replace(stepped[0], labelling=labelling), torch.Generator())
