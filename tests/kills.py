"""Kill processes of a run at random moments, run on, and hold its bytes to those of an undisturbed run.

    python tests/kills.py UNDISTURBED [--kills 20] [--seed 0] [--every 40] [--cores 2] [--grace 10] [TARGET …]

Works in the checkout that it is called in, UNDISTURBED is another one of the same commit on the same machine,
with its results. Each time kill -9 ends a process of one kind, --every seconds apart on average; then the run
goes on, from its beginning if it was over. Every other run has a parent that takes all orphans and waits for
none of them, as the first process of a container may. --grace seconds after Snakemake or the whole group was
killed (a busy machine needs more), nothing of the run may live.
Nothing that a clock tells is compared (`records`, and what is drawn or judged of them).
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from leakbench.base.artefacts import read_table, to_json
from leakbench.base.processes.process import alive
from leakbench.jobs.verify import TIMES, table_digest

# Of a socket that waits for callers, in /proc/net/unix.
_LISTENS = "00010000"
# Folders of results/<scale>.
COMPARED = (
    "captures", "exhibits", "generators", "guesses", "oracle", "scores", "studies", "tables", "trials",
    "truth", "victims",
)  # fmt: skip
IDENTICAL, DIFFERENT, MISSING, LEFT_OVER = "identical", "different", "missing", "left over"
# A job's own process; a fork that works for it, such as the sealed one of an attack; the process that jobs
# fork from, alone; Snakemake alone; Snakemake with all that it started, but for the warm process.
KINDS = ("job", "worker", "warm", "snakemake", "group")
_WARM, _JOB = "leakbench.jobs.warm_process", "-m leakbench "
# Takes all orphans of the run, and waits for them or for nobody. A shell writes how Snakemake ended.
_PARENT = """
import ctypes, os, signal, subprocess, sys
def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
ctypes.CDLL(None).prctl(36, 1)
if sys.argv[1] == "reaps": signal.signal(signal.SIGCHLD, reap)
subprocess.Popen(["sh", "-c", '"$@"; echo $? > kills.rc', "sh", *sys.argv[2:]], start_new_session=True)
while True: signal.pause()
"""


def listening() -> set[str]:
    """Return the Unix sockets that wait for callers, as links in /proc/<pid>/fd name them."""
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    return {f"socket:[{row[6]}]" for row in rows if row[3] == _LISTENS}


@dataclass
class Run:
    """A run of Snakemake at `root`, which goes on after every blow. Raises RuntimeError where it does not."""

    root: Path
    targets: Sequence[str]
    cores: int = 2
    # Seconds after which nothing of a killed run may be alive.
    grace: float = 10
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    struck: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    _parent: subprocess.Popen[bytes] | None = None

    def processes(self) -> dict[int, str]:
        """Return the command line of every process that works at the root or below it."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                ours = "snakemake" in words or "leakbench" in words
                if ours and (folder / "cwd").readlink().is_relative_to(self.root):
                    found[int(folder.name)] = words
        parent = self._parent.pid if self._parent else 0
        return {pid: words for pid, words in found.items() if pid != parent and "kills.py" not in words}

    def of_kind(self, kind: str) -> list[int]:
        """Return the processes that are of one kind now; of a group, its first."""
        running = self.processes()
        doors = listening()

        def generation(pid: int) -> int:
            """Return how many forks lie between a process and its command, or that one's fork for jobs."""
            with suppress(OSError):
                if {file.readlink().name for file in Path(f"/proc/{pid}/fd").iterdir()} & doors:
                    return 0
            with suppress(OSError):
                above = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
                return generation(above) + 1 if running.get(above) == running[pid] else 0
            return 0

        def filters(pid: int) -> int:
            """Return how many filters of system calls a process has."""
            with suppress(OSError, IndexError):
                return int(Path(f"/proc/{pid}/status").read_text().split("Seccomp_filters:")[1].split()[0])
            return 0

        found, own = [], filters(os.getpid())
        for pid, words in running.items():
            # A container may have given this process a filter.
            sealed = filters(pid) > own
            # Of a warm process's forks the first waits for the job, which is the second. An attack's is the
            # first, and the second is sealed. The second warm process is a fork of the first.
            forks = generation(pid) - 2 * (_WARM in words)
            match = {
                "job": forks == 0 and (_WARM in words or _JOB in words) and not sealed,
                "worker": (forks > 0 or sealed) and (_WARM in words or _JOB in words),
                "warm": forks == -2,
                "snakemake": "-m snakemake" in words and not words.startswith("sh "),
                "group": words.startswith("sh ") and "-m snakemake" in words,
            }
            found += [pid] if match[kind] else []
        return found

    def start(self) -> None:
        """Start Snakemake, where a killed one may have left its locks."""
        (self.root / "kills.rc").unlink(missing_ok=True)
        call = [sys.executable, "-m", "snakemake", "--cores", str(self.cores)]
        at = {"cwd": self.root, "env": self.environment, "stdin": subprocess.DEVNULL}
        with (self.root / "kills.log").open("ab") as log:
            if (self.root / ".snakemake/locks").is_dir():
                subprocess.run([*call, "--unlock"], **at, stdout=log, stderr=log, check=True)
            how = "reaps" if self.starts % 2 else "does not reap"
            words = [sys.executable, "-c", _PARENT, how, *call, *self.targets]
            self._parent = subprocess.Popen(words, **at, stdout=log, stderr=log)
        self.starts += 1

    def over(self) -> int | None:
        """Return how Snakemake ended, None while it runs."""
        with suppress(OSError, ValueError):
            return int((self.root / "kills.rc").read_text())
        return None

    def end(self) -> None:
        """See to it that nothing of the run is left, and end its parent."""
        stop = time.monotonic() + self.grace
        while left := {pid: words for pid, words in self.processes().items() if alive(pid)}:
            if time.monotonic() > stop:
                raise RuntimeError(f"{left} live {self.grace} s after their run has ended")
            time.sleep(0.1)
        assert self._parent is not None
        self._parent.kill()
        self._parent.wait()

    def strike(self, kind: str, rng: random.Random) -> bool:
        """Kill -9 a process of one kind, or a group, as soon as there is one; return whether there was before
        the run was over."""
        while self.over() is None:
            if found := self.of_kind(kind):
                with suppress(ProcessLookupError):
                    (os.killpg if kind == "group" else os.kill)(rng.choice(sorted(found)), signal.SIGKILL)
                    self.struck[kind] += 1
                    return True
            time.sleep(0.02)
        return False

    def disturb(self, kinds: Sequence[str], every: float, rng: random.Random) -> None:
        """Let a blow of each of `kinds` fall, `every` seconds apart on average; then run to the end."""
        left = list(kinds)
        self.start()
        while self.starts <= 3 * len(kinds) + 3:
            pause = time.monotonic() + rng.uniform(0, 2 * every) * bool(left)
            while time.monotonic() < pause and self.over() is None:
                time.sleep(0.02)
            if left and self.strike(left[0], rng):
                print(f"{sum(self.struck.values())}: kill -9 of {left[0]}", flush=True)
                if left.pop(0) not in ("snakemake", "group"):
                    continue
            elif self.over() is None:
                time.sleep(0.1)
                continue
            code = self.over()
            self.end()
            if code == 0 and not left:
                return
            if code == 0:
                shutil.rmtree(self.root / "results")
            self.start()
        raise RuntimeError(f"the run does not come to its end: see {self.root / 'kills.log'}")


