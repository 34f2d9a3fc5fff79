"""score: match guesses with the truth and measure them, one row per private image."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from leakbench.artefacts import open_tensors, write_table
from leakbench.metrics import METRICS, measure
from leakbench.metrics.baselines import (
    ORIGINAL,
    PAIRS,
    SNAPSHOT,
    UNRELATED,
    blank,
    dataset_mean,
    random_noise,
    unrelated_pairs,
)
from leakbench.metrics.identification import POOL
from leakbench.metrics.labels import label_accuracy, labels_matched
from leakbench.metrics.matching import best, match
from leakbench.metrics.mse import mse_matrix
from leakbench.metrics.pearson import THRESHOLD, pearson_matrix
from leakbench.metrics.prices import of_rounds
from leakbench.metrics.seconds import seconds
from leakbench.metrics.update_matching import matching_success
from leakbench.provenance import provenance, read_spec, recording
from leakbench.seeds import stream
from leakbench.verbs.absence import absent, pass_on
from leakbench.verbs.resources import Resources, gather, judged

# Few enough to stay in a processor's cache from one pass over them to the next.
WORKING_FLOATS = 1_000_000
GAPS = ("gap", "snapshot_gaps")


@dataclass
class Candidates:
    """Reconstructions of one client's updates: images [rounds, n, …] and which of them are usable [rounds, n].

    baseline: what they are if not the attack's result; iterations: after how many steps; gap: how far the gradients of
    each round's are from those observed [rounds].
    """

    images: np.ndarray
    usable: np.ndarray
    baseline: str = ""
    iterations: int = 0
    gap: np.ndarray | None = None


def _matched(candidates: Candidates, truth: np.ndarray, matching: str, target: str) -> dict[str, np.ndarray]:
    """Match [rounds, n, …] candidates with [rounds, k, …] truths.

    One-to-one matching costs the squared error of images; features have no range of their own, so r decides there.
    Returns `match`, `pearson` and `neurons` (candidates with r ≥ 0.98), each [rounds, k].
    """
    rounds, k = truth.shape[:2]
    n, width = candidates.images.shape[1], truth[0, 0].size
    out = {
        "match": np.empty((rounds, k), np.int64),
        "pearson": np.empty((rounds, k)),
        "neurons": np.empty((rounds, k), np.int64),
    }
    step = max(1, WORKING_FLOATS // max(1, n * width))
    for start in range(0, rounds, step):
        part = slice(start, start + step)
        guess = np.asarray(candidates.images[part]).reshape(-1, n, width)
        r = pearson_matrix(guess, truth[part].reshape(-1, k, width)).astype(np.float64)
        out["neurons"][part] = (r >= THRESHOLD).sum(-2)
        r[~candidates.usable[part]] = np.nan
        if matching == "best":
            out["match"][part], out["pearson"][part] = best(r)
            continue
        for row in range(start, min(start + step, rounds)):
            cost = (
                mse_matrix(np.asarray(candidates.images[row]), truth[row])
                if target == "images"
                else -r[row - start]
            )
            cost[~candidates.usable[row]] = np.nan
            index = match(cost)
            index[[i >= 0 and not candidates.usable[row, i] for i in index]] = -1
            out["match"][row] = index
            out["pearson"][row] = np.where(index >= 0, r[row - start, index, np.arange(k)], np.nan)
    return out


def _rows(
    candidates: Candidates,
    truth: np.ndarray,
    pixels: np.ndarray,
    names: list[str],
    matching: str,
    target: str,
    resources: Resources,
    labels: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """Return one value per private image, flattened over rounds × samples, for matching and metrics.

    `truth` [rounds, k, …] is what the attack aims at, `pixels` [rounds, k, C, H, W] the images behind it, `labels` [rounds, k] who is on
    them, for judges.
    """
    found = _matched(candidates, truth, matching, target)
    index = found["match"]
    nothing = index < 0
    out = {name: value.reshape(-1) for name, value in found.items()}
    out["pearson"] = np.where(np.isnan(out["pearson"]), 0.0, out["pearson"])
    out["status"] = np.where(nothing.reshape(-1), "nothing", "ok")
    out["usable"] = np.repeat(candidates.usable.sum(1), truth.shape[1])
    others = [name for name in names if name != "pearson"]
    if others:
        images = np.take_along_axis(
            np.asarray(candidates.images), np.maximum(index, 0)[(..., *[None] * (truth.ndim - 2))], axis=1
        )
        images = np.where(nothing[(..., *[None] * (truth.ndim - 2))], blank(truth.shape[2:]), images)
        flat = images.reshape(-1, *truth.shape[2:]).astype(np.float32)
        needs = resources.of(flat, None if labels is None else labels.reshape(-1))
        out |= measure(others, flat, pixels.reshape(-1, *pixels.shape[2:]), needs)
    return out


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
    index = secret[f"images/{client}"]
    found = frame["match"].to_numpy().reshape(index.shape)
    for name in [name for name in tensors if name.startswith("partner")]:
        success = matching_success(tensors[name][:, client], found, index, secret["pass"])
        frame[name.replace("partner", "matching_success", 1)] = success.reshape(-1)


def _add_prices(frame: pd.DataFrame, secret: Mapping[str, np.ndarray], client: int) -> None:
    """Add what the defence cost in each round."""
    k = secret[f"images/{client}"].shape[1]
    for column, name in {"accuracy": "accuracy", "update_bytes": f"bytes/{client}"}.items():
        if name in secret:
            frame[column] = of_rounds(secret[name], k)


def _unrelated(
    pictures: np.ndarray,
    victim: Path,
    names: list[str],
    matching: str,
    resources: Resources,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return the rows of pairs of different images, which stand for nobody's reconstruction."""
    pairs = unrelated_pairs(len(pictures), PAIRS, rng)
    shown = np.stack([aim_at("images", pictures[each], victim) for each in pairs.T])[:, :, None]
    made_up = Candidates(shown[0], np.ones((PAIRS, 1), bool), UNRELATED)
    kept = [name for name in names if name not in judged(names)]
    frame = pd.DataFrame(_rows(made_up, shown[1], shown[1], kept, matching, "images", resources, None))
    return frame.assign(baseline=UNRELATED, image=pairs[:, 1], sample=0, round=range(PAIRS))


