"""What a scale's budget pays for: how many trials of which cells, how long each runs, and what is left out.

The choice follows from the catalogue and the cost model's reference calibration alone, so every machine
chooses the same cells. It depends on no verdict.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leakbench.base.core_time import in_words
from leakbench.catalogue import costs
from leakbench.catalogue.cell import Cell, Spec, Study
from leakbench.catalogue.costs import EXPERIMENT, JOB
from leakbench.catalogue.entry import Sizes, with_values
from leakbench.catalogue.experiment import Budget, Experiment
from leakbench.catalogue.load import find, load_kind
from leakbench.catalogue.schema import Training
from leakbench.papers.work import Paper, published_for

# The keys of a budget that leave out cells, in the order in which a cell meets them.
LIMITS = ("training", "trials", "experiment", "total")
# More trials than this decide little more (docs/verdicts.md).
ENOUGH = 20


@dataclass(frozen=True)
class Ask:
    """A job that an experiment asks for, with the specs of all networks that are trained for it."""

    experiment: str
    job: Cell | Study
    networks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The job's name in a scale's `left_out`: <experiment>/<stem>."""
        return f"{self.experiment}/{self.job.stem}"

    @property
    def attack(self) -> str:
        """The name of the attack; empty for a study."""
        return self.job.attack if isinstance(self.job, Cell) else ""

    @property
    def group(self) -> tuple[str, str]:
        """What asks share that are compared with each other: experiment, and capture or study."""
        return self.experiment, self.job.capture if isinstance(self.job, Cell) else self.job.stem


class _Dear(Exception):
    """A job does not fit the budget: the key that is too small for it, and the reason that tables show."""


@dataclass
class _Fitted:
    """A job that the budget could pay for if there were no others."""

    ask: Ask
    paper: Paper | None
    trials: int = 1
    sizes: dict[str, int] = field(default_factory=dict)  # name of a spec → its size by the budget
    seconds: dict[str, float] = field(default_factory=dict)  # name of a spec → core-seconds of its job


