"""What a file of the catalogue may hold: one pydantic model for each kind of YAML.

`python -m leakbench manual` writes results/manual/config/ and the editors' schemas from descriptions. Nothing
here imports torch, because Snakemake parses this module.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, model_validator

from leakbench.base.yamls import Described, Name, Positive, Shape
from leakbench.catalogue.cell import Arguments
from leakbench.catalogue.experiment import Experiment, Scale
from leakbench.catalogue.regime import Entry, OptimiserOptions, Regime, Titled
from leakbench.catalogue.sections import FORMS, as_parts


class Slice(Described):
    """The images [start, stop) of one split of a data set, in the official order."""

    split: Literal["train", "test"] = Field(description="The split that the images are taken from.")
    start: int = Field(0, ge=0, description="The first image, counted from 0.")
    stop: Positive = Field(description="The image after the last one. It must exceed `start`.")

    @model_validator(mode="after")
    def _not_empty(self) -> "Slice":
        if self.stop <= self.start:
            raise ValueError(f"stop {self.stop} must exceed start {self.start}")
        return self


class Training(Described):
    """How a network is fitted to its data."""

    optimiser: Literal["sgd", "adam", "adadelta"] = Field(description="The optimiser.")
    lr: float = Field(gt=0, description="The learning rate.")
    options: OptimiserOptions = {}
    """Further keyword arguments of torch's optimiser, such as `momentum: 0.9`."""
    batch_size: Positive = Field(description="Images in each step.")
    epochs: int = Field(ge=0)
    """Passes over the data. With `settled` this is the largest number of passes."""
    checkpoints: list[Annotated[int, Field(ge=0)]] = []
    """Epochs after which the weights are kept. Epoch 0 is the state before the first step. The weights of the
    last epoch are always kept."""
    images: Positive | None = None
    """Number of images to train on, the first ones of the split. Without it all are used."""
    settled: Annotated[float, Field(gt=0)] | None = None
    """Training ends after the first epoch whose mean loss differs from that of the epoch before by no more
    than this."""

    @model_validator(mode="after")
    def _within(self) -> "Training":
        if max(self.checkpoints, default=0) > self.epochs:
            raise ValueError(f"checkpoints: {max(self.checkpoints)} is beyond the {self.epochs} epochs")
        return self


class Part(Titled):
    """A catalogue entry that names one Python file and gives values to its function's keyword arguments."""

    module: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9_-]*)?$")] = ""
    """The Python file of the part, in the folder of src/leakbench/ named after this one. Without it the part
    is the file of the same name as the YAML."""
    parameters: Arguments = {}
    """Keyword arguments of the part's function. They are checked against its signature, and the section on
    parts lists them."""


class Source(Described):
    """One way to get a data set.

    Give exactly one of `folders`, `torchvision`, `package` and `drawn`. The entries with `folders` are tried
    first, then the others in the order of the file. What the others bring must lie in one of the `folders`
    too.
    """

    folders: list[str] = Field([], description="Folders to look for in each folder of `LEAKBENCH_DATA`.")
    holding: list[str] = ["*"]
    """Patterns of files. A folder counts only if it holds a file that fits one of them."""
    put: str = Field("", description="What a person puts into a folder of `LEAKBENCH_DATA`, for messages.")
    torchvision: list[str] = []
    """Data sets or weights, named as in torchvision, which knows their official addresses."""
    package: str = ""
    """A package of a registry: one of PACKAGES in `src/leakbench/datasets/__init__.py`."""
    drawn: str = Field("", description="What draws the data from its parameters, as the end of `drawn …`.")

    @model_validator(mode="after")
    def _one_way(self) -> "Source":
        ways = ("folders", "torchvision", "package", "drawn")
        given = [way for way in ways if getattr(self, way)]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(ways)}, not {' and '.join(given) or 'none'}")
        return self


