"""The sections of an attack's YAML: each names parts of a room and gives their keyword arguments."""

import ast
from collections.abc import Mapping
from typing import Any

from leakbench.catalogue.signature import check_part, definition, module_file, part_names
from leakbench.errors import UserError
from leakbench.parts import SECTIONS, SEVERAL, WITHOUT_RULE
from leakbench.yamls import suggest

Named = dict[str, dict[str, Any]]

# What a term of an objective may be: the return types of the functions in objectives/, as they are written.
TERMS = ("Distance", "Weights", "Entries", "Penalty", "Prior")

# What an editor allows for a section: a name, a list, or a mapping of names to arguments.
_MAPPING = {"type": "object", "additionalProperties": {"type": ["object", "null"]}}
FORMS = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"anyOf": [{"type": "string"}, _MAPPING]}},
        _MAPPING,
    ]
}

# Keys that stood under `parameters:` before attacks had sections → what is written now.
_WEIGHED = "objective: [cosine, {layer-weights: {shape: linear, beta: 50.0, relu: true}}]"
_STEPPED = "optimiser: {adam: {lr: 0.1, signed: true, decay: true}}"
_JOINT = "epochs: {joint: {steps: both}}"
FLAT = {
    "distance": "objective: [squares, norm]",
    **dict.fromkeys(("tv", "variation"), "objective: [cosine, {total-variation: {weight: 0.0001}}]"),
    **dict.fromkeys(("layers", "beta", "relu", "zeros", "norms", "order"), _WEIGHED),
    **dict.fromkeys(("unknowns", "boxed", "start"), "unknowns: {dummies: {boxed: true}}"),
    **dict.fromkeys(("optimiser", "lr", "momentum", "population", "signed", "decay"), _STEPPED),
    **dict.fromkeys(("steps", "pooling", "label_filter", "pre_iterations", "later"), _JOINT),
    "inference": "labels: row-minimum",
    "adapts": "adaptive: true",
}


def named(value: Any) -> Named:
    """Return a section as part → keyword arguments.

    value: a section in any of its three forms: a name; a mapping name → arguments; or a list of names and
    such mappings.

    Raises ValueError for anything else, and for a part that is named twice.
    """
    entries = [value] if isinstance(value, str | dict) else value
    if not isinstance(entries, list):
        raise ValueError("names parts: a name, a list of names, or a mapping of names to arguments")
    found: Named = {}
    for entry in entries:
        for name, arguments in ({entry: {}} if isinstance(entry, str) else entry).items():
            if name in found:
                raise ValueError(f"{name!r} is given twice")
            if not isinstance(arguments, dict | None):
                raise ValueError(f"{name}: the arguments are no mapping, such as {{{name}: {{weight: 0.1}}}}")
            found[name] = arguments or {}
    return found


def varied(base: Any, change: Any, section: str) -> Any:
    """Return a section of a file with the change of a variant.

    A name or a list replaces the section. A mapping changes the arguments of the parts that it names, adds
    parts that are not there, and leaves out those that it maps to nothing. In a section that may name only
    one part, another part replaces it.

    base: the section of the file, in any of its forms, or nothing.
    change: the section of the variant, in any of its forms.
    section: the name of the section.

    Raises ValueError for a change whose arguments are no mapping.
    """
    if not isinstance(change, dict) or not base:
        return change
    known, given = named(base), named(change)
    out = known if section in SEVERAL or set(given) <= set(known) else {}
    laid = out | {name: {**out.get(name, {}), **values} for name, values in given.items()}
    return {name: values for name, values in laid.items() if change.get(name, values) is not None}


def check(module: str, entry: Mapping[str, Any], where: str) -> None:
    """Raise UserError for a section that an attack does not take or lacks, or whose parts do not fit.

    module: the module of the attack.
    entry: the resolved keys of the attack.
    where: what a message calls the entry, followed by a colon.
    """
    function = definition("attacks", module)
    taken = [argument.arg for argument in function.args.args[2:]]
    needed = taken[: len(taken) - len(function.args.defaults)]
    own = {argument.arg for argument in function.args.kwonlyargs}
    flat = next((key for key in entry["parameters"] if key in FLAT and key not in own), None)
    if flat:
        raise UserError(
            f"{where}parameters.{flat}: the parts of an attack have sections of their own ({FLAT[flat]})"
        )
    for section, room in SECTIONS.items():
        given = entry[section]
        if given and section not in taken:
            raise UserError(f"{where}{section}: attack module {module} takes no such section (remove it)")
        if not given and section in needed:
            names = ", ".join(part_names(room))
            raise UserError(f"{where}{section}: attack module {module} needs this section (one of {names})")
        if len(given) > 1 and section not in SEVERAL:
            raise UserError(
                f"{where}{section}: names {', '.join(given)}, and one part is needed (choose one)"
            )
        for name in given:
            check_part(room, name, f"{where}{section}")
    kinds = [_kind(term) for term in entry["objective"]]
    twice = max(kinds.count("Weights"), kinds.count("Entries")) > 1
    if kinds and ("Distance" not in kinds or twice):
        raise UserError(
            f"{where}objective: needs a distance of gradients, and weights of layers at most once, and a "
            "choice of entries alike (add squares or cosine)"
        )
    if (rule := entry["labels"]) not in [*WITHOUT_RULE, *part_names("labels")]:
        raise UserError(
            f"{where}labels: '{rule}' is neither {', '.join(WITHOUT_RULE)} nor a rule of "
            f"src/leakbench/labels ({suggest(rule, part_names('labels'))})"
        )
    if kinds and rule == "none":
        raise UserError(
            f"{where}labels: is none, and a gradient is matched with labels (write oracle, joint or a rule: "
            f"{', '.join(part_names('labels'))})"
        )


def _kind(term: str) -> str:
    """Return the kind of an objective's term, by the return type of its function.

    Raises UserError, which names the term's file, if the return type is none of TERMS.
    """
    returns = definition("objectives", term).returns
    kind = ast.unparse(returns) if returns else ""
    if kind not in TERMS:
        file, said = module_file("objectives", term), f"-> {kind}" if kind else "no return type"
        first, *others = TERMS
        raise UserError(f"{file}: {file.stem}(…) has {said} (write `-> {first}`, or {', '.join(others)})")
    return kind
