"""Errors: the one that a user can cause, with its kinds, and the reason why a quantity was not measured."""

import errno
import os
from pathlib import Path

_FULL, _LOCKED = "free some space", "make the folder writable"
_CLOSED = "get the right to read and write there"
_LIMITED = "raise the limit on the size of files (ulimit -f)"
_UNWRITABLE = {
    errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EROFS: _LOCKED, errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED, errno.EFBIG: _LIMITED,
}  # fmt: skip


def escaped(text: str, kept: str = "") -> str:
    """Return `text` with unprintable characters, except those in `kept`, as escapes."""
    return "".join(c if c.isprintable() or c in kept else ascii(c)[1:-1] for c in text)


class UserError(Exception):
    """A mistake of the user, in one line: where (file and key), what, how to mend it.

    The command line prints the line without a traceback and exits with 2. Line breaks become spaces. Other
    unprintable characters that a stranger's file put into the message, such as a terminal's colours, are
    written as escapes.
    """

    def __init__(self, message: object) -> None:
        line = " ".join(part.strip() for part in str(message).splitlines())
        super().__init__(escaped(line))


class Altered(UserError):
    """A file that is not as it was written: cut short, malformed, or of other bytes than its own digest."""

    def __init__(self, path: Path, what: str, mend: str = "delete it and run its rule again") -> None:
        super().__init__(f"{path}: {what} ({mend})")
        self.path, self.what = Path(path), what


class Unwritable(UserError):
    """A place where nothing can be written: a full disk, missing rights or a limit on the size of files."""


class NotMeasured(Exception):
    """A quantity that nothing measured; its message is the reason that the scorecard prints."""


class Unfit(UserError):
    """An update that an attack cannot work on: the cell is marked with the reason and the rest goes on."""


def raise_unless_file(path: Path, what: str = "file", mend: str = "run the rule that writes it") -> None:
    """Raise UserError if there is no regular file at `path`. A pipe is refused, for a reader would wait."""
    if not os.path.exists(path):
        raise UserError(f"{path}: no such {what} ({mend})")
    if not os.path.isfile(path):
        article = "an" if what[0] in "aeiou" else "a"
        raise UserError(f"{path}: not a regular file (put {article} {what} in its place)")


def raise_if_unwritable(problem: Exception, path: Path) -> None:
    """Raise Unwritable if `path` met a full disk, missing rights or a limit on the size of files."""
    number = getattr(problem, "errno", None) or 0
    if number in _UNWRITABLE:
        where = getattr(problem, "filename", None) or path
        raise Unwritable(
            f"{where}: {os.strerror(number).lower()} ({_UNWRITABLE[number]}, then run the same command again)"
        ) from problem
