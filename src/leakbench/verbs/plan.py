"""plan: check the whole catalogue, write the resolved specs, and print what each experiment costs."""

from collections import Counter
from pathlib import Path

from leakbench.catalogue import costs, shares
from leakbench.catalogue.workflow import Workflow
from leakbench.papers.entries import resting_on_headlines
from leakbench.papers.work import read_papers
from leakbench.speed import measured


def plan(root: Path, scale: str, seed: int | None = None, headlines: bool = False) -> None:
    """Validate everything at one scale; print each verb's number of jobs and each experiment's core-minutes.

    Core-minutes are given for this machine, measured in a second, and for the reference core, by which a
    scale's budget chooses. They cover all jobs that run when the experiment is asked for, so jobs that
    experiments share count for each of them. The reason after an experiment is that of most of its cells that
    are left out.

    root: the checkout.
    scale: the scale's name.
    seed: a number that is added to all seeds.
    headlines: whether to print only experiments that headline findings rest on.
    """
    workflow = Workflow(root, scale, seed)
    found = workflow.plan
    counts = Counter(name.partition("/")[0] for name in found.specs)
    print(
        f"scale {scale}: {len(found.experiments)} experiments, {len(found.cells)} cells on "
        f"{len(found.datasets)} data sets"
    )
    for verb, count in sorted(counts.items()):
        print(f"{count:6d} {verb}")
    works, here = costs.works(found.specs, shares.counted(root / "config")), measured()

    def line(name: str, specs: set[str], jobs: str, apart: str) -> str:
        took = [sum(works[spec].seconds(speed) for spec in specs) / 60 for speed in (here, costs.REFERENCE)]
        return f"{name:28}{jobs:>6}{apart:>10}{took[0]:14,.1f}{took[1]:14,.1f}"

    print(f"\n{'core-minutes of':28}{'jobs':>6}{'left out':>10}{'this machine':>14}{'reference':>14}")
    everything: set[str] = set()
    shown = sorted(found.experiments)
    for name in resting_on_headlines(read_papers(root / "papers"), shown) if headlines else shown:
        specs = found.run_for(name) & works.keys()
        everything |= specs
        apart = Counter(found.specs[f"table/{name}"]["cells_left_out"].values())
        jobs = len(found.experiments[name]) + len(found.studies[name])
        why = "".join(f"  {reason}" for reason, _ in apart.most_common(1))
        print(line(name, specs, str(jobs), str(apart.total() or "")) + why)
    print(line("all, shared jobs once", everything, str(len(everything)), ""))
