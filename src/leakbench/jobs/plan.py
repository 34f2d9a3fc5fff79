"""plan: check the whole catalogue, write the resolved specs, and print what each experiment costs."""

import timeit
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional

from leakbench.base.processes.workers import one_thread
from leakbench.catalogue import costs
from leakbench.catalogue.budget import counted
from leakbench.catalogue.costs import STEP, STEPPED, Effort
from leakbench.catalogue.workflow import Workflow
from leakbench.papers.entries import resting_on_headlines
from leakbench.papers.work import read_papers


def plan(root: Path, scale: str = "quick", seed: int | None = None, headlines: bool = False) -> None:
    """Validate everything at one scale; print each verb's number of jobs and each experiment's core-minutes.

    Core-minutes are given for this machine, measured in a second, and for the reference core, by which a
    scale's budget chooses. They cover all jobs that run when the experiment is asked for, so jobs that
    experiments share count for each of them. They include the overhead of each job and experiment, as the
    budget's total does. After an experiment stands why its cells are left out; where there are several
    reasons, each is a line of its own with the number of its cells.

    root: the checkout.
    scale: the scale, a file of config/scales.
    seed: the number by which every seed of the run is raised, by default none.
    headlines: print only the experiments that headline findings rest on.
    """
    workflow = Workflow(root, scale, seed)
    found = workflow.plan
    asked_for = f"{len(found.experiments)} experiments, {len(found.cells)} cells"
    print(f"scale {scale}: {asked_for} on {len(found.datasets)} data sets")
    for verb, count in sorted(_jobs(workflow).items()):
        print(f"{count:6d} {verb}")
    works, here = costs.works(found.specs, counted(root / "config")), measured()
    every = sorted(found.experiments)
    asked = resting_on_headlines(read_papers(root / "papers"), every) if headlines else every
    behind = {name: found.run_for(name) & works.keys() for name in asked}
    head, last = "core-minutes of", "all, shared jobs once"
    width = 1 + max(map(len, (head, last, *asked)))

    def line(name: str, experiments: Sequence[str], apart: str) -> str:
        specs = {spec for each in experiments for spec in behind[each]}
        cells = {cell.stem for each in experiments for cell in found.experiments[each]}
        cells |= {study.stem for each in experiments for study in found.studies[each]}
        # Each capture has one more job, which scores the attacks on it.
        overhead = costs.JOB * (len(specs) + sum(spec.startswith("capture/") for spec in specs))
        overhead += costs.EXPERIMENT * len(experiments)
        took = (sum(works[spec].seconds(speed) for spec in specs) for speed in (here, costs.REFERENCE))
        minutes = "".join(f"{(overhead + seconds) / 60:14,.1f}" for seconds in took)
        return f"{name:{width}}{len(cells):>6}{apart:>10}{minutes}"

    print(f"\n{head:{width}}{'cells':>6}{'left out':>10}{'this machine':>14}{'reference':>14}")
    for name in asked:
        apart = Counter(found.specs[f"table/{name}"]["cells_left_out"].values())
        alone = f"  {next(iter(apart))}" if len(apart) == 1 else ""
        print(line(name, [name], str(apart.total() or "")) + alone)
        for why, count in apart.most_common() if not alone else ():
            print(f"{name:{width}}{count:>16}{'':28}  {why}")
    print(line(last, asked, ""))


def _jobs(workflow: Workflow) -> Counter[str]:
    """Return the number of jobs of each verb in a run of the whole scale, in which nothing is done yet."""
    specs = workflow.plan.specs
    counts = Counter(name.partition("/")[0] for name in specs)
    data = set(workflow.data())
    for name in specs:
        verb, _, stem = name.partition("/")
        if verb == "generator":
            data.add(workflow.auxiliary(stem))
        elif verb == "capture":
            data.update(workflow.backbones(stem))
    # Every data set and every experiment has its specs, also where this scale needs none of its files.
    needed = {"tables": "csv", "figures": "png"}
    shown = {kind.removesuffix("s"): len(workflow.each(kind, suffix)) for kind, suffix in needed.items()}
    return Counter({**counts, "fetch": len(data), **shown})


def _seconds(once: Callable[[], object], times: int) -> float:
    """Return the median time of one call, over seven turns of `times` calls."""
    return median(timeit.repeat(once, number=times, repeat=7)) / times


def _convolved(images: Tensor, filters: Tensor) -> float:
    """Return the millions of operations in a second of a pass forth and back through a convolution."""
    millions = STEP * 2 * filters.numel() * images[:, 0].numel() / 1e6
    for each in (images, filters):
        each.requires_grad_()

    def step() -> None:
        functional.conv2d(images, filters, padding=filters.shape[-1] // 2).sum().backward()

    return millions / _seconds(step, 10)


def measured() -> Effort:
    """Return what one core of this machine does in a second, in the form of `costs.REFERENCE`."""
    # The probes have the size of a job's operations: a pass forth and back through a convolution of LeNet,
    # and through one of ResNet20-4, a product of matrices, and a step of SGD on a network whose operations
    # take no time compared to the calls.
    with one_thread():
        matrix = torch.rand(512, 512)
        network = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))
        optimiser = torch.optim.SGD(network.parameters(), lr=0.01)
        points, labels = torch.rand(10, 2), torch.zeros(10, dtype=torch.int64)

        def step() -> None:
            optimiser.zero_grad()
            functional.cross_entropy(network(points), labels).backward()
            optimiser.step()

        return Effort(
            _convolved(torch.rand(64, 12, 16, 16), torch.rand(12, 12, 5, 5)),
            2 * 512**3 / 1e6 / _seconds(lambda: matrix @ matrix, 20),
            3 * STEPPED / _seconds(step, 200),
            _convolved(torch.rand(1, 64, 32, 32), torch.rand(64, 64, 3, 3)),
        )