@dataclass(frozen=True)
class _Purse:
    """A budget and the jobs that it is spent on, by their specs at published size."""

    scale: str
    budget: Budget
    specs: Mapping[str, Spec]
    there: Mapping[str, int]  # data set → images of its train split

    def fair(
        self, group: list[_Fitted], asked: Mapping[tuple[str, str], Sequence[Ask]], out: Sizes
    ) -> list[_Fitted]:
        """Return the jobs of a group that do not flatter a defence: no plain attack without adaptive twin."""
        # The others are added to what `out` leaves out.
        cells = [ask for ask in asked[group[0].ask.group] if ask.attack]
        knowing = [ask for ask in cells if self.specs[f"attack/{ask.job.stem}"]["attack"]["adaptive"]]
        lost = {ask.attack for ask in knowing if ask.name in out.left_out}
        for it in group:
            if lost and (len(lost) == len(knowing) or any(twin.startswith(it.ask.attack) for twin in lost)):
                out.left_out[it.ask.name] = "would flatter the defence: no adaptive attacker fits beside it"
        return [it for it in group if it.ask.name not in out.left_out]

    def fitted(self, ask: Ask, paper: Paper | None) -> _Fitted:
        """Return what a job gets. Raises _Dear if the budget pays for too little to reach a verdict."""
        # A job of nobody's paper gets the fewest trials and the length of the scale, whatever it takes.
        found = _Fitted(ask, paper)
        for name in ask.networks:
            self._train(name, found)
        if isinstance(ask.job, Study):
            self._study(ask.job, found)
        else:
            self._attack(ask.job, found)
        return found

    def _train(self, name: str, found: _Fitted) -> None:
        part = "generator" if name.startswith("generator/") else "victim"
        spec = self.specs[name]
        training = spec[part]["training"]
        found.seconds[name] = JOB
        if not (training and training["epochs"]):
            return
        once = with_values(spec, part, "training", epochs=1)
        each = costs.of_training(once, costs.images_of(spec, self.there)).seconds()
        wanted = math.ceil(self.budget.length * training["epochs"])
        self._check_training(found, wanted * each, f"training its {part} takes")
        found.sizes[name], found.seconds[name] = wanted, JOB + wanted * each

    def _study(self, study: Study, found: _Fitted) -> None:
        name = f"study/{study.stem}"
        spec, published = self.specs[name], found.paper.rounds if found.paper else {}
        rounds = self._length(spec["training"]["rounds"], published, study.training)
        shorter = with_values(spec, "training", rounds=rounds)
        took = costs.of_study(shorter, costs.images_of(spec, self.there)).seconds()
        self._check_training(found, took, "takes")
        found.sizes[name], found.seconds[name] = rounds, JOB + took

    def _check_training(self, found: _Fitted, took: float, what: str) -> None:
        if took > self.budget.training and found.paper:
            given = f"scale {self.scale} gives a training {in_words(self.budget.training)}"
            raise _Dear("training", f"{what} about {in_words(took)}; {given}")

    def _attack(self, cell: Cell, found: _Fitted) -> None:
        attack, capture = f"attack/{cell.stem}", f"capture/{cell.capture}"
        spec, played = self.specs[attack], self.specs[capture]
        if steps := spec["attack"]["parameters"].get("iterations"):
            published = found.paper.lengths if found.paper else {}
            found.sizes[attack] = self._length(steps, published, cell.attack)
            spec = with_values(spec, "attack", "parameters", iterations=found.sizes[attack])
        federation = played["federation"]
        for trials, limit in sorted(self.budget.trials.items(), reverse=True):
            rounds = min(trials * federation["passes"], federation["rounds"])
            if federation["server"] == "fedavg":
                rounds = self._length(federation["rounds"], {}, "")
            shorter = with_values(played, "federation", rounds=rounds)
            took = costs.of_attack(spec, shorter).seconds(), costs.of_capture(shorter).seconds()
            found.trials = int(rounds // federation["passes"])
            if sum(took) <= limit:
                break
        if sum(took) > limit and found.paper:
            given = f"scale {self.scale} gives a cell {in_words(limit)}"
            took_all = f"takes about {in_words(sum(took))} for {found.trials} trials"
            raise _Dear("trials", f"{took_all}; {given}")
        found.sizes[capture] = rounds
        # A capture is scored once for all attacks on it, which is a job of its own.
        found.seconds |= {attack: JOB + took[0], capture: 2 * JOB + took[1]}

    def _length(self, whole: int, published: Mapping[str, float], name: str) -> int:
        """Return how many of `whole` steps or rounds run: the budget's share of the published number."""
        stated = published_for(published, name) or whole
        return min(whole, math.ceil(self.budget.length * stated))


def paid(
    scale: str, budget: Budget, asks: Sequence[Ask], specs: Mapping[str, Spec],
    papers: Mapping[str, Paper], there: Mapping[str, int], rare: Collection[str],
    experiments: Mapping[str, Experiment],
) -> Sizes:  # fmt: skip
    """Return what a budget pays for, of all jobs that experiments ask for (docs/scaling.md has the order).

    An experiment of one's own, which has no paper, comes last and takes nothing from the others.
    """
    purse, out = _Purse(scale, budget, specs, there), Sizes()
    groups: dict[tuple[str, str], list[_Fitted]] = {}
    asked: dict[tuple[str, str], list[Ask]] = {}
    for ask in asks:
        asked.setdefault(ask.group, []).append(ask)
        try:
            found = purse.fitted(ask, papers.get(ask.experiment))
        except _Dear as dear:
            key, out.left_out[ask.name] = dear.args
            out.short.add(key)
        else:
            groups.setdefault(ask.group, []).append(found)
    left = [kept for group in groups.values() if (kept := purse.fair(group, asked, out))]
    wanted = Counter(ask.job for ask in asks)
    # An experiment that is left out whole still has its table and its page.
    own_values: dict[str, int] = {}
    own_minutes = dict.fromkeys({ask.experiment for ask in asks} - papers.keys(), math.inf)
    if minutes := budget.own_minutes:
        own_minutes |= {name: minutes for name, each in experiments.items() if each.own_minutes}
    spent = EXPERIMENT * len(({ask.experiment for ask in asks} | papers.keys()) - own_minutes.keys())
    made: dict[str, float] = {}
    by_experiment: dict[str, float] = {}
    share = 60 * (budget.experiment or budget.total)

    def more(group: list[_Fitted]) -> tuple[dict[str, float], float]:
        """Return the jobs that a group needs, not yet paid or not yet at this length, and what they cost."""
        took = dict(pair for it in group for pair in it.seconds.items())
        jobs = {name: each for name, each in took.items() if each > made.get(name, 0.0)}
        return jobs, sum(each - made.get(name, 0.0) for name, each in jobs.items())

    def rank(group: list[_Fitted]) -> tuple[bool, bool, bool, float, str]:
        gets = sum(min(it.trials, ENOUGH) * wanted[it.ask.job] for it in group)
        late = budget.common_first and group[0].ask.job.dataset in rare
        other = scale not in experiments[group[0].ask.experiment].first
        return not group[0].paper, other, late, more(group)[1] / gets, group[0].ask.name

    ranks = {id(group): rank(group) for group in left}
    needing: dict[str, list[list[_Fitted]]] = {}
    for group in left:
        for name in {name for it in group for name in it.seconds}:
            needing.setdefault(name, []).append(group)
    left.sort(key=lambda group: ranks[id(group)])
    while left:
        group = left.pop(0)
        (jobs, took), asking = more(group), group[0].ask.experiment
        own, apart = by_experiment.get(asking, 0.0) + took, own_minutes.get(asking)
        limits = [("total", 60 * budget.total, spent + took, f"scale {scale}")] * (apart is None)
        limits += [("experiment", share if apart is None else 60 * apart, own, "one experiment")]
        if over := [(key, limit, whose) for key, limit, sum_, whose in limits if sum_ > limit]:
            key, limit, whose = over[0]
            why = f"the {in_words(limit)} of {whose} go to cheaper trials first"
            out.left_out |= {it.ask.name: why for it in group}
            out.short.add(key)
            continue
        spent += took if apart is None else 0.0
        made, by_experiment[asking] = made | jobs, own
        for name, size in (pair for it in group for pair in it.sizes.items()):
            # The attacks on a capture share its rounds, so the least number holds. Of anything else that is
            # shared, the longest holds.
            least = min if name.startswith("capture/") else max
            values = out.values if group[0].paper else own_values
            values[name] = least(size, values.get(name, size))
        ranks |= {id(other): rank(other) for name in jobs for other in needing[name]}
        if any(name.startswith(("train/", "generator/")) for name in jobs):
            # Other groups that need the same network are cheaper now.
            left.sort(key=lambda group: ranks[id(group)])
    # What others have chosen holds for an experiment of one's own.
    out.values = own_values | out.values
    return out


def shares_of(
    config: Path, specs: Mapping[str, Spec], cells: Sequence[Cell], studies: Sequence[Study]
) -> dict[str, dict[str, float]]:
    """Return, by stem and by network, the share of its full training that a scale leaves it."""
    counts, found = counted(config), {}
    for cell in cells:
        victim = find(config, "victims", cell.victim, "victims")
        trained = specs[cell.path("train")]["victim"]
        own = {"victim": _passes(trained, victim.training, counts.get(cell.dataset))}
        generator = specs[cell.path("attack")]["attack"]["generator"] or ""
        for name in cell.served(generator):
            if name in specs:
                whole = find(config, "generators", generator, "generators")
                images = whole.auxiliary.stop - whole.auxiliary.start if whole.auxiliary else 0
                kept = round(images * (1 - whole.validation))
                own["generator"] = _passes(specs[name]["generator"], whole.training, kept)
        found[cell.stem] = own
    for study in studies:
        training = specs[f"study/{study.stem}"]["training"]
        regime = find(config, "trainings", study.training, "trainings")
        seen = [count for name in (study.dataset, *training["beside"]) if (count := counts.get(name))]
        caps = training["images"], regime.images
        now, then = (sum(min(count, cap or count) for count in seen) for cap in caps)
        rounds = training["rounds"] * training["local_epochs"] / (regime.rounds * regime.local_epochs)
        found[study.stem] = {"rounds": rounds, "images": now / then}
    below = {stem: {key: round(x, 6) for key, x in own.items() if x < 1} for stem, own in found.items()}
    return {stem: own for stem, own in below.items() if own}


def counted(config: Path) -> dict[str, int]:
    datasets = load_kind(config, "datasets")
    return {name: entry.counts["train"] for name, entry in datasets.items() if "train" in entry.counts}


def _passes(capped: Spec, whole: Training | None, there: int | None) -> float:
    """Return epochs × images of a capped entry's training, divided by those of the whole entry."""
    if not capped["training"] or whole is None:
        return 1

    def images(most: int | None) -> int:
        return min((count for count in (most, there) if count is not None), default=1)

    then = whole.epochs * images(whole.images)
    return capped["training"]["epochs"] * images(capped["training"]["images"]) / then if then else 1.0
