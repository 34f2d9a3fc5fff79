"""The threat model: what an attacker sees and knows, field by field, and the words that tables print."""

from dataclasses import dataclass
from typing import Literal

Observer = Literal["server", "client", "colluding"]
# F: the server writes the weights. G: it also holds samples like the private ones. H: it also chooses the
# clients that it attacks.
Letter = Literal["F", "G", "H"]
# Who an observer is, in words. Each follows the protocol, unless `malicious` names how the server departs
# from it.
OBSERVERS = {
    "server": "honest-but-curious server",
    "client": "honest-but-curious client",
    "colluding": "server and client that collude",
}


@dataclass(frozen=True)
class ThreatModel:
    """What an attacker sees and knows in addition to the tensors. Attacks may ask for each field.

    observer: who sees the updates.
    shared: what the observer sees of them, in words for people.
    labels_known: whether the labels of the private samples are known.
    counts_known: whether the clients' numbers of samples are known.
    local_known: whether it is known how clients train.
    local_set_repeats: whether clients hold the same samples in every round, so that rounds differ only in
    chance.
    candidates_known: whether the attacker holds images among which the private ones are.
    defence: the name of the clients' defence, if it is known.
    malicious: how the server cheats, one of `federation.servers`. Without it the server follows the protocol.
    letter: what such a server can do, by the letters F to H of Carletti et al. (USENIX Security 2025).
    source: where the rounds come from, if this project did not play them.
    """

    observer: Observer = "server"
    shared: str = "updates of each client, each round"
    labels_known: bool = False
    counts_known: bool = True
    local_known: bool = True
    local_set_repeats: bool = False
    candidates_known: bool = False
    defence: str | None = None
    malicious: str | None = None
    letter: Letter | None = None
    source: str | None = None

    @property
    def attacker(self) -> str:
        """Return who attacks, in words."""
        if not self.malicious:
            return OBSERVERS[self.observer]
        letter = f", letter {self.letter}" if self.letter else ""
        return f"malicious server ({self.malicious}{letter})"
