"""Check the facts of an observation that somebody else may have written against docs/observation.md."""

import math
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, get_args

from leakbench.base.artefacts import Facts
from leakbench.base.errors import UserError
from leakbench.observations.observation import LOSS
from leakbench.observations.threat_model import OBSERVERS, Letter, ThreatModel

Check = Callable[[Any], bool]
# No network and no set of samples of this project comes near this number. A file with a larger one could fill
# the machine's memory.
MOST = 100_000
# Divided by a smaller rate, an update is no gradient in float32.
SLOWEST = 1e-30
LOCAL = {"lr": 1.0, "batch_size": None, "epochs": 1}
# The facts of local training that may be left out, with their defaults.
PLAIN = {"weight_decay": 0.0, "reshuffled": False, "optimiser": "sgd", "loss": LOSS}
LONGEST = 200
# The largest number of values in an image, of values in all images that an attack may look for, and of steps
# in a client's training.
PIXELS, VALUES, STEPS = 1 << 24, 1 << 28, 10_000


def _whole(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= MOST


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value)) and len(set(value)) == len(value) <= MOST


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST and value.isprintable()


def _part(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch("[a-z0-9][a-z0-9_-]*", value))


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _parameter(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= 100 and all(_parameter(part) and not isinstance(part, list) for part in value)
    return value is None or isinstance(value, bool | str) or _number(value)


def _mapping(value: Any) -> bool:
    return isinstance(value, dict)


_VALUES: tuple[str, Check] = (
    f"a mapping of texts and of numbers up to {MOST}",
    lambda v: isinstance(v, dict) and all(map(_parameter, v.values())),
)
# Fact → (what its value must be, in words; the check of a value). A dotted fact lies within another.
_FACTS: dict[str, tuple[str, Check]] = {
    "network": ("a mapping", _mapping),
    "network.module": ("the name of a victim", _part),
    "network.parameters": _VALUES,
    "network.shape": (
        "rows, columns, channels",
        lambda v: isinstance(v, list) and len(v) == 3 and all(map(_whole, v)) and math.prod(v) <= PIXELS,
    ),
    "network.classes": (f"a whole number up to {MOST}", _whole),
    "clients": (
        f"a list of whole numbers up to {MOST}",
        lambda v: isinstance(v, list) and 0 < len(v) <= MOST and all(map(_whole, v)),
    ),
    "kind": ("model or gradient", lambda v: v in ("model", "gradient")),
    "mode": ("train or eval", lambda v: v in ("train", "eval")),
    "dropout": ("true or false", _truth),
    "local": ("a mapping", _mapping),
    "local.lr": (f"a number from {SLOWEST} to {MOST}", lambda v: _number(v) and v >= SLOWEST),
    "local.batch_size": ("a whole number or null", lambda v: v is None or _whole(v)),
    "local.epochs": (f"a whole number up to {MOST}", _whole),
    "local.weight_decay": (f"a number from 0 to {MOST}", lambda v: _number(v) and v >= 0),
    "local.reshuffled": ("true or false", _truth),
    "local.optimiser": ("sgd, momentum, adam or adamw", lambda v: v in ("sgd", "momentum", "adam", "adamw")),
    "local.loss": (f"a line of at most {LONGEST} letters", _text),
    "knows": ("a mapping", _mapping),
    "knows.observer": (" or ".join(OBSERVERS), lambda v: v in OBSERVERS),
    "knows.shared": (f"a line of at most {LONGEST} letters", _text),
    **{
        f"knows.{name}": ("true or false", _truth)
        for name in ("labels_known", "counts_known", "local_known", "local_set_repeats", "candidates_known")
    },
    "knows.defence": ("the name of a defence, or null", lambda v: v is None or _part(v)),
    "knows.malicious": ("the name of a server, or null", lambda v: v is None or _part(v)),
    "knows.letter": ("F, G, H or null", lambda v: v in (None, *get_args(Letter))),
    "knows.source": (f"a line of at most {LONGEST} letters, or null", lambda v: v is None or _text(v)),
    "hidden": ("a mapping", _mapping),
}
_HIDDEN: dict[str, tuple[str, Check]] = {
    "hidden.layers": ("a list of layers", lambda v: _names(v) and bool(v)),
    "hidden.shown": ("a list of names", _names),
    "hidden.sent": ("a list of names", _names),
    "hidden.about": _VALUES,
}


def _see(what: str) -> str:
    return "; see docs/observation.md)" if "(" in what else " (see docs/observation.md)"


def told(facts: Facts, where: str) -> Facts:
    """Return the `facts` of the observation file `where`, with defaults for those that may be left out."""
    filled: Facts = {"local": LOCAL, "mode": "eval", "dropout": False, "knows": {}, "hidden": {}}
    filled |= facts
    if isinstance(filled["local"], dict):
        for name in filled["local"]:
            if name not in LOCAL.keys() | PLAIN:
                raise UserError(f"{where}: local.{name!r} is no fact of local training{_see('')}")
        filled["local"] = PLAIN | filled["local"]
    if isinstance(filled["knows"], dict):
        fields = asdict(ThreatModel())
        for name in filled["knows"]:
            if name not in fields:
                raise UserError(
                    f"{where}: knows.{name!r} is no field of the threat model (capture again: older files "
                    "hold sentences; see docs/observation.md)"
                )
        filled["knows"] = fields | {"local_known": "local" in facts} | filled["knows"]
    for name, (wanted, fits) in (_FACTS | (_HIDDEN if filled["hidden"] else {})).items():
        value: Any = filled
        for key in name.split("."):
            if key not in value:
                what = "network is not a victim (" if name.startswith("network.") else "not an observation, "
                raise UserError(f"{where}: {what}'{key}' is missing{_see(what)}")
            value = value[key]
        try:
            fit = fits(value)
        except (TypeError, ValueError, OverflowError):
            fit = False
        if not fit:
            what = f"network is not a victim ({name}" if name.startswith("network.") else name
            raise UserError(f"{where}: {what} is not {wanted}{_see(what)}")
    local, clients = filled["local"], filled["clients"]
    steps = local["epochs"] * max(-(-k // (local["batch_size"] or k)) for k in clients)
    if steps > STEPS:
        raise UserError(f"{where}: local: {steps} steps of a client are more than {STEPS}{_see('')}")
    return filled


def check_amount(facts: Facts, rounds: int, where: str) -> None:
    """Refuse an observation whose images do not fit into memory."""
    values = rounds * sum(facts["clients"]) * math.prod(facts["network"]["shape"])
    if not 0 < values <= VALUES:
        raise UserError(
            f"{where}: clients: {sum(facts['clients'])} samples in {rounds} rounds are {values} values of "
            f"images, not 1 to {VALUES}{_see('')}"
        )
