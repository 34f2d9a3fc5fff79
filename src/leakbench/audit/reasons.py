"""Why an attack, a detector or a prediction has no result, in one line."""

import re

from leakbench.base.errors import UserError

# The largest number of letters that are kept of a message that leakbench did not write.
LONGEST = 200
# Advice of the catalogue's attacks, which names options that an audit does not have.
_ADVICE = re.compile(r" \((?:set|leave) [^()]*\)")
# The name of a tensor, in the error of an attack that looked for it among those that were sent.
_TENSOR = re.compile(r"(?:network\.)?([\w.]+\.(?:weight|bias))")


def one_line(problem: BaseException) -> str:
    """Return the kind and the message of an exception in one line."""
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:LONGEST].removesuffix(":")


def reason(problem: Exception) -> str:
    """Return why something gave no result, in one line.

    problem: what was raised. Any exception may be raised here, because the networks are somebody's own and do
    what no network of the catalogue does.
    """
    if isinstance(problem, UserError):
        return _ADVICE.sub("", str(problem).removeprefix("attack: "))
    if isinstance(problem, KeyError) and (tensor := _TENSOR.fullmatch(str(problem.args[0]))):
        return f"it needs the update of {tensor[1]}, which is not sent under this name"
    return f"fails on this network ({one_line(problem)})"
