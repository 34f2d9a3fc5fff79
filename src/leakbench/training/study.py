"""A training study: rounds of training under a defence, and after each how well the model does, with which key."""

import copy
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench import defences, victims
from leakbench.artefacts import open_tensors, read_tensors, write_tensors
from leakbench.defences import Defence, sent_bytes
from leakbench.progress import track
from leakbench.seeds import stream
from leakbench.training.batches import AUGMENTATIONS, to_size
from leakbench.training.enlisted import enlist, protocol_of, sealed_bytes, spent
from leakbench.training.federated import Client, State, hold, play_round, shared
from leakbench.training.plane import drawing, extent, flat_data, sample
from leakbench.training.resume import packed, unpack
from leakbench.training.server import Outcome
from leakbench.training.shares import divide, hold_out

BATCH = 250
SAVE_EVERY = 10.0
# Whose row it is where a model is not one client's.
NOBODY = -1
COLUMNS = [
    "round", "client", "key", "validation_accuracy", "validation_loss", "test_accuracy", "test_loss", "training_loss",
]  # fmt: skip
# Of the rows, key "client", that a round by a rule of aggregation has for each client.
BY_RULE = ["weight", "cross_loss", "cross_accuracy"]


def _rng(*names: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(stream(*names))


def locked_models(spec: Mapping[str, Any], defence: Defence) -> tuple[list[nn.Module], nn.Module]:
    """Return each client's untrained model, and the server's view: what a stranger's key makes of the model it hands out.

    All start from the same weights and the same secret parameters, such as lock layers, which the server draws; secret
    buffers, such as keys, are each one's own.
    """
    training, image, entry = spec["training"], spec["dataset"], spec["victim"]
    size = training["size"]
    shape = (size, size, image["shape"][2]) if size else tuple(image["shape"])
    torch.manual_seed(stream("initialise", image["name"], entry["module"], spec["seed"]))
    plain = victims.build(entry["module"], shape, image["classes"], entry["parameters"])
    origin = defence.protect_model(plain, _rng("lock", image["name"], spec["seed"]))
    secret = defence.secret(origin)
    alike = {name: value for name, value in origin.named_parameters() if name in secret}
    models = []
    for holder in [*map(str, range(training["clients"])), "stranger"]:
        model = defence.protect_model(copy.deepcopy(plain), _rng("key", image["name"], spec["seed"], holder))
        hold(model, alike)
        models.append(model)
    return models[:-1], models[-1]


def lock_shares(model: nn.Module, secret: frozenset[str]) -> dict[str, float]:
    """Return the share of a model's parameters that are secret ones, in [0, 1]: among all its tensors but keys, which is how
    the thesis counts, and among its parameters alone.
    """
    parameters = dict(model.named_parameters())
    locked = sum(value.numel() for name, value in parameters.items() if name in secret)
    counted = sum(
        value.numel()
        for name, value in model.state_dict().items()
        if name in parameters or name not in secret
    )
    every = sum(value.numel() for value in parameters.values())
    return {"lock_share": locked / counted, "lock_share_parameters": locked / every}


def upload_bytes(model: nn.Module, secret: frozenset[str], defence: Defence) -> int:
    """Return the bytes that one upload takes: the protected update of the first round, and batch norm's statistics as they are."""
    own = shared(model, secret)
    trained = {name: own.pop(name)[None] for name, _ in model.named_parameters() if name in own}
    update = defence.protect_update(trained, _rng("upload"))
    return int(sent_bytes(defence, update)) + sum(v.numel() * v.element_size() for v in own.values())


@torch.no_grad()
def measured(model: nn.Module, images: Tensor, labels: Tensor, size: int | None) -> tuple[float, float]:
    """Return the share of images uint8 [n, rows, columns, channels] that a model classifies rightly, and its mean loss."""
    device, right, loss = next(model.parameters()).device, 0, 0.0
    for x, y in zip(images.split(BATCH), labels.split(BATCH), strict=True):
        found, truth = model(to_size(x.to(device), size)), y.to(device)
        right += int((found.argmax(1) == truth).sum())
        loss += float(cross_entropy(found, truth, reduction="sum"))
    return right / len(labels), loss / len(labels)


class Judge:
    """Measures the server's tensors with each client's secrets, another client's key, and a stranger's key with the locks that
    the server drew.
    """

    def __init__(
        self,
        clients: list[Client],
        stranger: nn.Module,
        sets: Mapping[str, tuple[Tensor, Tensor]],
        size: int | None,
    ) -> None:
        self.clients, self.stranger, self.sets, self.size = clients, stranger.eval(), sets, size
        self.keys = [
            {name: value.clone() for name, value in client.model.named_buffers() if name in client.secret}
            for client in clients
        ]

    def _row(self, client: int, key: str, model: nn.Module) -> dict[str, Any]:
        row: dict[str, Any] = {"client": client, "key": key}
        for name, (images, labels) in self.sets.items():
            right, loss = measured(model.eval(), images, labels, self.size)
            row |= {f"{name}_accuracy": right, f"{name}_loss": loss}
        return row

    def rows(self, server: State) -> list[dict[str, Any]]:
        """Return a row for each client and key; one row alone where nothing is secret."""
        if not self.clients[0].secret:
            hold(self.clients[0].model, server)
            return [self._row(NOBODY, "", self.clients[0].model)]
        found = []
        for number, client in enumerate(self.clients):
            hold(client.model, server)
            found.append(self._row(number, "own", client.model))
            if len(self.clients) > 1:
                hold(client.model, self.keys[(number + 1) % len(self.clients)])
                found.append(self._row(number, "other", client.model))
                hold(client.model, self.keys[number])
        hold(self.stranger, server)
        return [*found, self._row(NOBODY, "random", self.stranger)]


def by_rule(outcome: Outcome, losses: list[float], turn: int) -> list[dict[str, Any]]:
    """Return a row for each client of round `turn`: its weight, and how its model did where clients validated each other's."""
    columns = (losses, outcome.weights, outcome.validation_loss, outcome.validation_accuracy)
    return [
        {"round": turn, "client": client, "key": "client"}
        | dict(zip(("training_loss", *BY_RULE), map(float, values), strict=True))
        for client, values in enumerate(zip(*columns, strict=True))
    ]


def _save(path: Path, server: State, clients: list[Client], facts: dict[str, Any]) -> None:
    tensors = {f"server/{name}": value.cpu().numpy() for name, value in server.items()}
    for number, client in enumerate(clients):
        own = client.model.state_dict()
        tensors |= {f"secret-{number}/{name}": own[name].cpu().numpy() for name in client.secret}
        tensors |= {f"optimiser-{number}/{name}": value for name, value in packed(client.optimiser).items()}
    write_tensors(path, tensors, facts)


def _resume(path: Path, clients: list[Client], device: str) -> tuple[State, dict[str, Any]]:
    tensors, facts = read_tensors(path)

    def below(kind: str) -> dict[str, np.ndarray]:
        return {n.partition("/")[2]: v for n, v in tensors.items() if n.partition("/")[0] == kind}

    for number, client in enumerate(clients):
        hold(client.model, {n: torch.from_numpy(v) for n, v in below(f"secret-{number}").items()})
        unpack(client.optimiser, client.model, below(f"optimiser-{number}"))
    return {n: torch.from_numpy(v).to(device) for n, v in below("server").items()}, facts


def study(
    spec: Mapping[str, Any], data: Path, scratch: Path, device: str = "cpu", save_every: float = SAVE_EVERY
) -> tuple[pd.DataFrame, dict[str, Any], float]:
    """Return one row per round, client and key; facts; and the seconds that a round's training takes.

    Columns: round (from 1), client (-1: of none), key (own, other, random; empty without a lock), test_ and
    validation_accuracy in [0, 1], test_ and validation_loss, training_loss (of the client, or the clients' mean); with a rule of
    aggregation also rows of key "client" with a client's weight, cross_loss and cross_accuracy. The fact
    `selected` is the round whose mean own accuracy on validation images is highest, the first of equals. `scratch` names the
    resume file: written about every `save_every` seconds, removed at the end.
    """
    training, image, seed = spec["training"], spec["dataset"], spec["seed"]
    arrays, _ = open_tensors(data)
    images = torch.from_numpy(np.array(arrays["train/images"][: training["images"]]))
    labels = np.array(arrays["train/labels"][: training["images"]])
    owners = arrays.get("train/clients")
    owners = None if owners is None else np.array(owners[: training["images"]])
    rng = np.random.default_rng(stream("shares", image["name"], seed))
    places, held = hold_out(len(labels), training["validation"], rng)
    shares = divide(
        labels[places],
        training["clients"],
        training["split"],
        training["alpha"],
        rng,
        None if owners is None else owners[places],
    )
    test = slice(training["evaluate"])
    sets = {
        "validation": (images[held], torch.from_numpy(labels[held])),
        "test": (
            torch.from_numpy(np.array(arrays["test/images"][test])),
            torch.from_numpy(np.array(arrays["test/labels"][test])),
        ),
    }
    defence = defences.build(spec["defence"]["module"], spec["defence"]["parameters"])
    models, stranger = locked_models(spec, defence)
    secret = defence.secret(models[0])
    mine = [torch.from_numpy(places[share]) for share in shares]
    kept = [(images[own], torch.from_numpy(labels)[own]) for own in mine]
    clients = enlist(spec, models, secret, kept, device)
    protocol = protocol_of(spec)
    judge = Judge(clients, stranger.to(device), sets, training["size"])
    server = shared(clients[0].model, secret)
    facts: dict[str, Any] = {"round": 0, "rows": [], "seconds": 0.0, "problems": []}
    if scratch.is_file():
        server, facts = _resume(scratch, clients, device)
    measure = partial(measured, size=training["size"])
    augment = AUGMENTATIONS[training["augmentation"]]

    def prepare(x: Tensor, rng: torch.Generator) -> Tensor:
        found = augment(to_size(x.to(device), training["size"]), rng)
        return found.contiguous(memory_format=torch.channels_last)

    chance = partial(_rng, "study", image["name"], seed)
    for turn, due in track(range(facts["round"], training["rounds"]), "train study", every=save_every):
        begin = time.perf_counter()
        rngs = [chance(turn, number) for number in range(len(clients))]
        server, losses, outcome = play_round(
            server, clients, defence, training, turn, prepare, rngs, protocol, measure
        )
        facts["seconds"] += time.perf_counter() - begin
        facts["round"] = turn + 1
        for row in judge.rows(server):
            loss = losses[row["client"]] if row["client"] != NOBODY else float(np.mean(losses))
            facts["rows"].append({"round": turn + 1, **row, "training_loss": loss})
        if outcome:
            facts["rows"] += by_rule(outcome, losses, turn + 1)
            facts["problems"] += [
                {"round": turn + 1, "client": client, "problem": why}
                for client, why in outcome.problems.items()
            ]
        if due and turn + 1 < training["rounds"]:
            _save(scratch, server, clients, facts)
    scratch.unlink(missing_ok=True)
    rows = pd.DataFrame(facts["rows"], columns=COLUMNS + (BY_RULE if protocol else []))
    own = rows[rows["key"].isin(["", "own"])].groupby("round")["validation_accuracy"].mean()
    told = {
        "selected": int(own.to_numpy().argmax()) + 1,
        "rounds": training["rounds"],
        "images": sum(map(len, shares)),
        "test_images": len(sets["test"][1]),
        "samples": [len(share) for share in shares],
        "batch_size": training["batch_size"],
        "upload_bytes": upload_bytes(models[0], secret, defence),
        **lock_shares(models[0], secret),
    }
    if protocol:
        told |= {"problems": facts["problems"]}
    if protocol and protocol.scheme:
        told |= {"upload_bytes": sealed_bytes(protocol, server), "encryption": protocol.scheme.about}
    if training.get("privacy"):
        told |= {"epsilon": spent(training, clients), "delta": training["privacy"]["delta"]}
    if flat_data(images):
        hold(clients[0].model, server)
        points = {"clients": [sample(*each) for each in kept], "test": sample(*sets["test"])}
        told |= {"boundary": drawing(clients[0].model, extent(images)) | {"points": points}}
    return rows, told, facts["seconds"] / training["rounds"]
