"""The entries of the scorecard: printed rows and claims in one form."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leakbench.papers import join
from leakbench.papers.printed import Printed, Relation, Row, as_text
from leakbench.papers.work import Claim, Work

RELATIONS: dict[str, Relation] = {"": "=", ">": ">", "<": "<="}


@dataclass(frozen=True)
class Judged:
    """A printed row or a claim, and how it is measured and judged."""

    id: str
    work: Work
    where: str  # file and key, for messages
    let: Mapping[str, Any]  # the names that its expressions may use
    reading: join.RowReading  # how it is measured; of a claim, what all of its numbers share
    relation: Relation
    against: Printed
    row: Row | None
    words: Mapping[str, Any]  # its own columns of the scorecard

    def reads(self, experiment: str) -> bool:
        named = () if self.row else self.reading.text.split("'")
        return experiment in (self.reading.where.get("experiment"), *named)


def entries(work: Work) -> Iterator[Judged]:
    for row in (row for rows in work.tables.values() for row in rows):
        yield _printed(work, row)
    for claim in work.claims.claims:
        yield _claimed(work, claim)


def resting_on_headlines(works: Iterable[Work], experiments: Iterable[str]) -> list[str]:
    """Return those of the experiments on which a headline finding of the works rests, sorted by name."""
    found = [entry for work in works for entry in entries(work) if entry.words.get("headline")]
    return sorted(name for name in experiments if any(entry.reads(name) for entry in found))


def _printed(work: Work, row: Row) -> Judged:
    reading = join.read(work, row)
    convention = "published" if join.published_convention(work, row) else "standard"
    words = {
        "item": row.item, "class": reading.label, "condition": row.condition, "metric": row.metric,
        "convention": convention if reading.label == "result" else "", "published": row.published,
    }  # fmt: skip
    where = f"{work.folder / 'measured.yaml'}: {row.table}: {row.id}"
    return Judged(row.id, work, where, work.let, reading, RELATIONS[row.number.bound], row.number, row, words)


def _claimed(work: Work, claim: Claim) -> Judged:
    way = next(way for way in ("quantity", "check", "absent") if getattr(claim, way) is not None)
    doubt = claim.item.startswith(("doubt-", "expectation"))
    label = claim.class_ or ("doubt" if doubt else "result")
    reading = join.RowReading(
        way, claim.read, getattr(claim, way), success=claim.success, needs=claim.needs, note=claim.note,
        label=label, tolerance=claim.tolerance, hidden=claim.hidden, trivial=claim.trivial,
    )  # fmt: skip
    decided = claim.quantity or claim.check or "nothing measures it"
    read = ", ".join(f"{key}={as_text(value)}" for key, value in claim.read.items())
    condition = f"{decided} {claim.relation} {claim.threshold:g}" + (f" [{read}]" if read else "")
    words = {
        "item": claim.item, "class": label, "condition": condition, "metric": "claim", "convention": "",
        "published": claim.claim, "headline": claim.headline,
    }  # fmt: skip
    where, against = f"{work.folder / 'claims.yaml'}: {claim.id}", Printed(claim.threshold)
    return Judged(claim.id, work, where, work.claims.let, reading, claim.relation, against, None, words)
