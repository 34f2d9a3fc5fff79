"""Samples on which the rule of verdicts is tried, and how often it is wrong.

`python tests/unit/papers/verdict_simulation.py` draws docs/verdicts.png from them, and prints the table of
tolerances that is in docs/verdicts.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from leakbench.metrics.interval import BOOTSTRAP_FROM, interval
from leakbench.metrics.interval import of_networks as across
from leakbench.papers.scorecard.evidence import better
from leakbench.papers.scorecard.quantity import Trials
from leakbench.papers.verdicts.sample import Sample, Statement, unseen
from leakbench.papers.verdicts.schedule import PartialRun
from leakbench.papers.verdicts.tolerances import TOLERANCES, Tolerance
from leakbench.papers.verdicts.verdict import decide, decide_outcome

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


@dataclass(frozen=True)
class Family:
    """A distribution of scores."""

    draw: Draw  # from a generator and (samples, trials) to scores of this shape
    mean: float
    tolerance: float  # of the metric that the scores imitate
    bounds: tuple[float, float]  # the range of that metric
    median: float = math.nan  # of a distribution of two kinds of outcomes

    @property
    def centres(self) -> tuple[float, float]:
        """The mean and the median, as differences to the mean in tolerances."""
        apart = 0.0 if math.isnan(self.median) else (self.mean - self.median) / self.tolerance
        return 0.0, apart


DECIBELS = (1.5, (0.0, 60.0))
SIMILARITY = (0.075, (0.0, 1.0))
SHARE = (0.1, (0.0, 1.0))
UNBOUNDED = (1.0, (-math.inf, math.inf))


def normal(deviation: float) -> Family:
    return Family(lambda rng, size: rng.normal(25, deviation, size), 25, *DECIBELS)


def bimodal(good: float, bad: float, share: float) -> Family:
    """Return the distribution of decibels of reconstructions of which a share fails."""

    def draw(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
        return np.where(rng.random(size) < share, bad, good) + rng.normal(0, 1, size)

    mean = share * bad + (1 - share) * good
    typical = NormalDist(good, 1).inv_cdf((0.5 - share) / (1 - share)) if share < 0.5 else mean
    return Family(draw, mean, *DECIBELS, median=typical)


def bounded(a: float, b: float) -> Family:
    return Family(lambda rng, size: rng.beta(a, b, size), a / (a + b), *SIMILARITY)


def yes_or_no(share: float) -> Family:
    return Family(lambda rng, size: (rng.random(size) < share).astype(float), share, *SHARE)


def exponential(deviation: float) -> Family:
    """Return the distribution of a quantity without bounds, of skewness 2."""
    return Family(lambda rng, size: rng.exponential(deviation, size), deviation, *UNBOUNDED)


def lognormal(deviation: float, sigma: float) -> Family:
    """Return the distribution of a quantity without bounds, of skewness 1.75 (sigma 0.5) or 6.2 (sigma 1)."""
    scale = deviation / math.sqrt(math.expm1(sigma**2) * math.exp(sigma**2))
    mean = scale * math.exp(sigma**2 / 2)
    return Family(lambda rng, size: scale * rng.lognormal(0, sigma, size), mean, *UNBOUNDED)


FAMILIES = {
    "normal, deviation 2 dB": normal(2), "normal, deviation 4 dB": normal(4),
    "normal, deviation 6 dB": normal(6), "bimodal, 45 and 4 dB, half fail": bimodal(45, 4, 0.5),
    "bimodal, 30 and 10 dB, 30 % fail": bimodal(30, 10, 0.3),
    "bimodal, 30 and 22 dB, half fail": bimodal(30, 22, 0.5), "bounded, beta(8, 2)": bounded(8, 2),
    "bounded, beta(5, 0.5)": bounded(5, 0.5), "bounded, beta(0.5, 0.5)": bounded(0.5, 0.5),
    "share of 0.95": yes_or_no(0.95), "share of 0.8": yes_or_no(0.8), "share of 0.5": yes_or_no(0.5),
    "skewed, exponential, 1 tol": exponential(1), "skewed, exponential, 2 tol": exponential(2),
    "skewed, exponential, 4 tol": exponential(4), "skewed, log-normal, 2 tol": lognormal(2, 0.5),
}  # fmt: skip
# Samples with rare failures, or with tails that a few trials do not show.
HARD = {
    "bimodal, 30 and 10 dB, 20 % fail": bimodal(30, 10, 0.2),
    "bimodal, 45 and 4 dB, 10 % fail": bimodal(45, 4, 0.1),
    "bimodal, 45 and 4 dB, 5 % fail": bimodal(45, 4, 0.05),
    "skewed, log-normal of skewness 6": lognormal(2, 1),
}


def words(
    family: Family, n: int, differences: list[float], repeats: int, rng: np.random.Generator
) -> dict[float, dict[str, float]]:
    """Return how often the rule says each word, by the true difference."""
    counts: dict[float, dict[str, float]] = {difference: {} for difference in differences}
    for values in family.draw(rng, (repeats, n)):
        low, high = interval(values, None, rng)
        sample = Sample(float(values.mean()), low, high, n, values=tuple(values.tolist()))
        for difference, found in counts.items():
            against = family.mean - difference * family.tolerance
            printed = Statement("=", against, tolerance=family.tolerance, bounds=family.bounds)
            word = decide(printed, sample).word
            found[word] = found.get(word, 0) + 1 / repeats
    return counts


def wrong(family: Family, n: int, repeats: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return how often, at worst, the rule says "differs" wrongly, and how often "reproduced" wrongly."""
    near = [centre + step for centre in set(family.centres) for step in (-1.0, 1.0)]
    tried = [centre + step for centre in set(family.centres) for step in (-4.0, -3.0, 3.0, 4.0)]
    far = [each for each in tried if min(abs(each - centre) for centre in family.centres) >= 3]
    found = words(family, n, near + far, repeats, rng)
    return max(found[d].get("differs", 0) for d in near), max(found[d].get("reproduced", 0) for d in far)


