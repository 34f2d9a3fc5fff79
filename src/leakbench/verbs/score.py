"""score: match the guesses of every attack on a capture with the truth and measure them, one row per private image."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from leakbench.artefacts import Facts, open_tensors, write_table
from leakbench.metrics import METRICS
from leakbench.metrics.baselines import (
    ORIGINAL,
    PAIRS,
    SNAPSHOT,
    UNRELATED,
    dataset_mean,
    random_noise,
    unrelated_pairs,
)
from leakbench.metrics.identification import POOL
from leakbench.metrics.labels import label_accuracy, labels_matched
from leakbench.metrics.prices import of_rounds
from leakbench.metrics.seconds import seconds
from leakbench.metrics.update_matching import matching_success
from leakbench.provenance import provenance, read_spec, recording
from leakbench.seeds import stream
from leakbench.verbs.absence import absent, pass_on
from leakbench.verbs.candidates import Candidates, rows_of
from leakbench.verbs.resources import Resources, cheap, gather, judged, open_backbones

GAPS = ("gap", "snapshot_gaps")
T = TypeVar("T")


def aim_at(target: str, images: np.ndarray, victim: Path) -> np.ndarray:
    """Return what an attack aims at for uint8 images [m, rows, columns, channels]: pixels or features, float [m, …]."""
    pixels = np.divide(images.transpose(0, 3, 1, 2), 255, dtype=np.float32)
    if target == "images":
        return pixels
    import torch

    from leakbench.victims.file import load_victim
    from leakbench.victims.layers import dense_input

    model, _ = load_victim(victim)
    return dense_input(model, torch.from_numpy(pixels)).numpy()


def _add_labels(
    frame: pd.DataFrame,
    tensors: Mapping[str, np.ndarray],
    secret: Mapping[str, np.ndarray],
    client: int,
    baseline: str,
) -> None:
    """Add the columns about labels, and mark what diverged, if the attack tells of them."""
    part = {"": "", "random-gradient": "null/"}.get(baseline)
    if part is None or f"{part}labels" not in tensors:
        return
    given = np.array(tensors[f"{part}labels"][:, client])
    known = secret[f"labels/{client}"][: len(given)]
    k = known.shape[1]
    chosen = frame["match"].to_numpy().reshape(known.shape)
    right = [labels_matched(g, t, i) for g, t, i in zip(given, known, chosen, strict=True)]
    frame["label_ok"] = np.concatenate(right).astype(float)
    overlap = [label_accuracy(g[g >= 0], t) for g, t in zip(given, known, strict=True)]
    frame["label_accuracy"] = np.repeat(overlap, k)
    lost = np.repeat(np.array(tensors[f"{part}diverged"][:, client]), k)
    frame.loc[lost, "status"] = "diverged"


def _add_partners(
    frame: pd.DataFrame, tensors: Mapping[str, np.ndarray], secret: Mapping[str, np.ndarray], client: int
) -> None:
    """Add a column for each way in which the attack matched updates of two passes."""
    whole = secret[f"images/{client}"]
    # An attacker who pools rounds has fewer reconstructions than there were rounds.
    index = whole[: len(frame) // whole.shape[1]]
    found = frame["match"].to_numpy().reshape(index.shape)
    for name in [name for name in tensors if name.startswith("partner")]:
        success = matching_success(tensors[name][:, client], found, index, secret["pass"][: len(index)])
        frame[name.replace("partner", "matching_success", 1)] = success.reshape(-1)


def _add_prices(frame: pd.DataFrame, secret: Mapping[str, np.ndarray], client: int) -> None:
    """Add what the defence cost in each round that was attacked."""
    k = secret[f"images/{client}"].shape[1]
    rounds = len(frame) // k
    for column, name in {"accuracy": "accuracy", "update_bytes": f"bytes/{client}"}.items():
        if name in secret:
            frame[column] = of_rounds(secret[name][:rounds], k)


def _unrelated(
    pictures: np.ndarray,
    victim: Path,
    names: list[str],
    matching: str,
    resources: Resources,
    seed: int,
) -> pd.DataFrame:
    """Return the rows of pairs of different images, which stand for nobody's reconstruction: the same for every attack."""
    rng = np.random.Generator(np.random.PCG64(stream("unrelated", seed)))
    pairs = unrelated_pairs(len(pictures), PAIRS, rng)
    shown = np.stack([aim_at("images", pictures[each], victim) for each in pairs.T])[:, :, None]
    made_up = Candidates(shown[0], np.ones((PAIRS, 1), bool), UNRELATED)
    kept = [name for name in names if name not in judged(names)]
    frame = pd.DataFrame(rows_of(made_up, shown[1], shown[1], kept, matching, "images", resources, None))
    return frame.assign(baseline=UNRELATED, image=pairs[:, 1], sample=0, round=range(PAIRS))


