"""Leases of GPUs: jobs of one machine that ask for `cuda` never share a device by accident.

A lease is a lock on a file that stands for the device. The system releases the lock when its process ends,
however it ends.
"""

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from leakbench.base.errors import UserError
from leakbench.base.progress import log

FOLDER = Path(tempfile.gettempdir()) / "leakbench-gpus"
POLL_SECONDS = 0.5


def present() -> list[str]:
    """Return a name for each GPU that this process sees, in torch's order."""
    import torch

    own = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [str(getattr(device, "uuid", number)) for number, device in enumerate(own)]


@contextmanager
def leased(device: str, names: Callable[[], Sequence[str]] = present, folder: Path = FOLDER) -> Iterator[str]:
    """Yield the device to compute on, and hold its lease meanwhile."""
    # `cuda` gets the first GPU that no other job holds, and waits for one if all are held. A caller who gives
    # a number has chosen a GPU and does not wait, but holds its lease if the GPU is free. `cpu` takes no
    # lease. Raises UserError if there is no GPU, or none of that number.
    if device == "cpu":
        yield device
        return
    there = names()
    number = int(device.partition(":")[2] or 0)
    if number >= len(there):
        raise UserError(
            f"--device {device}: torch finds {f'{len(there)} CUDA devices' if there else 'no CUDA device'} "
            f"(leave it out, or check the driver)"
        )
    asked = [number] if ":" in device else list(range(len(there)))
    files = {index: _open(folder, there[index]) for index in asked}
    try:
        held = next(filter(lambda index: _lock(files[index]), asked), None)
        if held is None and ":" in device:
            log(f"--device {device}: another job computes there too")
            held = number
        elif held is None:
            log(f"--device {device}: all {len(there)} are leased, waiting for one")
        while held is None:
            time.sleep(POLL_SECONDS)
            held = next(filter(lambda index: _lock(files[index]), asked), None)
        yield f"cuda:{held}"
    finally:
        for file in files.values():
            os.close(file)


def _open(folder: Path, name: str) -> int:
    """Return a descriptor of the file that stands for a device; any user of the machine may lock it."""
    with suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o1777)
    path = folder / re.sub("[^A-Za-z0-9-]", "_", name)
    with suppress(FileExistsError):
        made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY)
        # The rights must not depend on the umask of the user who comes first.
        os.fchmod(made, 0o644)
        os.close(made)
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
