"""A sample of an experiment by the code of an earlier commit and by today's, cut short, on the same machine.

Both programs train the sample's networks for an epoch, play its capture, run its attacks for a few
iterations, score them and make the table. Where every file has the same contents, every operation of the two
runs gave the same bits. A change that leaves the bits of a few iterations leaves those of many, since all
iterations run the same code.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leakbench.artefacts import read_table, read_tensors, to_json, write_text
from leakbench.catalogue.cell import capture_of
from leakbench.catalogue.code import PACKAGE
from leakbench.catalogue.program import unpack
from leakbench.catalogue.workflow import Workflow
from leakbench.errors import UserError
from leakbench.process import OWNER

# The number of rounds on which the null baseline runs.
NULL_ROUNDS = 2
Spec = dict[str, Any]


def specs_of(flow: Workflow, cells: Sequence[str]) -> dict[str, Spec]:
    """Return the specs of what both programs run for a sample: name → spec.

    The score is that of the sample's attacks alone, and asks the judges of these attacks alone.

    flow: the workflow of the sample's run.
    cells: the path stems of the sample's cells, which attack the same capture.
    """
    capture = capture_of(cells[0])
    dataset, victim, *_, seed = capture.split("/")
    score = flow.plan.spec(f"score/{capture}")
    meant = {cell.split("/")[-2] for cell in cells}
    attacks = {name: entry for name, entry in score["attacks"].items() if name in meant}
    judges = [name for name in score["judges"] if any(name in each["judges"] for each in attacks.values())]
    names = [f"train/{dataset}/{name}/{seed}" for name in (victim, *judges)]
    names += [f"capture/{capture}", *(f"attack/{cell}" for cell in cells)]
    found = {name: flow.plan.spec(name) for name in names}
    return found | {f"score/{capture}": score | {"attacks": attacks, "judges": judges}}


def inputs_of(flow: Workflow, cells: Sequence[str]) -> list[str]:
    """Return the files that both programs read and neither makes, relative to the checkout.

    These are the data set, the networks fully trained, and what metrics load.

    flow: the workflow of the sample's run.
    cells: as in `specs_of`.
    """
    networks = [name for name in specs_of(flow, cells) if name.startswith("train/")]
    found = [_data(flow, cells), *(_network(flow, name) for name in networks)]
    found += flow.backbones(capture_of(cells[0]))
    return [*found, *dict.fromkeys(path for cell in cells for path in flow.generator(cell))]


def differing(
    flow: Workflow, experiment: str, samples: Sequence[Sequence[str]], commit: str, iterations: int
) -> list[str]:
    """Return what has other contents by the code of a commit than by today's, of the first sample with such.

    flow: the workflow of the samples' run.
    experiment: the experiment whose table is made.
    samples: the cells of each sample, as in `specs_of`.
    commit: the commit.
    iterations: the number of iterations at most.

    Raises UserError if an input is missing, or one of the two programs ends with an error.
    """
    for name in (name for cells in samples for name in inputs_of(flow, cells)):
        if not (flow.root / name).is_file():
            raise UserError(f"{flow.root / name}: missing (run `make verify-recorded`, which makes it first)")
    with tempfile.TemporaryDirectory() as folder, _program(PACKAGE.parent) as today:
        then = Path(folder) / "then"
        unpack(commit, then / "leakbench")
        with _program(then) as earlier:
            for cells in samples:
                # What a sample made may be large, so it goes before the next one is made.
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    now, before = (
                        _contents(program, Path(own) / name, flow, experiment, cells, iterations)
                        for name, program in (("now", today), ("before", earlier))
                    )
                if apart := [name for name in now if before.get(name) != now[name]]:
                    return apart
    return []


@contextmanager
def _program(code: Path) -> Iterator[dict[str, str]]:
    """Yield the environment in which the package below `code` runs.

    Its jobs belong to one run, so that they fork from a warm process of this program (`leakbench.warm`). The
    owner of the run is a process that ends when its input is closed, so at the latest with this one.
    """
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE) as owner:
        yield os.environ | {"PYTHONPATH": str(code), OWNER: str(owner.pid)}


def _contents(
    program: dict[str, str],
    folder: Path,
    flow: Workflow,
    experiment: str,
    cells: Sequence[str],
    iterations: int,
) -> dict[str, Any]:
    """Return name → contents of everything that a program makes of a sample."""
    made: dict[str, Any] = {}
    data, root = flow.root.resolve() / _data(flow, cells), flow.root.resolve()
    specs = specs_of(flow, cells)

    def run(name: str, given: dict[str, Any]) -> None:
        place = folder / f"specs/{name}.json"
        write_text(place, to_json(_shortened(specs[name], iterations)))
        _run(program, folder, name.partition("/")[0], {"spec": place} | given)

    networks = [name for name in specs if name.startswith("train/")]
    for name in networks:
        if specs[name]["victim"]["training"]:
            run(name, {"data": data, "out": folder / "network.safetensors"})
            made[name] = _tensors(folder / "network.safetensors")
    victim, *judges = (root / _network(flow, name) for name in networks)
    capture, truth, oracle = (folder / f"{name}.safetensors" for name in ("capture", "truth", "oracle"))
    scores, lines, trials = (folder / name for name in ("scores.parquet", "table.csv", "trials.parquet"))
    home = capture_of(cells[0])
    given: dict[str, Any] = {"data": data, "victim": victim}
    run(f"capture/{home}", given | {"out": capture, "oracle": oracle, "truth": truth})
    made |= {f"capture/{home}": _tensors(capture), "truth": _tensors(truth)}
    guesses = {}
    for cell in cells:
        name = cell.split("/")[-2]
        guesses[name] = folder / f"guesses/{name}.safetensors"
        asked: dict[str, Any] = {"capture": capture, "out": guesses[name]}
        asked |= {"generator": [root / path for path in flow.generator(cell)]}
        run(f"attack/{cell}", asked | {"labels": [oracle] if flow.oracle(cell) else []})
        made[f"attack/{cell}"] = _tensors(guesses[name])
    given |= {"guesses": [guesses[name] for name in specs[f"score/{home}"]["attacks"]], "truth": truth}
    given |= {"backbones": [root / path for path in flow.backbones(home)]}
    run(f"score/{home}", given | {"judges": judges, "out": scores})
    table = flow.plan.spec(f"table/{experiment}")
    # Earlier tables need a score for each metric, and a sample may have none of some.
    scored = read_table(scores)[0].columns
    metrics = [name for name in table["experiment"]["metrics"] if name in scored]
    of_sample = table["experiment"] | {"metrics": metrics, "exhibit": None}
    specs["table"] = table | {"cells": list(cells), "experiment": of_sample}
    run(
        "table", {"scores": scores, "out": lines, "trials": trials, "exhibit": folder / "exhibit.safetensors"}
    )
    return made | {"table": lines.read_text(), "trials": read_table(trials)[0].to_csv()}


def _data(flow: Workflow, cells: Sequence[str]) -> str:
    return f"data/{cells[0].partition('/')[0]}.safetensors"


def _network(flow: Workflow, name: str) -> str:
    return f"{flow.results}/victims/{name.removeprefix('train/')}.safetensors"


def _shortened(spec: Spec, iterations: int) -> Spec:
    """Return a spec with fewer iterations of an attack, or one epoch of a training."""
    if "attack" in spec:
        parameters = spec["attack"]["parameters"]
        if "iterations" in parameters:
            parameters = parameters | {"iterations": min(iterations, parameters["iterations"])}
        attack = spec["attack"] | {"parameters": parameters}
        return spec | {"attack": attack, "null_rounds": min(spec["null_rounds"], NULL_ROUNDS)}
    if "victim" in spec and spec["victim"].get("training"):
        training = spec["victim"]["training"] | {"epochs": 1, "checkpoints": [1]}
        return spec | {"victim": spec["victim"] | {"training": training}}
    return spec


def _run(program: dict[str, str], folder: Path, verb: str, given: dict[str, Any]) -> None:
    """Run a verb of a program.

    Raises UserError if the verb ends with an error.
    """
    call = [sys.executable, "-m", "leakbench", verb]
    for name, value in given.items():
        paths = value if isinstance(value, list) else [value]
        call += [f"--{name}", *map(str, paths)] if paths else []
    done = subprocess.run(call, env=program, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        code = program["PYTHONPATH"]
        raise UserError(f"{given['spec']}: the {verb} ended with an error by the code below {code} ({last})")


def _tensors(path: Path) -> dict[str, bytes]:
    """Return name → bytes of the tensors in a file."""
    return {name: value.tobytes() for name, value in read_tensors(path)[0].items()}
