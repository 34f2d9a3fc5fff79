"""A sample of an experiment, cut short: what a program must run for it, what it reads, and what it makes.

A sample is the attacks on one capture, or a training study.
"""

import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leakbench.artefacts import read_table, read_tensors, to_json, write_text
from leakbench.catalogue.cell import capture_of
from leakbench.catalogue.workflow import Workflow
from leakbench.errors import UserError

# The number of rounds on which the null baseline runs.
NULL_ROUNDS = 2
# The number of rounds of a study. A learning rate that falls, falls after the first of them.
ROUNDS = 4
# What a study is said to have cost, by both programs, since its table shows it.
COST = {"verb": "train", "seconds": 1, "seconds_per_round": 1}
# The facts that say which code made a file.
CODE = ("code", "versions")
Spec = dict[str, Any]


class Run(NamedTuple):
    """A run of one sample by one program, cut short.

    program: the environment in which the program runs.
    folder: a folder for what it makes.
    iterations: the number of iterations of an attack at most.
    """

    program: dict[str, str]
    folder: Path
    iterations: int

    def job(self, name: str, spec: Spec, given: dict[str, Any]) -> None:
        """Run the job that a spec describes, cut short.

        name: the name of the spec.
        spec: the spec.
        given: the job's files, by the names of the verb's options.

        Raises UserError if the job ends with an error.
        """
        place, kind = self.folder / f"specs/{name}.json", name.partition("/")[0]
        write_text(place, to_json(shortened(spec, self.iterations)))
        verb = "train" if kind in ("generator", "study") else kind
        call = [sys.executable, "-m", "leakbench", verb, "--spec", str(place)]
        for option, value in given.items():
            paths = value if isinstance(value, list) else [value]
            call += [f"--{option}", *map(str, paths)] if paths else []
        done = subprocess.run(call, env=self.program, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2]
            code = self.program["PYTHONPATH"]
            raise UserError(f"{place}: the {verb} ended with an error by the code below {code} ({last})")


