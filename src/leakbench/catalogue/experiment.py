"""What the YAML of an experiment and of a scale may hold.

The manual is written from the descriptions, as it is from those of schema.py.
"""

from collections.abc import Collection, Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from leakbench.base.yamls import Described, Distinct, Name, Names, Positive, Seed
from leakbench.catalogue.regime import Entry

Seconds = Annotated[float, Field(gt=0)]
# A key, which is text in JSON, and JSON is YAML.
TrialCount = Annotated[int, Field(ge=5, strict=False)]


class Cells(Described):
    """A product of names: each combination of the lists is one cell."""

    dataset: Names = Field(description="Names of datasets/.")
    victim: Names = Field(description="Names of victims/.")
    federation: Names = Field(description="Names of federations/.")
    defence: Names = ["none"]
    """Names of defences/. `all` stands for every defence that has a file of its own; a variant must be
    named."""
    attack: Names
    """Names of attacks/. `all` stands for every attack that has a file of its own; a variant must be
    named."""
    but: Annotated[list[Name], Distinct] = []
    """Defences and attacks that `all` leaves out."""


class Studies(Described):
    """A product of names: each combination of the lists is one training study."""

    dataset: Names = Field(description="Names of datasets/.")
    victim: Names = Field(description="Names of victims/.")
    training: Names = Field(description="Names of trainings/.")
    defence: Names = Field(["none"], description="Names of defences/.")


class Exhibit(Described):
    """The pictures that an experiment shows: reconstructions chosen by a stated rule."""

    rule: Literal["first", "usable", "best", "faintest", "matched", "worst-median-best"]
    """Which reconstructions are shown. `first`: in their own order. `usable`: in their own order, without
    dead ones. `best`: by their highest correlation with any private image, highest first. `faintest`: those
    that reveal an image (r of at least 0.98), least pure first. `matched`: the one assigned to each private
    image. `worst-median-best`: those at these three ranks of correlation."""
    rounds: Positive = Field(1, description="Number of rounds that are shown.")
    reconstructions: Positive = Field(24, description="Largest number of reconstructions in each round.")


class Drawing(BaseModel):
    """A drawing of a figure.

    All keys but `drawing` are arguments of the drawing's function. Its signature lists them.
    """

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    drawing: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
    """The file in src/leakbench/results/figures/ that draws it, without its suffix: `lines`, `dots`,
    `squares`, `grid`, `side-by-side`, `boundaries` or `word-examples`. Its arguments: Parts of drawing."""


class Experiment(Described):
    """One published table, figure or claim: what is run, what is measured and what is drawn.

    Give either `cells` with `metrics`, or `trainings`. The table of a training study holds all that the
    study measures.
    """

    item: str = Field(description="What is reproduced, such as `table-3.16`.")
    title: str = Field(description="The heading in the report.")
    shows: str = Field(description="What the source claims to show here, in one sentence.")
    cells: Annotated[list[Cells], Field(min_length=1)] | None = None
    """The attacks to run, as a list of products."""
    trainings: Annotated[list[Studies], Field(min_length=1)] | None = None
    """The training studies to run, as a list of products."""
    seeds: Annotated[list[Seed], Field(min_length=1), Distinct] = [0]
    """Each cell or study is run once for each of these seeds."""
    own_minutes: bool = False
    """The experiment is paid from minutes of its own, which the scale's budget sets (`own_minutes`), and so
    takes nothing from the others."""
    first: Annotated[list[Name], Distinct] = []
    """Scales that pay for it before all others, so that a work whose trials are all dear has evidence."""
    left_out: dict[Name, dict[str, str]] = {}
    """What a scale does not run of it: scale → pattern → reason. A scale's `left_out` says what they are."""
    metrics: Annotated[list[str], Field(min_length=1), Distinct] | None = None
    """The columns of the table, by names of src/leakbench/metrics/. A metric that asks a classifier which
    person a face shows trains that classifier on the cell's own data set."""
    success: Annotated[list[Literal["psnr", "ssim", "mse"]], Distinct] = []
    """Metrics for which the table also has success rates against a threshold. Each must stand in
    `metrics`."""
    client: Annotated[int, Field(ge=0)] | None = None
    """Table and pictures show this client alone, counted from 0. Without it the table has all clients, and
    the pictures are of client 0."""
    exhibit: Exhibit | None = Field(None, description="The pictures. Without it the experiment shows none.")
    figure: Annotated[list[Drawing], Field(min_length=1)]
    """The figure: a drawing, or a list of drawings that stand below each other."""

    @field_validator("figure", mode="before", json_schema_input_type=Drawing | list[Drawing])
    @classmethod
    def _several(cls, value: Any) -> Any:
        return [value] if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _scored(self) -> "Experiment":
        if (self.cells is None) == (self.trainings is None):
            raise ValueError("cells or trainings: one of the two is needed")
        if (self.cells is None) != (self.metrics is None):
            raise ValueError("metrics: cells need some, trainings take none")
        if self.trainings and (self.exhibit or self.client is not None):
            raise ValueError("exhibit, client: trainings show no pictures")
        all_scored(self.success, self.metrics)
        return self


