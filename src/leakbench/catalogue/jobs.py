"""The specs of jobs, one model for each kind: entries of the catalogue, and the values beside them.

Keys and bounds are those of the catalogue's own models.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, PrivateAttr, SkipValidation, model_validator

from leakbench.base.yamls import NAME, Distinct, Name, Positive, Seed, Shape, Strict, suggest
from leakbench.catalogue.cell import Arguments, Cell, Spec
from leakbench.catalogue.entry import FOR_PEOPLE, Salt
from leakbench.catalogue.experiment import Drawing, Exhibit, all_scored
from leakbench.catalogue.regime import Regime, RuleEntry
from leakbench.catalogue.schema import AttackEntry, Auxiliary, Dataset, Federation, Generator, Server, Victim
from leakbench.catalogue.signature import declared_metrics


def _metric(name: str) -> str:
    if name not in declared_metrics():
        raise ValueError(f"no metric '{name}' ({suggest(name, declared_metrics())})")
    return name


def _once(stems: list[str]) -> list[str]:
    if len(set(stems)) < len(stems):
        raise ValueError(f"{next(each for each in stems if stems.count(each) > 1)!r} is given twice")
    return stems


Place = Annotated[int, Field(ge=0)]
Metrics = Annotated[list[Annotated[str, AfterValidator(_metric)]], Field(min_length=1), Distinct]
CellStem = Annotated[str, Field(pattern=f"^({NAME}/){{5}}[0-9]{{1,16}}$")]
StudyStem = Annotated[str, Field(pattern=f"^({NAME}/){{4}}[0-9]{{1,16}}$")]
Stem = Annotated[str, Field(pattern=f"^({NAME}/){{4,5}}[0-9]{{1,16}}$")]
Share = Annotated[float, Field(ge=0, lt=1)]


class Images(Strict):
    name: Name
    shape: Shape  # rows, columns and channels of an image
    classes: Positive


class Named(Strict):
    module: str
    parameters: Arguments


class JobSpec(Strict):
    """The spec of a job, as the job takes it. Messages call it by `where`, its file."""

    _where: str = PrivateAttr("")

    @property
    def where(self) -> str:
        return self._where

    def plain(self) -> Spec:
        return self.model_dump(mode="json", exclude_unset=True)


class Job(JobSpec):
    """The keys of every job that trains a network or plays a federation."""

    dataset: Images
    seed: Seed


# The entries of a spec are without their words for people.
class TrainedVictim(Victim):
    summary: str = ""


class FetchSpec(Dataset, JobSpec):
    """A data set's entry with its name, without its words for people."""

    name: Name
    local: bool  # whether a folder of LEAKBENCH_DATA offers it
    summary: str = ""
    # No file depends on these two, and a spec lacks them.
    labels: Literal["classes", "words", "tokens"] = Field("classes", exclude_if=bool)
    licence: str = Field("", exclude_if=bool)


class VictimSpec(Job):
    kind: ClassVar[Literal["victim"]] = "victim"
    victim: TrainedVictim


class OwnImages(Auxiliary):
    """The attacker's own images. Here their data set must be named."""

    dataset: Name


class TrainedGenerator(Generator):
    summary: str = ""
    auxiliary: OwnImages | None = None


class GeneratorSpec(Job):
    """The spec of `train` for a generator, with the victim whose features it reads, if it reads any."""

    kind: ClassVar[Literal["generator"]] = "generator"
    generator: TrainedGenerator
    victim: Named | None = None

    @model_validator(mode="after")
    def _reading(self) -> "GeneratorSpec":
        if self.generator.reads == "features" and self.victim is None:
            raise ValueError("victim: is missing, and the generator reads its features (add it)")
        return self


class TrainedModels(Regime):
    """A training regime for one data set. Its rules stand beside it in the spec (`spec._check_rules`)."""

    summary: str = ""
    beside: list[Name]  # type: ignore[assignment]
    augmentation: Literal["none", "flip-crop"]  # type: ignore[assignment]
    aggregation: None = None
    encryption: None = None

    @model_validator(mode="after")
    def _aggregated(self) -> "TrainedModels":
        return self

    @model_validator(mode="after")
    def _dealt(self) -> "TrainedModels":
        if self.split == "by-client" and self.beside and self.clients != len(self.beside) + 1:
            raise ValueError(f"clients: each has one of {len(self.beside) + 1} data sets (set their number)")
        return self


class StudyNames(Strict):
    dataset: Name
    victim: Name
    training: Name
    defence: Name


class StudySpec(Job):
    """The spec of `train` for the models of a training study."""

    kind: ClassVar[Literal["study"]] = "study"
    study: StudyNames
    training: TrainedModels
    victim: Named
    defence: Named
    aggregation: RuleEntry | None = None
    encryption: RuleEntry | None = None

    @model_validator(mode="after")
    def _named(self) -> "StudySpec":
        if self.study.dataset != self.dataset.name:
            raise ValueError(
                f"study.dataset: is not dataset.name, '{self.dataset.name}' (mend one of the two)"
            )
        return self


TrainSpec = VictimSpec | GeneratorSpec | StudySpec


class Played(Federation):
    summary: str = ""
    # The malicious server stands beside the federation.
    malicious: None = None