def _baselines(
    tensors: Mapping[str, np.ndarray], secret: Mapping[str, np.ndarray], client: int, average: np.ndarray, k: int,
    matching: str, length: int, rng: np.random.Generator,
) -> Iterator[Candidates]:  # fmt: skip
    """Yield what the attack reconstructed for one client, what stands for nobody's reconstruction, and what it had on the way."""
    nulls = min(len(secret[f"images/{client}"]), tensors["null/images"].shape[0])
    shape = (nulls, *tensors["images"].shape[2:])
    everything = np.ones(shape[:2], bool)
    # One reconstruction per image where none may serve two, so that the mean is guessed for all of them.
    copies = k if matching == "hungarian" else 1
    means = np.broadcast_to(average, (nulls, copies, *shape[2:]))
    usable, null_usable = (tensors[f"{part}usable"][:, client] for part in ("", "null/"))
    gaps = {name: np.array(value[..., client]) for name, value in tensors.items() if name.endswith(GAPS)}
    yield Candidates(tensors["images"][:, client], usable, "", length, gaps.get("gap"))
    yield Candidates(
        tensors["null/images"][:, client], null_usable, "random-gradient", length, gaps.get("null/gap")
    )
    yield Candidates(random_noise(shape, rng), everything, "random-noise", length)
    yield Candidates(means, np.ones((nulls, copies), bool), "dataset-mean", length)
    for place, after in enumerate(np.array(tensors.get("snapshot_iterations", [])).tolist()):
        early = gaps["snapshot_gaps"][place] if "snapshot_gaps" in gaps else None
        yield Candidates(tensors["snapshots"][place][:, client], usable, SNAPSHOT, after, early)


@dataclass(frozen=True)
class Hidden:
    """What an attack must not know: the truth's tensors and facts, the data set's arrays, and the victim's file.

    `made` keeps what attacks on one capture share.
    """

    secret: Mapping[str, np.ndarray]
    facts: Facts
    arrays: Mapping[str, np.ndarray]
    victim: Path
    made: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def once(self, make: Callable[[], T], *key: object) -> T:
        """Return what `make` makes, made once for each key."""
        if key not in self.made:
            self.made[key] = make()
        found: T = self.made[key]
        return found

    @cached_property
    def pictures(self) -> np.ndarray:
        """All images uint8 [n, rows, columns, channels] of the split that the private ones are of."""
        return self.arrays[f"{self.facts['split']}/images"]

    def aims(self, client: int, target: str) -> np.ndarray:
        """Return what an attack on a client aims at, [rounds, k, …]."""
        index = self.secret[f"images/{client}"]
        aim = aim_at(target, self.pictures[index.reshape(-1)], self.victim)
        return aim.reshape(*index.shape, *aim.shape[1:])

    def average(self, target: str) -> np.ndarray:
        """Return the mean of what is publicly known of the data set."""
        known = self.arrays.get("train/images", self.pictures)
        if target == "images":
            return dataset_mean(known).transpose(2, 0, 1)
        return aim_at("features", np.array(known[:1000]), self.victim).mean(0)


