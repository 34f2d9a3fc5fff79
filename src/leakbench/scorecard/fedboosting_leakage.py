"""Claims about what leaks at each point of an encrypted round (thesis, sections 4.2.3 and 4.4), beside what we measured."""

from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.look import ENOUGH, Build, Look, Quantity, at, best, claim, minus, smallest
from leakbench.scorecard.verdict import Finding

EXPERIMENT, ATTACKS = "leakbench-observers", ("fidel", "invg")
# InvG's own iterations.
LENGTH = 4000


def _seen(attack: str, defence: str) -> Quantity:
    """Pearson r of reconstruction and image for who sees a round as `defence` leaves it."""
    if attack == "fidel":
        # It solves, and takes no steps of which there could be too few.
        return lambda look: look.evidence.pick(EXPERIMENT, metric="pearson", attack=attack, defence=defence)
    return at(EXPERIMENT, "pearson", LENGTH, attack=attack, defence=defence)


def _gained(defence: str, beside: str) -> list[Quantity]:
    return [minus(_seen(attack, defence), _seen(attack, beside)) for attack in ATTACKS]


def _fusion(evidence: Evidence) -> Finding:
    """Of fused models as a client gets them; the note says what knowing the released constant changes."""
    look = Look(evidence, ENOUGH)
    lost, known = best(*_gained("fused", "none"))(look), smallest(*_gained("fused-known", "none"))(look)
    note = (
        f"whoever knows the share of 0.9, which the authors' code fixes, loses {max(0.0, -known.value):.2g}"
    )
    return Finding(lost, 0, "<", note="; ".join(filter(None, [note, look.note])))


CLAIMS: dict[str, Build] = {
    "thesis.text-4-4.conspiracy": claim(smallest(*_gained("encrypted-colluding", "encrypted")), ">", 0),
    "thesis.text-4-2-3.fusion-protects": _fusion,
}