class Dataset(Part):
    """A set of images, words or records of a table, with the digests that its arrays must have.

    First the folders of `LEAKBENCH_DATA` (separated by colons) are searched. Then the other sources are tried
    in the order of the file. If no source has a data set, its cells are `not-run`, and the report gives the
    reason.
    """

    shape: Shape | None = None
    """Rows, columns and channels of an image. A record has one row, one channel, and a column for each number
    and each category."""
    classes: Positive | None = Field(None, description="Number of classes (of words: of characters).")
    counts: dict[str, Positive] = Field({}, description="Number of images in each split.")
    sha256: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] | None = None
    """The digest of each array, as 64 hexadecimal digits. Without it the data set is not pinned, and the
    digest that is found is recorded."""
    scaled: bool = False
    """Images are brought to `shape` after their digests were checked, and the first `counts` of each split
    are kept. Grey images get three equal channels where `shape` has three."""
    labels: Literal["classes", "words", "tokens"] = "classes"
    """What the label of an image is: one of the `classes`, or a word whose characters are the classes, or for
    each token of a sentence the one that follows. Only training studies can use words."""
    sources: list[Source] = []
    """Where the data comes from. Each entry gives exactly one of `folders`, `torchvision`, `package` and
    `drawn`."""
    licence: str = Field("", description="The licence of the data, for people.")

    @model_validator(mode="after")
    def _tokens_fit(self) -> "Dataset":
        own = {"vocabulary": self.classes, "length": self.shape[1] if self.shape else None}
        for name, value in own.items() if self.labels == "tokens" else ():
            if self.parameters.get(name, value) != value:
                raise ValueError(f"{name} {self.parameters[name]} does not fit shape and classes ({value})")
        return self

    @property
    def fetched(self) -> bool:
        """Whether the workflow can get the data set itself, without a folder of its user."""
        return any(not source.folders for source in self.sources)


class Victim(Part):
    """The network under attack and how it is trained on the train split of its data set."""

    training: Training | None = None
    """How the network is trained. Without it the network keeps its initial weights."""
    weights: Name | None = Field(None, exclude_if=lambda value: value is None)
    """The entry of datasets/ that brings weights that a user has. Without them the cells are `not-run`."""


class Auxiliary(Slice):
    """The attacker's own images."""

    dataset: Name | None = None
    """The data set of these images. Without it they are of the victim's own data set."""


class Generator(Part):
    """A network of the attacker that makes images, trained on images of its own or with published weights.

    Give either `weights`, or both `auxiliary` and `training`. A generator that reads nothing has `auxiliary`
    alone. Published weights are put by hand into a folder of `LEAKBENCH_DATA`. Without them the cells that
    need them are `not-run`.
    """

    reads: Literal["features", "latent", "nothing"] = "features"
    """What the generator makes images from. `features` are what the victim's first dense layer reads; the
    generator is then trained anew for each victim. `latent` is a random vector and a class; one generator
    then serves all victims, and its file has a function `learner`. `nothing`: the images themselves are kept,
    for attacks that need labelled samples."""
    auxiliary: Auxiliary | None = None
    """The attacker's own images. They must not overlap the private images of the federation."""
    validation: float = Field(0.15, ge=0, lt=1)
    """Share of the auxiliary images that is held out of training."""
    training: Training | None = Field(None, description="How the generator is trained.")
    weights: Name | None = None
    """The entry of datasets/ that brings the weights of a published generator."""

    @model_validator(mode="after")
    def _made_somehow(self) -> "Generator":
        given = self.auxiliary is not None, self.training is not None
        if given != ((False, False) if self.weights else (True, self.reads != "nothing")):
            raise ValueError(
                "give either weights, or auxiliary and training (no training where it reads nothing)"
            )
        return self


class Local(Described):
    """A client's local training."""

    lr: float = Field(gt=0, description="The client's learning rate.")
    batch_size: Positive | None = None
    """Images in each local step. Without it the whole local set is one batch."""
    epochs: Positive = Field(1, description="Passes over the local set in one round.")
    weight_decay: float = Field(0.0, ge=0, exclude_if=lambda value: value == 0)
    """In each local step the gradient has this share of the weights added to it."""
    optimiser: Literal["sgd", "momentum", "adamw"] = Field("sgd", exclude_if=lambda value: value == "sgd")
    """Plain gradient descent; or for a client that sends its model: SGD with momentum 0.9, or AdamW with
    torch's defaults."""
    loss: Literal["cross-entropy", "smoothed", "weighted", "multi-label", "regression"] = Field(
        "cross-entropy", exclude_if=lambda value: value == "cross-entropy"
    )
    """By what clients train. Attacks that compute it go with cross-entropy alone. `smoothed`: labels by 0.1.
    `weighted`: class c (from 0) counts c + 1 times. `multi-label` (a binary cross-entropy) and `regression`
    (the mean square): as many targets as classes, those of a sample's class."""
    reshuffled: bool = Field(False, exclude_if=lambda value: not value)
    """Each pass takes the samples in a new order by chance, which the server does not know. Without it every
    pass goes through them in the same order, that of the truth."""


