"""compare: compare scorecards of the same statements, and count the verdicts that changed."""

from pathlib import Path

import pandas as pd

from leakbench.base.artefacts import write_text
from leakbench.base.errors import UserError
from leakbench.papers.verdicts.compare import compared, read_scorecard, summary, together


def compare(old: Path, new: list[Path], out: Path | None = None) -> None:
    """Print how the verdicts of one scorecard differ from those of one or more others.

    old: the scorecard.csv of a finished run.
    new: the scorecards of other finished runs, such as those of other seeds.
    out: the file that gets the rows that changed. For two scorecards its columns are id, class, old and new.
    For more scorecards it has one column for each scorecard, named after the scorecard's folder.

    Raises UserError where two of more than two scorecards lie in folders of one name.
    """
    before = read_scorecard(old)
    others = {path: read_scorecard(path) for path in new}
    changed = pd.DataFrame()
    for path, after in others.items():
        rows = compared(before, after)
        for each, frame in ((old, before), (path, after)):
            if alone := len(frame) - len(rows):
                print(f"{each}: {alone} rows are in this scorecard alone, and left out")
        print((f"{path}: " if len(new) > 1 else "") + summary(rows))
        changed = rows[rows["old"] != rows["new"]]
    if len(new) > 1:
        names = [path.resolve().parent.name for path in (old, *others)]
        # Each name becomes a column beside id and class.
        if len({*names, "id", "class"}) < len(names) + 2:
            raise UserError(
                f"compare: two of {', '.join(names)} are one name, or one is id or class (put the files in "
                "other folders)"
            )
        changed, words = together(dict(zip(names, (before, *others.values()), strict=True)))
        print(words)
    if out is not None:
        write_text(out, changed.to_csv(index=False))
