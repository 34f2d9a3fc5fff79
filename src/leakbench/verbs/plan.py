"""plan: check the whole catalogue, write the resolved specs and count the jobs."""

from collections import Counter
from pathlib import Path

from leakbench.catalogue.workflow import Workflow


def plan(root: Path, scale: str, seed: int | None = None) -> None:
    """Validate everything at one scale and print each verb's number of jobs; `seed` is added to all seeds."""
    workflow = Workflow(root, scale, seed)
    counts = Counter(name.partition("/")[0] for name in workflow.plan.specs)
    used = len(workflow.plan.datasets)
    print(
        f"scale {scale}: {len(workflow.plan.experiments)} experiments, {len(workflow.plan.cells)} cells on "
        f"{used} data sets"
    )
    for verb, count in sorted(counts.items()):
        print(f"{count:6d} {verb}")
