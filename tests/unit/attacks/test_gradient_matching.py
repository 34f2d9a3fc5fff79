"""The gradient-matching attacks: what they recover, what they refuse, and what they do not look at."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
import yaml
from skimage.transform import resize
from torch import Tensor

from leakbench import attacks, victims
from leakbench.artefacts import read_facts, read_tensors, write_tensors
from leakbench.attacks import gradient_matching as module
from leakbench.attacks.observation import Observation, read_observation
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.errors import Unfit, UserError
from leakbench.federation import local_update
from leakbench.matching import objective
from leakbench.matching.loop import match
from leakbench.verbs.attack import attack

ROOT = Path(__file__).parents[3]
LEVEL = {"lr": 1.0, "batch_size": None, "epochs": 1}
QUICK = {"distance": "cosine", "lr": 0.1, "iterations": 4, "signed": True, "boxed": True}


def equal(model: Any, observed: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weight one for every layer."""
    return {name: torch.ones(len(value)) for name, value in observed.items()}


def photographs(count: int, size: int) -> Tensor:
    """Return squares cut out of one photograph: float32 [count, 3, size, size] in [0, 1]."""
    whole = resize(skimage.data.astronaut(), (4 * size, 4 * size), anti_aliasing=True)
    squares = [
        whole[r * size : (r + 1) * size, c * size : (c + 1) * size] for r in range(4) for c in range(4)
    ]
    return torch.from_numpy(np.stack(squares[:count])).permute(0, 3, 1, 2).float()


def observe(
    images: Tensor,
    labels: Tensor,
    victim: str = "lenet-dlg",
    parameters: dict[str, Any] | None = None,
    kind: str = "gradient",
    local: dict[str, Any] = LEVEL,
    classes: int = 10,
    seed: int = 0,
) -> Observation:
    """Return what the server saw of one client with images [rounds, k, …] and their labels, which it is given."""
    torch.manual_seed(seed)
    shape = (images.shape[3], images.shape[4], images.shape[2])
    model = victims.build(victim, shape, classes, parameters or {}).eval()
    weights = {name: p.detach() for name, p in model.named_parameters()}
    update = local_update(
        model, weights, images, labels, {}, local["lr"], local["batch_size"], local["epochs"], kind,
        dict(model.named_buffers()),
    )  # fmt: skip
    return Observation(
        network={"module": victim, "parameters": parameters or {}, "shape": list(shape), "classes": classes},
        weights={name: value.numpy()[None] for name, value in model.state_dict().items()},
        updates={name: value.numpy()[:, None] for name, value in update.items()},
        origin=np.zeros(len(images), np.int64),
        clients=[images.shape[1]],
        kind="gradient" if kind == "gradient" else "model",
        local=dict(local),
        labelling="oracle",
        labels=[labels.numpy()],
    )


def small(rounds: int = 2, k: int = 1, **options: Any) -> Observation:
    """Return an observation of LeNet on images of 8 × 8."""
    labels = (torch.arange(rounds * k) % options.get("classes", 10)).view(rounds, k)
    return observe(photographs(rounds * k, 8).unflatten(0, (rounds, k)), labels, **options)


def run(observation: Observation, seed: int = 0, **parameters: Any) -> Reconstruction:
    return attacks.run("gradient-matching", observation, torch.Generator().manual_seed(seed), parameters)


def psnr(found: Tensor, truth: Tensor) -> list[float]:
    return (-10 * torch.log10((found - truth).square().flatten(1).mean(1))).tolist()


def configured(name: str) -> dict[str, Any]:
    """Return the values of an attack as its catalogue file has them."""
    value = yaml.safe_load((ROOT / "config" / "attacks" / f"{name}.yaml").read_text())
    return dict(value["parameters"])


