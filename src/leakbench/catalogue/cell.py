"""A cell of the attack × defence table, and the check that its parts fit each other."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench.base.cellname import named
from leakbench.base.errors import UserError
from leakbench.base.yamls import suggest
from leakbench.catalogue.load import file_of, find
from leakbench.catalogue.schema import Dataset

Spec = dict[str, Any]
# Stands for the victim in the path of a generator that depends on none. No entry can have this name.
ANY_VICTIM = "_any"
# The files that the pictures of a cell are taken from.
PICTURED = ("guesses", "truth", "victims", "data")
# The point at which a decaying step size falls first, as a share of the iterations over which it decays.
DECAYS_AT = 3 / 8


@dataclass(frozen=True, order=True)
class Cell:
    """One attack on one capture. Every image, round and client of it is a row of the cell's results.

    All fields but `seed` are names of entries of the catalogue.
    """

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
        return named(vars(self))

    @property
    def stem(self) -> str:
        """Path stem of this cell's own results."""
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


def capture_of(stem: str) -> str:
    """Return the path stem of the capture that a cell attacks, by the stem of the cell."""
    return Cell.parse(stem).capture


def check_cell(
    cell: Cell, config: Path, where: str, entries: dict[str, Spec], victim_dataset: Dataset
) -> None:
    """Raise UserError that names file and key if the entries of a cell do not fit each other."""
    federation, attack = entries["federation"], entries["attack"]
    private = federation["private"]
    counts = victim_dataset.counts
    count = counts.get(private["split"])
    federation_file = file_of(config, "federations", cell.federation)
    if counts and count is None:
        raise UserError(
            f"{where}: federation '{cell.federation}': private.split '{private['split']}' is no split of "
            f"{cell.dataset} ({suggest(private['split'], counts)})"
        )
    if count is not None and private["stop"] > count and not federation.get("drawn"):
        raise UserError(
            f"{where}: federation '{cell.federation}': private.stop {private['stop']} is beyond the {count} "
            f"images of {cell.dataset}/{private['split']} (lower it)"
        )
    # A client that goes over its set several times holds all rounds of a pass at once.
    updates = federation["rounds"] // federation["passes"] if federation["passes"] > 1 else 1
    samples = max(federation["clients"]) * updates
    if samples > private["stop"] - private["start"]:
        raise UserError(
            f"{federation_file}: clients: {samples} samples do not fit the "
            f"{private['stop'] - private['start']} private images (widen private)"
        )
    others = federation.get("candidates", 0)
    most = federation["rounds"] * sum(federation["clients"]) + others
    if others and most > private["stop"] - private["start"]:
        raise UserError(
            f"{federation_file}: candidates: {others} and up to {most - others} private images do not fit "
            f"the {private['stop'] - private['start']} of private (lower it, or widen private)"
        )
    if federation["evaluate"] and counts:
        taken = private["stop"] - private["start"] if private["split"] == "test" else 0
        free = counts.get("test", 0) - taken
        if federation["evaluate"] > free:
            raise UserError(
                f"{federation_file}: evaluate: {federation['evaluate']} images are not there: {cell.dataset} "
                f"has {free} test images that are not private (lower it, or narrow private)"
            )
    if attack["generator"] and cell.dataset not in attack["generator"]:
        raise UserError(
            f"{where}: attack '{cell.attack}' has no generator for data set '{cell.dataset}' "
            f"({suggest(cell.dataset, attack['generator'])})"
        )
    if "generator" in entries and entries["generator"]["auxiliary"]:
        auxiliary = entries["generator"]["auxiliary"]
        overlap = (auxiliary["dataset"], auxiliary["split"]) == (cell.dataset, private["split"]) and (
            max(auxiliary["start"], private["start"]) < min(auxiliary["stop"], private["stop"])
        )
        if overlap:
            raise UserError(
                f"{where}: generator '{attack['generator'][cell.dataset]}': auxiliary images overlap the "
                f"private ones of federation '{cell.federation}' (make the two ranges disjoint)"
            )
        images = find(
            config,
            "datasets",
            auxiliary["dataset"],
            f"{config}/generators: {attack['generator'][cell.dataset]}",
        )
        if auxiliary["stop"] > images.counts.get(auxiliary["split"], 0):
            raise UserError(
                f"{where}: generator '{attack['generator'][cell.dataset]}': auxiliary.stop "
                f"{auxiliary['stop']} is beyond the images of {auxiliary['dataset']}/{auxiliary['split']} "
                "(lower it)"
            )
    own = entries.get("malicious", {}).get("auxiliary")
    if own:
        of_server = f"{federation_file}: malicious: the server's auxiliary images"
        if own["stop"] > counts.get(own["split"], own["stop"]):
            raise UserError(
                f"{of_server} end at {own['stop']}, beyond the {counts[own['split']]} of "
                f"{cell.dataset}/{own['split']} (lower auxiliary.stop in config/servers)"
            )
        if own["split"] == private["split"] and max(own["start"], private["start"]) < min(
            own["stop"], private["stop"]
        ):
            raise UserError(f"{of_server} overlap the private ones (make the two ranges disjoint)")
    checkpoints = federation["checkpoints"]
    kept = (entries["victim"]["training"] or {"checkpoints": [0]})["checkpoints"]
    if checkpoints != "last":
        beyond = [c for c in checkpoints if c not in kept]
        if beyond:
            raise UserError(
                f"{where}: federation '{cell.federation}': checkpoints: victim '{cell.victim}' keeps none at "
                f"epoch {beyond[0]} (it keeps {kept})"
            )
    if federation["server"] == "fedavg" and checkpoints != "last":
        raise UserError(
            f"{federation_file}: checkpoints: a moving server starts from 'last' alone (drop the list)"
        )


def decays(attack: Spec) -> bool:
    """Say whether the step size of a resolved attack falls before its last iteration."""
    length = attack["parameters"].get("iterations", 0)
    over = attack["parameters"].get("decay_over") or length
    lowered = any(arguments.get("decay") for arguments in attack["optimiser"].values())
    return lowered and int(DECAYS_AT * over) < length
