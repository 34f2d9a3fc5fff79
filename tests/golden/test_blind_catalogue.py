"""Every attack of the catalogue gives the same bytes whether the truth is there, is away, or is another's."""

import shutil
from collections.abc import Callable
from contextlib import chdir
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import golden
import making
import numpy as np
import pytest
from golden import ROOT, Spec, names, read
from nightly import daily, first_of_each

from leakbench.base.artefacts import read_facts, read_tensors
from leakbench.base.processes.blinding import seal
from leakbench.catalogue.load import load_kind

World = Callable[[str], Path]


def words(value: Any) -> Any:
    """Return what of an entry may choose other code: names and switches, and which numbers are left out."""
    if isinstance(value, dict):
        return tuple(sorted((key, words(each)) for key, each in value.items()))
    if isinstance(value, list):
        return tuple(map(words, value))
    return "" if isinstance(value, int | float) and not isinstance(value, bool) else repr(value)


@cache
def entries() -> dict[str, Spec]:
    """Return the attacks of the catalogue; those that differ in numbers alone are one."""
    kept: dict[Any, tuple[str, Spec]] = {}
    for name, entry in load_kind(ROOT / "config", "attacks").items():
        value = entry.model_dump(mode="json", exclude={"summary", "title"})
        key = words(value | {"generator": bool(value["generator"])})
        kept.setdefault(key, (name, value))
    return dict(kept.values())


@cache
def jobs() -> list[tuple[str, Spec, str]]:
    """Return (golden cell, job, form of the capture) for every attack of a golden cell."""
    found = []
    for name in names():
        cell = read(name)["jobs"]
        for job in cell if any(job["verb"] == "capture" for job in cell) else ():
            if job["verb"] == "attack":
                played = next(each["spec"] for each in cell if each["verb"] == "capture")
                form = [played["federation"][key] for key in ("clients", "update", "passes")]
                found.append((name, job, repr([*form, played["victim"]["module"], job["in"]["generator"]])))
    return found


def likely(name: str) -> list[tuple[str, Spec]]:
    """Return attacks of golden cells in whose place this attack may work, the likeliest first: one for each
    form of capture."""
    entry = entries()[name]

    def unlike(own: Spec) -> tuple[bool, ...]:
        sections = ("labels", "unknowns", "epochs")
        return own["module"] != entry["module"], *(own[key] != entry[key] for key in sections)

    served = [each for each in jobs() if each[1]["in"]["generator"] or not entry["generator"]]
    order = sorted(served, key=lambda each: unlike(each[1]["spec"]["attack"]))
    first = {form: (cell, job) for cell, job, form in reversed(order)}
    return [(cell, job) for cell, job, form in order if first[form] == (cell, job)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The folder of a golden cell after its capture, beside which lies what another salt draws."""

    @cache
    def made(name: str) -> Path:
        folder, cell = tmp_path_factory.mktemp(name), read(name)
        before = [job for job in cell["jobs"] if job["verb"] in ("train", "capture")]
        capture = next(job for job in before if job["verb"] == "capture")
        other = capture | {"spec": capture["spec"] | {"salt": capture["spec"]["salt"][::-1]}}
        other["out"] = {key: f"other/{path}" for key, path in capture["out"].items()}
        golden.run(cell | {"jobs": [*before, other]}, folder)
        return folder

    return made


def attacked(folder: Path, job: Spec, entry: Spec, **how: Any) -> Path:
    """Run an attack of the catalogue, cut short, in the place of a golden cell's; return its guesses."""
    short = deepcopy(making.shortened({"attack": entry | {"generator": "g" if entry["generator"] else None}}))
    for epochs in (short["attack"]["epochs"] or {}).values():
        epochs["pre_iterations"] = 2
    given = {"capture": "capture.safetensors", "labels": [], "generator": []}
    if entry["labels"] == "oracle":
        given["labels"] = ["oracle.safetensors"]
    if entry["generator"]:
        given["generator"] = job["in"]["generator"]
    out = folder / "guesses.safetensors"
    out.unlink(missing_ok=True)
    with chdir(folder):
        golden.attacked(job | {"spec": job["spec"] | short, "in": given, "out": {"out": out.name}}, **how)
    return out


# Each day one attack of each kind: its module and where its labels come from.
SHORT = first_of_each(
    sorted(entries()), lambda name: repr([entries()[name].get(key) for key in ("module", "labels")])
)


@pytest.mark.parametrize("name", daily(sorted(entries()), SHORT))
def test_the_truth_changes_nothing(world: World, name: str, tmp_path: Path) -> None:
    entry = entries()[name]
    for cell, job in likely(name):
        out = attacked(folder := world(cell), job, entry)
        reason = read_facts(out).get("absent")
        if not reason:
            break
    assert not reason, f"{name}: {reason}"
    with_truth, facts = read_tensors(out)
    # SPEAR proves nothing of networks this small, so that its images are all nothing.
    of = {"labels": "labels", "candidates": "span_distance", "tokens": "span_distance"}
    assert with_truth[of.get(facts["target"], "images")].std() > 0 or entry["module"] == "spear"
    truth, data = folder / "truth.safetensors", next(folder.glob("data/*.safetensors"))
    # Guards the rest: the same truth in place of itself would change nothing.
    assert truth.read_bytes() != (folder / "other/truth.safetensors").read_bytes()
    for moved in (truth, data):
        moved.rename(tmp_path / moved.name)
    try:
        without = attacked(folder, job, entry, seal=seal).read_bytes()
        shutil.copy(folder / "other/truth.safetensors", truth)
        shutil.copy(next(folder.glob("victims/*/*.safetensors")), data)
        with_anothers = attacked(folder, job, entry, seal=seal).read_bytes()
    finally:
        for moved in (truth, data):
            (tmp_path / moved.name).rename(moved)
    assert without == with_anothers
    again, facts = read_tensors(out)
    assert again.keys() == with_truth.keys()
    for tensor, value in with_truth.items():
        assert np.array_equal(value, again[tensor], equal_nan=True), tensor
    assert facts["knows"]["blinding"].endswith("audit hook")
