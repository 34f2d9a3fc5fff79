"""What experiments ask for, by the names of entries: cells of the attack × defence table, and studies."""

from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]
# Keyword arguments of a part's function.
Arguments = Spec
# Stands for the victim in the path of a generator that depends on none. No entry can have this name.
ANY_VICTIM = "_any"
# The files that the pictures of a cell are taken from.
PICTURED = ("guesses", "truth", "victims", "data")


@dataclass(frozen=True, order=True)
class Cell:
    """One attack on one capture, by names of entries. Each of its images and rounds is a row of results."""

    dataset: str
    victim: str
    federation: str
    defence: str
    attack: str
    seed: int

    @classmethod
    def parse(cls, stem: str) -> "Cell":
        """Return the cell of a path stem. That of a capture gives a cell without an attack."""
        dataset, victim, federation, defence, *attack, seed = stem.split("/")
        return cls(dataset, victim, federation, defence, "".join(attack), int(seed))

    @property
    def capture(self) -> str:
        """Path stem of the capture that this cell attacks. The cells of other attacks share it."""
        return f"{self.dataset}/{self.victim}/{self.federation}/{self.defence}/{self.seed}"

    @property
    def name(self) -> str:
        """The name of the cells that differ from this one by their seed alone, as of a line of a table."""
        return f"{self.dataset}/{self.victim}/{self.federation}/{self.defence}/{self.attack}"

    @property
    def stem(self) -> str:
        return f"{self.name}/{self.seed}"

    def path(self, kind: str, network: str = "") -> str:
        """Return the path of a file or spec of this cell, below the run's folder and without suffix."""
        match kind:
            case "data":
                return f"data/{self.dataset}"
            case "train" | "victims":
                return f"{kind}/{self.dataset}/{network or self.victim}/{self.seed}"
            case "attack" | "guesses" | "records/attack":
                return f"{kind}/{self.stem}"
        return f"{kind}/{self.capture}"

    def served(self, generator: str) -> tuple[str, ...]:
        """Return the names that the spec of a generator may have that this cell's attack takes."""
        victims = self.victim, ANY_VICTIM
        return tuple(f"generator/{self.dataset}/{of}/{generator}/{self.seed}" for of in victims)


@dataclass(frozen=True, order=True)
class Study:
    """The accuracy of a model trained in one way under one defence. Each client and round is a row of it."""

    dataset: str
    victim: str
    training: str
    defence: str
    seed: int

    @property
    def stem(self) -> str:
        return f"{self.dataset}/{self.victim}/{self.training}/{self.defence}/{self.seed}"
