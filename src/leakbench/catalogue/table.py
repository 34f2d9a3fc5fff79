"""A table of Markdown."""

from collections.abc import Iterable

Row = tuple[str, ...]


def table(rows: Iterable[Row], heads: Row) -> str:
    """Return rows of cells below their heads."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