class Drawn(Described):
    """A draw of private images that published code makes, so that its very batches are made again."""

    seed: int = Field(ge=0, description="The seed of NumPy's default generator.")
    of: Positive
    """Number of images that are drawn without replacement. The update has the first of them."""


class Federation(Entry):
    """Who trains on what in each round, and what is sent to the server."""

    clients: Annotated[list[Positive], Field(min_length=1)]
    """Number of private images of each client in each round. The list has one entry for each client."""
    rounds: Positive = Field(description="Number of rounds. Each round is one measurement of each client.")
    private: Slice
    """Where the private images are drawn from. No image occurs twice in one update."""
    local: Local = Field(description="The client's local training.")
    update: Literal["model", "gradient"] = "model"
    """What a client sends: the new weights minus the old ones, or the mean gradient."""
    server: Literal["frozen", "fedavg"] = "frozen"
    """`frozen`: every round starts from the same model. `fedavg`: the server adds the mean update to the
    model, and the next round starts from there."""
    local_set: Literal["fresh", "fixed"] = "fresh"
    """`fresh`: the local set is drawn anew in each round, so that rounds are independent measurements.
    `fixed`: it is the same in every round, as in deployed federated learning. With several `passes` a fixed
    set has the same batches in the same order in every pass."""
    distinct_labels: bool = False
    """No two images of an update share a label. It cannot be combined with several `passes` over fresh
    sets."""
    # An older spec does not have this key, and must stay the same spec.
    alpha: Annotated[float, Field(ge=0.01)] | None = Field(None, exclude_if=lambda value: value is None)
    """The labels of each update are skewed: the shares of the classes are drawn for it from a symmetric
    Dirichlet distribution of this concentration. Without it images are drawn at random."""
    drawn: Drawn | None = Field(None, exclude_if=lambda value: value is None)
    """The images of the one update are those that published code draws. Of a split with fewer images than
    `private.stop` all are drawn from. Without it images are drawn at random."""
    passes: Positive = 1
    """How many times a client goes over one private set, in a new order each time. `rounds` must be a
    multiple of it. All rounds of a pass start from one model; with `server: fedavg` the model moves after
    each pass."""
    checkpoints: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | Literal["last"] = "last"
    """The epochs of the victim's training from which the rounds start. All `rounds` are played for each of
    them."""
    keep: bool = True
    """`false` deletes updates and guesses once they were scored: for federations whose files are large and
    quick to make again."""
    candidates: Positive | None = Field(None, exclude_if=lambda value: value is None)
    """The server holds all private images of all rounds and this many others of `private`, in one list by
    chance, and does not know which is which: for attacks that tell who was in a batch. Without it the server
    holds none."""
    malicious: Name | None = Field(None, exclude_if=lambda value: value is None)
    """The entry of servers/ that writes the weights that are sent out. Without it the server follows the
    protocol. It needs `server: frozen`."""
    watched: bool = Field(False, exclude_if=lambda value: not value)
    """Each client runs every detector of src/leakbench/federation/detectors/ on the model and its batch, and
    what they find is a metric. It sends its update all the same."""
    begins: Annotated[int, Field(ge=0)] = Field(0, exclude_if=lambda value: not value)
    """Number of rounds that the server plays by the protocol before the rounds here (federated averaging,
    without a defence). All rounds here then start from the model that these end at, and clients remember
    them. It needs `server: frozen` and `watched: true`."""
    evaluate: Positive | None = None
    """Number of test images, none of them private, on which the model's accuracy is measured each time the
    server has moved it. It needs `server: fedavg`. Without it nothing is measured."""

    @model_validator(mode="after")
    def _passes_fit(self) -> "Federation":
        if self.rounds % self.passes:
            raise ValueError(f"rounds {self.rounds} must be a multiple of passes {self.passes}")
        if self.passes > 1 and self.distinct_labels and self.local_set == "fresh":
            raise ValueError("distinct_labels does not hold for shuffled passes (set local_set: fixed)")
        if self.local.optimiser != "sgd" and self.update == "gradient":
            raise ValueError("local.optimiser: a gradient needs no optimiser (set update: model)")
        if self.local.optimiser == "momentum" and self.local.weight_decay:
            raise ValueError("local.weight_decay: is not added under momentum (drop one of them)")
        if self.alpha is not None and self.distinct_labels:
            raise ValueError("alpha: labels cannot be skewed and all different (drop distinct_labels)")
        if self.alpha is not None and self.passes > 1:
            raise ValueError("alpha: shuffled passes draw their set at random (set passes: 1)")
        if self.drawn is not None:
            if self.rounds > 1 or len(self.clients) > 1:
                raise ValueError("drawn: published code draws one update (set rounds: 1 and one client)")
            if self.alpha is not None or self.distinct_labels or self.candidates:
                raise ValueError("drawn: goes with none of alpha, distinct_labels, candidates (drop them)")
            if self.clients[0] > self.drawn.of:
                raise ValueError(f"drawn.of: {self.drawn.of} images have no {self.clients[0]} (raise it)")
        if self.evaluate and self.server == "frozen":
            raise ValueError("evaluate: a frozen server's model never changes (set server: fedavg)")
        if self.malicious and self.server != "frozen":
            raise ValueError("malicious: the server writes the weights anew each round (set server: frozen)")
        if self.begins and not (self.watched and self.server == "frozen"):
            raise ValueError(
                "begins: only clients that look remember rounds (set watched: true and server: frozen)"
            )
        return self


