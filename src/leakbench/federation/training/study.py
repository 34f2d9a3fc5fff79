"""A training study: rounds under a defence, and how well the model does after each, with every key."""

import copy
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from leakbench import defences
from leakbench.base.artefacts import Facts
from leakbench.base.errors import UserError
from leakbench.base.missing import absent, lacking
from leakbench.base.progress import track
from leakbench.base.resume import packed, resume, save, unpack
from leakbench.base.seeds import stream
from leakbench.defences import Defence, sent_bytes
from leakbench.federation.training.batches import AUGMENTATIONS, to_size
from leakbench.federation.training.enlisted import enlist, protocol_of, sealed_bytes, spent
from leakbench.federation.training.federated import State, Trainee, hold, play_round, train_locally
from leakbench.federation.training.fit import shared
from leakbench.federation.training.private import train_privately
from leakbench.federation.training.server import Aggregate
from leakbench.federation.training.sets import Examined, examined, told_apart, training_images
from leakbench.federation.training.shares import divide, hold_out
from leakbench.federation.training.shown import examples, extent, sample, surface
from leakbench.networks import victims
from leakbench.networks.tasks import recognition, task_of

BATCH = 250
SAVE_EVERY = 10.0
# The client of a row whose model is not one client's.
NOBODY = -1
COLUMNS = [
    "round", "client", "key", "tested", "validation_accuracy", "validation_loss", "test_accuracy",
    "test_loss", "filtered_accuracy", "training_loss",
]  # fmt: skip
# Further columns of the rows of key "client", which a round by a rule of aggregation has for each client.
BY_RULE = ["weight", "cross_loss", "cross_accuracy"]


