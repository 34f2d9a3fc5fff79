"""Entry files of the leaderboard: read strictly, ranked by the strongest attack."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from leakbench.base.artefacts import to_json, write_json
from leakbench.base.errors import Altered, UserError
from leakbench.base.whole import SEAL, UNSEALED
from leakbench.jobs.enter import agreed
from leakbench.papers.leaderboard import Agreed, Entered, Line, board, lines_of, read_entry, strongest

TABLE = yaml.safe_load(Path(__file__).with_name("tables.yaml").read_text())

ATTACKS = ("fidel", "invg", "invg-adapted")
AGREED = Agreed(
    "a" * 64, frozenset(("mnist", "dense", "one", attack) for attack in ATTACKS), frozenset(["none", "sign"]),
    frozenset(["invg-adapted"]), frozenset(["ssim", "identified"]), ("standard", "smoke"),
)  # fmt: skip


def line(defence: str, attack: str, mean: float, metric: str = "ssim", victim: str = "dense") -> Line:
    return Line(
        dataset="mnist", victim=victim, defence=defence, attack=attack, client=0, local_samples=1,
        metric=metric, mean=mean, ci_low=mean - 0.1, ci_high=None, n=10, failure_rate=0.0,
    )  # fmt: skip


def made(name: str = "halve", worst: float = 0.9, **changes: Any) -> Entered:
    lines = [line(name, "fidel", worst), line(name, "invg", 0.2), line(name, "invg", 0.99, "identified"),
             line(name, "invg-adapted", 0.1),
             line("none", "fidel", 0.95), line("none", "invg", 0.3)]  # fmt: skip
    values: dict[str, Any] = {
        "version": 1, "name": name, "summary": "Halves.", "source": "def halve(): ...", "settings": "{}",
        "attacker": "", "ensemble": AGREED.digest, "scale": "standard", "device": "cpu", "commit": "",
        "versions": {}, "lines": lines, "absent": {},
    }  # fmt: skip
    return Entered(**values | changes)


def saved(path: Path, entry: Entered) -> None:
    write_json(path, entry.model_dump(mode="json"))


def test_an_entry_is_read_as_it_was_written(tmp_path: Path) -> None:
    saved(tmp_path / "halve.json", made())
    assert read_entry(tmp_path / "halve.json", AGREED) == made()


def test_an_altered_number_is_no_evidence(tmp_path: Path) -> None:
    path = tmp_path / "halve.json"
    saved(path, made())
    path.write_text(path.read_text().replace("0.95", "0.05"))
    with pytest.raises(Altered, match=r"halve\.json: .* as written \(enter it again"):
        read_entry(path, AGREED)


# Changes of an entry's keys, or of its first line, which is of the attack that reads most.
CHANGES = [(of, *row) for of in ("entry_forms", "entry_lines") for row in TABLE[of]]


@pytest.mark.parametrize(("of", "change", "words"), CHANGES)
def test_an_entry_of_another_form_is_one_line(of: str, change: Any, words: str, tmp_path: Path) -> None:
    path, value = tmp_path / "halve.json", made().model_dump(mode="json")
    first, *others = value["lines"]
    if of == "entry_lines":
        change = {"lines": others if change is None else [first | change, *others]}
    write_json(path, value | change)
    with pytest.raises(UserError) as caught:
        read_entry(path, AGREED)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


def test_an_attack_without_a_number_is_named_with_its_reason_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "halve.json"
    less = [each for each in made().lines if each.attack != "fidel" or each.defence == "none"]
    lacking = made(lines=less, absent={"mnist/dense/one/halve/fidel/0": "does not fit"})
    saved(path, lacking)
    assert "| invg (no number: fidel) | 0.200 |" in board([read_entry(path, AGREED)], AGREED.scales)
    write_json(path, lacking.model_dump(mode="json") | {"absent": {"mnist/dense/one/halve/fidel/0": ""}})
    with pytest.raises(UserError, match="absent"):
        read_entry(path, AGREED)
    saved(path, made(lines=[each for each in made().lines if each.defence != "none"]))
    with pytest.raises(UserError, match="must have ssim of 'halve' and of 'none' on each victim"):
        read_entry(path, AGREED)


REFORMED: list[Callable[[dict[str, Any]], str]] = [
    lambda value: json.dumps(value, separators=(",", ":")), json.dumps,
    *(lambda value, seal=seal: to_json(value | {SEAL: seal}) + "\n" for seal in ("", None, 5, UNSEALED)),
    lambda value: to_json({k: v for k, v in value.items() if k != SEAL} | {"summary": SEAL}) + "\n",
    lambda value: to_json(value | {"mean": "\ud800"}) + "\n", lambda value: to_json(value) + "\n\n",
]  # fmt: skip


@pytest.mark.parametrize("reformed", REFORMED)
def test_an_entry_in_another_form_counts_no_more_than_an_altered_one(tmp_path: Path, reformed: Any) -> None:
    """The digest is compared where it is found, so it must be where we write it."""
    path = tmp_path / "halve.json"
    saved(path, made())
    value = json.loads(path.read_text())
    for mean in (0.001, 0.9):
        value["lines"][0]["mean"] = mean
        path.write_text(reformed(value), errors="surrogatepass")
        with pytest.raises(UserError):
            read_entry(path, AGREED)


def test_a_strangers_text_stays_in_its_cell() -> None:
    text = board([made(summary="One | two\n<script>three</script> ![a](b) `c`")], ["standard"])
    assert "halve.json): One \\| two &lt;script&gt;three&lt;/script&gt; !\\[a\\](b) \\`c\\` |" in text
    assert len(text.splitlines()) == 2 + 3
    text = board([made(settings="parameters: {norm: 0.5, way: '<b>|'}")], ["standard"])
    assert "halve.json): Halves (norm 0.5, way &lt;b&gt;\\|). |" in text
    assert "halve.json): Halves. |" in board([made(settings="parameters: {")], ["standard"])
    lines = [each.model_copy(update={"victim": "<b>|", "attack": "<i>|"}) for each in made().lines]
    text = board([made(lines=lines)], ["standard"])
    assert "<" not in text
    assert text.count("\\|") == 3


def test_the_projects_own_entries_are_valid_and_the_leaderboard_is_theirs() -> None:
    root = Path(__file__).parents[3]
    today = agreed(root)
    entries = [read_entry(path, today) for path in sorted((root / "entries").glob("*.json"))]
    assert (root / "entries/README.md").read_text().endswith(f"\n\n{board(entries, today.scales)}\n")
    assert today.scales == ("paper", "gpu", "standard", "quick", "smoke")


def test_a_file_without_a_digest_or_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "halve.json"
    path.write_text(json.dumps(made().model_dump(mode="json")))
    with pytest.raises(UserError, match="no digest of its own"):
        read_entry(path, AGREED)
    path.write_text(" " * 1_000_001)
    with pytest.raises(UserError, match="larger than 1000000 bytes"):
        read_entry(path, AGREED)
    with pytest.raises(UserError, match="no such"):
        read_entry(tmp_path / "none.json", AGREED)


def test_a_defence_is_ranked_by_the_attack_that_reads_most() -> None:
    assert [each.attack for each in strongest(made(worst=0.1), "halve")] == ["invg"]
    text = board([made("weak", 0.9), made("strong", 0.1, attacker="def strong(): ...")], ["standard"])
    rows = text.splitlines()[4:]
    assert [row.split("[")[1].split("]")[0] for row in rows] == ["strong", "weak"]
    assert "its own" in rows[0]
    assert "none was written" in rows[1]
    assert "| 0.900 | none (too few updates) | 10 | fidel 0.950 |" in rows[1]


def test_a_short_run_is_not_ranked_above_a_long_one() -> None:
    entries = [made("brief", 0.1, scale="smoke"), made("weak", 0.9), made("strong", 0.5)]
    of_each = board(entries, AGREED.scales).split("## Scale ")[1:]
    ranks = [[row.split("]")[0] for row in text.split("| [")] for text in of_each]
    assert [[rank[0].partition("\n")[0], *rank[1:]] for rank in ranks] == [
        ["standard", "strong", "weak"],
        ["smoke", "brief"],
    ]


def test_baselines_and_cells_without_a_number_are_no_lines() -> None:
    nan = float("nan")
    row = {"dataset": "mnist", "victim": "dense", "defence": "none", "attack": "fidel", "metric": "ssim",
           "client": 0, "local_samples": 1,
           "mean": 0.5, "ci_low": nan, "ci_high": nan, "n": 2, "failure_rate": 0.5, "baseline": "",
           "std": 0.1}  # fmt: skip
    found = lines_of([row, row | {"baseline": "random-noise"}, row | {"mean": nan}])
    assert [(each.mean, each.ci_low, each.n) for each in found] == [(0.5, None, 2)]
