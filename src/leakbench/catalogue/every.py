"""What `all` stands for in an experiment's lists of defences and attacks."""

import itertools
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from leakbench.catalogue.load import files_of

ALL = "all"


def every(config: Path, kind: str, names: Sequence[str], but: Sequence[str] = ()) -> list[str]:
    """Return `names`, each once, with `all` replaced by every file of a kind, in order of name.

    config: the folder of the catalogue.
    kind: the folder below it, such as `attacks`.
    names: names of entries, and `all`.
    but: the files that `all` does not stand for.
    """
    files = [name for name in stems(config, kind) if name not in but]
    each = (files if name == ALL else [name] for name in names)
    return list(dict.fromkeys(itertools.chain.from_iterable(each)))


@cache
def stems(config: Path, kind: str) -> list[str]:
    """Return the names of all files of a kind, sorted."""
    return sorted(path.stem for path in files_of(config, kind))
