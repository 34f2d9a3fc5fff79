"""What label rules are told of the last layer of a real network, from real updates."""

from dataclasses import replace

import pytest
import torch
from observing import seen_of, sent_by
from torch import Tensor

from leakbench.attacks.label_inference import LastLayer
from leakbench.attacks.labels import labels
from leakbench.attacks.matching.labelling import last_layer
from leakbench.base.errors import Unfit
from leakbench.networks import victims
from leakbench.networks.generators import build
from leakbench.observations.observation import Observation

SHAPE, LR, STEPS = (32, 32, 3), 0.05, 3


Seen = tuple[Observation, Tensor, LastLayer]


@pytest.fixture(scope="module")
def seen() -> Seen:
    """A client took three steps on eight images, twice: what was seen, labels, the last layer."""
    torch.manual_seed(0)
    model = victims.build("lenet5", SHAPE, 10, {})
    truth, local = torch.randint(0, 10, (2, 8)), {"lr": LR, "batch_size": None, "epochs": STEPS}
    update = sent_by(model, torch.rand(2, 8, 3, 32, 32), truth, "model", local)
    network = {"module": "lenet5", "shape": SHAPE}
    observation = seen_of(model, network, update, 8, kind="model", local=local, labelling="zlg")
    return observation, truth, last_layer(observation, 0, torch.arange(2), observation.model())


def test_the_mean_gradient_over_the_steps_is_told(seen: Seen) -> None:
    observation, _, known = seen
    bias = torch.from_numpy(observation.updates["dense3.bias"][:, 0])
    assert torch.allclose(known.bias, -bias / (LR * STEPS))
    assert (known.steps, known.batch, known.weight.shape) == (STEPS, 8, (2, 10, 84))


def test_noise_is_answered_by_the_model_that_was_sent_and_by_each_clients_own(seen: Seen) -> None:
    observation, _, known = seen
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
def test_labels_of_several_local_steps_are_read(seen: Seen, rule: str) -> None:
    observation, truth, _ = seen
    found = labels(replace(observation, labelling=rule), torch.Generator()).labels
    counts, own = (torch.nn.functional.one_hot(each, 10).sum(1) for each in (found[:, 0], truth))
    assert int(torch.minimum(counts, own).sum()) >= 14


def test_rlu_takes_the_attackers_own_samples_and_is_refused_without(seen: Seen) -> None:
    observation, truth, _ = seen
    asked = replace(observation, labelling="rlu")
    with pytest.raises(Unfit, match="rlu needs labelled samples"):
        labels(asked, torch.Generator())
    own = build("samples", (10,), SHAPE, {"each": 2})
    own.images.uniform_(generator=torch.Generator().manual_seed(1))
    found = labels(replace(asked, generator=own), torch.Generator()).labels
    for some, own in zip(found[:, 0].tolist(), truth.tolist(), strict=True):
        assert len({*some} & {*own}) > 0.7 * len({*own})


@pytest.mark.parametrize("labelling", ["none", "oracle", "joint"])
def test_an_attack_on_labels_without_a_rule_is_refused(seen: Seen, labelling: str) -> None:
    with pytest.raises(Unfit, match=f"labels: {labelling} infers nothing"):
        labels(replace(seen[0], labelling=labelling), torch.Generator())
