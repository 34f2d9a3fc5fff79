"""A training study: the accuracy of a model that is trained in one way under one defence."""

from dataclasses import dataclass

from leakbench.base.errors import UserError
from leakbench.catalogue.cell import Spec
from leakbench.catalogue.entry import Sized
from leakbench.catalogue.load import RULES
from leakbench.catalogue.schema import Dataset
from leakbench.catalogue.signature import constant

OPTIONAL = (*RULES, "hold_out", "fusion", "privacy", "poisoned", "faults")
# Task → the kind of labels that its data sets have.
LABELS = {"classification": "classes", "recognition": "words"}


@dataclass(frozen=True, order=True)
class Study:
    """One training study, by the names of its entries. Every client and round is a row of its results."""

    dataset: str
    victim: str
    training: str
    defence: str
    seed: int

    @property
    def stem(self) -> str:
        """Path stem of the study's results."""
        return f"{self.dataset}/{self.victim}/{self.training}/{self.defence}/{self.seed}"


def study_spec(study: Study, at: Sized, where: str) -> Spec:
    """Return a study's resolved spec. Raises UserError, which names file and key, if the parts do not fit."""
    dataset = at.whole("datasets", study.dataset, where)
    if dataset.shape is None or dataset.classes is None or not {"train", "test"} <= dataset.counts.keys():
        raise UserError(
            f"{where}: dataset '{study.dataset}' is not one to train and test on (choose one with shape, "
            "classes and counts of both)"
        )
    victim, training, defence = (
        at.entry(f"{kind}s", study.dataset, getattr(study, kind), where, spec)
        for kind, spec in (("victim", ""), ("training", f"study/{study.stem}"), ("defence", ""))
    )
    if dataset.labels != LABELS[training["task"]]:
        raise UserError(
            f"{where}: training '{study.training}': task: {training['task']} is about "
            f"{LABELS[training['task']]}, and dataset '{study.dataset}' is of {dataset.labels} (choose "
            "another of the two)"
        )
    # As with augmentation, only the value for the study's own data set belongs to the study.
    training["beside"] = training["beside"].get(study.dataset, [])
    named = f"{where}: training '{study.training}'"
    beside = [_like(name, dataset, at, f"{named}: beside", "train") for name in training["beside"]]
    for name in training["tested_on"]:
        _like(name, dataset, at, f"{named}: tested_on", "test")
    if training["split"] == "by-client" and beside and training["clients"] != len(beside) + 1:
        raise UserError(
            f"{named}: split: by-client: {training['clients']} clients cannot have one each of "
            f"{len(beside) + 1} data sets (set clients to their number)"
        )
    images = sum(
        min(each.counts["train"], training["images"] or each.counts["train"]) for each in [dataset, *beside]
    )
    held = round(images * training["validation"])
    if held < 1 or (images - held) // training["clients"] < 2:
        raise UserError(
            f"{where}: training '{study.training}': {images} images give {held} for validation and "
            f"{images - held} to {training['clients']} clients (raise images, or lower clients)"
        )
    training["augmentation"] = training["augmentation"].get(study.dataset, "none")
    if (
        (rule := training["aggregation"])
        and constant("aggregation", rule["module"], "CROSS_VALIDATES")
        and training["hold_out"] is None
    ):
        raise UserError(
            f"{where}: training '{study.training}': aggregation '{rule['module']}' has clients validate each "
            "other's models (add hold_out)"
        )
    # Keys without a value stay out of the spec, so that it does not depend on them.
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


def _like(name: str, dataset: Dataset, at: Sized, where: str, split: str) -> Dataset:
    """Return data set `name`. Raises UserError if its images or labels are unlike those of `dataset`."""
    found: Dataset = at.whole("datasets", name, where)
    alike = all(getattr(found, key) == getattr(dataset, key) for key in ("shape", "classes", "labels"))
    if not alike or split not in found.counts:
        raise UserError(
            f"{where}: dataset '{name}' has other images or labels, or none in the split {split} (choose one "
            "of the same shape)"
        )
    return found


def further(spec: Spec) -> list[str]:
    """Return the further data sets of a study: those that it also trains on, then those that it tests on."""
    training = spec["training"]
    return [*training["beside"], *training["tested_on"]]


def datasets_of(spec: Spec) -> list[str]:
    return [spec["dataset"]["name"], *further(spec)]
