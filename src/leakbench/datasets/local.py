"""The user's own copies of data sets, below the directories of LEAKBENCH_DATA."""

import os
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbench.base.errors import UserError

Origin = Mapping[str, Any]
# No name in a file system has more bytes.
LONGEST = 255


def place(root: Path, sources: Sequence[Origin]) -> Path | None:
    """Return the first of the sources' folders below `root` that holds a file of the data set, or None."""
    check(sources)
    for source in sources:
        for folder in source["folders"]:
            if any(any((root / folder).glob(pattern)) for pattern in source["holding"]):
                return root / folder
    return None


def check(sources: Sequence[Origin], where: str = "") -> None:
    """Raise UserError for a folder or a pattern that is not valid or could lead out of its directory."""
    for source in sources:
        for folder in source["folders"]:
            if Path(folder).is_absolute() or ".." in Path(folder).parts:
                outside = f"{folder!r} is not below a directory of LEAKBENCH_DATA (give a folder in it)"
                raise UserError(f"{where}sources: folders: {outside}")
        for key in ("folders", "holding"):
            for text in source[key]:
                if len(os.fsencode(text)) > LONGEST or "\0" in text:
                    raise UserError(f"{where}sources: {key}: {reprlib.repr(text)} is no path (shorten it)")
        for pattern in source["holding"]:
            try:
                if ".." in Path(pattern).parts:
                    raise ValueError("it leads out of the folder")
                next(iter(Path(os.devnull).glob(pattern)), None)
            except (ValueError, NotImplementedError, IndexError) as problem:
                raise UserError(
                    f"{where}sources: holding: {reprlib.repr(pattern)} is no pattern of files: "
                    f"{str(problem).lower()} (such as '*.png')"
                ) from problem


def available(sources: Sequence[Origin], search: Sequence[Path]) -> bool:
    """Say whether a directory of `search` holds a data set, all of it or a part."""
    return any(place(Path(root), sources) for root in search)
