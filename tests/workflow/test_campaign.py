"""A campaign measures and records what has no valid record, and goes on where its time was up."""

import shutil

from project import Project


def campaign(project: Project, minutes: float, *only: str) -> str:
    ran = project.leakbench(
        "campaign", "--scale", "quick", "--minutes", str(minutes), *(["--only", *only] if only else [])
    )
    assert ran.rc == 0, ran.text[-2000:]
    return ran.stdout


def test_a_campaign_that_is_stopped_goes_on_to_the_same_table(copied: Project) -> None:
    table = copied.path("results/quick/tables/tiny.csv")
    before = table.read_bytes()
    shutil.rmtree(copied.path("results"))
    # Four seconds, and twenty in which a stopped run puts its files in order.
    stopped = campaign(copied, 0.4)
    assert "1 experiments of scale quick have no valid record" in stopped
    assert not copied.path("reference/quick/tiny.json").exists()
    assert copied.leftovers() == []
    assert "campaign: tiny is recorded" in campaign(copied, 5)
    assert table.read_bytes() == copied.path("reference/quick/tiny.csv").read_bytes() == before
    assert campaign(copied, 5, "tiny") == "campaign: 0 experiments of scale quick have no valid record\n"
