"""The models of a file of config/trainings, and the options that torch's optimisers take."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, create_model, model_validator

from leakbench.base.errors import UserError
from leakbench.base.yamls import Described, Distinct, Name, Names, Positive, Strict, validated
from leakbench.catalogue.cell import Arguments

_AtLeast0 = Annotated[float, Field(ge=0)]


class Entry(Described):
    """What every entry has that says something to people alone."""

    summary: str = Field(description="One sentence for people. It changes no result.")


class Titled(Entry):
    title: str = ""
    """What figures and tables call it. `{variant}` stands for the name of the variant, and every key and
    parameter can stand in braces too. Without it figures show the name."""


class _Options(Strict):
    """The options of every optimiser besides the learning rate. `true` is no number here."""

    weight_decay: _AtLeast0 = 0
    maximize: bool = False


# Written out, as planning needs no torch. Left out are the switches of how torch computes a step, such as
# `fused`, which leakbench sets, and options that are no single number. A test compares the rest with torch.
TAKEN: dict[str, type[_Options]] = {
    "sgd": create_model("Sgd", __base__=_Options, momentum=(_AtLeast0, 0), dampening=(float, 0),
                        nesterov=(bool, False)),
    "adam": create_model("Adam", __base__=_Options, eps=(_AtLeast0, 0), amsgrad=(bool, False),
                         decoupled_weight_decay=(bool, False)),
    "adadelta": create_model("Adadelta", __base__=_Options, rho=(Annotated[float, Field(ge=0, le=1)], 0),
                             eps=(_AtLeast0, 0)),
}  # fmt: skip


def _fitting(options: dict[str, bool | float], others: ValidationInfo) -> dict[str, bool | float]:
    """Return options. Raises ValueError for one that the training's optimiser does not take or refuses."""
    if "optimiser" in others.data:
        try:
            validated(TAKEN[others.data["optimiser"]], options, "")
        except UserError as problem:
            raise ValueError(str(problem)) from problem
        if options.get("nesterov") and (not options.get("momentum") or options.get("dampening")):
            raise ValueError("nesterov: needs momentum and no dampening (set momentum above 0)")
    return options


# The options of a training, in a model that has an `optimiser` above them.
OptimiserOptions = Annotated[dict[str, bool | float], AfterValidator(_fitting)]


class Decay(Described):
    """How the learning rate falls during training."""

    factor: float = Field(gt=0, lt=1, description="The learning rate is multiplied by this.")
    rounds: Annotated[list[Positive], Field(min_length=1), Distinct]
    """After each of these rounds, counted from 1."""


class RuleEntry(Described):
    """A rule: a Python file in the folder of src/leakbench/ that has the same name as the rule's key."""

    module: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="The Python file.")
    parameters: Arguments = {}
    """Keyword arguments of its function. The section on parts lists them."""


class Privacy(Described):
    """Differentially private local training (DP-SGD). The table reports the resulting ε."""

    noise: float = Field(gt=0)
    """The sum over a batch gets normal noise of standard deviation `noise` · `clip`."""
    clip: float = Field(gt=0, description="The gradient of each image is scaled down to this Euclidean norm.")
    delta: float = Field(gt=0, lt=1, description="The δ at which ε is reported.")


class Poison(Described):
    """A client that trains on wrong labels."""

    client: int = Field(ge=0, description="The poisoned client, counted from 0.")
    labels: Literal["shuffled"] = Field("shuffled", description="How its labels are made wrong.")


class Fault(Described):
    """One failure of one client. The round goes on without that client, and the exhibit's facts say why."""

    client: int = Field(ge=0, description="The client, counted from 0.")
    round: Positive = Field(description="The round, counted from 1.")
    kind: Literal["absent", "malformed", "other-key"]
    """`absent`: the client sends nothing. `malformed`: its ciphertexts cannot be read. `other-key`: it
    encrypts under another key pair."""


class Regime(Titled):
    """How a training study trains a network and measures its accuracy. No attack is run.

    In a round each client goes `local_epochs` times over its share of the train split, and then the server
    averages. With one client the training is centralised, and a round is an epoch. Clients that encrypt share
    one key pair, which is drawn when the study starts and is stored nowhere.
    """

    optimiser: Literal["sgd", "adam", "adadelta"]
    """The optimiser. A client keeps its state (such as momentum) from round to round."""
    lr: float = Field(gt=0, description="The learning rate.")
    options: OptimiserOptions = {}
    """Further keyword arguments of torch's optimiser, such as `momentum: 0.9`."""
    decay: Decay | None = None
    """How the learning rate falls. Without it the rate is constant."""
    batch_size: Positive = Field(description="Images in each step.")
    rounds: Positive = Field(description="Number of rounds.")
    local_epochs: Positive = Field(1, description="Passes of a client over its images in one round.")
    clients: Positive = Field(1, description="Number of clients. With 1 the training is centralised.")
    split: Literal["iid", "dirichlet", "by-client"] = "iid"
    """How images are dealt to clients. `iid`: in equal shares at random. `dirichlet`: each class is divided
    in Dirichlet proportions of concentration `alpha`. `by-client`: each client has one of the data sets
    trained on, or the images that the data set itself assigns to it."""
    alpha: Annotated[float, Field(gt=0)] | None = None
    """The concentration of the Dirichlet proportions; smaller values make clients more unlike. `split:
    dirichlet` needs it, and nothing else takes it."""
    validation: float = Field(0.1, gt=0, lt=1)
    """Share of the train split that is held out. The round with the best accuracy on it is the one that
    counts."""
    images: Positive | None = None
    """Number of images of the train split of each data set. Without it all are used."""
    evaluate: Positive | None = None
    """Number of images of the test split of each data set. Without it all are used."""
    size: Positive | None = None
    """Rows and columns that each batch is scaled to. Without it images keep their size."""
    augmentation: dict[Name, Literal["flip-crop"]] = {}
    """For each data set named here, how its batches are varied. `flip-crop`: images are mirrored with
    probability one half and moved by up to four pixels."""
    task: Literal["classification", "recognition"] = "classification"
    """What the network is trained for: to name the class of an image, or to read a word (by connectionist
    temporal classification)."""
    beside: dict[Name, Names] = {}
    """For each data set named here, further data sets that are trained on with it. With `split: by-client`
    each data set belongs to one client."""
    tested_on: Annotated[list[Name], Distinct] = []
    """Further data sets whose test images are read. One that is absent is left out, and the report gives the
    reason."""
    aggregation: RuleEntry | None = None
    """The rule that weights the clients. With it the table also has the weight of each client in each round.
    Without it clients are weighted by their number of images."""
    hold_out: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of its own images on which each client validates the models of all clients. FedBoosting needs it;
    FedAvg may have it so that both train on the same images."""
    fusion: Annotated[float, Field(gt=0, le=1)] | None = None
    """Other clients validate a mixture of models in which the model itself has this share (0.9 in the
    thesis). It adds no noise and is not differential privacy. It needs `hold_out`."""
    encryption: RuleEntry | None = None
    """The scheme under which the server adds up the updates. Without it nothing is encrypted."""
    privacy: Privacy | None = None
    """Differentially private local training. Without it training is not private."""
    poisoned: Poison | None = Field(None, description="A client that trains on wrong labels.")
    faults: list[Fault] = Field([], description="Failures of clients, one entry for each.")

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
