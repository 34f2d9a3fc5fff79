"""A real Slurm of one node on this machine: munged, slurmctld and slurmd, started and ended by their process
numbers.

    SYSTEM=yes python tests/slurm/cluster.py      serves one until Ctrl-C, to try profiles/slurm by hand

Needs root and Debian's slurm-wlm and munge. Its GPUs are stand-ins (/dev/null, /dev/zero): Slurm counts them
out, no job can use one. The configuration lies in /etc/slurm, since Slurm's commands find no other one in a
job; one that somebody else has put there is never touched.
"""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ETC = Path("/etc/slurm")
MARK = "# Made by leakbench's tests/slurm/cluster.py; removed when they end.\n"
CONFIGURATION = ("slurm.conf", "gres.conf")
DAEMONS = ("munged", "slurmctld", "slurmd")
# Slurm wants a device file for each; these every machine has.
GPUS = ("/dev/null", "/dev/zero")


def why_not() -> str:
    """Return why no Slurm can be started here; empty if one can."""
    if os.environ.get("SYSTEM") != "yes" and not os.environ.get("CI"):
        return "it writes to /etc/slurm, so it runs where that is asked for (make test SYSTEM=yes)"
    missing = [name for name in (*DAEMONS, "sbatch") if _programme(name) is None]
    if missing:
        return f"no {', '.join(missing)} on this machine (Debian: apt-get install slurm-wlm munge)"
    if os.getuid() != 0:
        return "Slurm's daemons need root"
    files = [ETC / name for name in CONFIGURATION]
    foreign = [str(file) for file in files if file.exists() and not file.read_text().startswith(MARK)]
    return f"{', '.join(foreign)}: another Slurm's" if foreign else ""


def _programme(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def slurm() -> Iterator[Path]:
    """Run a cluster of one node and two stand-in GPUs for the block; yield the folder of its logs."""
    # Its lock: a machine has one /etc/slurm.
    with Path("/run/lock/leakbench-slurm").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = Path(tempfile.mkdtemp(prefix="leakbench-slurm-"))
        folder.chmod(0o755)
        running: list[subprocess.Popen[bytes]] = []
        try:
            _configure(folder)
            secret = folder / "munge.key"
            secret.write_bytes(os.urandom(128))
            secret.chmod(0o400)
            named = {what: f"--{what}-file={folder}/munged.{what}" for what in ("pid", "log", "seed")}
            running.append(
                _start(folder, "munged", "--foreground", "--force", f"--key-file={secret}",
                       f"--socket={folder}/munge.socket", *named.values())
            )  # fmt: skip
            _until((folder / "munge.socket").exists, running, folder)
            # -c: nothing of an earlier cluster is taken over.
            running.append(_start(folder, "slurmctld", "-D", "-c"))
            running.append(_start(folder, "slurmd", "-D"))
            _until(_idle, running, folder)
            yield folder
        finally:
            # What still runs of its jobs goes first; the daemons would leave it behind.
            with suppress(subprocess.SubprocessError):
                subprocess.run(["scancel", "--signal=KILL", "--user=root"], capture_output=True, timeout=10)
            for daemon in reversed(running):
                daemon.terminate()
                try:
                    daemon.wait(5)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
            _end_steps(folder)
            for name in CONFIGURATION:
                (ETC / name).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    programme = _programme(name)
    assert programme is not None
    with (folder / f"{name}.out").open("wb") as out:
        return subprocess.Popen([programme, *arguments], stdout=out, stderr=out, stdin=subprocess.DEVNULL)


def _configure(folder: Path) -> None:
    host = socket.gethostname().partition(".")[0]
    control, node = _free_ports(2)
    ETC.mkdir(exist_ok=True)
    (ETC / "gres.conf").write_text(
        MARK + "".join(f"NodeName={host} Name=gpu File={device}\n" for device in GPUS)
    )
    (ETC / "slurm.conf").write_text(
        f"""{MARK}ClusterName=leakbench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
ReturnToService=2
KillWait=2
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=64000 Gres=gpu:{len(GPUS)} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
    )
    for name in ("state", "spool"):
        (folder / name).mkdir()


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for door in held:
        door.bind(("127.0.0.1", 0))
    ports = [door.getsockname()[1] for door in held]
    for door in held:
        door.close()
    return ports


def _idle() -> bool:
    done = subprocess.run(
        ["sinfo", "--noheader", "--format=%T"], capture_output=True, text=True, timeout=10, check=False
    )
    return done.returncode == 0 and done.stdout.strip() == "idle"


def _until(condition: Callable[[], bool], running: list[subprocess.Popen[bytes]], folder: Path) -> None:
    """Wait until `condition()` holds, 30 seconds at most; raise RuntimeError with the logs if it does not."""
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end or any(daemon.poll() is not None for daemon in running):
            logs = "\n".join(
                path.read_text(errors="replace")[-1500:] for path in folder.glob("*.[lo][ou][gt]")
            )
            raise RuntimeError(f"Slurm did not start:\n{logs}")
        time.sleep(0.1)


def _end_steps(folder: Path) -> None:
    """Kill processes of job steps that outlived their slurmd, by this cluster's spool in their arguments."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and str(folder / "spool").encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


if __name__ == "__main__":
    if reason := why_not():
        raise SystemExit(reason)
    with slurm() as logs, suppress(KeyboardInterrupt):
        print(f"one node, {len(GPUS)} stand-in GPUs, logs in {logs}; Ctrl-C ends it")
        signal.pause()
