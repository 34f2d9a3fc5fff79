"""What an attack found of each private record."""

import base64
import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakbench.audit.child import Json
from leakbench.audit.client import Truth
from leakbench.audit.network import reason
from leakbench.base.alarm import LEAST, OutOfTime, within
from leakbench.metrics.matching import match
from leakbench.metrics.pearson import pearson
from leakbench.observations.reconstruction import Reconstruction

# The levels of a record: nothing of it is found, it is recognisable, read, or read with its label.
NOTHING, RECOGNISABLE, READ, LABELLED = range(4)
LEVELS = ("nothing found", "recognisable", "read", "read with label")
# A record is read if no value of it is off by more than half of one of 255 steps of its range.
HALF_A_LEVEL = 0.5 / 255
# A record is recognisable if the reconstruction explains half of its variation, and is nearer to the record
# than the batch's mean and than what the attack makes of noise.
HALF_OF_VARIATION = sqrt(0.5)


def reached(levels: list[int], least: int) -> int:
    return sum(level >= least for level in levels)


def in_all(records: int) -> str:
    return "of 1 record" if records == 1 else f"of {records} records"


@dataclass
class Attempt:
    """What one attack found of one update; the first fields are those of attacks.yaml."""

    attack: str
    title: str
    stage: str
    attacker: str
    source: str
    records: int
    # An index of LEVELS for each record; how many of them the attack itself proves; and how many it makes
    # recognisable out of noise.
    levels: list[int]
    proven: int = 0
    null: int = 0
    seconds: float = 0.0
    # Of a search: how often it ran, for how long, and the interval of its correlation above that of noise;
    # whether it seeks the labels too.
    trials: int = 0
    iterations: int = 0
    interval: tuple[float, float] | None = None
    sought: bool = False
    # Why there is no result, and whether that is for lack of time.
    why_not: str = ""
    out_of_time: bool = False
    # The reconstruction of each record (or all candidates, if records are unknown) and its Pearson r.
    images: Tensor | None = None
    quality: list[float] = field(default_factory=list)
    # What makes records recognisable, for the headline.
    by: str = ""

    def nearness(self) -> tuple[int, float]:
        return sum(self.levels), sum(self.quality)

    def take(self, scored: "Score") -> None:
        self.levels, self.images = scored.levels, scored.images
        self.quality = [round(float(r), 4) for r in scored.r]

    def count(self, least: int) -> int:
        return reached(self.levels, least)

    def certified(self) -> bool:
        """Return whether it proves as many records as it reads. Of another loss, a proof may err."""
        return self.proven == self.count(READ) > 0

    def line(self) -> str:
        if self.why_not:
            return f"{self.title}: {self.why_not}"
        read, labelled, seen = self.count(READ), self.count(LABELLED), self.count(RECOGNISABLE)
        proof = f", {self.proven} proven" if self.proven else ""
        proof += f", {self.proven - read} of them wrongly" if self.proven > read else ""
        several = "" if self.trials == 1 else "s"
        trials = f", {self.trials} trial{several} of {self.iterations} iterations" if self.trials else ""
        trials += ", which seek the labels too" if self.trials and self.sought else ""
        return (
            f"{self.title}: read {read} {in_all(self.records)} ({labelled} with label{proof}), "
            f"{seen - read} more recognisable, in {self.seconds:.1f} s{trials}"
        )


@dataclass(frozen=True)
class Score:
    """What a reconstruction is worth for each record."""

    levels: list[int]
    r: np.ndarray  # the Pearson correlation
    error: np.ndarray  # the mean squared error, infinite where there is no reconstruction
    images: Tensor


def pixels_of(found: Reconstruction) -> Tensor:
    return found.images[0, 0][found.usable[0, 0]]


def score(images: Tensor, labels: Tensor | None, truth: Truth, null: np.ndarray | None = None) -> Score:
    """Match candidates [n, channels, rows, columns] with the private records and score them."""
    # null: [records], the squared error of what the same attack makes of noise. The reconstruction of a
    # recognisable record has a smaller error than that, and than the batch's mean.
    k = len(truth.images)
    private = truth.images.flatten(1).double().numpy()
    if not len(images):
        return Score([NOTHING] * k, np.zeros(k), np.full(k, np.inf), truth.images * 0)
    guess = images.flatten(1).double().numpy()
    cost = np.square(guess).sum(1)[:, None] + np.square(private).sum(1) - 2 * guess @ private.T
    cost /= private.shape[1]
    index = _matched(cost, guess, private) if len(guess) <= 4 * k else cost.argmin(0)
    none = index < 0
    chosen = guess[np.maximum(index, 0)]
    error = np.where(none, np.inf, np.square(chosen - private).mean(1))
    r = np.where(none, 0.0, pearson(chosen, private))
    read = ~none & (np.abs(chosen - private).max(1) <= HALF_A_LEVEL)
    bar = np.full(k, np.inf) if null is None else null
    if k > 1:
        bar = np.minimum(bar, np.square(private - private.mean(0)).mean(1))
    # The reconstruction must be nearer by more than rounding.
    seen = ~none & (r >= HALF_OF_VARIATION) & (error < 0.999 * bar)
    right = labels is not None and labels.numpy()[np.maximum(index, 0)] == truth.labels.numpy()
    levels = np.where(read, np.where(right, LABELLED, READ), np.where(seen, RECOGNISABLE, NOTHING))
    return Score(levels.tolist(), r, error, images[np.maximum(index, 0)])