def specs_of(flow: Workflow, cells: Sequence[str]) -> dict[str, Spec]:
    """Return the specs of what a program runs for a sample of attacks: name → spec.

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
    names += filter(None, dict.fromkeys(map(flow.plan.generator, cells)))
    names += [f"capture/{capture}", *(f"attack/{cell}" for cell in cells)]
    found = {name: flow.plan.spec(name) for name in names}
    return found | {f"score/{capture}": score | {"attacks": attacks, "judges": judges}}


def inputs_of(flow: Workflow, experiment: str, sample: Sequence[str]) -> list[str]:
    """Return the files that a program reads for a sample and does not make, relative to the checkout.

    These are the data sets, the networks and generators fully trained, and what metrics load.

    flow: the workflow of the sample's run.
    experiment: the experiment that the sample is of.
    sample: the path stems of the cells that attack one capture, or that of a study.
    """
    if _trains(flow, experiment):
        return [_data(sample[0]), *flow.further(sample[0])]
    specs = specs_of(flow, sample)
    found = [_data(sample[0]), *(_network(flow, name) for name in _of_kind("train", specs))]
    found += flow.backbones(capture_of(sample[0]))
    for name in _of_kind("generator", specs):
        found += [each for files in _behind(flow, name).values() for each in files]
    return [*dict.fromkeys([*found, *(path for cell in sample for path in flow.generator(cell))])]


def made_of(
    run: Run, flow: Workflow, experiment: str, sample: Sequence[str], known: Collection[str] = ()
) -> dict[str, Any]:
    """Return name → contents of everything that a program makes of a sample.

    run: the program, and where and how long it runs.
    flow: the workflow of the sample's run.
    experiment: the experiment that the sample is of.
    sample: as in `inputs_of`.
    known: names of networks and generators that are not trained, since an earlier sample had them.

    Raises UserError if the program ends with an error.
    """
    if _trains(flow, experiment):
        made, table, given = _of_study(run, flow, sample[0])
    else:
        made, table, given = _of_attacks(run, flow, experiment, sample)
        made |= _trained(run, flow, sample, known)
    lines, trials, exhibit = (run.folder / n for n in ("table.csv", "trials.parquet", "exhibit.safetensors"))
    of_sample = flow.plan.spec(f"table/{experiment}") | table
    run.job("table", of_sample, given | {"out": lines, "trials": trials, "exhibit": exhibit})
    made |= {"table": lines.read_text(), "trials": read_table(trials)[0].to_csv()}
    return made | {"exhibit": _tensors(exhibit)}


def _trained(run: Run, flow: Workflow, cells: Sequence[str], known: Collection[str]) -> dict[str, Any]:
    """Train the networks and generators of a sample of attacks for an epoch, and return what they have."""
    made, specs, root = {}, specs_of(flow, cells), flow.root.resolve()
    behind = {
        n: {"data": [_data(cells[0])]} for n in _of_kind("train", specs) if specs[n]["victim"]["training"]
    }
    behind |= {name: _behind(flow, name) for name in _of_kind("generator", specs)}
    out = run.folder / "network.safetensors"
    for name in (name for name in behind if name not in known):
        given = {option: [root / each for each in files] for option, files in behind[name].items()}
        run.job(name, specs[name], given | {"out": out})
        made[name] = _tensors(out)
    return made


def _of_attacks(
    run: Run, flow: Workflow, experiment: str, cells: Sequence[str]
) -> tuple[dict[str, Any], Spec, dict[str, Any]]:
    """Run a sample of attacks up to their scores.

    Returns what it makes, what the spec of the sample's table has of its own, and the table's inputs.
    """
    root, folder = flow.root.resolve(), run.folder
    data, specs = root / _data(cells[0]), specs_of(flow, cells)
    victim, *judges = (root / _network(flow, name) for name in _of_kind("train", specs))
    capture, truth, oracle = (folder / f"{name}.safetensors" for name in ("capture", "truth", "oracle"))
    scores, home = folder / "scores.parquet", capture_of(cells[0])
    given: dict[str, Any] = {"data": data, "victim": victim}
    name = f"capture/{home}"
    run.job(name, specs[name], given | {"out": capture, "oracle": oracle, "truth": truth})
    made: dict[str, Any] = {name: _tensors(capture), "truth": _tensors(truth)}
    guesses = {}
    for cell in cells:
        name, attack = f"attack/{cell}", cell.split("/")[-2]
        guesses[attack] = folder / f"guesses/{attack}.safetensors"
        asked: dict[str, Any] = {"capture": capture, "out": guesses[attack]}
        asked |= {"generator": [root / path for path in flow.generator(cell)]}
        run.job(name, specs[name], asked | {"labels": [oracle] if flow.oracle(cell) else []})
        made[name] = _tensors(guesses[attack])
    name = f"score/{home}"
    given |= {"guesses": [guesses[attack] for attack in specs[name]["attacks"]], "truth": truth}
    given |= {"backbones": [root / path for path in flow.backbones(home)]}
    run.job(name, specs[name], given | {"judges": judges, "out": scores})
    # Earlier tables need a score for each metric, and a sample may have none of some.
    scored = read_table(scores)[0].columns
    of_all = flow.plan.spec(f"table/{experiment}")["experiment"]
    metrics = [name for name in of_all["metrics"] if name in scored]
    of_sample = of_all | {"metrics": metrics, "exhibit": None}
    return made, {"cells": list(cells), "experiment": of_sample}, {"scores": scores}


def _of_study(run: Run, flow: Workflow, stem: str) -> tuple[dict[str, Any], Spec, dict[str, Any]]:
    """Run a study. Returns as `_of_attacks` does."""
    root, name = flow.root.resolve(), f"study/{stem}"
    study, cost = run.folder / "study.parquet", run.folder / "cost.json"
    further = [root / path for path in flow.further(stem)]
    run.job(name, flow.plan.spec(name), {"data": root / _data(stem), "further": further, "out": study})
    write_text(cost, to_json(COST))
    rows, facts = read_table(study)
    told = {key: value for key, value in facts.items() if key not in CODE}
    made = {name: rows.to_csv(), f"facts of {name}": told}
    return made, {"studies": [stem]}, {"scores": study, "costs": cost}


def _trains(flow: Workflow, experiment: str) -> bool:
    return bool(flow.plan.spec(f"table/{experiment}").get("studies"))


def _of_kind(verb: str, specs: Spec) -> list[str]:
    return [name for name in specs if name.startswith(f"{verb}/")]


def _behind(flow: Workflow, generator: str) -> dict[str, list[str]]:
    """Return the files that the training of a generator reads, by the names of the verb's options."""
    name = generator.removeprefix("generator/")
    return {"data": [flow.auxiliary(name)], "further": flow.private(name), "victim": flow.served(name)}


def _data(stem: str) -> str:
    return f"data/{stem.partition('/')[0]}.safetensors"


def _network(flow: Workflow, name: str) -> str:
    return f"{flow.results}/victims/{name.removeprefix('train/')}.safetensors"


def shortened(spec: Spec, iterations: int) -> Spec:
    """Return a spec with fewer iterations of an attack, few rounds of a study, or one epoch of a network.

    spec: the spec of a job.
    iterations: the number of iterations of an attack at most.
    """
    if "attack" in spec:
        parameters = spec["attack"]["parameters"]
        if "iterations" in parameters:
            parameters = parameters | {"iterations": min(iterations, parameters["iterations"])}
        attack = spec["attack"] | {"parameters": parameters}
        return spec | {"attack": attack, "null_rounds": min(spec["null_rounds"], NULL_ROUNDS)}
    if "study" in spec:
        training = spec["training"] | {"rounds": min(ROUNDS, spec["training"]["rounds"])}
        if decay := training["decay"]:
            training["decay"] = decay | {"rounds": [1 + turn for turn in range(len(decay["rounds"]))]}
        return spec | {"training": training}
    kind = "generator" if "generator" in spec else "victim"
    if training := spec.get(kind, {}).get("training"):
        training = training | {"epochs": 1, "checkpoints": [1]}
        return spec | {kind: spec[kind] | {"training": training}}
    return spec


def _tensors(path: Path) -> dict[str, bytes]:
    """Return name → bytes of the tensors in a file."""
    return {name: value.tobytes() for name, value in read_tensors(path)[0].items()}
