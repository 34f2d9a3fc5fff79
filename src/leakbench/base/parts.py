"""Parts and how they are found by name: each is one file in one room with a function of the same name."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

_ROOMS = {
    "victim": "victims", "generator": "generators", "defence": "defences", "attack": "attacks",
    "malicious": "servers", "adaptation": "adaptive", "aggregation": "aggregation",
    "encryption": "encryption",
}  # fmt: skip
# Room → where it lies in the package, unless it lies at the top.
PLACES = {
    "labels": "attacks.label_inference",
    "drawing": "results.figures",
    **{room: f"{home}.{room}" for home, rooms in {
        "networks": "victims generators tasks", "defences": "aggregation encryption", "attacks": "adaptive",
        "attacks.matching": "objectives unknowns optimisers epochs",
        "federation": "training servers detectors",
    }.items() for room in rooms.split()},
}  # fmt: skip

# The form of a part's name in YAML.
NAME = "[a-z][a-z0-9]*(-[a-z0-9]+)*"
# The sections of an attack's YAML that name parts, and their rooms.
SECTIONS = {
    "objective": "objectives", "unknowns": "unknowns", "optimiser": "optimisers", "epochs": "epochs"
}  # fmt: skip
# The sections that may name several parts. Each of the others names one.
SEVERAL = ("objective",)
# The values of an attack's `labels` for which no rule infers labels.
WITHOUT_RULE = ("none", "oracle", "joint")
# What metrics need beyond images, by name: the weights of the networks by which LPIPS measures distances, and
# with this beginning a victim.
BACKBONES, _JUDGE = "lpips_backbones", "judge_"


def stem(name: str) -> str:
    """Return the file name, without suffix, of the part that YAML calls `name`."""
    return name.replace("-", "_")


def dotted(room: str, name: str) -> str:
    """Return the module of a part, such as leakbench.attacks.gradient_matching."""
    return f"leakbench.{PLACES.get(room, room)}.{stem(name)}"


def place(room: str) -> str:
    """Return the folder of a room below the package, such as attacks/labels."""
    return PLACES.get(room, room).replace(".", "/")


def parts_of(spec: Mapping[str, Any]) -> list[str]:
    """Return the modules of the parts that a spec is made of."""
    found = [dotted("training", "study")] if "study" in spec else []
    if spec.get("federation", {}).get("watched"):
        found += [dotted("detectors", name) for name in names("detectors")]
    found += [dotted(room, spec[key]["module"]) for key, room in _ROOMS.items() if key in spec]
    attack = spec.get("attack", {})
    found += [dotted(room, name) for section, room in SECTIONS.items() for name in attack.get(section) or {}]
    rule = attack.get("labels", "none")
    return found if rule in WITHOUT_RULE else [*found, dotted("labels", rule)]


def names(room: str) -> list[str]:
    """Return the names of all parts of a room, sorted and spelled like their files (with underscores)."""
    from pkgutil import iter_modules

    folder = Path(__file__).parents[1] / place(room)
    return sorted(found.name for found in iter_modules([str(folder)]) if not found.ispkg)


def part(room: str, name: str) -> Callable[..., Any]:
    """Return the function that a part's file is named after."""
    found: Callable[..., Any] = getattr(import_module(dotted(room, name)), stem(name))
    return found


def judge(need: str) -> str:
    """Return the victim that a need names, such as resnet18-faces for `judge_resnet18_faces`."""
    return need.removeprefix(_JUDGE).replace("_", "-") if need.startswith(_JUDGE) else ""