def _rng(*names: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(stream(*names))


def locked_models(spec: Mapping[str, Any], defence: Defence) -> tuple[list[nn.Module], nn.Module]:
    """Return each client's untrained model, and the model of a stranger with a key of its own."""
    training, image, entry = spec["training"], spec["dataset"], spec["victim"]
    size = training["size"]
    shape = (size, size, image["shape"][2]) if size else tuple(image["shape"])
    torch.manual_seed(stream("initialise", image["name"], entry["module"], spec["seed"]))
    plain = victims.build(entry["module"], shape, image["classes"], entry["parameters"])
    origin = defence.model(plain, _rng("lock", image["name"], spec["seed"]))
    secret = defence.secret(origin)
    # All start from the same weights and secret parameters, such as lock layers. Keys are each one's own.
    alike = {name: value for name, value in origin.named_parameters() if name in secret}
    models = []
    for holder in [*map(str, range(training["clients"])), "stranger"]:
        model = defence.model(copy.deepcopy(plain), _rng("key", image["name"], spec["seed"], holder))
        hold(model, alike)
        models.append(model)
    return models[:-1], models[-1]


def lock_shares(model: nn.Module, secret: frozenset[str]) -> dict[str, float]:
    """Return which share is secret of all tensors but keys, as the thesis counts, and of the parameters."""
    parameters = dict(model.named_parameters())
    locked = sum(value.numel() for name, value in parameters.items() if name in secret)
    kept = (value for name, value in model.state_dict().items() if name in parameters or name not in secret)
    counted = sum(value.numel() for value in kept)
    every = sum(value.numel() for value in parameters.values())
    return {"lock_share": locked / counted, "lock_share_parameters": locked / every}


def upload_bytes(model: nn.Module, secret: frozenset[str], defence: Defence) -> int:
    """Return the bytes of one upload: its protected update, and batch norm's statistics as they are."""
    own = shared(model, secret)
    trained = {name: own.pop(name)[None] for name, _ in model.named_parameters() if name in own}
    update = defence.update(trained, _rng("upload"))
    return int(sent_bytes(defence, update)) + sum(v.numel() * v.element_size() for v in own.values())


@torch.no_grad()
def measured(
    model: nn.Module, images: Tensor, labels: Tensor, size: int | None, task: ModuleType
) -> tuple[Tensor, float]:
    """Return which images a model gets right, bool [n], and its mean loss."""
    device, loss = next(model.parameters()).device, 0.0
    right = []
    for x, y in zip(images.split(BATCH), labels.split(BATCH), strict=True):
        found, truth = model(to_size(x.to(device), size)), y.to(device)
        right.append(task.correct(found, truth).cpu())
        loss += float(task.loss(found, truth)) * len(y)
    return torch.cat(right), loss / len(labels)


def share(right: Tensor, counted: Tensor | None) -> float:
    """Return the share of right answers in [0, 1] among those that count."""
    return float("nan") if counted is None or not counted.any() else float(right[counted].float().mean())


class Judge:
    """Measures the server's tensors with each client's own secrets, another client's key and a stranger's."""

    def __init__(
        self, clients: list[Trainee], stranger: nn.Module, validation: Examined,
        tests: Mapping[str, Examined], training: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.clients, self.stranger, self.validation, self.tests = clients, stranger.eval(), validation, tests
        self.size, self.task = training["size"], task_of(training)
        self.keys = [
            {name: value.clone() for name, value in client.model.named_buffers() if name in client.secret}
            for client in clients
        ]

    def _rows(self, client: int, key: str, model: nn.Module) -> list[Facts]:
        def asked(own: Examined) -> tuple[Tensor, float]:
            return measured(model.eval(), own.images, own.labels, self.size, self.task)

        right, loss = asked(self.validation)
        held = {"validation_accuracy": float(right.float().mean()), "validation_loss": loss}
        found = []
        for name, test in self.tests.items():
            right, loss = asked(test)
            measure = {"test_accuracy": float(right.float().mean()), "test_loss": loss}
            measure["filtered_accuracy"] = share(right, test.counted)
            found.append({"client": client, "key": key, "tested": name, **held, **measure})
        return found

    def rows(self, server: State) -> list[Facts]:
        """Return a row for each client, key and test set; where nothing is secret, a row has no client."""
        if not self.clients[0].secret:
            hold(self.clients[0].model, server)
            return self._rows(NOBODY, "", self.clients[0].model)
        found = []
        for number, client in enumerate(self.clients):
            hold(client.model, server)
            found += self._rows(number, "own", client.model)
            if len(self.clients) > 1:
                hold(client.model, self.keys[(number + 1) % len(self.clients)])
                found += self._rows(number, "other", client.model)
                hold(client.model, self.keys[number])
        hold(self.stranger, server)
        return [*found, *self._rows(NOBODY, "random", self.stranger)]


def by_rule(outcome: Aggregate, losses: list[float], turn: int) -> list[Facts]:
    """Return a row for each client of a round by a rule of aggregation."""
    columns = (losses, outcome.weights, outcome.validation_loss, outcome.validation_accuracy)
    return [
        {"round": turn, "client": client, "key": "client"}
        | dict(zip(("training_loss", *BY_RULE), map(float, values), strict=True))
        for client, values in enumerate(zip(*columns, strict=True))
    ]


def _save(path: Path, server: State, clients: list[Trainee], facts: Facts) -> None:
    groups = {"server": server}
    for number, client in enumerate(clients):
        own = client.model.state_dict()
        groups[f"secret-{number}"] = {name: own[name] for name in client.secret}
        groups[f"optimiser-{number}"] = packed(client.optimiser)
        groups[f"memory-{number}"] = client.memory
    save(path, groups, facts)


def _resume(path: Path, clients: list[Trainee], device: str) -> tuple[State, Facts]:
    groups, facts = resume(path)
    for number, client in enumerate(clients):
        hold(client.model, groups.get(f"secret-{number}", {}))
        client.memory = groups.get(f"memory-{number}", {})
        unpack(client.optimiser, client.model, groups.get(f"optimiser-{number}", {}))
    return {name: value.to(device) for name, value in groups["server"].items()}, facts


def study(
    spec: Mapping[str, Any], data: Path, scratch: Path, device: str = "cpu", save_every: float = SAVE_EVERY,
    further: Sequence[Path] = (),
) -> tuple[pd.DataFrame, Facts, float]:  # fmt: skip
    """Train a study to its end, and return its rows, its facts and the seconds of a round's training.

    There is one row for each round, client (-1 for none), key (own, other, random; empty without a lock) and
    test set, and with a rule of aggregation one of key "client" for each client. The fact `selected` is the
    round whose mean own accuracy on validation images is highest. `further` are the files of the data sets to
    train on in addition to `data`, then of those to test on.
    """
    training, image, seed = spec["training"], spec["dataset"], spec["seed"]
    names = [image["name"], *training.get("beside", []), *training.get("tested_on", [])]
    files = dict(zip(names, [data, *further], strict=True))
    sources = [data, *further[: len(training.get("beside", []))]]
    images, labels, owners = training_images(sources, training["images"])
    rng = np.random.default_rng(stream("shares", image["name"], seed))
    places, held = hold_out(len(labels), training["validation"], rng)
    whose, among = None if owners is None else owners[places], training["clients"]
    shares = divide(labels[places], among, training["split"], training["alpha"], rng, whose)
    reasons = {name: absent([path]) or lacking(path, "test") for name, path in files.items()}
    tests = {name: examined(files[name], training["evaluate"]) for name, why in reasons.items() if not why}
    defence = defences.build(spec["defence"]["module"], spec["defence"]["parameters"])
    if defence.view([1, 1]).seen is not defences.unchanged:
        raise UserError(
            f"defence {spec['defence']['module']}: it changes what is seen of a round, not what is trained "
            "(set the training's encryption or fusion)"
        )
    models, stranger = locked_models(spec, defence)
    secret = defence.secret(models[0])
    mine = [torch.from_numpy(places[part]) for part in shares]
    kept = [(images[own], torch.from_numpy(labels)[own]) for own in mine]
    clients = enlist(spec, models, secret, kept, device)
    protocol = protocol_of(spec)
    validation = Examined(images[held], torch.from_numpy(labels[held]))
    judge = Judge(clients, stranger.to(device), validation, tests, training)
    server = shared(clients[0].model, secret)
    facts: Facts = {"round": 0, "rows": [], "seconds": 0.0, "problems": []}
    if scratch.is_file():
        server, facts = _resume(scratch, clients, device)
    augment = AUGMENTATIONS[training["augmentation"]]

    def prepare(x: Tensor, rng: torch.Generator) -> Tensor:
        found = augment(to_size(x.to(device), training["size"]), rng)
        return found.contiguous(memory_format=torch.channels_last)

    def measure(model: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
        right, loss = measured(model, x, y, training["size"], task_of(training))
        return float(right.float().mean()), loss

    train = train_privately if training.get("privacy") else train_locally
    chance = partial(_rng, "study", image["name"], seed)
    for turn, due in track(range(facts["round"], training["rounds"]), "train study", every=save_every):
        begin = time.perf_counter()
        rngs = [chance(turn, number) for number in range(len(clients))]
        server, losses, outcome = play_round(
            server, clients, defence, training, turn, prepare, rngs, train, protocol, measure
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
    own = rows[rows["key"].isin(["", "own"])].groupby("round")
    held_loss, right = (own[f"validation_{name}"].mean() for name in ("loss", "accuracy"))
    found = {
        "selected": int(np.lexsort((held_loss, -right))[0]) + 1,
        "rounds": training["rounds"],
        "images": sum(map(len, shares)),
        "test_images": len(tests[image["name"]].labels),
        "tested": {
            name: {"images": len(test.labels)}
            | ({} if test.counted is None else {"filtered": int(test.counted.sum())})
            for name, test in tests.items()
        },
        "untested": {name: why for name, why in reasons.items() if why},
        "samples": [len(share) for share in shares],
        "batch_size": training["batch_size"],
        "upload_bytes": upload_bytes(models[0], secret, defence),
        **lock_shares(models[0], secret),
    }
    if owners is not None and len(sources) > 1:
        found["told_apart"] = told_apart(images, owners)
    if protocol:
        found |= {"problems": facts["problems"]}
        if protocol.sealing:
            about = protocol.sealing[0].about
            found |= {"upload_bytes": sealed_bytes(about, server), "encryption": about}
    if training.get("privacy"):
        found |= {"epsilon": spent(training, clients), "delta": training["privacy"]["delta"]}
    elif certified := defence.certificate(training["rounds"] * training["local_epochs"], "model"):
        found |= {"epsilon": certified["epsilon"], "delta": certified["delta"]}
    if tuple(images.shape[1:]) == (1, 2, 1):  # points in the plane
        hold(clients[0].model, server)
        test = tests[image["name"]]
        points = {"clients": [sample(*each) for each in kept], "test": sample(test.images, test.labels)}
        where = extent(images)
        drawn = surface(clients[0].model, where)
        found |= {"boundary": {"extent": where, "surface": drawn, "points": points}}
    if task_of(training) is recognition:
        hold(clients[0].model, server)
        found |= {"examples": examples(clients[0].model, tests, training["size"])}
    return rows, found, facts["seconds"] / training["rounds"]
