"""score: match the guesses of every attack on a capture with the truth, one row per private image."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from leakbench.base.artefacts import open_tensors, write_table
from leakbench.base.errors import UserError
from leakbench.base.missing import absent, pass_on
from leakbench.base.provenance import provenance, recording, spent
from leakbench.catalogue.spec import opened
from leakbench.datasets.columns import columns_of
from leakbench.federation.play import private_samples
from leakbench.metrics.scoring.attack import attack_rows
from leakbench.metrics.scoring.truths import Truths
from leakbench.metrics.updates import seconds

if TYPE_CHECKING:
    from leakbench.catalogue.jobs import ScoreSpec


def score(
    guesses: list[Path], truth: Path, data: Path, victim: Path, spec: "ScoreSpec", out: Path,
    attack_records: list[Path] | None = None, backbones: Path | None = None, record: Path | None = None,
    judges: list[Path] | None = None, played: Path | None = None,
) -> None:  # fmt: skip
    """Write the rows of all attacks on one capture: each private image, then the null baselines.

    The null baselines are on the first rounds. Where a metric repeats a published convention, pairs of
    different images of the split are scored too. Where a judge is asked, its answers to the private images
    themselves follow, as the baseline `original`. The fact `attacks` says of each attack what it knew, or why
    it is absent.

    guesses: the guesses, in the order of the spec's attacks.
    truth: the truth of the capture.
    data: the data set.
    victim: the victim.
    spec: the spec of the job.
    out: the file of the rows.
    attack_records: what each attack cost, in the order of the spec's attacks.
    backbones: the file of LPIPS' backbones, None without one.
    record: the file that gets what the job cost.
    judges: the judges, in the order of the spec's judges.
    played: the spec of the capture, whose private samples are drawn again. None takes the truth as it is.

    Raises UserError where the truth holds other samples, which the file of a defence could have done.
    """
    with recording(record, "score"):
        reason = absent([truth, data, victim])
        if reason:
            return pass_on(reason, [out])
        secret, facts = open_tensors(truth)
        arrays, of_data = open_tensors(data)
        of: Any = played and opened("capture", played)
        if of and not _drawn(of, secret, facts, arrays):
            raise UserError(
                f"{truth}: its private samples are not those that {played} draws (read the file of the "
                f"defence '{of.defence.module}')"
            )
        truths = Truths(secret, facts, arrays, victim, columns_of(of_data.get("columns", [])))
        answers = dict(zip(spec.judges, judges or [], strict=False))
        costs: Sequence[Path | None] = attack_records or [None] * len(guesses)
        frames, found = [], {}
        for (attack, entry), path, cost in zip(spec.attacks.items(), guesses, costs, strict=True):
            if reason := absent([path]):
                found[attack] = {"absent": reason}
                continue
            asked = entry.model_dump()
            rows, found[attack] = attack_rows(path, asked, spec.cell.seed, truths, backbones, answers)
            for name, of in reversed([*sorted(spec.cell), ("attack", attack)]):
                rows.insert(0, name, of)
            rows["seconds"] = np.nan
            if cost:
                rows.loc[rows["baseline"] == "", "seconds"] = seconds(*spent(cost, seconds=0, updates=1))
            frames.append(rows)
        made = provenance(spec.plain(), "leakbench.jobs.score")
        every = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
        write_table(out, every, {"attacks": found} | made)


def _drawn(
    spec: Any, secret: Mapping[str, np.ndarray], facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> bool:
    """Return whether a truth holds the samples that its spec draws; clients may be seen together."""
    federation = spec.plain()["federation"]
    labels = np.array(arrays[f"{federation['private']['split']}/labels"])
    clients = iter(private_samples(federation, labels, spec.names()).images)
    for client in range(len(facts["clients"])):
        images, told = (np.array(secret[f"{name}/{client}"]) for name in ("images", "labels"))
        rest = images
        while rest.shape[1]:
            own = next((each for each in clients if _repeats(rest[:, : each.shape[1]], each)), None)
            if own is None:
                return False
            rest = rest[:, own.shape[1] :]
        if not np.array_equal(told, labels[images]):
            return False
    return True


def _repeats(rounds: np.ndarray, of: np.ndarray) -> bool:
    """Return whether `rounds` are those in `of`, once or several times."""
    times, left = divmod(len(rounds), len(of))
    return not left and np.array_equal(rounds, np.tile(of, (times, 1)))
