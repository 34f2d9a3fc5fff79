"""A training study: how well a model does that is trained in one way under one defence."""

from dataclasses import dataclass
from pathlib import Path

from leakbench.aggregation import cross_validates
from leakbench.catalogue.cell import Spec
from leakbench.catalogue.entry import resolved
from leakbench.catalogue.load import RULES, find
from leakbench.catalogue.schema import Dataset, Scale
from leakbench.errors import UserError

OPTIONAL = (*RULES, "hold_out", "fusion", "privacy", "poisoned", "faults")


@dataclass(frozen=True, order=True)
class Study:
    """One job's worth of training: every client and round of it is a row inside."""

    dataset: str
    victim: str
    training: str
    defence: str
    seed: int

    @property
    def stem(self) -> str:
        """Path stem of its results."""
        return f"{self.dataset}/{self.victim}/{self.training}/{self.defence}/{self.seed}"


def study_spec(study: Study, config: Path, where: str, scale: Scale, scale_file: str) -> Spec:
    """Return a study's resolved spec. Raises UserError naming file and key where its parts do not fit each other."""
    dataset = find(config, "datasets", study.dataset, where)
    assert isinstance(dataset, Dataset)
    if dataset.shape is None or dataset.classes is None or not {"train", "test"} <= dataset.counts.keys():
        raise UserError(
            f"{where}: dataset '{study.dataset}' is not one to train and test on (choose one with shape, classes and counts of both)"
        )
    victim, training, defence = (
        resolved(config, f"{kind}s", study.dataset, getattr(study, kind), where, scale, scale_file)
        for kind in ("victim", "training", "defence")
    )
    images = min(dataset.counts["train"], training["images"] or dataset.counts["train"])
    held = round(images * training["validation"])
    if held < 1 or (images - held) // training["clients"] < 2:
        raise UserError(
            f"{where}: training '{study.training}': {images} images give {held} for validation and "
            f"{images - held} to {training['clients']} clients (raise images, or lower clients)"
        )
    training["augmentation"] = training["augmentation"].get(study.dataset, "none")
    if (rule := training["aggregation"]) and cross_validates(rule["module"]) and training["hold_out"] is None:
        raise UserError(
            f"{where}: training '{study.training}': aggregation '{rule['module']}' has clients validate each other's models "
            "(add hold_out)"
        )
    # A study without them depends on none of them.
    given = {key: value for key in OPTIONAL if (value := training.pop(key))}
    rules = {key: given.pop(key) for key in RULES if key in given}
    return {
        **rules,
        "training": training | given,
        "victim": {key: victim[key] for key in ("module", "parameters")},
        "defence": defence,
        "dataset": {"name": study.dataset, "shape": list(dataset.shape), "classes": dataset.classes},
        "study": {key: getattr(study, key) for key in ("dataset", "victim", "training", "defence")},
        "seed": study.seed,
    }
