"""What clients would send of the attacker's samples: against clients themselves, and refusals."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from observations import observe
from observing import sent_by
from torch import Tensor

from leakbench import defences
from leakbench.attacks.rehearsal import known_defence, rehearsal
from leakbench.base.errors import Unfit
from leakbench.defences import Batch, Defence, Update, View
from leakbench.observations.observation import Observation
from leakbench.observations.threat_model import ThreatModel

LENET: dict[str, Any] = {"module": "lenet-dlg", "shape": (8, 8, 1)}


def samples(count: int, batch: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(3)
    labels = torch.randint(10, (count, batch), generator=rng)
    return torch.rand(count, batch, 1, 8, 8, generator=rng), labels


def clients(seen: Observation, images: Tensor, labels: Tensor, **local: Any) -> Tensor:
    """Return the updates that the federation's own clients make, [n, coordinates]."""
    sent = sent_by(seen.model(), images, labels, seen.kind, local)
    return torch.cat([value.flatten(1) for value in sent.values()], 1)


@pytest.mark.parametrize("kind", ["gradient", "model"])
@pytest.mark.parametrize("batch", [1, 3])
def test_updates_are_those_of_the_clients(kind: str, batch: int) -> None:
    seen, _ = observe(**LENET, k=batch, kind=kind)
    local = {"lr": 0.1, "batch_size": None, "epochs": 1, "weight_decay": 0.01 * (kind == "model")}
    seen = replace(seen, local=local)
    images, labels = samples(70, batch)
    played = rehearsal(seen, 0, batch, Defence())
    found = played.updates(images, labels, torch.Generator())
    wanted = clients(seen, images, labels, weight_decay=local["weight_decay"])
    assert found.shape == (70, played.size)
    assert torch.allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "parameters"),
    [("sign", {}), ("prune", {"share": 0.01}), ("quantise", {"bits": 2}), ("clip", {"norm": 0.1})],
)
def test_the_defence_is_applied_to_each_update(module: str, parameters: dict[str, Any]) -> None:
    seen, _ = observe(**LENET, k=2, kind="gradient")
    images, labels = samples(5, 2)
    defence = known_defence(seen, {"module": module, "parameters": parameters})
    found = rehearsal(seen, 0, 2, defence).updates(images, labels, torch.Generator())
    plain = rehearsal(seen, 0, 2, Defence()).updates(images, labels, torch.Generator())
    shapes = {name: value.shape for name, value in seen.model().named_parameters()}
    for one, bare in zip(found, plain, strict=True):
        parts = bare.split([shape.numel() for shape in shapes.values()])
        update = {n: v.view(1, *s) for (n, s), v in zip(shapes.items(), parts, strict=True)}
        alone = defences.build(module, parameters).update(update, torch.Generator())
        assert torch.allclose(one, torch.cat([value.flatten() for value in alone.values()]), atol=1e-6)
        assert not torch.allclose(one, bare, atol=1e-3)


def test_noise_is_drawn_anew_for_each_client_and_each_time() -> None:
    seen, _ = observe(**LENET)
    images, labels = (value.expand(2, *value.shape[1:]) for value in samples(1, 1))
    played = rehearsal(seen, 0, 1, known_defence(seen, {"module": "gaussian", "parameters": {"scale": 1.0}}))
    bare = rehearsal(seen, 0, 1, Defence()).updates(images, labels, torch.Generator())
    rng = torch.Generator().manual_seed(0)
    noise = torch.cat([played.updates(images, labels, rng) - bare for _ in range(2)])
    assert (noise.std(1) - 1).abs().max() < 0.1
    assert torch.corrcoef(noise).fill_diagonal_(0).abs().max() < 0.1


def test_a_defence_of_examples_and_of_inputs_is_played() -> None:
    """The first sees its own batch; the second is what the gradient is of."""
    seen, _ = observe(**LENET, k=2)
    images, labels = samples(4, 2)

    def doubled(batch: Batch, rng: torch.Generator) -> Update:
        return {name: 2 * value for name, value in batch.mean().items()}

    def black(x: Tensor, y: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        return 0 * x, y

    played = rehearsal(seen, 0, 2, Defence(examples=doubled, inputs=black))
    found = played.updates(images, labels, torch.Generator())
    wanted = 2 * clients(seen, 0 * images, labels)
    assert torch.allclose(found, wanted, atol=1e-6)


def test_what_a_client_draws_is_drawn() -> None:
    """PRECODE's clients draw numbers in each step; the same sample gives other updates."""
    seen, _ = observe("precode", (8, 8, 1), network="lenet-dlg", width=8)
    images, labels = samples(1, 1)
    played = rehearsal(seen, 0, 1, Defence())
    rng = torch.Generator().manual_seed(0)
    one, other = (played.updates(images, labels, rng) for _ in range(2))
    assert not torch.allclose(one, other, atol=1e-4)


def test_a_defence_is_the_one_of_the_observation_where_none_is_given() -> None:
    seen, _ = observe(**LENET)
    images, labels = samples(2, 1)
    named = replace(seen, knows=ThreatModel(defence="sign"))
    found = rehearsal(seen, 0, 1, known_defence(named, None)).updates(images, labels, torch.Generator())
    first = found[0, : 12 * 25].abs()
    assert first.min() == first.max() > 0


def mixed(clients: Sequence[int]) -> View:
    return View([], lambda updates, rng: updates, {})


@pytest.mark.parametrize(
    ("known", "given", "says"),
    [
        ("prune", None, "parameters of defence prune are not known"),
        ("nowhere", None, "parameters of defence nowhere are not known"),
        *(
            ("sign", odd, "defence: has the keys")
            for odd in ({}, {"modul": "sign"}, {"module": "sign", "x": 1})
        ),
        ("sign", {"module": "sign", "parameters": {"share": 0.1}},
         "parameters of defence sign are not known"),
        ("sign", {"module": "sign", "parameters": "all"}, "parameters of defence sign are not known"),
        ("none", {"module": "aggregated", "parameters": {}}, "no update of a single client"),
        ("none", Defence(view=mixed), "single client"),
        ("none", Defence(rounds=lambda update, memory, rng: update), "earlier rounds"),
    ],
)  # fmt: skip
def test_unknown_defences_are_refused(
    known: str, given: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(given, Defence):
        monkeypatch.setattr(defences, "build", lambda *_, own=given: own)
        given = {"module": "odd"}
    with pytest.raises(Unfit, match=says):
        known_defence(replace(observe(**LENET)[0], knows=ThreatModel(defence=known)), given)


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"local": {"lr": 0.1, "batch_size": 2, "epochs": 1}}, "2 local steps"),
     ({"local": {"lr": 0.1, "batch_size": None, "epochs": 2}}, "2 local steps"),
     ({"local": {"lr": 0.1, "batch_size": None, "epochs": 1, "optimiser": "adam"}}, "by adam"),
     ({"hidden": {"layers": ["norm1"]}}, "hide parameters"),
     ({"updates": {"other": np.zeros((1, 1, 1))}}, "which parameters clients train")],
)  # fmt: skip
def test_clients_that_cannot_be_played_are_refused(changes: dict[str, Any], says: str) -> None:
    seen, _ = observe(**LENET, k=4, kind="model")
    with pytest.raises(Unfit, match=says):
        rehearsal(replace(seen, **changes), 0, 4, Defence())