def _matched(cost: np.ndarray, guess: np.ndarray, private: np.ndarray) -> np.ndarray:
    """Return which of n candidates is matched to each of k records, [k], or -1 where none is left."""
    # As many records as possible get a candidate that reads them, and the other pairs have the least cost.
    # Otherwise a record of which nothing was read could take the candidate of one that was read, because all
    # other candidates are farther away from the former.
    apart = torch.cdist(torch.from_numpy(guess), torch.from_numpy(private), p=torch.inf).numpy()
    read = apart <= HALF_A_LEVEL
    index = match(np.where(read, 0.0, 1.0))
    settled = (index >= 0) & read[np.maximum(index, 0), np.arange(len(private))]
    free = np.setdiff1d(np.arange(len(guess)), index[settled])
    index[~settled] = np.append(free, -1)[match(cost[free][:, ~settled])]
    return index


def merged(found: list[Attempt], clients: int = 0) -> Attempt:
    """Merge what one attack found of several updates, of this many clients if each repeats its records."""
    found = _pooled(found, clients) if clients else found
    if len(found) == 1:
        return found[0]
    # What all updates share is taken from one that has a result, if there is one.
    first = min(found, key=lambda each: bool(each.why_not))
    levels = [level for each in found for level in each.levels]
    return replace(
        first, levels=levels, records=len(levels), images=None, quality=[],
        proven=sum(each.proven for each in found), seconds=sum(each.seconds for each in found),
    )  # fmt: skip


def _pooled(found: list[Attempt], clients: int) -> list[Attempt]:
    """Return for each client what one attack proved of its records, which are the same in every round."""
    # A record that several rounds prove counts once. The results are those of each client in each round,
    # rounds first, with the proven records as `images`.
    out = []
    for own in (found[client::clients] for client in range(clients)):
        ran = [each for each in own if not each.why_not and each.images is not None]
        if not ran:
            out.append(own[0])
            continue
        images = torch.cat([each.images.flatten(1) for each in ran if each.images is not None])
        again = (torch.cdist(images, images, p=torch.inf) <= 2 * HALF_A_LEVEL).tril(-1).any(1)
        k, proven = own[0].records, min(int((~again).sum()), own[0].records)
        levels = [LABELLED] * proven + [NOTHING] * (k - proven)
        seconds = sum(each.seconds for each in own)
        out.append(replace(ran[0], levels=levels, proven=proven, seconds=seconds, images=None))
    return out


def combined(found: list[Attempt], letters: str) -> list[int]:
    """Return the best level of each record over the attacks of the attackers with these letters."""
    own = [each.levels for each in found if each.attacker in letters]
    return [max(levels) for levels in zip(*own, strict=True)]


# The share of a batch that counts as its brightest records, of a batch of at least BATCH.
BRIGHT, BATCH = 0.1, 10


def affected(found: list[Attempt], truth: Truth, alone: list[bool]) -> list[Json]:
    """Return the private records, the most exposed first, each with its level and what is special of it."""
    # `alone` says of each record whether a neuron is open for it alone; it is empty if nobody knows.
    records, rows = len(truth.images), truth.images.flatten(1)
    levels = combined(found, "ABCD") or [NOTHING] * records
    r = [max((each.quality[i] for each in found if each.quality), default=0.0) for i in range(records)]
    _, own, counts = truth.labels.unique(return_inverse=True, return_counts=True)
    apart = torch.cdist(rows, rows, p=torch.inf).fill_diagonal_(torch.inf).amin(1)
    light = rows.mean(1)
    least = light.sort().values[-max(1, int(BRIGHT * records))] if records >= BATCH else torch.inf
    special = {
        "a neuron is open for it alone": torch.tensor(alone or [False] * records),
        "the only one of its class": (counts[own] == 1) & (truth.labels >= 0) & (len(counts) < records),
        "among the tenth with the largest values": light >= least,
        "twice in the batch": apart <= HALF_A_LEVEL,
    }
    order = sorted(range(records), key=lambda i: (-levels[i], -r[i], i))
    return [
        {"number": i + 1, "level": levels[i], "r": r[i], "why": [w for w, has in special.items() if has[i]]}
        for i in order
    ]


EDGE = 96


def pictures(found: list[Attempt], truth: Truth) -> list[Json]:
    """Return pictures of the worst, median and best record of the attack that came furthest, as PNGs."""
    # Records that are no images have no pictures.
    channels, rows, columns = truth.images.shape[1:]
    made = [each for each in found if each.images is not None]
    if not made or rows * columns == 1 or channels not in (1, 3):
        return []
    best = max(made, key=Attempt.nearness)
    assert best.images is not None
    order = sorted(range(len(best.levels)), key=lambda i: (best.levels[i], best.quality[i]))
    # Of one or two records, each is shown once.
    places = {order[-1]: "worst for the client"}
    places.setdefault(order[len(order) // 2], "median")
    places.setdefault(order[0], "best for the client")
    return [
        {
            "which": which, "level": LEVELS[best.levels[i]], "r": best.quality[i], "attack": best.title,
            "truth": _png(truth.images[i]), "made": _png(best.images[i])
        }
        for i, which in places.items()
    ]  # fmt: skip


def _png(image: Tensor) -> str:
    from PIL import Image

    pixels = np.rint(np.nan_to_num(image.clamp(0, 1).numpy()) * 255).astype(np.uint8)
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    times = max(1, EDGE // max(picture.size))
    picture = picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def timed(found: Any, limit: float, work: Callable[[], None]) -> None:
    """Do some work for at most `limit` seconds. Note in `found` its time, and why it gave no result."""
    begun = time.perf_counter()
    try:
        with within(limit):
            work()
    except OutOfTime:
        spent = f"not finished in its share of the budget, {limit:.2g} s"
        found.out_of_time, found.why_not = True, "not run: the budget was spent" if limit <= LEAST else spent
    except Exception as problem:  # noqa: BLE001 - a network of somebody's own may raise anything
        found.why_not = reason(problem)
    found.seconds = round(found.seconds + time.perf_counter() - begun, 3)
