"""What a catalogue file may hold: one pydantic model per kind of YAML. No torch here: Snakemake parses this."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from leakbench.catalogue.regime import Regime
from leakbench.catalogue.strict import Distinct, Name, Names, Positive, Strict


class Slice(Strict):
    """Images [start, stop) of one split of a data set, in official order."""

    split: Literal["train", "test"]
    start: Annotated[int, Field(ge=0)] = 0
    stop: Positive

    @model_validator(mode="after")
    def _not_empty(self) -> "Slice":
        if self.stop <= self.start:
            raise ValueError(f"stop {self.stop} must exceed start {self.start}")
        return self


class Training(Strict):
    """How a network is fitted. `epochs` counts passes over its data; `checkpoints` are the epochs kept.

    `images`: train on that many, the first of the split (none: all). `settled`: end after the epoch whose mean loss is
    within so much of that before; `epochs` is then the most.
    """

    optimiser: Literal["sgd", "adam", "adadelta"]
    lr: Annotated[float, Field(gt=0)]
    options: dict[str, bool | float] = {}
    batch_size: Positive
    epochs: Annotated[int, Field(ge=0)]
    checkpoints: list[Annotated[int, Field(ge=0)]] = []
    images: Positive | None = None
    settled: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _within(self) -> "Training":
        if max(self.checkpoints, default=0) > self.epochs:
            raise ValueError(f"checkpoints: {max(self.checkpoints)} is beyond the {self.epochs} epochs")
        return self


class Part(Strict):
    """A catalogue entry that names one file of a room and the values of its function's keywords."""

    summary: str
    module: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9_-]*)?$")] = ""
    parameters: dict[str, Any] = {}


class Dataset(Part):
    """A set of images: shape in rows, columns, channels; counts per split; pinned digests of its arrays.

    `scaled`: images are brought to `shape` after their digests were checked, the first `counts` of each split. `labels`: what
    an image is of, one of the `classes`, or a word whose characters are.
    """

    shape: tuple[Positive, Positive, Positive] | None = None
    classes: Positive | None = None
    counts: dict[str, Positive] = {}
    sha256: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] | None = None
    scaled: bool = False
    labels: Literal["classes", "words"] = "classes"
    sources: list[str] = []
    licence: str = ""


class Victim(Part):
    """The network under attack and how it was trained on the train split (training: none leaves it initialised)."""

    training: Training | None = None


class Auxiliary(Slice):
    """The attacker's own images; `dataset` if they are not of the victim's data set."""

    dataset: Name | None = None


class Generator(Part):
    """An attacker's network: trained on auxiliary images that the federation's private ones exclude, or published.

    `reads`: what it makes images of, the `features` that a victim's first dense layer reads, for one victim, or a `latent`
    and a class, whoever the victim is. `weights`: the entry of datasets that brings a published generator's weights.
    """

    reads: Literal["features", "latent"] = "features"
    auxiliary: Auxiliary | None = None
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.15
    training: Training | None = None
    weights: Name | None = None

    @model_validator(mode="after")
    def _made_somehow(self) -> "Generator":
        given = self.auxiliary is not None, self.training is not None
        if given != ((False, False) if self.weights else (True, True)):
            raise ValueError("give either weights, or auxiliary and training")
        return self


class Local(Strict):
    """A client's local training. batch_size none: the whole local set is one batch."""

    lr: Annotated[float, Field(gt=0)]
    batch_size: Positive | None = None
    epochs: Positive = 1


class Federation(Strict):
    """Who shares what, when. `clients` lists the number of private samples of each client.

    A `fresh` local set is drawn anew each round, so that rounds are independent measurements; a `fixed` one is the same
    in every round, as in deployed federated learning. With several `passes` a client goes over one private set that
    often, in a new order each time, its rounds evenly split among them; all rounds of a pass start from one model. A `fixed`
    set then has the same batches in the same order in every pass. `distinct_labels`: no two samples of an update share a
    label; newly shuffled passes cannot promise it. `evaluate`: the model's accuracy on so many test images is measured
    whenever the server has moved it; none: it is not.
    """

    summary: str
    clients: Annotated[list[Positive], Field(min_length=1)]
    rounds: Positive
    private: Slice
    local: Local
    update: Literal["model", "gradient"] = "model"
    server: Literal["frozen", "fedavg"] = "frozen"
    local_set: Literal["fresh", "fixed"] = "fresh"
    distinct_labels: bool = False
    passes: Positive = 1
    checkpoints: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | Literal["last"] = "last"
    keep: bool = True
    evaluate: Positive | None = None

    @model_validator(mode="after")
    def _passes_fit(self) -> "Federation":
        if self.rounds % self.passes:
            raise ValueError(f"rounds {self.rounds} must be a multiple of passes {self.passes}")
        if self.passes > 1 and self.distinct_labels and self.local_set == "fresh":
            raise ValueError("distinct_labels does not hold for shuffled passes (set local_set: fixed)")
        if self.evaluate and self.server == "frozen":
            raise ValueError("evaluate: a frozen server's model never changes (set server: fedavg)")
        return self


