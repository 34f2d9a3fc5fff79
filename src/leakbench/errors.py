"""The one error a user can cause."""


class UserError(Exception):
    """A mistake of the user, in one line: where (file and key), what, how to mend it.

    The command line prints it without a traceback and exits with 2.
    """
