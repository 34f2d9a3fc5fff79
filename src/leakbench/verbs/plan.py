"""plan: check the whole catalogue, write the resolved specs and count the jobs."""

from collections import Counter
from pathlib import Path

from leakbench.catalogue.workflow import Workflow


def plan(root: Path, scale: str) -> None:
    """Validate everything at one scale and print how many jobs each verb has."""
    workflow = Workflow(root, scale)
    counts = Counter(name.partition("/")[0] for name in workflow.plan.specs)
    used = len(workflow.plan.datasets)
    print(
        f"scale {scale}: {len(workflow.plan.experiments)} experiments, {len(workflow.plan.cells)} cells on {used} data sets"
    )
    for verb, count in sorted(counts.items()):
        print(f"{count:6d} {verb}")