class Cheat(Server):
    summary: str = ""


class CaptureSpec(Job, Salt):
    federation: Played
    federation_name: Name
    defence: Named
    victim: Named
    malicious: Cheat | None = None

    def names(self) -> tuple[str | int, ...]:
        """Return the names from which the clients' chance is drawn."""
        own = [self.defence.model_dump_json()] if self.apart else []
        return self.dataset.name, self.federation_name, self.seed, self.salt, *own

    @model_validator(mode="after")
    def _cheated(self) -> "CaptureSpec":
        if self.malicious and self.federation.server != "frozen":
            raise ValueError("federation.server: a malicious one writes the weights itself (set frozen)")
        return self


class Scored(Strict):
    metrics: Metrics
    judges: Annotated[list[Name], Distinct]
    matching: Literal["best", "hungarian"]
    decays: bool


class CellNames(Strict):
    dataset: Name
    victim: Name
    federation: Name
    defence: Name
    seed: Seed


class ScoreSpec(JobSpec):
    cell: CellNames
    attacks: Annotated[dict[Name, Scored], Field(min_length=1)]
    judges: Annotated[list[Name], Distinct]

    @model_validator(mode="after")
    def _judged(self) -> "ScoreSpec":
        for name, scored in self.attacks.items():
            asked = {judge for metric in scored.metrics for judge in declared_metrics()[metric].judges}
            if lacking := min(asked - set(scored.judges), default=""):
                raise ValueError(f"attacks.{name}.judges: its metrics ask '{lacking}' (add it)")
            if unknown := min(set(scored.judges) - set(self.judges), default=""):
                raise ValueError(f"attacks.{name}.judges: '{unknown}' is none of judges (add it there)")
        return self


class Shown(Strict):
    seeds: Annotated[list[Seed], Field(min_length=1), Distinct]
    metrics: Metrics | None
    success: Annotated[list[Literal["psnr", "ssim", "mse"]], Distinct]
    client: Place | None
    exhibit: Exhibit | None

    @model_validator(mode="after")
    def _measured(self) -> "Shown":
        all_scored(self.success, self.metrics)
        return self


class TableSpec(JobSpec):
    experiment: Shown
    cells: Annotated[list[CellStem], AfterValidator(_once)]
    scale: Name
    left_out: str
    cells_left_out: dict[Stem, str]
    shares: dict[Stem, dict[Literal["victim", "generator", "rounds", "images"], Share]]
    studies: Annotated[list[StudyStem], AfterValidator(_once)] | None = None

    @property
    def parsed(self) -> list[Cell]:
        return list(map(Cell.parse, self.cells))

    @property
    def reasons(self) -> dict[str, str]:
        """What is left out of the table → the reason."""
        whole = "every cell" if self.studies is None else "every study"
        return {whole: self.left_out} if self.left_out else dict(self.cells_left_out)

    @model_validator(mode="after")
    def _of_one_kind(self) -> "TableSpec":
        if self.studies is not None and self.cells:
            raise ValueError("studies: a table has either studies or cells (drop one of the two)")
        if self.studies is None and self.experiment.metrics is None:
            raise ValueError("experiment.metrics: cells need some (name metrics)")
        return self


class Listed(Strict):
    """An entry that an experiment names, as its figure calls it."""

    name: Name
    title: str
    summary: str
    parameters: Arguments


class FigureSpec(JobSpec):
    item: str
    title: str
    shows: str
    figure: Annotated[list[Drawing], Field(min_length=1)]
    parts: dict[Literal["dataset", "victim", "defence", "training", "federation", "attack"], list[Listed]]
    work: str
    scale: Name


class ScorecardSpec(JobSpec):
    """What the catalogue says, the scale of the run, where facts lie, and what the run leaves out and why."""

    attacks: dict[Name, Arguments]
    defences: dict[Name, Arguments]
    federations: dict[Name, Arguments]
    networks: dict[Name, Named]
    images: dict[Name, int]
    splits: dict[Name, dict[str, int]]
    settled: dict[Name, float]
    run: dict[Literal["scale"], Name]
    files: dict[str, str]
    left_out: dict[Name, dict[str, str]]


class PlannedAdaptation(Strict):
    """The file in adaptive/ that holds what an attacker does against a defence."""

    module: str


class Known(Strict):
    """The defence with which an attack plays clients. Without parameters the defence has its own defaults."""

    module: str
    # A spec may lack it, and one that has it keeps it.
    parameters: Arguments = Field({}, exclude_if=lambda _: False)


class PlannedAttack(AttackEntry):
    """An attack's entry, without its words for people, and with the one generator of its data set."""

    summary: str = ""
    generator: Name | None = None  # type: ignore[assignment]

    @property
    def entry(self) -> Spec:
        """The entry as attacks take it (`leakbench.attacks.composed`)."""
        return self.model_dump(mode="json", exclude=FOR_PEOPLE)


class AttackSpec(JobSpec):
    """The spec of `attack`. A person may leave out keys of its entry (`spec_of`)."""

    attack: SkipValidation[PlannedAttack]
    attack_name: Annotated[str, Field(max_length=200)]
    # `too_large` says how large they may be.
    null_rounds: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0)]
    adaptation: PlannedAdaptation | None = None
    defence: Known | None = None
