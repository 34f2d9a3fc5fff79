"""A night's fuzzing of the readers by coverage (atheris): `make fuzz`, or with the number of inputs as
`FUZZ=1000000`.

It ends with the traceback of the first input that a reader neither reads nor refuses, or that takes ten
seconds, and says where that input lies. At last it says how many of each kind were read.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import atheris

sys.path.append(str(Path(__file__).parents[1]))
with atheris.instrument_imports(include=["leakbench"]):
    import mutants

FOLDER = Path(tempfile.mkdtemp(prefix="leakbench-fuzz-"))
SOUND = mutants.seeds(FOLDER / "seeds")
NAMES = sorted(mutants.KINDS)
given: Counter[str] = Counter()
accepted: Counter[str] = Counter()
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000


def one(data: bytes) -> None:
    choices = mutants.Bytes(data)
    kind = NAMES[choices.number(len(NAMES))]
    given[kind] += 1
    accepted[kind] += not mutants.read(kind, mutants.mutant(choices, SOUND[kind]), FOLDER)
    # The fuzzer ends the process without Python's own end.
    if given.total() == RUNS:
        for kind in NAMES:
            print(f"{kind}: {given[kind]} inputs, {accepted[kind]} read", flush=True)
        print(f"{given.total()} inputs, {accepted.total()} read", flush=True)


if __name__ == "__main__":
    corpus = FOLDER / "corpus"
    corpus.mkdir()
    for number in range(len(NAMES) * 8):
        (corpus / str(number)).write_bytes(bytes([number % len(NAMES), number // len(NAMES), *range(60)]))
    options = ["-max_len=64", "-timeout=10", "-rss_limit_mb=4096", f"-artifact_prefix={FOLDER}/", str(corpus)]
    atheris.Setup([sys.argv[0], f"-runs={RUNS}", *options], one)
    atheris.Fuzz()
