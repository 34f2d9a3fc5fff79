"""A run with other seeds: every seed of the experiments raised by one number, into a folder of its own."""

from leakbench.errors import UserError


def checked(seed: object) -> int | None:
    """Return what `--config seed=K` gives, or None where it is not given.

    Raises UserError where it is not a whole number of at least 0.
    """
    if seed is None or (type(seed) is int and seed >= 0):
        return seed
    raise UserError(
        f"--config seed={seed}: not a whole number of at least 0 (for example seed=1, or leave it out)"
    )


def run_name(scale: str, seed: int | None) -> str:
    """Return the name of a run's folders below results/ and logs/."""
    return scale if seed is None else f"{scale}-seed{seed}"
