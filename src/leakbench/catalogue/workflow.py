"""The questions that the Snakefile asks of the catalogue. Most answers are paths."""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from leakbench.base.artefacts import read_facts, to_json
from leakbench.base.code import PACKAGE, closure
from leakbench.base.digest import file_digest, write_changed
from leakbench.base.errors import UserError
from leakbench.base.parts import BACKBONES, dotted, parts_of
from leakbench.catalogue import costs, run
from leakbench.catalogue.budget import counted
from leakbench.catalogue.cell import ANY_VICTIM, Cell
from leakbench.catalogue.job_specs import further
from leakbench.catalogue.load import file_of, load_kind
from leakbench.catalogue.resolve import Plan, plan
from leakbench.catalogue.schema import Part
from leakbench.catalogue.signature import declared_metrics
from leakbench.datasets.local import available, check
from leakbench.papers import reference

LPIPS = "lpips-backbones"
# Core-hours above which a run asks to be confirmed.
LONG = 100
# Rule → the kind of spec by which the cost of its jobs is estimated. The other rules take minutes.
_BUDGETED = {
    "train": "train", "train_generator": "generator", "train_study": "study", "capture": "capture",
    "capture_bulk": "capture", "attack": "attack", "attack_bulk": "attack",
}  # fmt: skip
_NAMES = ("dataset", "victim", "federation", "defence", "attack", "generator", "training", "experiment")


def local_datasets(config: Path, data: Path) -> frozenset[str]:
    """Return the data sets that LEAKBENCH_DATA offers. If the answer changes, a data set is fetched again.

    Of one that is here the recorded answer stands, as its digests hold wherever it came from.
    """
    search, found = _folders_of_data(), set()
    for name, entry in load_kind(config, "datasets").items():
        assert isinstance(entry, Part)
        sources = entry.model_dump()["sources"]
        check(sources, f"{file_of(config, 'datasets', name)}: ")
        recorded = _recorded(data, name)
        if recorded or (recorded is None and search and available(sources, search)):
            found.add(name)
    return frozenset(found)


def _folders_of_data() -> list[Path]:
    return [Path(part) for part in os.environ.get("LEAKBENCH_DATA", "").split(":") if part]


def _recorded(data: Path, name: str) -> bool | None:
    """Return the answer that is recorded in the spec of a data set that is here."""
    try:
        if "absent" in read_facts(data / f"{name}.safetensors"):
            return None
        return bool(json.loads((data / "specs" / f"{name}.json").read_text("utf-8"))["local"])
    except (UserError, OSError, ValueError, KeyError, TypeError):
        return None


@cache
def _below(root: Path, path: Path) -> str:
    return os.path.relpath(path, root) if path.is_relative_to(root) else str(path)