def of_networks(
    n: int, networks: int, effect: float, repeats: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return how often the rule is wrong, and the interval misses, where each network has an effect."""
    tolerance, bounds = DECIBELS
    words = ("differs", "reproduced", "covers", "own differs", "own reproduced", "own covers")
    found = dict.fromkeys(words, 0.0)
    labels = np.arange(n) % networks
    for _ in range(repeats):
        means = rng.normal(25, effect, networks)
        values = means[labels] + rng.normal(0, 2, n)
        low, high = across(interval(values, None, rng), values, labels)
        sample = Sample(float(values.mean()), low, high, n, values=tuple(values.tolist()), networks=networks)
        for own, mean in (("", 25.0), ("own ", float(means[labels].mean()))):
            found[f"{own}covers"] += (low <= mean <= high) / repeats
            for word, steps in (("differs", (-1, 1)), ("reproduced", (-3, 3))):
                prints = (mean + step * tolerance for step in steps)
                printed = [Statement("=", each, tolerance=tolerance, bounds=bounds) for each in prints]
                said = [decide(each, sample).word == word for each in printed]
                found[own + word] += sum(said) / len(said) / repeats
    return found


def shares_of_networks(networks: int, a: float, b: float, repeats: int, rng: np.random.Generator) -> float:
    """Return how often the interval of a share covers that of all networks, whose shares are beta(a, b).

    Each network has 20 trials.
    """
    labels = np.repeat(np.arange(networks), 20)
    covered = 0
    for shares in rng.beta(a, b, (repeats, networks)):
        values = (rng.random(labels.size) < shares[labels]).astype(float)
        low, high = across(interval(values, None, rng), values, labels)
        covered += low <= a / (a + b) <= high
    return covered / repeats


def unfinished(n: int, ahead: bool, repeats: int, rng: np.random.Generator) -> float:
    """Return how often a word is wrong of runs that end before the step size falls and scores rise."""
    tolerance, bounds = DECIBELS
    schedule = PartialRun(5000, 10000, (6250,)) if ahead else None
    errors = 0
    for values in rng.normal(22, 2, (repeats, n)):
        sample = Sample(float(values.mean()), *interval(values, None, rng), n, 0.5, schedule=schedule)
        for against, wrongly in ((28.5, "differs"), (22.0, "reproduced")):
            printed = Statement("=", against, tolerance=tolerance, bounds=bounds)
            errors += decide(printed, sample).word == wrongly
    return errors / repeats / 2


def refuted(n: int, mean: float, repeats: int, rng: np.random.Generator) -> float:
    """Return how often runs of a twentieth of the length refute a printed SSIM of 0.05."""
    printed = Statement(
        "=", 0.05, 0.005, tolerance=0.075, bounds=(0.0, 1.0), hidden=True, leak=1, threshold=0.5
    )
    size = mean * (1 - mean) / 0.1**2 - 1
    count = 0
    for values in rng.beta(mean * size, (1 - mean) * size, (repeats, n)):
        ends = interval(values, None, rng)
        sample = Sample(float(values.mean()), *ends, n, 0.05, beats_null=True, values=tuple(values.tolist()))
        count += decide(printed, sample).word == "differs"
    return count / repeats


def outcome_refuted(n: int, share: float, repeats: int, rng: np.random.Generator) -> float:
    """Return how often runs of a twentieth of the length refute a printed failure."""
    drawn = rng.random((repeats, n)) < share
    return float(
        np.mean([decide_outcome(each.tolist(), "failure", 0.05).word == "differs" for each in drawn])
    )


def no_gain(family: Family, n: int, rounds: int, repeats: int, rng: np.random.Generator) -> float:
    """Return how often, at worst, a word rests on a gain over another update that is just the tolerance.

    The attack is then "reproduced" as a success, or a shorter run "differs" from a printed failure.
    """
    clusters = {str(each): str(each) for each in range(n)}
    low, tolerance = family.mean - 40 * family.tolerance, family.tolerance
    prints: list[tuple[Statement, float, str]] = [
        (Statement("=", family.mean, tolerance=tolerance, success=True), 1.0, "reproduced"),
        (Statement(">=", low, success=True), 1.0, "reproduced"),
        (Statement("=", low, tolerance=tolerance, hidden=True, leak=1), 0.05, "differs"),
    ]
    # A share that is worse by the tolerance is no share.
    ahead = 0.0 if (tolerance, family.bounds) == SHARE else tolerance
    count = np.zeros(len(prints))
    for drawn in family.draw(rng, (repeats, n + rounds)):
        values, other = drawn[:n], drawn[n:] - ahead
        own, null = (Trials(dict(zip(clusters, each, strict=False)), clusters) for each in (values, other))
        beats = better(own, null, 1, tolerance) and values.mean() > other.mean()
        sample = Sample(float(values.mean()), *interval(values, None, rng), n, beats_null=beats)
        count += [decide(each, replace(sample, length=length)).word == word for each, length, word in prints]
    return float(count.max() / repeats)


NUMBERS = [5, 7, 10, 15, 20, 30, 50]
COLOURS = {"reproduced": "#1b7837", "inconclusive": "#8c8c8c", "differs": "#b2182b"}


def characteristic(repeats: int = 400) -> pd.DataFrame:
    """Return how often the rule says each word of normal samples of deviation 4 dB, in percent."""
    decibels = np.arange(0, 15.1, 0.5)
    lines = []
    for n in (5, 10, 20, 50):
        found = words(normal(4), n, list(decibels / 1.5), repeats, np.random.default_rng(n))
        for difference, said in zip(decibels, found.values(), strict=True):
            lines += [(n, difference, word, 100 * said.get(word, 0)) for word in COLOURS]
    return pd.DataFrame(lines, columns=["n", "difference", "word", "percent"])


def errors(few: int = 800, many: int = 200) -> pd.DataFrame:
    """Return the worst shares of wrong words, in percent, by number of trials and kind of distribution."""
    lines = []
    for place, (name, family) in enumerate(FAMILIES.items()):
        for n in NUMBERS:
            repeats = few if n < BOOTSTRAP_FROM else many
            differs, reproduced = wrong(family, n, repeats, np.random.default_rng([n, place]))
            kind = name.replace(" of", ",").partition(",")[0]
            lines += [(n, kind, "differs", 100 * differs), (n, kind, "reproduced", 100 * reproduced)]
    frame = pd.DataFrame(lines, columns=["n", "kind", "word", "percent"])
    return frame.groupby(["n", "kind", "word"], as_index=False)["percent"].max()


EFFECTS = [0.0, 1.0, 2.0, 3.0]


def effects(repeats: int = 400) -> pd.DataFrame:
    """Return how often words on several networks are wrong, by the networks' effect, in percent."""
    lines = []
    for networks in (1, 3, 5):
        for effect in EFFECTS:
            rng = np.random.default_rng([networks, int(effect)])
            found = of_networks(50, networks, effect, repeats, rng)
            one = {"1, of this one": "own ", "1, read as of all": ""}
            for reading, of in (one if networks == 1 else {str(networks): ""}).items():
                worst = max(found[f"{of}differs"], found[f"{of}reproduced"])
                lines += [
                    (effect, reading, "wrong", 100 * worst),
                    (effect, reading, "covers", 100 * found[f"{of}covers"]),
                ]
    return pd.DataFrame(lines, columns=["effect", "networks", "what", "percent"])


def refutations(repeats: int = 200) -> pd.DataFrame:
    """Return how often shorter runs refute a printed SSIM of 0.05, by their true SSIM, in percent."""
    lines = [
        (n, ssim, 100 * refuted(n, ssim, repeats, np.random.default_rng([n, int(100 * ssim)])))
        for n in (5, 10, 20)
        for ssim in (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9)
    ]
    return pd.DataFrame(lines, columns=["n", "ssim", "percent"])


def draw(out: Path) -> None:
    """Draw how often each word is said and how often it is wrong, and the outcomes that n trials may miss."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    sns.set_theme(style="whitegrid", context="paper")
    figure = plt.figure(figsize=(11, 10.8), layout="constrained")
    upper, lower, last = figure.subfigures(3, 1, hspace=0.04)
    said = characteristic()
    axes = upper.subplots(1, 4, sharey=True)
    for axis, (n, own) in zip(axes, said.groupby("n"), strict=True):
        axis.axvspan(0, 1.5, color=COLOURS["reproduced"], alpha=0.10, lw=0)
        axis.axvspan(4.5, 15, color=COLOURS["differs"], alpha=0.06, lw=0)
        sns.lineplot(
            own, x="difference", y="percent", hue="word", palette=COLOURS, ax=axis, legend=n == 50, lw=2
        )
        axis.set(title=f"{n} trials", xlabel="true difference, dB", ylabel="samples, %")
        axis.set(xlim=(0, 15), ylim=(0, 101), xticks=range(0, 15, 3))
    axes[-1].legend(title=None, loc="center right")
    upper.suptitle(
        "Which word is said (deviation 4 dB; green: within the tolerance, red: three tolerances or more)"
    )
    left, middle, right = lower.subplots(1, 3)
    found = errors()
    kinds = ["normal", "bimodal", "bounded", "share", "skewed"]
    palette = dict(zip(kinds, sns.color_palette("colorblind", 5), strict=True))
    titles = {
        "differs": "Wrong “differs”, at ≤ 1 tolerance",
        "reproduced": "Wrong “reproduced”, at ≥ 3 tolerances",
    }
    for axis, (word, title) in zip((left, middle), titles.items(), strict=True):
        own = found[found["word"] == word]
        present = [kind for kind in kinds if kind in set(own["kind"])]
        sns.lineplot(
            own, x="n", y="percent", hue="kind", hue_order=present, palette=palette, marker="o", ax=axis
        )
        axis.axhline(5, color="black", ls="--", lw=1)
        axis.set(title=title, xlabel="independent trials", ylabel="samples, % (worst case)", ylim=(0, 20))
        axis.set(xscale="log", xticks=NUMBERS, xticklabels=map(str, NUMBERS))
        axis.minorticks_off()
        axis.legend(title=None)
    numbers = np.arange(5, 51)
    shares = pd.DataFrame({"n": numbers, "percent": [100 * unseen(int(n)) for n in numbers]})
    sns.lineplot(shares, x="n", y="percent", ax=right, color="black", lw=2)
    right.fill_between(shares["n"], shares["percent"], color="#8c8c8c", alpha=0.25, lw=0)
    for n in (5, 10, 20, 50):
        label = f"n = {n}: {100 * unseen(n):.0f} %"
        place = (n - 1, 100 * unseen(n) + 3) if n == 50 else (n + 1, 100 * unseen(n) + 1)
        right.annotate(label, place, ha="right" if n == 50 else "left")
    right.set(title="What may stay unseen", xlabel="independent trials", ylabel="share of outcomes, %")
    right.set(xlim=(4, 51), ylim=(0, 50))
    right.text(8, 2, "missed in more than 5 % of samples", ha="left")
    _networks_and_refutations(last)
    figure.savefig(out, dpi=130)
    plt.close(figure)


def _networks_and_refutations(figure: Any) -> None:
    """Draw the effect of the network, and refutations by shorter runs."""
    import seaborn as sns

    left, middle, right = figure.subplots(1, 3)
    found = effects()
    titles = {"wrong": "Wrong words, 50 trials", "covers": "Cover of the 95 % interval, 50 trials"}
    for axis, (what, title) in zip((left, middle), titles.items(), strict=True):
        own = found[found["what"] == what]
        sns.lineplot(own, x="effect", y="percent", hue="networks", palette="colorblind", marker="o", ax=axis)
        axis.set(title=title, xlabel="effect of the network, dB (trials: 2 dB)", xticks=EFFECTS)
        axis.set(ylabel="samples, %", ylim=(0, 60) if what == "wrong" else (0, 101))
        axis.axhline(5 if what == "wrong" else 95, color="black", ls="--", lw=1)
        axis.legend(title="networks")
    early = refutations()
    early["trials"] = early["n"].astype(str)
    sns.lineplot(early, x="ssim", y="percent", hue="trials", palette="colorblind", marker="o", ax=right)
    right.axvline(0.5, color="black", ls="--", lw=1)
    right.set(title="A printed failure refuted by shorter runs", xlabel="true SSIM (success from 0.5 on)")
    right.set(ylabel="samples, %", ylim=(0, 101))


def table() -> str:
    """Return the table of tolerances in Markdown; metrics that share a tolerance share a line."""
    groups: dict[Tolerance, list[str]] = {}
    for name, tolerance in TOLERANCES.items():
        groups.setdefault(tolerance, []).append(f"`{name}`")
    lines = ["| Metric | Tolerance | Range |", "|---|---|---|"]
    for own, names in groups.items():
        amount = f"a factor {1 + own.amount:g}" if own.relative else f"{own.amount:g}"
        ends = [f"{end:.4g}" if math.isfinite(end) else "" for end in (own.low, own.high)]
        span = {(True, True): " to ".join(ends), (True, False): f"from {ends[0]}"}.get(
            (bool(ends[0]), bool(ends[1])), "any"
        )
        note = "" if own.monotone else ", not monotone"
        lines.append(f"| {', '.join(names)} | {amount}{note} | {span} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
    draw(Path(__file__).parents[3] / "docs/verdicts.png")