@pytest.mark.parametrize(("name", "labelling"), [("dlg", "joint"), ("idlg", "inferred")])
def test_a_single_image_is_recovered_above_30_db(name: str, labelling: Any) -> None:
    images, labels = photographs(2, 32)[1:, None], torch.tensor([[1]])
    observation = replace(observe(images, labels), labelling=labelling, labels=None)
    rng = torch.Generator().manual_seed(0)
    # L-BFGS without line search comes down slowly from some starts; the second of this stream is a quick one.
    torch.randn(1, 3, 32, 32, generator=rng)
    if labelling == "joint":
        torch.randn(1, 10, generator=rng)
    found = attacks.run("gradient-matching", observation, rng, configured(name) | {"iterations": 90})
    assert found.images.shape == (1, 1, 1, 3, 32, 32)
    assert found.labels is not None
    assert found.labels.item() == 1
    assert psnr(found.images[:, 0, 0], images[:, 0])[0] > 30


def test_adam_with_cosine_recovers_a_small_image() -> None:
    images = photographs(2, 8)[:, None]
    observation = observe(images, torch.tensor([[1], [2]]))
    start, end = (
        run(observation, distance="cosine", signed=True, decay=True, boxed=True, lr=0.1, iterations=n)
        for n in (1, 400)
    )
    for before, after in zip(
        psnr(start.images[:, 0, 0], images[:, 0]), psnr(end.images[:, 0, 0], images[:, 0]), strict=True
    ):
        assert after > before + 10


@pytest.mark.parametrize("updates", ["one-batch", "simulated"])
def test_several_local_steps_are_approximated_or_simulated(updates: str) -> None:
    """At a small learning rate four steps on one image each are nearly one step on the batch of four."""
    local = {"lr": 1e-3, "batch_size": 1, "epochs": 1}
    images, labels = photographs(4, 8)[None], torch.tensor([[4, 1, 7, 2]])
    observation = observe(images, labels, kind="model", local=local)
    found = run(
        observation, updates=updates, distance="cosine", signed=True, decay=True, boxed=True, iterations=300
    )
    assert found.losses is not None
    assert found.losses[0, 0, -1] < 0.1 * found.losses[0, 0, 0]


def test_simulated_steps_fit_where_one_batch_does_not() -> None:
    """The true images have no distance to their own update if its steps are simulated, and some if they are not."""
    local = {"lr": 0.5, "batch_size": 1, "epochs": 2}
    images, labels = photographs(4, 8)[None], torch.tensor([[4, 1, 7, 2]])
    observation = observe(images, labels, kind="model", local=local)
    distances = {}
    for updates in ("one-batch", "simulated"):
        (group,) = module.groups(observation, updates, "counted", 1)
        evaluate = objective.Objective(group, "cosine", equal, 0.0).evaluate(torch.arange(1))
        distances[updates] = float(evaluate({"images": images})[0])
    assert abs(distances["simulated"]) < 1e-5
    assert distances["one-batch"] > 1e-3