class Workflow:
    """The plan of one scale, as the rules need it.

    Results, logs and data lie in `home`, which is the checkout unless another workflow uses this one.
    """

    def __init__(
        self, root: Path, scale: str, seed: int | None = None, home: Path | None = None,
        only: str | None = None,
    ) -> None:  # fmt: skip
        self.root, self.scale, self.seed, self.home = root, scale, seed, home or root
        offered = local_datasets(root / "config", self.home / "data")
        self._asked = only.split(",") if only else []
        self.plan: Plan = plan(root, scale, offered, seed, self._asked)
        # This refuses a cost that a part states wrongly before anything runs.
        costs.works(self.plan.specs, counted(root / "config"))
        self.results, self.logs = f"results/{self.plan.run}", f"logs/{self.plan.run}"
        # The lock is held as long as this object lives.
        self._lock = run.write(self.home, f"{self.results}/specs", self.plan.texts)
        self._stamps: dict[tuple[str, ...], str] = {}
        self.constraints = dict.fromkeys(_NAMES, "[^/]+") | {"seed": "[0-9]+"}

    def check(self, words: Iterable[str]) -> None:
        """Raise UserError if a command's words name a file that no rule makes, or if jobs could not write."""
        run.check(words, self.plan, self.root, self.home)

    def confirm(self, jobs: Iterable[Any], meant: bool) -> float:
        """Return the core-seconds that Snakemake's `jobs` take, by the cost model.

        Raises UserError if these are more than LONG core-hours, unless this is `meant`.
        """
        verbs = ((_BUDGETED.get(job.rule.name), job.wildcards) for job in jobs)
        budgeted = [f"{verb}/{'/'.join(stem)}" for verb, stem in verbs if verb]
        works = costs.works(self.plan.specs, counted(self.root / "config")) if budgeted else {}
        hours = sum(works[name].seconds() for name in budgeted) / 3600
        if hours > LONG and not meant:
            raise UserError(
                f"--config scale={self.scale}: the {len(budgeted)} attacks, trainings and captures to run "
                f"take about {hours:,.0f} core-hours (name single figures, or add --config confirm=yes)"
            )
        return hours * 3600

    def passed_over(self) -> list[str]:
        return [
            f"LEAKBENCH_DATA: {folder} is no directory, so nothing is read from it (correct or remove it)"
            for folder in _folders_of_data()
            if not folder.is_dir()
        ]

    def strays(self) -> list[str]:
        """Make Snakemake repeat results of other specs or other code, and return lines that say so."""
        return run.renew(self.home, self.results, self.plan.specs)

    def lost(self) -> tuple[list[str], list[str]]:
        """Put right dates that a clock set back has left; return lines, and the damaged files to be made."""
        count, paths = run.dated(self.home, self.results, time.time())
        lost = run.planned(self.results, self.plan.specs, paths)
        lines = [f"files dated after now, dated to now: {count} (the clock was set back)"] if count else []
        if lost:
            lines.append(f"damaged files that were set aside, to be made again: {', '.join(lost)}")
        return lines, lost

    def unserved(self) -> list[str]:
        """Return a line for each experiment that `only` names and for which every data set is absent."""
        lines = []
        for name in self._asked:
            cells, studies = self.plan.experiments[name], self.plan.studies[name]
            of = {cell.dataset for cell in cells} | {study.dataset for study in studies}
            files = [self.home / f"data/{dataset}.safetensors" for dataset in sorted(of)]
            why = [read_facts(file).get("absent") for file in files if file.is_file()]
            if files and len(why) == len(files) and all(why):
                lines.append(f"--config only: {name}: nothing was measured: {why[0]}")
        return lines

    def accept(self) -> None:
        """Accept the results that are here as of today's code, and record that they are of other code."""
        run.accept(self.home, self.results, self.plan.specs)

    def seen(self, name: str | Path = "") -> str:
        """Return a path of the checkout as rules name it: relative if below `home`, otherwise whole."""
        return _below(self.home, self.root / name)

    def needs(self, verb: str, stem: str) -> costs.Needs:
        of_run = self.home / self.results
        record, spec = (of_run / kind / verb / f"{stem}.json" for kind in ("records", "specs"))
        if found := costs.recorded(record, spec, workers=verb == "attack"):
            return found
        capture = self.plan.specs[Cell.parse(stem).path("capture")] if verb == "attack" else None
        return costs.needs(verb, self.plan.specs[f"{verb}/{stem}"], capture)

    def code(self, verb: str, *more: str) -> list[str]:
        return [_below(self.root, path) for path in closure(f"leakbench.jobs.{verb}", *more)]

    def stamp(self, files: Sequence[str], fetched: bool = False) -> str:
        """Return the file that holds the digests of source files, after writing it if it holds others.

        It is one input of a job in place of a hundred that Snakemake would look up for every job.
        """
        home = "data/specs" if fetched else f"{self.results}/specs"
        key = home, *files
        if key not in self._stamps:
            name = hashlib.sha256("\n".join(files).encode()).hexdigest()[:16]
            self._stamps[key] = f"{home}/code/{name}.json"
            text = to_json({file: file_digest(self.root, file) for file in files}) + "\n"
            write_changed(self.home / self._stamps[key], text)
        return self._stamps[key]

    def parts(self, specs: Iterable[str]) -> list[str]:
        return sorted({part for name in specs for part in parts_of(self.plan.specs[name])})

    def code_for(self, verb: str, *specs: str) -> list[str]:
        """Return the source files that a verb, with the parts of some specs, depends on."""
        return self.code(verb, *self.parts(specs))

    def fetch_code(self, dataset: str) -> list[str]:
        return self.code("fetch", dotted("datasets", self.plan.specs[f"fetch/{dataset}"]["module"]))

    def further(self, stem: str) -> list[str]:
        """Return the data sets that a training study needs besides its own, in the order of its spec."""
        return [f"data/{name}.safetensors" for name in further(self.plan.specs[f"study/{stem}"])]

    def attack_code(self, stem: str) -> list[str]:
        names = (f"attack/{stem}", Cell.parse(stem).path("train"), self.plan.generator(stem))
        return self.code_for("attack", *filter(None, names))

    def _metrics(self, capture: str) -> list[str]:
        attacks = self.plan.specs[f"score/{capture}"]["attacks"].values()
        return sorted({name for attack in attacks for name in attack["metrics"]})

    def score_code(self, capture: str) -> list[str]:
        cell, judges = Cell.parse(capture), self.plan.specs[f"score/{capture}"]["judges"]
        metrics = [declared_metrics()[name].module for name in self._metrics(capture)]
        networks = (cell.path("train", name) for name in ("", *judges))
        return self.code("score", *self.parts(networks), *metrics)

    def table_code(self, experiment: str) -> list[str]:
        return self.code_for("table", *(cell.path("train") for cell in self.plan.cells_of(experiment)))

    def bulky(self, keep: bool) -> str:
        """Return a regular expression of the federations whose updates are kept, or are not."""
        cells = {cell.federation: cell.path("capture") for cell in self.plan.cells}
        names = sorted(n for n, spec in cells.items() if self.plan.specs[spec]["federation"]["keep"] is keep)
        return "|".join(name.replace(".", r"\.") for name in names) or "(?!)"

    def generator(self, stem: str) -> list[str]:
        name = self.plan.generator(stem).removeprefix("generator/")
        return [f"{self.results}/generators/{name}.safetensors"] if name else []

    def oracle(self, stem: str) -> list[str]:
        """Return the file of the true labels if the cell's attack gets them."""
        given = self.plan.specs[f"attack/{stem}"]["attack"]["labels"] == "oracle"
        return [f"{self.results}/{Cell.parse(stem).path('oracle')}.safetensors"] if given else []

    def auxiliary(self, name: str) -> str:
        """Return the data that a generator is trained on, or its weights."""
        entry = self.plan.specs[f"generator/{name}"]["generator"]
        return f"data/{entry['weights'] or entry['auxiliary']['dataset']}.safetensors"

    def weights(self, stem: str) -> list[str]:
        name = self.plan.specs[f"train/{stem}"]["victim"].get("weights")
        return [f"data/{name}.safetensors"] if name else []

    def private(self, name: str) -> list[str]:
        """Return the data set that a generator attacks if it is trained on another one."""
        dataset, *_ = name.split("/")
        entry = self.plan.specs[f"generator/{name}"]["generator"]
        other = not entry["weights"] and entry["auxiliary"]["dataset"] != dataset
        return [f"data/{dataset}.safetensors"] if other else []

    def served(self, name: str) -> list[str]:
        """Return the victim that a generator serves, if it depends on one."""
        dataset, victim, _, seed = name.split("/")
        of = f"{self.results}/victims/{dataset}/{victim}/{seed}.safetensors"
        return [] if victim == ANY_VICTIM else [of]

    def attacked(self, kind: str, suffix: str, capture: str) -> list[str]:
        """Return the files of a kind that the attacks on a capture write."""
        attacks = sorted(self.plan.specs[f"score/{capture}"]["attacks"])
        paths = (replace(Cell.parse(capture), attack=attack).path(kind) for attack in attacks)
        return [f"{self.results}/{path}.{suffix}" for path in paths]

    def backbones(self, capture: str) -> list[str]:
        """Return the LPIPS weights if some metric of a capture's attacks needs them."""
        needed = any(BACKBONES in declared_metrics()[name].needs for name in self._metrics(capture))
        return [f"data/{LPIPS}.safetensors"] if needed else []

    def judges(self, capture: str) -> list[str]:
        cell, judges = Cell.parse(capture), self.plan.specs[f"score/{capture}"]["judges"]
        return [f"{self.results}/{cell.path('victims', name)}.safetensors" for name in judges]

    def scores(self, experiment: str) -> list[str]:
        """Return the scores of an experiment's captures, or the files of its training studies."""
        names = dict.fromkeys(cell.path("scores") for cell in self.plan.cells_of(experiment))
        names |= dict.fromkeys(f"studies/{study.stem}" for study in self.plan.studies[experiment])
        return [f"{self.results}/{name}.parquet" for name in names]

    def costs(self, experiment: str) -> list[str]:
        return [f"{self.results}/records/study/{study.stem}.json" for study in self.plan.studies[experiment]]

    def pictured(self, kind: str, experiment: str) -> list[str]:
        """Return the files that the pictures of an experiment's cells are taken from, each once."""
        if self.plan.definitions[experiment].exhibit is None:
            return []
        home = "" if kind == "data" else f"{self.results}/"
        paths = dict.fromkeys(cell.path(kind) for cell in self.plan.cells_of(experiment))
        return [f"{home}{path}.safetensors" for path in paths]

    def each(self, kind: str, suffix: str) -> list[str]:
        """Return one file for each experiment that has something to show, measured or recorded, by name."""
        nothing = set(self.plan.unmeasured) - {Path(file).stem for file in self.recorded()}
        return [f"{self.results}/{kind}/{n}.{suffix}" for n in sorted(self.plan.experiments.keys() - nothing)]

    @cached_property
    def _works(self) -> dict[Path, list[Path]]:
        """Return folder of papers/ → its files of published numbers and claims."""
        folders = [path.parent for path in (self.root / "papers").glob("*/paper.yaml")]
        each = {
            folder: [p for kind in ("csv", "yaml", "py") for p in folder.rglob(f"*.{kind}")]
            for folder in folders
        }
        return {k: [path for path in v if path.parent.name != "experiments"] for k, v in each.items()}

    def works(self, experiment: str = "") -> list[str]:
        """Return the files of published numbers and claims, of an experiment those of works that name it."""
        kept = self._works
        if experiment:
            file = file_of(self.root / "config", "experiments", experiment)
            name = file.stem.encode()
            kept = {
                folder: files
                for folder, files in kept.items()
                if folder == file.parents[1] or any(name in path.read_bytes() for path in files)
            }
        return sorted(_below(self.root, path) for files in kept.values() for path in files)

    def found(self) -> list[str]:
        return sorted(map(self.seen, (self.root / "papers").glob("*/found/*.md")))

    def published(self) -> list[str]:
        return list(map(self.seen, self.works()))

    def paper(self, experiment: str) -> list[str]:
        """Return the paper.yaml of the work that an experiment belongs to, if there is one."""
        self.plan.cells_of(experiment)
        paper = file_of(self.root / "config", "experiments", experiment).parents[1] / "paper.yaml"
        return [self.seen(paper)] if paper.is_file() else []

    def facts(self) -> list[str]:
        """Return the files of this run that hold the facts of papers/: specs, costs and networks."""
        return sorted(set(self.plan.specs["scorecard/catalogue"]["files"].values()))

    def data(self) -> list[str]:
        return [f"data/{name}.safetensors" for name in self.plan.datasets]

    def digests(self, data: Sequence[str]) -> list[str]:
        return [f"data/digests/{Path(file).stem}.sha256" for file in data]

    def config(self) -> list[str]:
        """Return every file of config/, from which the cost of what did not run is estimated."""
        return sorted(map(self.seen, (self.root / "config").glob("*/*.yaml")))

    @cached_property
    def _records(self) -> list[Path]:
        return reference.files(self.root, "*")

    def recorded(self, experiment: str = "") -> list[str]:
        """Return recorded tables of an experiment, or of all, with the facts beside them."""
        asked = (file for file in self._records if experiment in ("", file.name.partition(".")[0]))
        return sorted(map(self.seen, asked))

    def drawn(self, experiment: str) -> list[str]:
        """Return recorded tables of an experiment and of those that its figure names beside it."""
        figure = self.plan.specs[f"figure/{experiment}"]["figure"]
        beside = [name for part in figure for name in part.get("beside", ())]
        return [file for name in dict.fromkeys((experiment, *beside)) for file in self.recorded(name)]

    def seeded(self) -> list[str]:
        return [self.seen(path) for path in reference.files(self.root, "*", seeded=True)]

    def reference(self) -> list[str]:
        """Return the files of the numbers recorded at this scale and of what made them, if they are there."""
        files = (self.root / f"reference/{self.scale}.{suffix}" for suffix in ("csv", "json"))
        return [self.seen(file) for file in files if file.is_file()]

    def drawing(self) -> list[str]:
        room, files = "leakbench.results.figures", (PACKAGE / "results/figures").glob("*.py")
        return self.code("figure", room, *(f"{room}.{path.stem}" for path in files))

    def page(self) -> list[str]:
        """Return the source files of the page, its template and style among them."""
        files = sorted((PACKAGE / "results/report").iterdir())
        beside = [path for path in files if path.suffix in (".j2", ".css", ".js")]
        return self.code("report") + [os.path.relpath(path, self.root) for path in beside]
