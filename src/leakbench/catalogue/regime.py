"""What a file of config/trainings may hold."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from leakbench.catalogue.strict import Distinct, Name, Names, Positive, Strict


class Decay(Strict):
    """The learning rate is multiplied by `factor` after each of these rounds."""

    factor: Annotated[float, Field(gt=0, lt=1)]
    rounds: Annotated[list[Positive], Field(min_length=1), Distinct]


class Rule(Strict):
    """A file of the room that its key is named after, and the values of its function's keywords."""

    module: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    parameters: dict[str, Any] = {}


class Privacy(Strict):
    """Differentially private local training: each image's gradient is clipped to `clip`, and the sum of a batch gets noise of
    `noise` · `clip`. What that is worth is told as ε at `delta`.
    """

    noise: Annotated[float, Field(gt=0)]
    clip: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(gt=0, lt=1)]


class Poison(Strict):
    """A client, counted from 0, whose training labels are shuffled."""

    client: Annotated[int, Field(ge=0)]
    labels: Literal["shuffled"] = "shuffled"


class Fault(Strict):
    """What goes wrong for a client, counted from 0, in a round, counted from 1: no update comes, its ciphertexts are malformed,
    or it encrypts with another key pair.
    """

    client: Annotated[int, Field(ge=0)]
    round: Positive
    kind: Literal["absent", "malformed", "other-key"]


class Regime(Strict):
    """How a training study trains and measures a model; with one client that is centralised training.

    In a round every client goes `local_epochs` times over its share of the train split, and the server averages. `split`:
    shares alike, or by classes with Dirichlet proportions of concentration `alpha`. `validation`: the share held out, by which
    the round is chosen that counts. `images`, `evaluate`: use so many of the train and of the test split (none: all). `size`:
    rows and columns to which each batch is brought. `augmentation`: data set → how its batches are varied; others are not.
    `task`: what the network is trained for. `beside`: data set → further ones whose images are trained on as well; with `split:
    by-client` each is one client's. `tested_on`: data sets whose test images are read as well.

    `aggregation`: the rule that weights clients (none: by images). `hold_out`: the share of its own images on which a client
    validates every client's model. `fusion`: a model is validated by others as a mixture with that share of itself.
    `encryption`: what the server adds up is encrypted.
    """

    summary: str
    optimiser: Literal["sgd", "adam", "adadelta"]
    lr: Annotated[float, Field(gt=0)]
    options: dict[str, bool | float] = {}
    decay: Decay | None = None
    batch_size: Positive
    rounds: Positive
    local_epochs: Positive = 1
    clients: Positive = 1
    split: Literal["iid", "dirichlet", "by-client"] = "iid"
    alpha: Annotated[float, Field(gt=0)] | None = None
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.1
    images: Positive | None = None
    evaluate: Positive | None = None
    size: Positive | None = None
    augmentation: dict[Name, Literal["flip-crop"]] = {}
    task: Literal["classification", "recognition"] = "classification"
    beside: dict[Name, Names] = {}
    tested_on: Annotated[list[Name], Distinct] = []
    aggregation: Rule | None = None
    hold_out: Annotated[float, Field(gt=0, lt=1)] | None = None
    fusion: Annotated[float, Field(gt=0, le=1)] | None = None
    encryption: Rule | None = None
    privacy: Privacy | None = None
    poisoned: Poison | None = None
    faults: list[Fault] = []

    @model_validator(mode="after")
    def _aggregated(self) -> "Regime":
        for key in ("hold_out", "fusion", "encryption", "faults"):
            if getattr(self, key) and self.aggregation is None:
                raise ValueError(f"{key} is for an aggregation that is named (add aggregation)")
        if self.fusion and self.hold_out is None:
            raise ValueError("fusion: fused models are for validation by others (add hold_out)")
        named = [each.client for each in self.faults] + ([self.poisoned.client] if self.poisoned else [])
        for client in named:
            if client >= self.clients:
                raise ValueError(f"client {client} is beyond the {self.clients} clients (count from 0)")
        return self

    @model_validator(mode="after")
    def _concentrated(self) -> "Regime":
        if (self.alpha is None) == (self.split == "dirichlet"):
            raise ValueError("alpha is for split: dirichlet, which needs it")
        if self.split == "dirichlet" and self.task == "recognition":
            raise ValueError("split: dirichlet divides classes, which words are not")
        return self