def digest(path: Path) -> str:
    """Return the sha256 of a file, but for what a clock tells of it."""
    if path.suffix == ".csv":
        return table_digest(path)
    data = path.read_bytes()
    if path.suffix == ".parquet":
        rows, facts = read_table(path)
        data = rows.drop(columns=list(TIMES), errors="ignore").to_csv().encode() + to_json(facts).encode()
    return hashlib.sha256(data).hexdigest()


def digests(results: Path) -> dict[str, str]:
    """Return the digest of every file that is compared, by its path below `results`."""
    return {
        str(path.relative_to(results)): digest(path)
        for folder in COMPARED
        for path in sorted((results / folder).rglob("*"))
        if path.is_file()
    }


def compared(ours: Path, theirs: Path) -> dict[str, str]:
    """Return for each file of two checkouts' quick scale whether it is the same.

    Updates and guesses that are thrown away once scored may outlive a run that was killed in between.
    """
    own, other = (digests(root / "results" / "quick") for root in (ours, theirs))

    def word(path: str) -> str:
        if path not in other:
            return LEFT_OVER
        return MISSING if path not in own else IDENTICAL if own[path] == other[path] else DIFFERENT

    return {path: word(path) for path in own.keys() | other.keys()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("undisturbed", type=Path)
    parser.add_argument("targets", nargs="*", default=["report"])
    for name, default in (("kills", 20), ("seed", 0), ("every", 40.0), ("cores", 2), ("grace", 10.0)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    given = parser.parse_args()
    begin = time.monotonic()
    run = Run(Path.cwd(), given.targets, given.cores, given.grace)
    kinds = [KINDS[number % len(KINDS)] for number in range(given.kills)]
    run.disturb(kinds, given.every, random.Random(given.seed))
    told = compared(Path.cwd(), given.undisturbed)
    for (folder, word), count in sorted(Counter((p.split("/")[0], w) for p, w in told.items()).items()):
        print(f"{folder}: {count} {word}")
    different = sorted(path for path, word in told.items() if word in (DIFFERENT, MISSING))
    print(*(f"{told[path]}: {path}" for path in different), sep="\n")
    print(
        f"{sum(run.struck.values())} kills, {run.starts} runs, {time.monotonic() - begin:.0f} s, "
        f"{len(told)} files, {len(different)} different"
    )
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