class Server(Part):
    """A malicious server, which changes the weights before it sends them out."""

    threat: Literal["F", "G", "H"]
    """What the server can do, by the letters of Carletti et al. (USENIX Security 2025). `F`: it writes the
    weights. `G`: it also holds samples like the private ones. `H`: it also chooses which clients it
    attacks."""
    auxiliary: Slice | None = None
    """The server's own images, of the victim's data set. They must not overlap the private images of the
    federation. Without it the server holds none."""


class DefenceEntry(Part):
    """What a client or the aggregation does to protect the private images.

    Most defences act on the client: on the model that it trains or on the update that it sends. Others act in
    the aggregation and change who sees what. `aggregated` shows only the sum of all updates. `encrypted`
    shows the server ciphertexts. `fused` shows a client of FedBoosting mixtures of the other clients' models.
    In the matrix of attacks and defences these views stand beside the defences. `aggregated` and `fused` need
    at least two clients.
    """


# Part → keyword arguments. A file may write it in three forms.
Section = Annotated[
    dict[Name, Arguments], Field(default_factory=dict), BeforeValidator(as_parts), WithJsonSchema(FORMS)
]


class AttackEntry(Part):
    """An attack that reconstructs private images from what the server saw.

    A gradient-matching attack is composed of parts. The sections `objective`, `unknowns`, `optimiser` and
    `epochs` name them. Each part is one file in the folder of src/leakbench/ that the section's description
    names. A section is a name, or a mapping from names to the arguments of the parts, or a list of names and
    such mappings. In a variant, a name or a list replaces the section of the file. A mapping changes
    arguments, adds parts, and leaves out those that it maps to `null`.
    """

    objective: Section
    """The terms of the loss, parts of objectives/: at least one distance of gradients, weights of layers at
    most once, a choice of the entries that are compared at most once, penalties of the distance, priors of
    images. Distances are added, priors too, each times its weight."""
    unknowns: Section
    """What is optimised, a part of unknowns/."""
    optimiser: Section
    """How it is optimised, a part of optimisers/."""
    epochs: Section
    """How updates of several epochs are attacked together, a part of epochs/. Without it each update is
    attacked alone."""
    labels: Name = "none"
    """Where the labels come from. `none`: the attack needs no labels. `oracle`: the true labels are given to
    it. `joint`: they are unknowns that are optimised together with the images. Any other name is a part of
    labels/, a rule that reads them off the update."""
    adaptive: bool = False
    """Whether the attacker knows the defence and does what the file of the defence's name in
    src/leakbench/attacks/adaptive/ holds against it."""
    generator: dict[Name, Name] = {}
    """For each data set the generator that the attack uses. Most attacks use none."""
    matching: Literal["best", "hungarian"] = "hungarian"
    """How reconstructions are assigned to private images for scoring. `hungarian`: one to one, with the least
    total error. `best`: each private image takes its best reconstruction, for attacks that return more
    candidates than there are images."""


KINDS: dict[str, type[BaseModel]] = {
    "datasets": Dataset, "victims": Victim, "generators": Generator, "trainings": Regime,
    "federations": Federation, "servers": Server, "defences": DefenceEntry, "attacks": AttackEntry,
    "experiments": Experiment, "scales": Scale,
}  # fmt: skip
