"""What is scored of one attack: its reconstructions, null baselines, and intermediate reconstructions."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from leakbench.base.pixels import pixels
from leakbench.base.seeds import stream
from leakbench.metrics.baselines import (
    OTHER_UPDATE,
    PAIRS,
    SNAPSHOT,
    UNRELATED,
    random_noise,
    unrelated_pairs,
)
from leakbench.metrics.scoring.candidates import Candidates, Measures, rows_of
from leakbench.metrics.scoring.resources import judged

GAPS = ("gap", "snapshot_gaps")


def groups(
    tensors: Mapping[str, np.ndarray], secret: Mapping[str, np.ndarray], client: int,
    blind: Mapping[str, np.ndarray], k: int, matching: str, length: int, rng: np.random.Generator,
) -> Iterator[Candidates]:  # fmt: skip
    """Yield one client's reconstructions, the null baselines, and the intermediate reconstructions."""
    nulls = min(len(secret[f"images/{client}"]), tensors["null/images"].shape[0])
    shape = (nulls, *tensors["images"].shape[2:])
    everything = np.ones(shape[:2], bool)
    # Where no reconstruction may serve two images, each image needs a copy of the constant guess.
    copies = nulls, k if matching == "hungarian" else 1
    usable, null_usable = (tensors[f"{part}usable"][:, client] for part in ("", "null/"))
    gaps = {name: np.array(value[..., client]) for name, value in tensors.items() if name.endswith(GAPS)}
    yield Candidates(tensors["images"][:, client], usable, "", length, gaps.get("gap"))
    yield Candidates(
        tensors["null/images"][:, client], null_usable, "random-gradient", length, gaps.get("null/gap")
    )
    yield Candidates(random_noise(shape, rng), everything, "random-noise", length)
    for name, guess in blind.items():
        yield Candidates(np.broadcast_to(guess, (*copies, *shape[2:])), np.ones(copies, bool), name, length)
    others = elsewhere(secret[f"images/{client}"][: len(usable)], nulls)
    if others is not None:
        yield Candidates(tensors["images"][others, client], usable[others], OTHER_UPDATE, length)
    for place, after in enumerate(np.array(tensors.get("snapshot_iterations", [])).tolist()):
        early = gaps["snapshot_gaps"][place] if "snapshot_gaps" in gaps else None
        yield Candidates(tensors["snapshots"][place][:, client], usable, SNAPSHOT, after, early)


def elsewhere(index: np.ndarray, count: int) -> np.ndarray | None:
    """Return for each of the first rounds another that shares no image with it, int [count], or None."""
    # The choice of private images is salted, so no attack can foresee its partners.
    drawn = hashlib.sha256(np.ascontiguousarray(index, np.int64).tobytes()).hexdigest()
    rng = np.random.Generator(np.random.PCG64(stream("partners", drawn)))
    shared = np.array([np.isin(index, own).any(axis=1) for own in index[:count]])
    rounds, others = linear_sum_assignment(np.where(shared, len(index), rng.random(shared.shape)))
    return None if shared[rounds, others].any() or len(rounds) < count else np.asarray(others)


def unrelated(pictures: np.ndarray, by: Measures, seed: int) -> pd.DataFrame:
    """Return the rows of pairs of different images, which are nobody's reconstruction."""
    rng = np.random.Generator(np.random.PCG64(stream("unrelated", seed)))
    pairs = unrelated_pairs(len(pictures), PAIRS, rng)
    shown = np.stack([pixels(pictures[each]) for each in pairs.T])[:, :, None]
    made_up = Candidates(shown[0], np.ones((PAIRS, 1), bool), UNRELATED)
    kept = replace(by, names=[name for name in by.names if name not in judged(by.names)], target="images")
    frame = pd.DataFrame(rows_of(made_up, shown[1], shown[1], kept))
    return frame.assign(baseline=UNRELATED, image=pairs[:, 1], sample=0, round=range(PAIRS))