def _attack_rows(
    guesses: Path,
    entry: Mapping[str, Any],
    seed: int,
    hidden: Hidden,
    backbones: Path | None,
    judges: Mapping[str, Path],
) -> tuple[pd.DataFrame, Facts]:
    """Return the rows of one attack's guesses, and the facts that a table tells beside them."""
    tensors, facts = open_tensors(guesses)
    secret, target, matching = hidden.secret, facts["target"], entry["matching"]
    names, resources = gather(
        [name for name in entry["metrics"] if name == "pearson" or METRICS[name].of == target],
        hidden.once(lambda: open_backbones(backbones), "backbones"),
        {name: judges[name] for name in entry["judges"] if name in judges},
        lambda: aim_at("images", np.array(hidden.pictures[:POOL]), hidden.victim),
    )
    average = hidden.once(lambda: hidden.average(target), "average", target)
    rng = np.random.Generator(np.random.PCG64(stream("baseline", seed)))
    frames = []
    for client, k in enumerate(hidden.facts["clients"]):
        index, pixels = secret[f"images/{client}"], hidden.aims(client, "images")
        aim = pixels if target == "images" else hidden.aims(client, target)
        groups = list(_baselines(tensors, secret, client, average, k, matching, facts["iterations"], rng))
        people = np.array(secret[f"labels/{client}"]) if resources.judges else None
        if people is not None:
            groups.append(Candidates(pixels, np.ones(pixels.shape[:2], bool), ORIGINAL))
        # What a reconstruction was on the way shows how far it had got, for which LPIPS is not worth its time.
        asked = {ORIGINAL: judged(names), SNAPSHOT: cheap(names)}
        for candidates in groups:
            baseline, rounds = candidates.baseline, len(candidates.images)
            frame = pd.DataFrame(
                rows_of(
                    candidates,
                    aim[:rounds],
                    pixels[:rounds],
                    asked.get(baseline, names),
                    matching,
                    target,
                    resources,
                    None if people is None else people[:rounds],
                )
            )
            if candidates.gap is not None:
                frame["gradient_mse"] = of_rounds(candidates.gap, k)
            _add_labels(frame, tensors, secret, client, baseline)
            if not baseline:
                _add_partners(frame, tensors, secret, client)
                _add_prices(frame, secret, client)
            frame.insert(0, "baseline", baseline)
            frame["iterations"] = candidates.iterations
            frame.insert(0, "image", index[:rounds].reshape(-1))
            frame.insert(0, "sample", np.tile(np.arange(k), rounds))
            frame.insert(0, "local_samples", k)
            frame.insert(0, "client", client)
            frame.insert(0, "round", np.repeat(np.arange(rounds), k))
            frame.insert(0, "pass", np.repeat(secret["pass"][:rounds], k))
            frame.insert(0, "checkpoint", np.repeat(secret["checkpoint"][:rounds], k))
            frames.append(frame)
    if target == "images" and any(METRICS[name].convention == "published" for name in names):
        frame = hidden.once(
            lambda: _unrelated(hidden.pictures, hidden.victim, names, matching, resources, seed),
            "unrelated",
            matching,
            *names,
        ).assign(
            iterations=facts["iterations"],
            checkpoint=secret["checkpoint"][0],
            **{"pass": secret["pass"][0]},
        )
        # No private image is in them, so that one set of pairs serves every client's lines.
        frames += [
            frame.assign(client=client, local_samples=k) for client, k in enumerate(hidden.facts["clients"])
        ]
    told = {
        "knows": facts["knows"],
        "target": target,
        "left_out": resources.left_out,
        "classes": resources.classes,
    }
    return pd.concat(frames, ignore_index=True), told


def score(
    guesses: list[Path], truth: Path, data: Path, victim: Path, spec: Path, out: Path,
    attack_records: list[Path] | None = None, backbones: Path | None = None, record: Path | None = None,
    judges: list[Path] | None = None,
) -> None:  # fmt: skip
    """Write the rows of all attacks on one capture: each private image, then the null baselines on the first rounds.

    `guesses` and `attack_records` are in the order of the spec's attacks, `judges` of its judges. Where a metric repeats a
    published convention, pairs of different images of the split are scored too. Where a judge is asked, its answers to the
    private images themselves follow, as the baseline `original`. The fact `attacks` tells of each attack what it knew, or
    why it is absent.
    """
    with recording(record, "score"):
        reason = absent([truth, data, victim])
        if reason:
            return pass_on(reason, [out])
        value = read_spec(spec)
        secret, facts = open_tensors(truth)
        hidden = Hidden(secret, facts, open_tensors(data)[0], victim)
        answers = dict(zip(value["judges"], judges or [], strict=False))
        costs: Sequence[Path | None] = attack_records or [None] * len(guesses)
        frames, told = [], {}
        for (attack, entry), path, cost in zip(value["attacks"].items(), guesses, costs, strict=True):
            if reason := absent([path]):
                told[attack] = {"absent": reason}
                continue
            rows, told[attack] = _attack_rows(path, entry, value["cell"]["seed"], hidden, backbones, answers)
            for name, of in reversed((value["cell"] | {"attack": attack}).items()):
                rows.insert(0, name, of)
            rows["seconds"] = np.nan
            if cost:
                spent = read_spec(cost)
                rows.loc[rows["baseline"] == "", "seconds"] = seconds(spent["seconds"], spent["updates"])
            frames.append(rows)
        made = provenance(value, "leakbench.verbs.score")
        write_table(
            out, pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(), {"attacks": told} | made
        )
