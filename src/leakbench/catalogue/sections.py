"""The sections of an attack's YAML: each names parts of a room and gives their keyword arguments."""

import ast
import fnmatch
from collections.abc import Mapping
from typing import Any

from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS, SEVERAL, WITHOUT_RULE
from leakbench.base.yamls import suggest
from leakbench.catalogue import signature
from leakbench.catalogue.cell import Arguments

Named = dict[str, Arguments]

# What an editor allows for a section: a name, a list, or a mapping of names to arguments.
_NAME, _MAPPING = {"type": "string"}, {"type": "object", "additionalProperties": {"type": ["object", "null"]}}
FORMS = {"anyOf": [_NAME, {"type": "array", "items": {"anyOf": [_NAME, _MAPPING]}}, _MAPPING]}


def as_parts(value: Any) -> Named:
    """Return a section, in any of its three forms, as part → keyword arguments."""
    entries = [value] if isinstance(value, str | dict) else value
    if not isinstance(entries, list):
        raise ValueError("must be the name of a part, a list of names, or a mapping of names to arguments")
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
    """Return a section of a file with the change of a variant, both in any form."""
    # A name or a list replaces the section. A mapping changes the arguments of the parts that it names, adds
    # parts that are not there, and leaves out those that it maps to nothing. In a section that may name only
    # one part, another part replaces it.
    if not isinstance(change, dict):
        return change
    known, given = as_parts(base or {}), as_parts(change)
    for name in change:
        if change[name] is None and name not in known:
            raise ValueError(
                f"{name}: null leaves out a part, and there is none of this name ({suggest(name, known)})"
            )
    out = known if section in SEVERAL or set(given) <= set(known) else {}
    laid = out | {name: {**out.get(name, {}), **values} for name, values in given.items()}
    return {name: values for name, values in laid.items() if change.get(name, values) is not None}


def check(module: str, entry: Mapping[str, Any], where: str) -> None:
    """Raise UserError for a section that an attack does not take or lacks, or whose parts do not fit."""
    function = signature.definition("attacks", module)
    taken = [argument.arg for argument in function.args.args[2:]]
    needed = taken[: len(taken) - len(function.args.defaults)]
    for section, room in SECTIONS.items():
        given = entry[section]
        if given and section not in taken:
            raise UserError(f"{where}{section}: attack module {module} takes no such section (remove it)")
        if not given and section in needed:
            names = ", ".join(signature.part_names(room))
            raise UserError(f"{where}{section}: attack module {module} needs this section (one of {names})")
        if len(given) > 1 and section not in SEVERAL:
            raise UserError(
                f"{where}{section}: names {', '.join(given)}, and one part is needed (choose one)"
            )
        for name in given:
            signature.check_part(room, name, f"{where}{section}")
    kinds = [_kind(term) for term in entry["objective"]]
    if kinds and ("Distance" not in kinds or kinds.count("Weights") > 1 or kinds.count("Entries") > 1):
        raise UserError(
            f"{where}objective: needs a distance of gradients, and weights of layers at most once, and a "
            "choice of entries alike (add squares or cosine)"
        )
    if (rule := entry["labels"]) not in [*WITHOUT_RULE, *signature.part_names("labels")]:
        raise UserError(
            f"{where}labels: '{rule}' is neither {', '.join(WITHOUT_RULE)} nor a rule of "
            f"src/leakbench/attacks/label_inference ({suggest(rule, signature.part_names('labels'))})"
        )
    if rule not in WITHOUT_RULE:
        signature.check_signature("labels", rule)
    if kinds and rule == "none":
        raise UserError(
            f"{where}labels: is none, and a gradient is matched with labels (write oracle, joint or a rule: "
            f"{', '.join(signature.part_names('labels'))})"
        )


def check_fit(entry: Mapping[str, Any], where: str) -> None:
    """Raise UserError for two things in an attack, with all arguments resolved, that exclude each other."""
    # A part's file may say EXCLUDES: "", or an argument of the part and its value, → patterns of what the
    # YAML may not say beside it, as `key: value`. Arguments count that are not the default. A term of the
    # objective is followed by its return type. The parts refuse the same, but only at run time, when the cell
    # is lost.
    module, rule = entry["module"], entry["labels"]
    said = [f"labels: {rule}", *([] if entry["generator"] else ["generator: none"])]
    said += _changed("attacks", module, entry["parameters"], "parameters")
    parts = [] if rule in WITHOUT_RULE else [("labels", rule, said[0], "labels")]
    for section, room in SECTIONS.items():
        for name, given in entry[section].items():
            said.append(f"{section}: {name}{f' ({_kind(name)})' if section == 'objective' else ''}")
            parts.append((room, name, said[-1], f"{section}.{name}"))
            said += _changed(room, name, given, f"{section}.{name}")
    for room, name, itself, arguments in [*parts, ("attacks", module, "", "parameters")]:
        for own, others in (signature.constant(room, name, "EXCLUDES", None) or {}).items():
            first = f"{arguments}.{own}" if own else itself
            second = next((each for other in others for each in fnmatch.filter(said, other)), "")
            if second and first in said:
                raise UserError(f"{where}{second} does not go with {first} (change one of the two)")


def _changed(room: str, name: str, given: Mapping[str, Any], where: str) -> list[str]:
    """Return `<where>.<argument>: <value>` for each argument of a part that is not the default."""
    fields = signature.parameters_model(room, name).model_fields
    return [f"{where}.{key}: {value}" for key, value in given.items() if value != fields[key].default]


def _kind(term: str) -> str:
    """Return the kind of an objective's term, which is the return type of its function."""
    signature.check_signature("objectives", term)
    return ast.unparse(signature.definition("objectives", term).returns or ast.Constant(None))