def score(
    guesses: Path, truth: Path, data: Path, victim: Path, spec: Path, out: Path,
    attack_record: Path | None, backbones: Path | None, record: Path | None, judges: list[Path] | None = None,
) -> None:  # fmt: skip
    """Write the rows of one cell: each private image, then the null baselines on the first rounds.

    Where a metric repeats a published convention, pairs of different images of the split are scored too.
    Where a judge is asked, its answers to the private images themselves follow, as the baseline `original`.
    """
    with recording(record, "score"):
        inputs = [guesses, truth, data, victim]
        reason = absent(inputs)
        if reason:
            return pass_on(reason, [out])
        value = read_spec(spec)
        tensors, facts = open_tensors(guesses)
        secret, hidden = open_tensors(truth)
        arrays, _ = open_tensors(data)
        pictures = arrays[f"{hidden['split']}/images"]
        names, resources = gather(
            [name for name in value["metrics"] if name == "pearson" or METRICS[name].of == facts["target"]],
            backbones,
            dict(zip(value.get("judges", []), judges or [], strict=False)),
            lambda: aim_at("images", np.array(pictures[:POOL]), victim),
        )
        cost = read_spec(attack_record) if attack_record else {}
        known = arrays.get("train/images", pictures)
        if facts["target"] == "images":
            average = dataset_mean(known).transpose(2, 0, 1)
        else:
            average = aim_at("features", np.array(known[:1000]), victim).mean(0)
        rng = np.random.Generator(np.random.PCG64(stream("baseline", value["cell"]["seed"])))
        frames = []
        for client, k in enumerate(hidden["clients"]):
            index = secret[f"images/{client}"]
            pixels = aim_at("images", pictures[index.reshape(-1)], victim)
            aim = (
                pixels
                if facts["target"] == "images"
                else aim_at("features", pictures[index.reshape(-1)], victim)
            )
            aim, pixels = (each.reshape(len(index), k, *each.shape[1:]) for each in (aim, pixels))
            nulls = min(len(index), tensors["null/images"].shape[0])
            shape = (nulls, *tensors["images"].shape[2:])
            everything = np.ones(shape[:2], bool)
            # One reconstruction per image where none may serve two, so that the mean is guessed for all of them.
            copies = k if value["matching"] == "hungarian" else 1
            means = np.broadcast_to(average, (nulls, copies, *shape[2:]))
            length = facts["iterations"]
            usable, null_usable = (tensors[f"{part}usable"][:, client] for part in ("", "null/"))
            gaps = {
                name: np.array(value[..., client]) for name, value in tensors.items() if name.endswith(GAPS)
            }
            groups = [
                Candidates(tensors["images"][:, client], usable, "", length, gaps.get("gap")),
                Candidates(
                    tensors["null/images"][:, client],
                    null_usable,
                    "random-gradient",
                    length,
                    gaps.get("null/gap"),
                ),
                Candidates(random_noise(shape, rng), everything, "random-noise", length),
                Candidates(means, np.ones((nulls, copies), bool), "dataset-mean", length),
            ]
            people = np.array(secret[f"labels/{client}"]) if resources.judges else None
            if people is not None:
                groups.append(Candidates(pixels, np.ones(pixels.shape[:2], bool), ORIGINAL))
            for place, after in enumerate(np.array(tensors.get("snapshot_iterations", [])).tolist()):
                early = gaps["snapshot_gaps"][place] if "snapshot_gaps" in gaps else None
                groups.append(
                    Candidates(tensors["snapshots"][place][:, client], usable, SNAPSHOT, after, early)
                )
            for candidates in groups:
                baseline, rounds = candidates.baseline, len(candidates.images)
                frame = pd.DataFrame(
                    _rows(
                        candidates,
                        aim[:rounds],
                        pixels[:rounds],
                        judged(names) if baseline == ORIGINAL else names,
                        value["matching"],
                        facts["target"],
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
        if facts["target"] == "images" and any(METRICS[name].convention == "published" for name in names):
            frame = _unrelated(pictures, victim, names, value["matching"], resources, rng)
            frame = frame.assign(
                iterations=facts["iterations"],
                checkpoint=secret["checkpoint"][0],
                **{"pass": secret["pass"][0]},
            )
            # No private image is in them, so that one set of pairs serves every client's lines.
            frames += [
                frame.assign(client=client, local_samples=k) for client, k in enumerate(hidden["clients"])
            ]
        rows = pd.concat(frames, ignore_index=True)
        for name in reversed(list(value["cell"])):
            rows.insert(0, name, value["cell"][name])
        rows["seconds"] = np.nan
        if cost:
            rows.loc[rows["baseline"] == "", "seconds"] = seconds(cost["seconds"], cost["updates"])
        made = provenance(value, "leakbench.verbs.score")
        told = {"left_out": resources.left_out, "classes": resources.classes}
        write_table(out, rows, {"knows": facts["knows"], "target": facts["target"]} | told | made)