def all_scored(success: Iterable[str], metrics: Collection[str] | None) -> None:
    if lacking := next((each for each in success if each not in (metrics or [])), ""):
        raise ValueError(f"success: '{lacking}' is not scored (add it to metrics)")


class Budget(Described):
    """What a scale may take, in core-seconds and core-minutes of the cost model's reference core.

    The budget determines how many trials each cell gets, and what is left out (docs/scaling.md).
    """

    length: float = Field(ge=0.5, le=1)
    """Share of the published length that everything runs for: iterations of attacks, epochs of victims and
    generators, rounds of training studies. It is at least half, because a verdict requires that."""
    trials: Annotated[dict[TrialCount, Seconds], Field(min_length=1)]
    """Number of trials → core-seconds that a cell with this number of them may take. A cell gets the largest
    number that it can pay for, and never more than are published. A cell that can pay for none is left out.
    Verdicts ask for 5."""
    training: Seconds
    """Core-seconds that the training of one network, or one training study, may take. What needs a longer one
    is left out."""
    total: Annotated[float, Field(gt=0)]
    """Core-minutes of the whole scale. The cells that cost least come first."""
    experiment: Annotated[float, Field(gt=0)] | None = None
    """Core-minutes of one experiment, without what other experiments have paid for. Without it one experiment
    may take the whole total."""
    common_first: bool = True
    """Cells on data that everybody can fetch come before cells on other data."""
    own_minutes: Annotated[float, Field(gt=0)] | None = None
    """Core-minutes beside the total for each experiment that says `own_minutes: true`. Without them it is
    paid from the total."""


class Scale(Entry):
    """How much of each experiment a run does. `--config scale=<name>` chooses it (default: `quick`)."""

    order: Annotated[int, Field(ge=0)] = 0
    """Rank among the scales, the longest run highest. The scorecard takes the longest evidence there is."""
    budget: Budget | None = None
    """What the scale may take. Without it everything has its published size."""
    caps: dict[str, dict[str, dict[str, Annotated[float, Field(ge=0)]]]] = {}
    """Largest values: kind → pattern over names → key → largest value. The kinds are victims, generators,
    federations, attacks and trainings. A pattern with a slash is compared with `<data set>/<name>`, and for
    attacks with `<data set>/<victim>/<federation>/<defence>/<name>`. A cap only ever lowers a value."""
    apart: list[str] = []
    """Control cells, with private samples of their own: `<data set>/<victim>/<federation>/<defence>`."""
    null_rounds: Positive
    """Number of rounds of the null baselines. At most a quarter of the federation's rounds are used."""
    left_out: dict[str, str] = {}
    """What this scale does not run: pattern → reason. The numbers that depend on it are `not-run` for that
    reason. A pattern is compared with the name of an experiment, with `<experiment>/<data
    set>/<victim>/<federation>/<defence>/<attack>/<seed>` for single cells, and with `<experiment>/<data
    set>/<victim>/<training>/<defence>/<seed>` for single studies."""
