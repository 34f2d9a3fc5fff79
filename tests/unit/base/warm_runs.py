"""A run of jobs around a warm process: its owner, its socket, its clients."""

import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leakbench.base.processes import process, warm
from leakbench.base.processes.process import OWNER

SOURCE = Path(warm.__file__).parents[3]
# What a job does is the Python that it is given, behind the verb if it is one that works apart.
SERVER = """
import sys
from pathlib import Path
from leakbench.jobs.warm_process import APART, serve
def run(argv):
    argv = argv[argv[0] == APART:]
    exec(argv[0], {"argv": argv})
    return 0
serve(int(sys.argv[1]), Path(sys.argv[2]), run, [])
"""
CLIENT = """
import sys
from leakbench.base.processes.warm import run_warm
code = run_warm(sys.argv[1:])
if code is None:
    print("cold")
    code = 99
sys.exit(code)
"""


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class Run:
    """A run of jobs: a process that owns it, a short folder for its socket, and clients of it."""

    def __init__(self) -> None:
        # A socket's address has room for some hundred letters, which a test's own folder may exceed.
        self.temporary = Path(tempfile.mkdtemp(prefix="lb"))
        self.owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.server: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        return self.temporary / process.place_of_the_run(self.owner.pid).name

    @property
    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if name not in process._CONTAINERS}
        paths = {"TMPDIR": str(self.temporary), "PYTHONPATH": str(SOURCE)}
        return own | paths | {OWNER: str(self.owner.pid)}

    def serve(self) -> None:
        """Start a warm process whose jobs are Python."""
        self.folder.mkdir(mode=0o700)
        command = [sys.executable, "-c", SERVER, str(self.owner.pid), str(self.folder / "socket")]
        self.server = subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL)
        until(self.ready)

    def ready(self) -> bool:
        return self.peer() is not None

    def peer(self) -> int | None:
        with socket.socket(socket.AF_UNIX) as door:
            try:
                door.connect(str(self.folder / "socket"))
            except OSError:
                return None
            credentials = door.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])

    def client(self, code: str, *words: str, **options: Any) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        options = {"env": self.environment, "text": True} | options
        command = [sys.executable, "-c", CLIENT, code, *words]
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, **options)

    def leakbench(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "leakbench", *words]
        environment = {n: v for n, v in (self.environment | changes).items() if v}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def end(self) -> None:
        if self.owner.poll() is None:
            self.owner.communicate(b"\n")
        if self.server is not None:
            # It would end by itself, up to a second later.
            self.server.kill()
            self.server.wait(timeout=30)
        until(lambda: self.peer() is None)
        shutil.rmtree(self.temporary)
