"""What a golden cell holds of each file: a short measure of every tensor and column, and how two compare."""

import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Spec = dict[str, Any]
# What a processor's own order of sums may change, as a share of a tensor's norm. An optimiser that moves by
# signs, a ratio of small numbers or a choice between equals amplifies it. A cell is therefore written under
# several sets of instructions. A tensor that they move further has MARGIN times that as a tolerance of its
# own, and one that they move by more than NOISE is held by its form alone.
TOLERANCE, MARGIN, NOISE = 1e-4, 10.0, 0.03
# The number of random directions in which a tensor is measured.
DIRECTIONS = 4
# The facts that say which code made a file and where, in place of what it gave.
MADE_BY = ("code", "versions", "spec", "device", "digest", "knows", "packages")


def held(path: Path) -> dict[str, Any]:
    """Return what a file holds: name → a short measure of each tensor or column, and its facts as text."""
    import pandas as pd

    from leakbench.base.artefacts import read_table, read_tensors

    if path.suffix == ".safetensors":
        arrays, facts = read_tensors(path)
    else:
        frame, facts = read_table(path) if path.suffix == ".parquet" else (pd.read_csv(path), {})
        arrays = {name: frame[name].to_numpy() for name in frame}
    found = {name: measured(name, array) for name, array in arrays.items()}
    if told := _told(facts):
        found["facts"] = {"text": json.dumps(told, sort_keys=True, default=str)}
    return found


def _told(facts: Any) -> Any:
    """Return facts without those that name code, machine or time, and with short numbers."""
    if isinstance(facts, dict):
        return {key: _told(value) for key, value in facts.items() if key not in MADE_BY}
    if isinstance(facts, list | tuple):
        return [_told(value) for value in facts]
    return float(f"{facts:.3g}") if isinstance(facts, float) else facts


def measured(name: str, array: np.ndarray) -> Spec:
    """Return the form of an array, and of numbers that are rounded their norm and some projections.

    Integers, words and truth values are held by a digest of their bytes.
    """
    form: Spec = {"shape": list(array.shape), "kind": array.dtype.kind}
    if array.dtype.kind != "f":
        text = (
            array.tobytes() if array.dtype.kind in "iub" else json.dumps(array.tolist(), default=str).encode()
        )
        return form | {"digest": zlib.crc32(text)}
    flat = array.astype(np.float64).ravel()
    finite = np.isfinite(flat)
    flat = np.where(finite, flat, 0.0)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    values = [float(np.linalg.norm(flat))]
    for _ in range(DIRECTIONS):
        values.append(float(flat @ rng.choice([-1.0, 1.0], flat.size)) / np.sqrt(max(flat.size, 1)))
    missing = {"missing": int((~finite).sum())} if not finite.all() else {}
    return form | missing | {"values": [float(f"{value:.7g}") for value in values]}


def differences(cell: Spec, found: dict[str, Any]) -> Iterator[str]:
    """Yield what differs between the numbers of a cell and those found: file, tensor and by how much."""
    wanted = cell["results"]
    for path in sorted(wanted.keys() | found.keys()):
        before, now = wanted.get(path, {}), found.get(path, {})
        for name in sorted(before.keys() | now.keys()):
            if name not in now or name not in before:
                yield f"{path}: {name} is {'gone' if name in before else 'new'}"
            elif told := apart(before[name], now[name]):
                yield f"{path}: {name} {told}"


def apart(before: Spec, now: Spec) -> str:
    """Return in words how two measures of a tensor differ, or "" where they agree."""
    rest = {key: value for key, value in before.items() if key not in ("values", "tolerance")}
    # What no processor agrees on is not held.
    if odd := next((key for key in sorted(rest) if rest[key] != now.get(key)), ""):
        return f"has another {odd}: {str(now.get(odd))[:300]} (recorded {str(rest.get(odd))[:300]})"
    if "values" not in before:
        return ""
    share = _share(before, now)
    return "" if share <= before.get("tolerance", TOLERANCE) else f"changed by {share:.1e}"


def _share(a: Spec, b: Spec) -> float:
    """Return the largest difference of two measures as a share of the tensor's norm."""
    scale = max(abs(a["values"][0]), 1e-12)
    return max(abs(x - y) / scale for x, y in zip(a["values"], b["values"], strict=True))


def robust(own: Spec, others: Sequence[Spec | None]) -> Spec:
    """Return a measure with the tolerance that other sets of instructions show to be needed."""
    forms = [{"shape": each.get("shape"), "kind": each.get("kind")} for each in others if each]
    if any(other is None for other in others) or any(form["kind"] != own.get("kind") for form in forms):
        raise ValueError("another set of instructions makes another file")
    if "values" not in own:
        same = all(other == own for other in others)
        return own if same else {key: own[key] for key in ("kind",) if key in own}
    same = all({**other, "values": 0} == {**own, "values": 0} for other in others if other)
    spread = max((_share(own, other) for other in others if other), default=0.0)
    if not same or spread > NOISE:
        return {"shape": own["shape"], "kind": own["kind"]} if same else {"kind": own["kind"]}
    needed = float(f"{MARGIN * spread:.2g}")
    return own | ({"tolerance": needed} if needed > TOLERANCE else {})
