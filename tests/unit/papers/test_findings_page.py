"""docs/findings.md: made of claims and recorded numbers, and refused where one is missing."""

from pathlib import Path

import pytest
import yaml
from project import ROOT
from recorded_world import recorded

from leakbench.base.errors import UserError
from leakbench.jobs.manual import of_records
from leakbench.papers.findings import findings
from leakbench.papers.work import read_papers

# One finding of a small recorded table.
OPENED = {
    "title": "The lock is opened",
    "claim": "leakbench.expectation.lock-opened",
    "says": "It reads {claim:.2f}, and {guessed:.1%} else.",
    "numbers": {
        "guessed": {
            "read": {
                "experiment": "leakbench-single-images", "metric": "ssim", "dataset": "cifar10",
                "victim": "lenet-dlg-batch-norm", "defence": "key-lock", "attack": "grnn",
            },
        }
    },
}  # fmt: skip


def page(folder: Path, **changed: object) -> str:
    path = folder / "findings.yaml"
    path.write_text(yaml.safe_dump({"introduction": "All.", "findings": [OPENED | changed]}))
    works = [work for work in read_papers(ROOT / "papers") if work.name == "leakbench"]
    scales = [each for each in recorded() if each.scale == "standard"]
    return findings(path, works, scales)


def test_the_pages_of_recorded_numbers_are_current() -> None:
    stale = [name for name, text in of_records(ROOT).items() if (ROOT / name).read_text() != text]
    assert not stale, "run python -m leakbench manual"


def test_a_finding_has_the_recorded_numbers_and_its_claims_verdict(tmp_path: Path) -> None:
    made = page(tmp_path, because="A lock has few numbers.", guess=True)
    assert "It reads 0.79 (0.50 to 1.00), and 7.7 % (4.7 % to 10.6 %) else." in made
    assert "*Why (a guess):* A lock has few numbers." in made
    assert (
        "`leakbench.expectation.lock-opened`: reproduced. Scale standard, 3 networks, seeds 0 1 2, n = 30."
        in made
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"claim": "leakbench.lock-open"}, "claim: the scorecard has no row leakbench.lock-open"),
        ({"because": "Magic.", "tested": "leakbench.x"}, "tested: the scorecard has no row leakbench.x"),
        ({"because": "Magic."}, "a cause has either `tested`"),
        ({"guess": True}, "a cause has either `tested`"),
        ({"says": "It reads {gessed:.2f}."}, "says: no number is called gessed"),
        (
            {"numbers": {"guessed": {"read": {"experiment": "leakbench-single-images", "metric": "mse"}}}},
            "guessed: no recorded table has this number",
        ),
    ],
)  # fmt: skip
def test_what_has_no_claim_number_or_test_is_refused(
    changed: dict[str, object], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=words):
        page(tmp_path, **changed)
