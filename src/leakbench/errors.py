"""The one error a user can cause."""


class UserError(Exception):
    """A mistake of the user, in one line: where (file and key), what, how to mend it.

    The command line prints it without a traceback and exits with 2.
    """


class Unfit(UserError):
    """An update that an attack cannot work on: the cell is marked with the reason and the rest goes on."""
