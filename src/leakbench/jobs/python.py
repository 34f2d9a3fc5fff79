"""Attacks and metrics by their names, on data at hand, and the list of these names."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leakbench import attacks, metrics
from leakbench.audit.client import client, view
from leakbench.base.code import home
from leakbench.base.errors import UserError
from leakbench.base.seeds import stream
from leakbench.base.whole import whole
from leakbench.base.yamls import suggest
from leakbench.catalogue.load import find, load_kind, merge, odd, validate
from leakbench.metrics import METRICS
from leakbench.metrics.matching import match
from leakbench.metrics.mse import mse_matrix
from leakbench.observations.observation import Observation
from leakbench.observations.reading import read_observation
from leakbench.observations.reconstruction import Reconstruction

KINDS = ("attacks", "defences", "victims")
# How far the values may lie beyond [0, 1]: first those of private images, then those of reconstructions.
ROUNDING, OVERSHOT = 1 / 255, 1.0


def known(kind: str) -> dict[str, str]:
    """Return name → summary of everything that leakbench has of one kind.

    kind: `attacks`, `defences`, `victims` or `metrics`.

    Raises UserError for another kind.
    """
    if kind == "metrics":
        better = {True: "higher", False: "lower"}
        return {
            name: f"{m.convention}; of {m.of}; {better[m.higher_is_better]} is better"
            for name, m in sorted(METRICS.items())
        }
    if kind not in KINDS:
        raise UserError(f"known: there is no kind {kind!r} ({suggest(str(kind), [*KINDS, 'metrics'])})")
    return {name: entry.summary for name, entry in sorted(load_kind(home(), kind).items())}


def observe(
    model: torch.nn.Module, loss: Any, batch: Any, local_steps: int = 1, *, lr: float = 0.01
) -> Observation:
    """Return what a server sees of one client's round, as attacks take it.

    model: a torch module, in the mode in which it trains.
    loss: (scores, targets) → the loss.
    batch: the private inputs and targets. Inputs beyond 0 to 1 and 0 to 255 get their range from the batch.
    local_steps: the number of SGD steps, each on the whole batch. With one step the client sends a gradient,
    with more steps it sends weights.
    lr: the rate of these steps, above 0.

    Raises UserError, in one sentence, for models, losses and batches that cannot be audited.

    >>> import torch, leakbench
    >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 400), torch.nn.ReLU(),
    ...                           torch.nn.Linear(400, 2))
    >>> images, labels = torch.rand(2, 1, 4, 4), torch.tensor([0, 1])
    >>> seen = leakbench.observe(net, torch.nn.CrossEntropyLoss(), (images, labels))
    >>> found = leakbench.matched(leakbench.attack("peel", seen), images)
    >>> bool((leakbench.measure(["mse"], found, images.numpy())["mse"] < 1e-6).all())
    True
    """
    played = client((model, loss, batch), None, local_steps, lr).play()
    if not played.inputs.is_floating_point():
        raise UserError("the records are tokens, which no observation holds (give them to leakbench.audit)")
    return view(played)[0]


def matched(reconstruction: Reconstruction, truths: Any, node: int = 0, number: int = 0) -> np.ndarray:
    """Return the candidate of an attack for each private image, which `measure` takes.

    As many images as possible get a candidate of their own, with the least squared errors in all.

    reconstruction: what `leakbench.attack` returned.
    truths: the private images [n, channels, rows, columns] from 0 to 1.
    node: the place of the client among those of the observation.
    number: the place of the round.

    Returns float64 [n, channels, rows, columns], NaN where no candidate is left.

    Raises UserError for images of another form or range.
    """
    images = _images("truths", truths, ROUNDING)
    usable = reconstruction.usable[number, node]
    made = reconstruction.images[number, node][usable].double().numpy()
    if made.shape[1:] != images.shape[1:]:
        raise UserError(f"matched: candidates have shape {made.shape[1:]}, truths {images.shape[1:]}")
    found = np.full(images.shape, np.nan)
    index = match(mse_matrix(made, images)) if len(made) else np.full(len(images), -1)
    found[index >= 0] = made[index[index >= 0]]
    return found


def attack(
    name: str,
    observation: Observation | Path | str,
    changes: Mapping[str, Any] | None = None,
    *,
    labels: Path | str | None = None,
    generator: Path | str | None = None,
    seed: int = 0,
) -> Reconstruction:
    """Run an attack of the catalogue on what a server saw, in this process.

    name: one of `known("attacks")`, such as `fidel`, `peel` or `invg`.
    observation: the path of an observation file (docs/observation.md), or an `Observation`.
    changes: keys of the attack's YAML to change (results/manual/config/attacks.md), such as
    `{"parameters": {"iterations": 500}}`.
    labels: for an attack that is given labels, a file with `labels/<client>`, int64 [rounds, samples]. An
    `Observation` holds its own.
    generator: for an attack that uses one, the file of a trained generator. An `Observation` holds its own.
    seed: of the attack's random draws, a whole number of at least 0. The same seed gives the same result.

    Returns a `Reconstruction`: `images`, float32 [rounds, clients, candidates, channels, rows, columns] in
    [0, 1], and `usable`, bool [rounds, clients, candidates]. Optimisations also fill `labels`, int64 of the
    shape of `usable`, and `gap`, the squared difference of the gradients [rounds, clients]. The attack is not
    sealed off from this process; the command `leakbench attack` seals it off.

    Raises UserError for an unknown name, a wrong change or seed, or a file that is malformed or was altered.
    Raises its subclass Unfit if the attack cannot work on this observation.
    """
    where = f"attack {name!r}"
    if not isinstance(name, str):
        raise UserError(f"{where}: is no name of an attack (leakbench.known('attacks') lists them)")
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise UserError(f"{where}: seed {seed!r} is no whole number of at least 0")
    if changes is not None and not isinstance(changes, Mapping):
        raise UserError(f"{where}: changes is {type(changes).__name__}, no mapping of keys")
    entry = find(home(), "attacks", name, "attack").model_dump(mode="json")
    if changes:
        if what := odd(changes):
            raise UserError(f"{where}: {what}")
        entry = validate("attacks", "", where, merge(entry, dict(changes))).model_dump(mode="json")
    if isinstance(observation, Observation):
        seen = replace(observation, labelling=entry["labels"])
    else:
        needs = {"labels": entry["labels"] == "oracle", "generator": bool(entry["generator"])}
        for what, file in (("labels", labels), ("generator", generator)):
            if needs[what] and file is None:
                raise UserError(f"{where}: needs {what} (give the file, or take an attack without)")
        beside = (None if file is None else _file(file, where) for file in (generator, labels))
        seen, _ = read_observation(_file(observation, where), *beside, entry["labels"])
    return attacks.run(entry, seen, torch.Generator().manual_seed(stream("attack", name, int(seed))))


def _file(file: Any, where: str) -> Path:
    """Return the path of a file whose bytes are as they were written. Raises UserError for anything else."""
    if not isinstance(file, str | PathLike):
        raise UserError(f"{where}: {type(file).__name__} is neither a file's path nor an Observation")
    path = Path(fspath(file))
    whole(path)
    return path


def measure(
    names: Iterable[str],
    reconstructions: np.ndarray,
    truths: np.ndarray,
    resources: Mapping[str, Any] | None = None,
) -> dict[str, np.ndarray]:
    """Score reconstructions against their private images, each with its own.

    names: metrics, as `leakbench.known("metrics")` lists them, such as `psnr` and `ssim`.
    reconstructions: float [n, channels, rows, columns] in [0, 1], of 1 or 3 channels. Values up to 1 beyond
    this range are clipped, as a screen does. An image with a pixel that is no number gets no score.
    truths: the private images in [0, 1], of the same shape and in the same order.
    resources: what some metrics need, by the name in `Metric.needs` (`lpips_backbones`: the tensors of
    data/lpips-backbones.safetensors).

    Returns name → float64 [n].

    Raises UserError for an unknown name, a resource that is missing, or images of another form or range.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UserError(f"measure: names is {names!r}, no list of metrics (write ['psnr', 'ssim'])")
    names = list(names)
    kinds = {name: METRICS[name].of for name in names if isinstance(name, str) and name in METRICS}
    for name, kind in kinds.items():
        if kind not in ("images", "features"):
            raise UserError(f"measure: '{name}' is of {kind}, and not of images (leave it out)")
    true = _images("truths", truths, ROUNDING)
    # Features are of a form and a range of their own.
    if set(kinds.values()) != {"features"}:
        reconstructions = _images("reconstructions", reconstructions, OVERSHOT)
        if reconstructions.shape != true.shape:
            shapes = f"reconstructions have shape {reconstructions.shape}, truths {true.shape}"
            raise UserError(f"measure: {shapes}")
    try:
        return metrics.measure(names, reconstructions, true, resources)
    except (ValueError, TypeError, LookupError, AttributeError) as problem:
        mend = "see leakbench.known('metrics') for what each is of"
        raise UserError(f"measure: {problem} ({mend})") from problem


def _images(what: str, value: Any, beyond: float) -> np.ndarray:
    """Return images as an array [n, channels, rows, columns].

    Raises UserError unless they are real numbers of this form, at most `beyond` outside [0, 1].
    """
    try:
        images = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as problem:
        raise UserError(f"measure: {what} are no array ({problem})") from problem
    if not np.issubdtype(images.dtype, np.floating):
        raise UserError(f"measure: {what} are {images.dtype}, not real numbers from 0 to 1 (divide by 255.0)")
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise UserError(f"measure: {what} have shape {images.shape}, not [n, 1 or 3, rows, columns]")
    known = images[np.isfinite(images)]
    low, high = known.min(initial=0.0), known.max(initial=1.0)
    if low < -beyond or high > 1 + beyond:
        raise UserError(
            f"measure: {what} lie between {low:.3g} and {high:.3g}, not 0 and 1 (scale or clip them)"
        )
    return images
