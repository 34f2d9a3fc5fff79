"""A Flower network on this machine: a SuperLink and its SuperNodes as processes, or a simulation."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
BIN = HERE.parents[1] / ".flower/bin"
HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


@contextmanager
def _started(folder: Path, commands: Sequence[Sequence[str]], own: dict[str, str]) -> Iterator[None]:
    """Run commands in sessions of their own, which end with the block: they start further processes."""
    processes = []
    try:
        for number, words in enumerate(commands):
            with (folder / f"process-{number}.log").open("w") as log:
                own_words = [str(BIN / words[0]), *words[1:]]
                processes.append(
                    subprocess.Popen(
                        own_words, cwd=folder, env=own, stdout=log, stderr=log, start_new_session=True
                    )
                )
            if not number:
                _wait(int(words[words.index("--port") + 1]))
        yield
    finally:
        for process in processes:
            os.killpg(process.pid, 9)
            process.wait()


def _wait(port: int, seconds: float = 120) -> None:
    """Return when somebody listens at a port. Raises OSError if nobody does."""
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection((HOST, port), 1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def play(folder: Path, clients: int, config: str, simulated: bool) -> subprocess.CompletedProcess[str]:
    """Run the app of `app/` to its end: in a simulation, or with one SuperNode for each of its clients."""
    port = free_port()
    (folder / "home").mkdir()
    (folder / "home/config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{HOST}:{port}"\ninsecure = true\n'
    )
    own = os.environ | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "FLWR_HOME": str(folder / "home"),
        "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0",
    }  # fmt: skip
    own.pop("PYTHONPATH", None)
    link = ["flower-superlink", "--insecure", "--disable-runtime-dependency-installation"]
    commands = [[*link, "--port", str(port), *(["--simulation"] if simulated else [])]]
    for client in range(0 if simulated else clients):
        node = ["flower-supernode", "--insecure", "--superlink", f"{HOST}:{port}", "--port", str(free_port())]
        commands.append([*node, "--node-config", f"partition-id={client} num-partitions={clients}"])
    run = [str(BIN / "flwr"), "run", str(HERE / "app"), "here", "--stream", "--run-config", config]
    if simulated:
        run += ["--federation-config", f"num-supernodes={clients} client-resources-num-cpus=1"]
    with _started(folder, commands, own):
        return subprocess.run(
            run, cwd=folder, env=own, capture_output=True, text=True, timeout=400, check=False
        )
