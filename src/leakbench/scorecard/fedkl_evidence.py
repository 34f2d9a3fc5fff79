"""How the findings of FedKL's accuracy (thesis, Tables 5.1 to 5.3) read the tables of training studies."""

import math

from leakbench.drawing.printed_trainings import DATASETS, NETWORKS, training
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.measure import Measured, NotMeasured, scaled, select

# Rounds of the released configuration; the thesis states none.
ROUNDS = 200
# Columns of Tables 5.1 and 5.3, in the thesis' order.
COLUMNS = [
    ("LeNet", "MNIST"),
    *((model, dataset) for model in list(NETWORKS)[1:] for dataset in ("CIFAR-10", "CIFAR-100")),
]
# A network that is right on fewer images has learnt too little for a lock to cost it anything: fixed before measuring.
LEARNT = 0.5
# In points, fixed before measuring: what single runs may differ by.
TOLERANCE = 1.0


def condition(model: str, dataset: str, kind: str, locked: bool, released: bool = False) -> dict[str, object]:
    """The condition of a study: the network of the lock or its twin, or what the released code trains without a lock."""
    return {
        "dataset": DATASETS[dataset],
        "victim": NETWORKS[model][released and not locked],
        "training": training(model, kind),
        "defence": "key-lock" if locked else "none",
    }


def accuracy(
    evidence: Evidence,
    model: str,
    dataset: str,
    kind: str,
    locked: bool,
    *,
    released: bool = False,
    key: str = "own",
    client: object = "",
    metric: str = "accuracy",
    convention: str = "published",
    experiment: str = "thesis-table-5-1",
) -> Measured:
    """Test accuracy in percent of a study's selected round, of the mean over clients or of one."""
    found = evidence.pick(
        experiment,
        metric=metric,
        convention=convention,
        key=key if locked else "",
        client=client,
        **condition(model, dataset, kind, locked, released),
    )
    return scaled(found, 100)


def length(evidence: Evidence, experiment: str, where: dict[str, object]) -> str:
    """How long a study trained, if shorter than the released configuration, in words."""
    rows = select(evidence.table(experiment), f"table {experiment}", metric="lock_share", **where)
    rounds, images = int(rows["rounds"].min()), int(rows["images"].min())
    return f"after {rounds} of {ROUNDS} rounds over {images:,} images" if rounds < ROUNDS else ""


def learnt(evidence: Evidence, model: str, dataset: str, kind: str) -> None:
    """Raise NotMeasured where the twin without a lock has learnt too little to judge by."""
    own = accuracy(evidence, model, dataset, kind, False, convention="standard").value
    if math.isnan(own) or own < 100 * LEARNT:
        how = length(evidence, "thesis-table-5-1", condition(model, dataset, kind, False))
        raise NotMeasured(
            f"needs paper scale: {how or 'at the end'} {model} on {dataset} is right on {own:.0f} % without a lock"
        )
