"""A limit of time on a block that somebody else's code may fill, and that swallows no exception."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# No alarm cuts these functions short: a module would stay half imported, and what a context changed
# (gradients, modes and levels of torch, modules that torch.fx traces) would never be put back.
WHOLE = {"_find_and_load", "__enter__", "__exit__"}
# Seconds after which an alarm that rang within such a function rings again.
SOON = 0.01
# Seconds after which every alarm rings again. Python ignores an exception that is raised while an object is
# deleted.
AGAIN = 1.0
# In seconds: nothing is started with a smaller share of the budget.
LEAST = 1e-3


class OutOfTime(BaseException):
    """A share of the budget is spent. It is no Exception, because libraries and torch catch those."""


def _whole(frame: FrameType | None) -> int:
    count = 0
    while frame is not None:
        count += frame.f_code.co_name in WHOLE
        frame = frame.f_back
    return count


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the block after `seconds`, or before the block if no time is left."""
    # Outside of the main thread, a block that has begun has no limit.

    # With so little time, the block might end before an alarm that rang too early rings again.
    if seconds <= LEAST:
        raise OutOfTime
    # The third frame is the block's. The two before it are of this context, which has an __enter__ too.
    before_it = _whole(sys._getframe(2))

    def unraisable(told: "sys.UnraisableHookArgs") -> None:
        # An alarm that rang within a destructor is lost there, and the next one rings soon.
        if not isinstance(told.exc_value, OutOfTime):
            reported(told)

    def ring(_: int, frame: FrameType | None) -> None:
        if _whole(frame) > before_it:
            signal.setitimer(signal.ITIMER_REAL, SOON, AGAIN)
        else:
            raise OutOfTime

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    reported, sys.unraisablehook = sys.unraisablehook, unraisable
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = reported
        signal.signal(signal.SIGALRM, before)
