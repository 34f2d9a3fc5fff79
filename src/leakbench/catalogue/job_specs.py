"""The resolved specs of jobs, and the checks that their parts fit each other."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from leakbench.base.errors import UserError
from leakbench.base.parts import stem
from leakbench.base.yamls import suggest
from leakbench.catalogue.cell import Cell, Spec, Study
from leakbench.catalogue.entry import Sized
from leakbench.catalogue.load import RULES, file_of, find
from leakbench.catalogue.schema import Dataset
from leakbench.catalogue.signature import check_signature, constant, module_file, part_names
from leakbench.papers.verdicts.schedule import FALLS_AT

# The keys of a training that its spec has only with a value.
OPTIONAL = (*RULES, "hold_out", "fusion", "privacy", "poisoned", "faults")
# Task → the kind of labels that its data sets have.
LABELS = {"classification": "classes", "recognition": "words"}


def cell_specs(cell: Cell, at: Sized, where: str) -> tuple[dict[str, Spec], tuple[str, ...]]:
    """Return name → resolved spec of a cell, and the names of those of its victim and generator, if any."""
    dataset, config = find(at.config, "datasets", cell.dataset, where), at.config
    if dataset.shape is None or dataset.classes is None or dataset.labels == "words":
        raise UserError(
            f"{where}: dataset '{cell.dataset}' holds no images of classes (choose one with shape and "
            "classes, not of words)"
        )
    trained, served = cell.path("train"), ""
    sized = {"victim": trained, "federation": cell.path("capture"), "defence": ""}
    entries = {
        kind: at.entry(f"{kind}s", cell.dataset, getattr(cell, kind), where, spec)
        for kind, spec in sized.items()
    }
    # The time that an attack takes depends on all parts of the capture.
    place = cell.name.rpartition("/")[0]
    entries["attack"] = at.entry("attacks", place, cell.attack, where, cell.path("attack"))
    if constant("victims", entries["victim"]["module"], "READS", "classes") != dataset.labels:
        raise UserError(
            f"{where}: dataset '{cell.dataset}' is of {dataset.labels}, which victim '{cell.victim}' does "
            "not read (sentences of tokens are for the victim transformer, other data for the others)"
        )
    if dataset.labels == "tokens" and {"distinct_labels", "alpha"} & {
        key for key, value in entries["federation"].items() if value
    }:
        raise UserError(
            f"{where}: federation '{cell.federation}' chooses samples by their classes, which sentences have "
            "not (drop distinct_labels and alpha)"
        )
    if weights := entries["victim"].get("weights"):
        find(at.config, "datasets", weights, f"{file_of(config, 'victims', cell.victim)}: weights")
    private = entries["federation"]["private"]
    there = dataset.counts.get(private["split"], private["stop"])
    # A data set of one's own may be smaller than the range, which then ends with the set.
    if private["start"] < there < private["stop"] and not entries["federation"].get("drawn"):
        entries["federation"]["private"] = private | {"stop": there}
    generator = entries["attack"]["generator"].get(cell.dataset)
    if generator:
        named = f"{file_of(config, 'attacks', cell.attack)}: generator.{cell.dataset}"
        reads = find(at.config, "generators", generator, named).reads
        served = cell.served(generator)[reads != "features"]
        entries["generator"] = at.entry("generators", cell.dataset, generator, named, served)
        auxiliary, weights = (entries["generator"][key] for key in ("auxiliary", "weights"))
        if auxiliary:
            entries["generator"]["auxiliary"] = {**auxiliary, "dataset": auxiliary["dataset"] or cell.dataset}
        if weights:
            find(at.config, "datasets", weights, f"{file_of(config, 'generators', generator)}: weights")
    training, asked = entries["victim"]["training"], entries["federation"]["checkpoints"]
    if training and asked != "last":
        uncapped = find(at.config, "victims", cell.victim, where).training.epochs
        entries["federation"]["checkpoints"] = sorted(
            {min(c, training["epochs"]) if c <= uncapped else c for c in asked}
        )
    if cheats := entries["federation"].pop("malicious", ""):
        named = f"{file_of(config, 'federations', cell.federation)}: malicious"
        entries["malicious"] = at.entry("servers", cell.dataset, cheats, named, "")
    if wrong := next(_misfits(cell, at, where, entries, dataset), ""):
        raise UserError(wrong)
    images = {"name": cell.dataset, "shape": list(dataset.shape), "classes": dataset.classes}
    network = {key: entries["victim"][key] for key in ("module", "parameters")}
    out: dict[str, Spec] = {}
    out[trained] = {"victim": entries["victim"], "dataset": images, "seed": cell.seed}
    if generator:
        features = {"victim": network} if reads == "features" else {}
        out[served] = {
            "generator": entries["generator"], "dataset": images, "seed": cell.seed, **features,
        }  # fmt: skip
    out[cell.path("capture")] = {
        "federation": entries["federation"], "federation_name": cell.federation,
        "defence": entries["defence"], "victim": network, "dataset": images, "seed": cell.seed,
        **at.salted(cell),
        **({"malicious": entries["malicious"]} if cheats else {}),
    }  # fmt: skip
    attack = {**entries["attack"], "generator": generator}
    # A victim may be a defence itself.
    modules = [entries[kind]["module"] for kind in ("defence", "victim")]
    known = next((name for name in modules if _adaptation(name) is not None), modules[0])
    # An attack that plays clients itself gets the defence of the cell, unless its entry names one.
    plays = "defence" in attack["parameters"]
    if plays:
        given = attack["parameters"]["defence"] or entries["defence"]
        attack["parameters"] = {**attack["parameters"], "defence": given}
    # Under some defences even an attack that does not adapt needs their file, for its function `unadapted`.
    source = _adaptation(known)
    adapts = source is not None and (attack["adaptive"] or "\ndef unadapted(" in source)
    out[cell.path("attack")] = {
        "attack": attack, "attack_name": cell.attack, "null_rounds": at.scale.null_rounds, "seed": cell.seed,
        **({"adaptation": {"module": known}} if adapts else {}),
        **({"defence": given} if plays else {}),
    }  # fmt: skip
    return out, (trained, served) if served else (trained,)


def judge_spec(cell: Cell, name: str, at: Sized, where: str, specs: Mapping[str, Spec]) -> dict[str, Spec]:
    """Return name → resolved spec of the training of a classifier that a metric of a cell asks."""
    spec = cell.path("train", name)
    entry = at.entry("victims", cell.dataset, name, where, spec)
    if entry["training"] is None:
        raise UserError(f"{where}: judge '{name}' is not trained (give config/victims a training for it)")
    beside = specs[cell.path("train")]
    return {spec: {**beside, "victim": entry}}


def pointless(attack: Spec, capture: Spec) -> str:
    bare = capture["defence"]["module"] == "none" and "adaptation" not in attack
    return "without a defence there is nothing to adapt to" if bare and attack["attack"]["adaptive"] else ""


@cache
def _adaptation(module: str) -> str | None:
    """Return the source of the file that an adaptive attacker uses against a defence, or None without one."""
    if stem(module) in map(stem, part_names("adaptive")):
        check_signature("adaptive", module)
    file = module_file("adaptive", module)
    return file.read_text("utf-8") if file.is_file() else None


def study_spec(study: Study, at: Sized, where: str) -> Spec:
    """Return a study's resolved spec. Raises UserError, which names file and key, if the parts do not fit."""
    dataset = find(at.config, "datasets", study.dataset, where)
    if dataset.shape is None or dataset.classes is None or not {"train", "test"} <= dataset.counts.keys():
        raise UserError(
            f"{where}: dataset '{study.dataset}' is not one to train and test on (choose one with shape, "
            "classes and counts of both)"
        )
    victim, training, defence = (
        at.entry(f"{kind}s", study.dataset, getattr(study, kind), where, spec)
        for kind, spec in (("victim", ""), ("training", f"study/{study.stem}"), ("defence", ""))
    )
    named, task = f"{where}: training '{study.training}'", training["task"]
    if dataset.labels != LABELS[task]:
        raise UserError(
            f"{named}: task: {task} is about {LABELS[task]}, and dataset '{study.dataset}' is of "
            f"{dataset.labels} (choose another of the two)"
        )
    # As with augmentation, only the value for the study's own data set belongs to the study.
    training["beside"] = training["beside"].get(study.dataset, [])
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
            f"{named}: {images} images give {held} for validation and "
            f"{images - held} to {training['clients']} clients (raise images, or lower clients)"
        )
    training["augmentation"] = training["augmentation"].get(study.dataset, "none")
    rule = training["aggregation"] if training["hold_out"] is None else None
    if rule and constant("aggregation", rule["module"], "CROSS_VALIDATES"):
        raise UserError(
            f"{named}: aggregation '{rule['module']}' has clients validate each other's models (add hold_out)"
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
        "study": {key: value for key, value in vars(study).items() if key != "seed"},
        "seed": study.seed,
    }