def test_of_several_starts_the_one_with_the_lowest_loss_is_kept() -> None:
    observation = small()
    several = run(observation, restarts=3, **QUICK)
    assert several.images.shape[:3] == (2, 1, 1)
    rng = torch.Generator().manual_seed(0)
    (group,) = module.groups(observation, "one-batch", "counted", 3)
    outcome = match(
        group.draw("normal", rng),
        objective.Objective(group, "cosine", equal, 0.0).evaluate,
        lambda: module.Adam(0.1, 4, True, False),
        group.clip,
        module.Schedule(4, 0.0),
        6,
    )
    best = outcome.final.view(2, 3).argmin(1) + torch.tensor([0, 3])
    expected = group.to_pixels(outcome.unknowns["images"][best]).clamp(0, 1)
    torch.testing.assert_close(several.images[:, 0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("labelling", ["oracle", "inferred", "joint"])
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(labelling: Any) -> None:
    observation = replace(small(), labelling=labelling)
    one, same, other = (run(observation, seed, **QUICK) for seed in (0, 0, 1))
    for name, value in one.tensors().items():
        assert torch.equal(torch.nan_to_num(value.double()), torch.nan_to_num(same.tensors()[name].double()))
    assert not torch.equal(one.images, other.images)


def test_a_round_does_not_depend_on_the_rounds_after_it() -> None:
    """Starts are drawn one after another, and trials do not mix."""
    whole, first = (run(small(rounds=n), **QUICK) for n in (3, 1))
    torch.testing.assert_close(whole.images[:1], first.images, rtol=0, atol=1e-5)


def test_the_attack_sees_labels_only_where_it_is_given_them() -> None:
    observation = small(k=2)
    wrong = [np.full((2, 2), 9)]
    for labelling, differs in (("oracle", True), ("inferred", False), ("joint", False)):
        told = run(replace(observation, labelling=labelling), **QUICK)  # type: ignore[arg-type]
        lied = run(replace(observation, labelling=labelling, labels=wrong), **QUICK)  # type: ignore[arg-type]
        assert torch.equal(told.images, lied.images) is not differs


def test_snapshots_trace_and_status_are_told() -> None:
    found = run(small(rounds=3), **QUICK | {"iterations": 9, "snapshots": 2})
    assert found.snapshot_iterations is not None
    assert found.snapshots is not None
    assert found.losses is not None
    assert found.diverged is not None
    assert found.traced is not None
    assert found.snapshot_iterations.tolist() == [3, 6]
    assert found.snapshots.shape == (2, *found.images.shape)
    assert not torch.equal(found.snapshots[0], found.snapshots[1])
    assert found.losses.shape == (3, 1, 9)
    assert found.traced.tolist() == list(range(9))
    assert (found.losses[:, :, -1] < found.losses[:, :, 0]).all()
    assert not found.diverged.any()
    assert found.usable.all()
    assert found.iterations == 9


def test_an_update_that_diverges_is_marked_and_the_others_go_on() -> None:
    observation = small(rounds=3)
    # No gradient at all has no direction, so its cosine is no number.
    for value in observation.updates.values():
        value[1] = 0
    found = run(observation, **QUICK)
    assert found.diverged is not None
    assert found.diverged[:, 0].tolist() == [False, True, False]
    assert found.images.isfinite().all()
    sound = run(small(rounds=3), **QUICK)
    torch.testing.assert_close(found.images[[0, 2]], sound.images[[0, 2]], rtol=0, atol=1e-4)


def test_clients_of_different_sizes_and_models_fill_their_own_places() -> None:
    observation = small(rounds=4, k=1)
    two = small(rounds=4, k=3)
    both = replace(
        observation,
        weights={n: np.concatenate([v, 0.5 * v]) for n, v in observation.weights.items()},
        updates={n: np.concatenate([v, two.updates[n]], 1) for n, v in observation.updates.items()},
        origin=np.array([0, 0, 1, 1]),
        clients=[1, 3],
        labels=[*(observation.labels or []), *(two.labels or [])],
    )
    found = run(both, **QUICK)
    assert found.images.shape[:3] == (4, 2, 3)
    assert found.usable[:, 0].tolist() == [[True, False, False]] * 4
    assert found.usable[:, 1].all()
    assert found.labels is not None
    assert found.labels[:, 0, 0].tolist() == [0, 1, 2, 3]
    assert found.labels[:, 0, 1:].eq(-1).all()
    assert not found.images[:, 0, 1:].any()
    assert found.losses is not None
    assert found.losses.isfinite().all()


def test_frozen_derivatives_lead_where_exact_ones_do() -> None:
    images, labels = photographs(1, 32)[:, None], torch.tensor([[4]])
    observation = observe(images, labels, "resnet20-4", {"width": 8, "normalise": "cifar10"})
    exact, frozen = (
        run(observation, **QUICK | {"iterations": 6, "derivative": d}) for d in ("exact", "frozen")
    )
    assert exact.losses is not None
    assert frozen.losses is not None
    torch.testing.assert_close(frozen.losses, exact.losses, rtol=0.1, atol=0.02)


def test_a_chunk_keeps_no_more_memory_however_many_trials_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks: dict[int, int] = {}
    largest: dict[int, int] = {}
    monkeypatch.setattr(objective, "WORKING_BYTES", 500_000)
    for rounds in (8, 16):

        def counted(start: Any, evaluate: Callable[[Tensor], Any], *rest: Any, rounds: int = rounds) -> Any:
            def made(rows: Tensor) -> Any:
                inner = evaluate(rows)

                def evaluated(unknowns: dict[str, Tensor]) -> Any:
                    used = objective.measured_bytes(inner, unknowns)
                    largest[rounds] = max(largest.get(rounds, 0), used)
                    return inner(unknowns)

                return evaluated

            chunks[rounds] = rest[3]
            return match(start, made, *rest)

        monkeypatch.setattr(module, "match", counted)
        run(small(rounds=rounds), **QUICK | {"iterations": 2})
    assert 1 <= chunks[8] == chunks[16] < 8
    assert largest[8] == largest[16] <= 500_000


def write(path: Path, observation: Observation) -> None:
    """Write the observation as `capture` does."""
    tensors = {f"global/{name}": value for name, value in observation.weights.items()}
    tensors |= {f"updates/{name}": value for name, value in observation.updates.items()}
    facts = {
        "network": observation.network,
        "clients": observation.clients,
        "kind": observation.kind,
        "local": observation.local,
    }
    write_tensors(path, tensors | {"origin": observation.origin}, facts)


def spoil(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Observation], Observation]:
    return lambda seen: replace(seen, updates=seen.updates | {name: change(seen.updates[name].copy())})


def no_number(value: np.ndarray) -> np.ndarray:
    value[0, 0, 0] = np.nan
    return value


def missing(seen: Observation) -> Observation:
    return replace(seen, updates={n: v for n, v in seen.updates.items() if n != "conv2.bias"})


BAD: dict[str, tuple[Callable[[Observation], Observation], dict[str, Any], list[str]]] = {
    "shape": (spoil("conv2.weight", lambda v: v[..., 1:]), {}, ["updates/conv2.weight", "(12, 12, 5, 4)", "(12, 12, 5, 5)"]),
    "name": (missing, {}, ["updates/conv2.bias is missing"]),
    "dtype": (spoil("dense.weight", lambda v: v.astype(np.float64)), {}, ["updates/dense.weight is float64", "float32"]),
    "nan": (spoil("conv1.bias", no_number), {}, ["updates/conv1.bias holds NaN or Inf"]),
    "inf": (spoil("conv1.bias", lambda v: v * np.inf), {}, ["updates/conv1.bias holds NaN or Inf"]),
    "rounds": (spoil("conv1.bias", lambda v: v[:1]), {}, ["updates/conv1.bias has (1, 1) rounds and clients"]),
    "no labels": (lambda seen: seen, {"labels": "oracle"}, ["labels: oracle", "gives no labels/0", "set labels: inferred"]),
    "classes": (
        lambda seen: small(k=4, classes=3),
        {"labels": "inferred", "parameters": QUICK | {"inference": "row-minimum"}},
        ["row-minimum", "4 images", "not 3", "use counted"],
    ),
    "idlg": (
        lambda seen: small(k=2),
        {"labels": "inferred", "parameters": QUICK | {"inference": "idlg"}},
        ["idlg reads one label", "2 images"],
    ),
}  # fmt: skip


def spec(path: Path, **entry: Any) -> Path:
    base = {
        "module": "gradient-matching", "parameters": QUICK, "generator": None, "labels": "inferred",
        "matching": "hungarian",
    }  # fmt: skip
    value = {"attack": base | entry, "attack_name": "made", "null_rounds": 2, "seed": 0}
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize("case", sorted(BAD))
def test_what_does_not_fit_is_one_line_that_names_it_and_marks_the_cell(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, entry, says = BAD[case]
    labels = small().labels
    assert labels is not None
    seen = change(small())
    if case == "classes":
        seen = replace(seen, labels=None)
    write(tmp_path / "capture.safetensors", seen)
    out = tmp_path / "out.safetensors"
    attack(
        tmp_path / "capture.safetensors", spec(tmp_path / "spec.json", **entry), out, None, None, None,
        tmp_path / "scratch",
    )  # fmt: skip
    tensors, facts = read_tensors(out)
    assert tensors == {}
    for part in says:
        assert part in facts["absent"], facts["absent"]
    assert "\n" not in facts["absent"]
    assert capsys.readouterr().err == f"leakbench attack: {facts['absent']}\n"
    assert not (tmp_path / "scratch").exists() or list((tmp_path / "scratch").iterdir()) == []


def test_the_function_itself_refuses_to_do_without_labels_it_is_to_be_given() -> None:
    with pytest.raises(Unfit, match="gives no labels/0"):
        run(replace(small(), labels=None), **QUICK)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({}, "labels/0 must be whole numbers (2, 1)"),
        ({"labels/0": np.zeros((2, 2), np.int64)}, "labels/0 must be whole numbers (2, 1)"),
        ({"labels/0": np.zeros((2, 1), np.float32)}, "labels/0 must be whole numbers (2, 1)"),
        ({"labels/0": np.full((2, 1), 10)}, "beyond the victim's classes"),
        ({"labels/0": np.full((2, 1), -1)}, "beyond the victim's classes"),
    ],
)
def test_an_oracle_that_does_not_fit_is_a_mistake(
    labels: dict[str, np.ndarray], says: str, tmp_path: Path
) -> None:
    write(tmp_path / "capture.safetensors", small())
    write_tensors(tmp_path / "oracle.safetensors", labels, {})
    with pytest.raises(UserError) as problem:
        read_observation(tmp_path / "capture.safetensors", labels=tmp_path / "oracle.safetensors")
    assert says in str(problem.value)
    assert str(tmp_path / "oracle.safetensors") in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("labelling", ["oracle", "inferred", "joint"])
