"""Kill processes of a whole run at random moments, run on, and hold its bytes to those of a run that nobody
disturbed.

    python tests/pipeline/kills.py UNDISTURBED [--kills 20] [--seed 0] [--every 40]

Works in the checkout that it is called in, UNDISTURBED is another one of the same commit on the same machine,
with its results. Each time it is one process of a job, Snakemake, the warm process, or every process of the
run that kill -9 ends; then `make reproduce` again. Ten seconds after the last two kinds and after Snakemake
nothing of the run may be alive. Nothing that a clock tells is compared (`records`, and what is
drawn or judged of them).
"""

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from leakbench.artefacts import read_table, to_json
from leakbench.process import alive
from leakbench.verbs.verify import TIMES, table_digest

# Folders of results/<scale>.
COMPARED = (
    "captures", "exhibits", "generators", "guesses", "oracle", "scores", "studies", "tables", "trials",
    "truth", "victims",
)  # fmt: skip
IDENTICAL, DIFFERENT, MISSING, LEFT_OVER = "identical", "different", "missing", "left over"
ROOT = Path.cwd()


def processes() -> dict[int, str]:
    """Return the command line of every process that works in this checkout, but for this one and `make`."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            if (folder / "cwd").readlink() == ROOT and ("snakemake" in words or "leakbench" in words):
                found[int(folder.name)] = words
        except OSError:
            continue
    return {pid: words for pid, words in found.items() if pid != os.getpid() and "kills.py" not in words}


def kill(kind: str, rng: random.Random) -> int:
    """Kill -9 what `kind` says; return how many processes that was."""
    running = processes()
    main = [pid for pid, words in running.items() if "snakemake --cores" in words]
    jobs = [pid for pid, words in running.items() if "-m leakbench" in words]
    warm = [pid for pid, words in running.items() if "leakbench.warm_process" in words]
    one = rng.sample(sorted(jobs), min(1, len(jobs)))
    # The warm process is the one that was first; the others are its jobs.
    struck = {"job": one, "snakemake": main, "warm": sorted(warm)[:1], "all": [*running]}[kind]
    for pid in struck:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return len(struck)


def gone_within(seconds: float) -> None:
    """Raise RuntimeError if processes of the run are alive for longer. A zombie is not."""
    end = time.monotonic() + seconds
    while left := [pid for pid in processes() if alive(pid)]:
        if time.monotonic() > end:
            raise RuntimeError(f"processes {left} live {seconds} s after their run was killed")
        time.sleep(0.2)


def reproduce(log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        # A killed Snakemake leaves its locks.
        if Path(".snakemake").is_dir():
            subprocess.run([".venv/bin/snakemake", "--unlock"], stdout=out, stderr=out, check=True)
        return subprocess.Popen(["make", "reproduce"], stdout=out, stderr=out, stdin=subprocess.DEVNULL)


def disturb(kills: int, every: float, rng: random.Random, log: Path) -> None:
    """Run on until `kills` blows have fallen, then to the end. Raises RuntimeError if the run does not come
    to it."""
    run = reproduce(log)
    fallen = 0
    kinds = ["job", "snakemake", "warm", "all"]
    while fallen < kills:
        try:
            code = run.wait(rng.uniform(2, 2 * every))
        except subprocess.TimeoutExpired:
            kind = kinds[fallen % len(kinds)]
            count = kill(kind, rng)
            fallen += count > 0
            print(f"{fallen}: kill -9 of {kind}, {count} processes", flush=True)
            if kind in ("snakemake", "all") and count:
                run.wait()
                gone_within(10)
                run = reproduce(log)
        else:
            if code == 0:
                raise RuntimeError(f"the run was over after {fallen} kills: lower --every")
            run = reproduce(log)
    for _ in range(3):
        if run.wait() == 0:
            return
        run = reproduce(log)
    raise RuntimeError(f"the run does not come to its end: see {log}")


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


def _word(ours: str | None, theirs: str | None) -> str:
    # Updates and guesses that are thrown away once they are scored may outlive a run that was killed in
    # between.
    if theirs is None:
        return LEFT_OVER
    return MISSING if ours is None else IDENTICAL if ours == theirs else DIFFERENT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("undisturbed", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=40, help="seconds between blows, on average")
    given = parser.parse_args()
    begin = time.monotonic()
    disturb(given.kills, given.every, random.Random(given.seed), Path("kills.log"))
    ours, theirs = (digests(root / "results" / "quick") for root in (ROOT, given.undisturbed))
    told = {path: _word(ours.get(path), theirs.get(path)) for path in ours.keys() | theirs.keys()}
    for (folder, word), count in sorted(Counter((p.split("/")[0], w) for p, w in told.items()).items()):
        print(f"{folder}: {count} {word}")
    different = sorted(path for path, word in told.items() if word in (DIFFERENT, MISSING))
    print(*(f"{told[path]}: {path}" for path in different), sep="\n")
    print(
        f"{given.kills} kills, {time.monotonic() - begin:.0f} s, {len(told)} files, {len(different)} "
        "different"
    )
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
