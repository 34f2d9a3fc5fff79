"""Adding a published table is three data files, adding a paper is one folder, and neither needs Python."""

import pandas as pd
from project import EXPERIMENT, Project

PRINTED = """id,source,table,attack,metric,value
new.table-1.1,new,table-1,Fidel,pearson,{value}
new.table-1.2,new,table-1,Other,pearson,not run
"""
READ = {
    "experiment": "tiny", "metric": "pearson", "local_samples": 3,
    "attack": {"by": "attack", "Fidel": "fidel", "Other": "other"},
}  # fmt: skip


def test_a_paper_is_one_folder_and_a_table_is_three_data_files(finished: Project, copied: Project) -> None:
    """A table is what is printed, which rows of ours belong to it, and the experiment that measures it."""

    def card(project: Project) -> pd.DataFrame:
        path = project.path("results/quick/scorecard.csv")
        return pd.read_csv(path, keep_default_na=False).set_index("id")

    claim = {
        "id": "new.table-1.same", "item": "table-1", "claim": "Both attacks are one.",
        "read": {"experiment": "tiny", "metric": "pearson", "local_samples": 3},
        "quantity": "at(attack='fidel') - at(attack='other')", "relation": "=", "threshold": 0,
        "tolerance": 0.1,
    }  # fmt: skip
    copied.work("new", PRINTED.format(value=0.9), READ, [claim])
    folder = copied.path("papers/new")
    (folder / "tables" / "table-2.csv").write_text(
        "id,source,table,k,metric,value\nnew.table-2.1,new,table-2,3,revealed,2\n"
    )
    with (folder / "measured.yaml").open("a") as file:
        file.write(
            "table-2:\n  experiment: tiny-again\n  metric: revealed\n  attack: fidel\n"
            "  local_samples: {by: k, '3': 3}\n"
        )
    copied.write("experiments/tiny-again", EXPERIMENT | {"item": "table-2"})
    ran = copied.snakemake("results/quick/scorecard.csv")
    assert ran.rc == 0, ran.text[-3000:]
    assert "attack" not in ran.verbs
    after = card(copied)
    added = {"new.table-1.1", "new.table-1.2", "new.table-1.same", "new.table-2.1"}
    assert set(after.index) - set(card(finished).index) == added
    assert after.loc["new.table-1.1", "work"] == "new"
    assert float(after.loc["new.table-1.1", "measured"]) > 0
    assert after.loc["new.table-1.2", "reason"] == "not run by the source either"
    assert after.loc["new.table-1.same", "verdict"] in ("reproduced", "inconclusive")
    assert 0 <= float(after.loc["new.table-2.1", "measured"]) <= 3
    assert "figure tiny-again" in copied.snakemake("-n").messages


def test_a_run_ends_with_what_it_measured_itself(finished: Project) -> None:
    said = finished.path("run.log").read_text()
    assert "report.html: this run measured 0 of the 0 rows of results that have a value; 0 of the 1 " in said
