"""A condition on an audit that fails a build: "exposed > 0 at A..D"."""

import operator
import re
from typing import Any

from leakbench.base.errors import UserError

_FORM = re.compile(
    r"\s*(exposed|recognisable|labelled)\s*(>=|>|<=|<|==)\s*([0-9]{1,18})\s*(?:at\s+([A-D])(?:\.\.([A-D]))?)?\s*"
)
_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq}
_LEVEL = {"recognisable": 1, "exposed": 2, "labelled": 3}


def check(condition: str) -> None:
    """Raise UserError for a condition that cannot be read."""
    if not _FORM.fullmatch(condition):
        raise UserError(
            f"--fail-if: {condition!r} is no condition (write 'exposed > 0 at A..D', with exposed, "
            "recognisable or labelled, a number, and letters from A to D: E to H are not tried)"
        )


def met(condition: str, audit: dict[str, Any]) -> bool:
    """Return whether a condition holds for an audit.

    The last letter decides: an attacker also has what the attackers before it have, and runs their attacks.

    condition: such as "exposed > 0 at A..D"; without letters, A..D is meant.
    audit: `Audit.to_dict()`.

    Raises UserError for a condition that cannot be read.
    """
    check(condition)
    match = _FORM.fullmatch(condition)
    assert match is not None
    what, relation, number, first, last = match.groups()
    letters = "ABCD"
    wanted = letters[: letters.index(last or first or "D") + 1]
    own = [found["levels"] for found in audit["found"] if found["attacker"] in wanted]
    best = [max(levels) for levels in zip(*own, strict=True)]
    return bool(_COMPARE[relation](sum(level >= _LEVEL[what] for level in best), int(number)))
