"""No defence: the client sends its update as it is."""

from leakbench.defences import Defence


def none() -> Defence:
    """Return the defence that does nothing."""
    return Defence()
