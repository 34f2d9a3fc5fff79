"""What an update gives away besides records: which labels were in the batch, and whose records."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from leakbench import attacks
from leakbench.attacks.exact.membership import distances, spans, within
from leakbench.audit.layers import readable, uncountable
from leakbench.audit.reasons import reason
from leakbench.audit.view import Truth
from leakbench.base.errors import Unfit
from leakbench.catalogue.bibliography import source
from leakbench.observations.observation import Observation

RULE = "counted"


@dataclass(frozen=True)
class Beside:
    """What an attack finds besides records.

    title: the name of what the attack finds.
    attacker: the letter of the weakest attacker who can run it.
    source: the paper.
    line: what the attack found, or why it could not run if `ran` is false.
    ran: whether the attack ran.
    seconds: of wall time.
    """

    title: str
    attacker: str
    source: str
    line: str
    ran: bool
    seconds: float


def besides(observation: Observation, truth: Truth, plain_loss: bool) -> Iterator[Beside]:
    """Yield what an update gives away about labels and about membership.

    observation: what the server sees of the round.
    truth: the private records. Membership also needs records of others to compare with.
    plain_loss: whether the loss is the mean cross-entropy. Label counts are left out for any other loss.
    """
    plans = [("label counts", "B", str(source("llg")), labels)] if plain_loss else []
    plans.append(("membership", "D", f"{source('projres')} (of text)", members))
    for title, letter, paper, attack in plans:
        begun = time.perf_counter()
        try:
            line, ran = attack(observation, truth), True
        except Exception as problem:  # noqa: BLE001 - a network of somebody's own may raise anything
            line, ran = reason(problem), False
        yield Beside(title, letter, paper, line, ran, round(time.perf_counter() - begun, 3))


def labels(observation: Observation, truth: Truth) -> str:
    """Return in words how many labels of the batch are counted right, from the last layer alone.

    Raises Unfit if the last layer counts none.
    """
    if why := uncountable(observation):
        raise Unfit(why)
    entry = {"module": "labels", "parameters": {}, "labels": RULE}
    made = attacks.run(entry, replace(observation, labelling=RULE), torch.Generator().manual_seed(0))
    assert made.labels is not None
    classes = torch.arange(len(truth.labels)) % observation.network["classes"]
    right, even = (
        (Counter(guess.tolist()) & Counter(truth.labels.tolist())).total()
        for guess in (made.labels[0, 0], classes)
    )
    return f"{right} of {len(truth.labels)} labels are right ({even} by guessing all classes equally often)"


@torch.no_grad()
def members(observation: Observation, truth: Truth) -> str:
    """Return in words how many records, and how many of others, lie in the span of an update.

    The span is that of the first dense layer's update. Raises Unfit if there are no records of others.
    """
    if truth.others is None or not len(truth.others):
        raise Unfit("not run: it needs records of others in the batch, beyond those of the client (--batch)")
    (seen,) = spans(readable(observation, needs_bias=False), "membership")
    found = []
    for images in (truth.images, truth.others):
        samples = seen.read(images)
        found.append(int(within(seen.found, samples, distances(seen.found, samples)).sum()))
    return (
        f"{found[0]} of {len(truth.images)} records are recognised as members, and {found[1]} of "
        f"{len(truth.others)} records of others are taken for members"
    )