def test_the_verb_writes_what_was_found_and_the_null_beside_it(labelling: str, tmp_path: Path) -> None:
    seen = small(rounds=5)
    assert seen.labels is not None
    write(tmp_path / "capture.safetensors", seen)
    write_tensors(tmp_path / "oracle.safetensors", {"labels/0": seen.labels[0]}, {})
    labels = tmp_path / "oracle.safetensors" if labelling == "oracle" else None
    written = []
    for name in ("one", "two"):
        out = tmp_path / f"{name}.safetensors"
        attack(
            tmp_path / "capture.safetensors", spec(tmp_path / "spec.json", labels=labelling), out, None, labels,
            None, tmp_path / "scratch",
        )  # fmt: skip
        written.append(out.read_bytes())
    assert written[0] == written[1]
    tensors, facts = read_tensors(out)
    assert facts["knows"]["labels"] == ("given" if labelling == "oracle" else labelling)
    assert tensors["images"].shape == (5, 1, 1, 3, 8, 8)
    assert tensors["labels"].tolist() == [[[n]] for n in range(5)] or labelling == "joint"
    # At most a quarter of the rounds are played on noise.
    assert tensors["null/images"].shape == (2, 1, 1, 3, 8, 8)
    assert not np.array_equal(tensors["null/images"], tensors["images"][:2])