class Defence(Part):
    """What happens on the client or in aggregation."""


class Attack(Part):
    """An attack: its file, its values, the generator it needs per data set, what it does about labels."""

    generator: dict[Name, Name] = {}
    labels: Literal["none", "oracle", "inferred", "joint"] = "none"
    matching: Literal["best", "hungarian"] = "hungarian"


class Cells(Strict):
    """A product of names: every combination is one cell.

    `all` among defences or attacks stands for each that has a file of its own, without those of `but`; variants are
    named where they are wanted.
    """

    dataset: Names
    victim: Names
    federation: Names
    defence: Names = ["none"]
    attack: Names
    but: Annotated[list[Name], Distinct] = []


class Studies(Strict):
    """A product of names: every combination is one training study."""

    dataset: Names
    victim: Names
    training: Names
    defence: Names = ["none"]


class Exhibit(Strict):
    """Which pictures an experiment shows: some reconstructions chosen by a stated rule.

    `first`: the reconstructions in their own order. `usable`: those of them that are not dead. `best`: by correlation
    with any sample, highest first. `faintest`: those that reveal a sample (r ≥ 0.98), the least pure first.
    `matched`: each sample's match.
    `worst-median-best`: the samples at those ranks of correlation.
    """

    rule: Literal["first", "usable", "best", "faintest", "matched", "worst-median-best"]
    rounds: Positive = 1
    reconstructions: Positive = 24


class Experiment(Strict):
    """One published table, figure or claim: which cells, which metrics, which pictures, which notebook.

    Where accuracy is studied and no attack, `trainings` take the place of cells; all that they measure is in the table.
    `client` narrows table and pictures to one client of the federation, counted from 0 (pictures default to client 0).
    `success`: the metrics of which success rates against a threshold are wanted. `printed`: tables of published/ whose
    numbers the figure shows, if not the one that has the experiment's name.
    """

    source: Literal["fidel", "agic", "thesis", "leakbench"]
    item: str
    title: str
    shows: str
    cells: Annotated[list[Cells], Field(min_length=1)] | None = None
    trainings: Annotated[list[Studies], Field(min_length=1)] | None = None
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1), Distinct] = [0]
    metrics: Annotated[list[str], Field(min_length=1), Distinct] | None = None
    success: Annotated[list[Literal["psnr", "ssim", "mse"]], Distinct] = []
    printed: Annotated[list[str], Distinct] = []
    client: Annotated[int, Field(ge=0)] | None = None
    exhibit: Exhibit | None = None
    notebook: Name

    @model_validator(mode="after")
    def _scored(self) -> "Experiment":
        if (self.cells is None) == (self.trainings is None):
            raise ValueError("cells or trainings: one of the two is needed")
        if (self.cells is None) != (self.metrics is None):
            raise ValueError("metrics: cells need some, trainings take none")
        if self.trainings and (self.exhibit or self.client is not None):
            raise ValueError("exhibit, client: trainings show no pictures")
        for metric in self.success:
            if metric not in (self.metrics or []):
                raise ValueError(f"success: '{metric}' is not scored (add it to metrics)")
        return self


class Scale(Strict):
    """Caps that make a run shorter: kind → glob over names → key path → largest value.

    `left_out`: experiments (name or glob) that the scale would shorten until they say nothing, with the reason that
    their numbers are then not-run for; or some cells of one, by
    <experiment>/<data set>/<victim>/<federation>/<defence>/<attack>/<seed>, or its studies, by
    <experiment>/<data set>/<victim>/<training>/<defence>/<seed>.
    """

    summary: str
    caps: dict[str, dict[str, dict[str, Annotated[float, Field(ge=0)]]]] = {}
    null_rounds: Positive
    left_out: dict[str, str] = {}


KINDS: dict[str, type[BaseModel]] = {
    "datasets": Dataset,
    "victims": Victim,
    "generators": Generator,
    "trainings": Regime,
    "federations": Federation,
    "defences": Defence,
    "attacks": Attack,
    "experiments": Experiment,
    "scales": Scale,
}