def _like(name: str, dataset: Dataset, at: Sized, where: str, split: str) -> Dataset:
    """Return data set `name`. Raises UserError if its images or labels are unlike those of `dataset`."""
    found: Dataset = find(at.config, "datasets", name, where)
    alike = all(getattr(found, key) == getattr(dataset, key) for key in ("shape", "classes", "labels"))
    if not alike or split not in found.counts:
        raise UserError(
            f"{where}: dataset '{name}' has other images or labels, or none in the split {split} (choose one "
            "of the same shape)"
        )
    return found


def further(study: Spec) -> list[str]:
    """Return the further data sets of a study: those that it also trains on, then those that it tests on."""
    return [*study["training"]["beside"], *study["training"]["tested_on"]]


def _misfits(
    cell: Cell, at: Sized, where: str, entries: Mapping[str, Spec], dataset: Dataset
) -> Iterator[str]:
    """Yield, with file and key, what of the entries of a cell does not fit each other."""
    federation, attack, counts = entries["federation"], entries["attack"], dataset.counts
    private, named = federation["private"], f"{where}: federation '{cell.federation}'"
    split, room = private["split"], private["stop"] - private["start"]
    file = file_of(at.config, "federations", cell.federation)
    if counts and split not in counts:
        yield f"{named}: private.split '{split}' is no split of {cell.dataset} ({suggest(split, counts)})"
    if private["stop"] > counts.get(split, private["stop"]) and not federation.get("drawn"):
        yield (
            f"{named}: private.stop {private['stop']} is beyond the {counts[split]} images of "
            f"{cell.dataset}/{split} (lower it)"
        )
    # A client that goes over its set several times holds all rounds of a pass at once.
    updates = federation["rounds"] // federation["passes"] if federation["passes"] > 1 else 1
    samples = max(federation["clients"]) * updates
    if samples > room:
        yield f"{file}: clients: {samples} samples do not fit the {room} private images (widen private)"
    others = federation.get("candidates", 0)
    most = federation["rounds"] * sum(federation["clients"]) + others
    if others and most > room:
        yield (
            f"{file}: candidates: {others} and up to {most - others} private images do not fit the {room} of "
            "private (lower it, or widen private)"
        )
    asked, free = federation["evaluate"], counts.get("test", 0) - (room if split == "test" else 0)
    if asked and counts and asked > free:
        yield (
            f"{file}: evaluate: {asked} images are not there: {cell.dataset} has {free} test images that are "
            "not private (lower it, or narrow private)"
        )
    if attack["generator"] and cell.dataset not in attack["generator"]:
        yield (
            f"{where}: attack '{cell.attack}' has no generator for data set '{cell.dataset}' "
            f"({suggest(cell.dataset, attack['generator'])})"
        )
    if auxiliary := entries.get("generator", {}).get("auxiliary"):
        generator = attack["generator"][cell.dataset]
        if auxiliary["dataset"] == cell.dataset and _overlap(auxiliary, private):
            yield (
                f"{where}: generator '{generator}': auxiliary images overlap the private ones of federation "
                f"'{cell.federation}' (make the two ranges disjoint)"
            )
        images = find(at.config, "datasets", auxiliary["dataset"], f"{at.config}/generators: {generator}")
        if auxiliary["stop"] > images.counts.get(auxiliary["split"], 0):
            yield (
                f"{where}: generator '{generator}': auxiliary.stop {auxiliary['stop']} is beyond the images "
                f"of {auxiliary['dataset']}/{auxiliary['split']} (lower it)"
            )
    if own := entries.get("malicious", {}).get("auxiliary"):
        of_server = f"{file}: malicious: the server's auxiliary images"
        if own["stop"] > counts.get(own["split"], own["stop"]):
            yield (
                f"{of_server} end at {own['stop']}, beyond the {counts[own['split']]} of "
                f"{cell.dataset}/{own['split']} (lower auxiliary.stop in config/servers)"
            )
        if _overlap(own, private):
            yield f"{of_server} overlap the private ones (make the two ranges disjoint)"
    if "loss" in federation["local"]:
        fit = [name for name in part_names("attacks") if constant("attacks", name, "ANY_LOSS", False)]
        if attack["module"] not in fit or dataset.labels == "tokens":
            of = ", ".join(fit)
            yield f"{file}: local.loss: is for classes and for {of} (choose one of these, or drop loss)"
    checkpoints = federation["checkpoints"]
    kept = (entries["victim"]["training"] or {"checkpoints": [0]})["checkpoints"]
    if checkpoints != "last" and (beyond := [each for each in checkpoints if each not in kept]):
        yield (
            f"{named}: checkpoints: victim '{cell.victim}' keeps none at epoch {beyond[0]} (it keeps {kept})"
        )
    if checkpoints != "last" and federation["server"] == "fedavg":
        yield f"{file}: checkpoints: a moving server starts from 'last' alone (drop the list)"


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    first, end = max(one["start"], other["start"]), min(one["stop"], other["stop"])
    return bool(one["split"] == other["split"] and first < end)


def decays(attack: Spec) -> bool:
    """Say whether the step size of a resolved attack falls before its last iteration."""
    length = attack["parameters"].get("iterations", 0)
    over = attack["parameters"].get("decay_over") or length
    lowered = any(arguments.get("decay") for arguments in attack["optimiser"].values())
    return lowered and int(FALLS_AT[0] * over) < length