def test_a_killed_attack_resumes_each_model_and_client_from_its_own_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models of one size: the second's work must not be taken for the first's."""
    from leakbench.matching import loop

    monkeypatch.setattr(loop, "track", lambda items, label: ((item, True) for item in items))
    one = small(rounds=4)
    seen = replace(
        one,
        weights={n: np.concatenate([v, 0.5 * v]) for n, v in one.weights.items()},
        origin=np.array([0, 0, 1, 1]),
        scratch=tmp_path / "work.safetensors",
    )
    whole = run(replace(seen, scratch=None), **QUICK)
    kept = module.match
    calls = []

    class Killed(Exception):
        pass

    def killed(start: Any, evaluate: Callable[[Tensor], Any], *rest: Any) -> Any:
        calls.append(1)

        def dying(rows: Tensor) -> Any:
            inner, turns = evaluate(rows), []

            def evaluated(unknowns: dict[str, Tensor]) -> Any:
                turns.append(1)
                if len(calls) == 2 and len(turns) == 3:
                    raise Killed
                return inner(unknowns)

            return evaluated

        return kept(start, dying, *rest)

    monkeypatch.setattr(module, "match", killed)
    with pytest.raises(Killed):
        run(seen, **QUICK)
    (left,) = tmp_path.iterdir()
    assert read_facts(left)["iteration"] == 2
    monkeypatch.setattr(module, "match", kept)
    resumed = run(seen, **QUICK)
    assert torch.equal(resumed.images, whole.images)
    assert list(tmp_path.iterdir()) == []
