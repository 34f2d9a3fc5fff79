"""Scorecards of the same statements, compared: how many verdicts changed, and from which word to which."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from leakbench.base.artefacts import read_csv
from leakbench.base.errors import UserError

DECIDED = ("reproduced", "direction", "differs")
WORDS = (*DECIDED, "inconclusive", "not-run")


def read_scorecard(path: Path) -> pd.DataFrame:
    """Return a scorecard's rows as text. Raises UserError where the file is no scorecard."""
    rows: pd.DataFrame = read_csv(path, dtype=str, keep_default_na=False)
    another = "give the scorecard.csv of a finished run"
    if missing := [name for name in ("id", "verdict") if name not in rows.columns]:
        raise UserError(f"{path}: no scorecard: it has no column '{missing[0]}' ({another})")
    if unknown := sorted(set(rows["verdict"]) - set(WORDS)):
        raise UserError(f"{path}: verdict: '{unknown[0]}' is none of {', '.join(WORDS)} ({another})")
    if len(twice := rows.loc[rows["id"].duplicated(), "id"]):
        raise UserError(f"{path}: id: '{twice.iloc[0]}' is there twice ({another})")
    return rows


def compared(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    rows = new.merge(old[["id", "verdict"]], on="id", suffixes=("_new", "_old"))
    kind = rows.get("class", "")
    return pd.DataFrame(
        {"id": rows["id"], "class": kind, "old": rows["verdict_old"], "new": rows["verdict_new"]}
    )


def counts(rows: pd.DataFrame) -> dict[str, int]:
    """Return numbers of rows, as `compared` returns them."""
    decided = rows["old"].isin(DECIDED) & rows["new"].isin(DECIDED)
    changed = rows["old"] != rows["new"]
    return {
        "rows": len(rows),
        "measured": int(((rows["old"] != "not-run") | (rows["new"] != "not-run")).sum()),
        "decided": int(decided.sum()),
        "turned": int((decided & changed).sum()),
        "changed": int(changed.sum()),
    }


def together(cards: Mapping[str, pd.DataFrame]) -> tuple[pd.DataFrame, str]:
    """Return the rows on which the scorecards give different words, and a sentence on how many they are."""
    (first, card), *others = cards.items()
    rows = pd.DataFrame({"id": card["id"], "class": card.get("class", ""), first: card["verdict"]})
    for name, card in others:
        rows = rows.merge(card[["id", "verdict"]].rename(columns={"verdict": name}), on="id")
    words = rows[list(cards)]
    decided = words.isin(DECIDED).all(axis=1)
    changed = words.nunique(axis=1) > 1
    text = (
        f"all {len(cards)}: {_share(int((decided & changed).sum()), int(decided.sum()))} rows that each "
        f"scorecard decides change their word; {_share(int(changed.sum()), len(rows))} rows change at all"
    )
    return rows[changed], text


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({100 * part / whole:.1f} %)" if whole else "")


def _told(rows: pd.DataFrame) -> str:
    of = counts(rows)
    return (
        f"{_share(of['turned'], of['decided'])} rows that both decide have another decided word; "
        f"{_share(of['changed'], of['rows'])} rows changed at all, "
        f"{_share(of['changed'], of['measured'])} of those measured"
    )


def summary(rows: pd.DataFrame) -> str:
    """Return in words what changed among rows, as `compared` returns them."""
    lines = [_told(rows)]
    lines += [f"  {kind}: {_told(part)}" for kind, part in rows.groupby(rows["class"].map(str)) if kind]
    changed = rows[rows["old"] != rows["new"]]
    words = Counter(map(str, changed["old"] + " -> " + changed["new"]))
    lines += [f"{count:6d} {change}" for change, count in words.most_common()]
    turned = changed[changed["old"].isin(DECIDED) & changed["new"].isin(DECIDED)]
    lines += (turned["id"] + ": " + turned["old"] + " -> " + turned["new"]).tolist()
    return "\n".join(lines)
