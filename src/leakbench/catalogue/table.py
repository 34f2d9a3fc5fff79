"""The writer of a Markdown table."""

from collections.abc import Iterable

Row = tuple[str, ...]


def table(rows: Iterable[Row], heads: Row) -> str:
    """Return a Markdown table of rows of cells below their heads."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
