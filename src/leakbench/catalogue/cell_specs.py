"""The resolved specs of a cell: its network, generator, capture and attack."""

from collections.abc import Mapping
from functools import cache

from leakbench.base.errors import UserError
from leakbench.base.parts import stem
from leakbench.catalogue.cell import Cell, Spec, check_cell
from leakbench.catalogue.entry import Sized
from leakbench.catalogue.load import file_of
from leakbench.catalogue.signature import check_signature, module_file, part_names


def cell_specs(cell: Cell, at: Sized, where: str) -> tuple[dict[str, Spec], tuple[str, ...]]:
    """Return name → resolved spec of a cell, and the names of those of its victim and generator, if any."""
    dataset, config = at.whole("datasets", cell.dataset, where), at.config
    if dataset.shape is None or dataset.classes is None or dataset.labels != "classes":
        raise UserError(
            f"{where}: dataset '{cell.dataset}' holds no images of classes (choose one with shape and "
            "classes, not of words)"
        )
    trained, served = cell.path("train"), ""
    entries = {
        kind: at.entry(f"{kind}s", place, getattr(cell, kind), where, spec)
        for kind, place, spec in (
            ("victim", cell.dataset, trained),
            ("federation", cell.dataset, cell.path("capture")),
            ("defence", cell.dataset, ""),
            # The time that an attack takes depends on all parts of the capture.
            ("attack", cell.name.rpartition("/")[0], cell.path("attack")),
        )
    }
    generator = entries["attack"]["generator"].get(cell.dataset)
    if generator:
        named = f"{file_of(config, 'attacks', cell.attack)}: generator.{cell.dataset}"
        reads = at.whole("generators", generator, named).reads
        served = cell.served(generator)[reads != "features"]
        entries["generator"] = at.entry("generators", cell.dataset, generator, named, served)
        auxiliary, weights = (entries["generator"][key] for key in ("auxiliary", "weights"))
        if auxiliary:
            entries["generator"]["auxiliary"] = {**auxiliary, "dataset": auxiliary["dataset"] or cell.dataset}
        if weights:
            at.whole("datasets", weights, f"{file_of(config, 'generators', generator)}: weights")
    training, asked = entries["victim"]["training"], entries["federation"]["checkpoints"]
    if training and asked != "last":
        uncapped = at.whole("victims", cell.victim, where).training.epochs
        entries["federation"]["checkpoints"] = sorted(
            {min(c, training["epochs"]) if c <= uncapped else c for c in asked}
        )
    if cheats := entries["federation"].pop("malicious", ""):
        named = f"{file_of(config, 'federations', cell.federation)}: malicious"
        entries["malicious"] = at.entry("servers", cell.dataset, cheats, named, "")
    check_cell(cell, config, where, entries, dataset)
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
        "salt": at.salt,
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
    """Return why an attack on a capture measures nothing of its own, or "" if it does."""
    idle = (
        attack["attack"]["adaptive"] and capture["defence"]["module"] == "none" and "adaptation" not in attack
    )
    return "without a defence there is nothing to adapt to" if idle else ""


@cache
def _adaptation(module: str) -> str | None:
    """Return the source of the file that an adaptive attacker uses against a defence, or None without one."""
    if stem(module) in map(stem, part_names("adaptive")):
        check_signature("adaptive", module)
    file = module_file("adaptive", module)
    return file.read_text() if file.is_file() else None
