"""capture: play the federation; write what the server saw and, in other files, what it must not know."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from leakbench import defences
from leakbench.base.artefacts import Facts, creating, open_tensors, write_tensors
from leakbench.base.errors import Unfit, UserError
from leakbench.base.missing import absent, lacking, pass_on, unless_unfit
from leakbench.base.pixels import pixels
from leakbench.base.provenance import provenance, recording
from leakbench.base.seeds import stream
from leakbench.base.tensors import Tensors
from leakbench.defences import Defence, View, unchanged
from leakbench.defences.certification import participations
from leakbench.federation import (
    Moved,
    accuracy,
    candidates,
    generator,
    held_out,
    play,
    private_samples,
    servers,
)
from leakbench.federation.servers import Held, Written
from leakbench.federation.watching import alarms, begun
from leakbench.networks.layers import by_batch, draw_masks
from leakbench.networks.victims.file import load_victim

if TYPE_CHECKING:
    from leakbench.catalogue.jobs import CaptureSpec


def _observed(spec: "CaptureSpec", model: nn.Module, defence: Defence) -> Facts:
    """Return the facts of an observation (docs/observation.md); `model` is the one that clients train."""
    federation, plain = spec.federation, spec.plain()
    hidden, cheat = defence.hidden(model), spec.malicious
    told = {"shown": sorted(defence.shown(model)), "sent": sorted(defence.sent(model))}
    return {
        "network": {**plain["victim"], "shape": list(spec.dataset.shape), "classes": spec.dataset.classes},
        "clients": federation.clients,
        "kind": federation.update,
        # `play` calls model.eval(), but a norm that keeps no statistics uses those of the batch all the same.
        "mode": "train" if by_batch(model) else "eval",
        "dropout": bool(draw_masks(model, (1,), torch.Generator())),
        "local": plain["federation"]["local"],
        "knows": {
            "observer": "server", "shared": f"{federation.update} update of each client, each round",
            "labels_known": False, "counts_known": True, "local_known": True,
            "local_set_repeats": federation.local_set == "fixed",
            "candidates_known": federation.candidates is not None, "defence": spec.defence.module,
            **({"malicious": cheat.module, "letter": cheat.threat} if cheat else {}),
        },
        **({"hidden": hidden | told} if hidden else {}),
    }  # fmt: skip


def _layout(
    model: nn.Module, defence: Defence, rounds: int, clients: int, sent: int, each: Tensors
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return name → (shape, dtype) of an observation; `each` are tensors that every client got its own of."""
    state, secret = model.state_dict(), defence.secret(model)

    def of(value: torch.Tensor, *lead: int, dtype: str = "") -> tuple[tuple[int, ...], str]:
        return (*lead, *value.shape), dtype or str(value.dtype).removeprefix("torch.")

    kept = {*secret} - {*defence.sent(model)}
    sees = (name for name, _ in model.named_parameters() if name not in kept)
    layout = {f"updates/{name}": of(state[name], rounds, clients) for name in sees}
    layout |= {f"global/{name}": of(value, sent) for name, value in state.items() if name not in secret}
    shown = {name: of(state[name], rounds, clients, dtype="float32") for name in defence.shown(model)}
    layout |= {f"shown/{name}": value for name, value in shown.items()}
    layout |= {f"each/{name}": of(value, sent, dtype="float32") for name, value in each.items()}
    return layout | {"origin": ((rounds,), "int64")}


def _looked_at(
    view: View, updates: Mapping[str, np.ndarray], tensors: Mapping[str, Any], rng: torch.Generator
) -> None:
    """Write into `tensors` what `view` shows of each round of `updates` [rounds, clients, *shape]."""
    for number in range(len(next(iter(updates.values())))):
        one = {name: torch.from_numpy(value[number]) for name, value in updates.items()}
        for name, tensor in view.seen(one, rng).items():
            tensors[name][number] = tensor.numpy()


def _seen_of(values: list[np.ndarray], view: View) -> list[np.ndarray]:
    """Return what clients hold, [rounds, k] each, side by side for each group that is seen together."""
    return [np.hstack([values[i] for i in group]) for group in view.groups]


def _evaluation(
    federation: dict[str, Any], arrays: Mapping[str, np.ndarray], dataset: str
) -> tuple[list[float], Moved]:
    """Return a list, and a function that adds each model's accuracy to it if the federation asks for it."""
    found: list[float] = []
    if not federation["evaluate"]:
        return found, lambda model, weights: None
    labels = np.array(arrays["test/labels"], np.int64)
    index = held_out(federation, len(labels))
    if not len(index):
        raise Unfit(
            f"evaluate: all {len(labels)} test images of {dataset} that are here are private, and accuracy "
            "needs others (put a whole copy into a directory of LEAKBENCH_DATA)"
        )
    images, y = torch.from_numpy(arrays["test/images"][index]), torch.from_numpy(labels[index])
    return found, lambda model, weights: found.append(accuracy(model, weights, images, y))


def _sent_out(
    spec: "CaptureSpec", model: nn.Module, arrays: Mapping[str, np.ndarray], names: tuple[str | int, ...]
) -> tuple[Tensors, Written]:
    """Return what the server sends out of a victim, and what else a malicious server did."""
    cheat, written = spec.malicious, Written()
    if cheat:
        rows, columns, channels = spec.dataset.shape
        own, samples = cheat.auxiliary, None
        if own:
            own_images = np.array(arrays[f"{own.split}/images"][own.start : own.stop])
            samples = pixels(torch.from_numpy(own_images))
        clients = spec.federation.clients
        held = Held((channels, rows, columns), sum(clients), generator("server", *names), samples, clients)
        with _naming(spec):
            written = servers.build(cheat.module, cheat.parameters)(model, held)
    return model.state_dict(), written


@contextmanager
def _naming(spec: "CaptureSpec") -> Iterator[None]:
    """Make every UserError about a job's settings name the file that they are in."""
    try:
        yield
    except Unfit:
        raise
    except UserError as problem:
        raise UserError(f"{spec.where}: {problem}") from problem


def _checked(
    spec: "CaptureSpec", defence: Defence, model: nn.Module, federation: Mapping[str, Any], origins: int
) -> tuple[nn.Module, Facts | None]:
    """Return the network that clients train, for its names and shapes, and what the defence certifies."""
    with _naming(spec):
        if defence.inputs is not None:
            rows, columns, channels = spec.dataset.shape
            blank = torch.zeros(1, channels, rows, columns)
            defence.inputs(blank, torch.zeros(1, dtype=torch.int64), torch.Generator())
        certified = defence.certificate(participations(federation, origins), federation["update"])
        return defence.model(model, torch.Generator()), certified


def capture(
    spec: "CaptureSpec", data: Path, victim: Path, out: Path, oracle: Path, truth: Path, record: Path | None
) -> None:
    """Play the federation and write the observation, the labels and the truth.

    spec: the spec of the job.
    data: the data set.
    victim: the victim.
    out: the file of the observation (docs/observation.md).
    oracle: the file of the labels alone, for attacks that are assumed to know them.
    truth: the file of image indices and labels, the bytes of each update and, if the federation has
    `evaluate`, the model's accuracy after each round.
    record: the file that gets what the job cost.
    """
    outputs = [out, oracle, truth]
    with recording(record, "capture"), unless_unfit("capture", outputs):
        value, image = spec.plain(), spec.dataset
        federation = value["federation"]
        split = federation["private"]["split"]
        needed = [split, *(["test"] if federation["evaluate"] else [])]
        if spec.malicious and spec.malicious.auxiliary:
            needed.append(spec.malicious.auxiliary.split)
        reason = absent([data, victim]) or lacking(data, *needed)
        if reason:
            return pass_on(reason, outputs)
        arrays, _ = open_tensors(data)
        names = spec.names()
        images = torch.from_numpy(np.array(arrays[f"{split}/images"]))
        labels = np.array(arrays[f"{split}/labels"])
        private = private_samples(federation, labels, names)
        accuracies, moved = _evaluation(federation, arrays, image.name)
        model, facts = load_victim(victim)
        there, asked = facts["checkpoints"], federation["checkpoints"]
        epochs = [max(there)] if asked == "last" else asked
        origins, each, earlier = [], [], []
        for epoch in epochs:
            loaded, _ = load_victim(victim, epoch)
            earlier.append(begun(loaded, federation, images, labels, (*names, epoch)))
            weights, written = _sent_out(spec, loaded, arrays, names)
            origins.append(weights)
            each.append(written.each)
        rounds, clients = federation["rounds"], federation["clients"]
        moving = federation["server"] == "fedavg"
        passes = federation["passes"]
        sent = (passes if passes > 1 else rounds) if moving else len(epochs)
        total = len(epochs) * rounds
        with _naming(spec):
            defence = defences.build(spec.defence.module, spec.defence.parameters)
        # Only names and shapes are needed here; `play` draws the secrets.
        protected, certified = _checked(spec, defence, model, federation, len(epochs))
        view = defence.view(clients)
        seen_samples = [sum(clients[i] for i in group) for group in view.groups]
        layout = _layout(protected, defence, total, len(seen_samples), sent, each[-1])
        held = candidates(federation, private, len(labels), names)
        if len(held):
            layout["candidates"] = ((len(held), *image.shape), str(arrays[f"{split}/images"].dtype))
        made = provenance(value, "leakbench.jobs.capture")
        observed = _observed(spec, protected, defence)
        epochs_by_round = np.repeat(np.array(epochs), rounds)
        sizes = np.zeros((total, len(clients)), np.int64)
        rows, columns, channels = image.shape
        # What clients train on in place of their images, if a defence changes them.
        changes = clients if defence.inputs is not None else []
        inputs = [np.zeros((total, k, channels, rows, columns), np.float32) for k in changes]
        observed["knows"] |= view.knows
        observed["clients"] = seen_samples
        kept = len(clients) if view.shares is None else len(view.groups)
        hidden_updates = {
            name: np.zeros((total, kept, *shape[2:]), dtype if view.shares is None else np.float64)
            for name, (shape, dtype) in layout.items()
            if name.startswith("updates/") and view.seen is not unchanged
        }
        with creating(out, layout, observed | made) as tensors:
            # Updates that are seen as they are sent go straight to the file, because they may not fit into
            # memory.
            updates: Mapping[str, Any] = hidden_updates or tensors

            def sink(part: slice, client: int, update: dict[str, torch.Tensor]) -> None:
                for name, tensor in update.items():
                    if view.shares is None:
                        updates[f"updates/{name}"][part, client] = tensor.numpy()
                        continue
                    # Groups that are seen together see weighted sums.
                    for group, share in enumerate(view.shares[:, client].tolist()):
                        torch.from_numpy(updates[f"updates/{name}"][part, group]).add_(tensor, alpha=share)
                sizes[part, client] = defences.sent_bytes(defence, update).numpy()

            def show(part: slice, client: int, values: dict[str, torch.Tensor]) -> None:
                for name, tensor in values.items():
                    tensors[f"shown/{name}"][part, client] = tensor.numpy()

            def trained_on(part: slice, client: int, changed: torch.Tensor) -> None:
                inputs[client][part] = changed.numpy()

            seed = stream("capture", *names)
            listeners = sink, moved, show, trained_on
            out_models = play(model, origins, images, private, federation, defence, seed, *listeners, each)
            if view.shares is not None:
                for name, sums in hidden_updates.items():
                    tensors[name][:] = sums
            elif hidden_updates:
                _looked_at(view, hidden_updates, tensors, generator("view", *names))
            for kind, models in (("global", out_models), ("each", each)):
                for index, weights in enumerate(models):
                    for name, tensor in weights.items():
                        tensors[f"{kind}/{name}"][index] = tensor.numpy()
            tensors["origin"][:] = np.repeat(np.arange(sent), total // sent)
            if len(held):
                tensors["candidates"][:] = arrays[f"{split}/images"][held]
        repeats = (len(epochs), 1)
        images_seen, labels_seen = (_seen_of(values, view) for values in (private.images, private.labels))
        secret = {f"labels/{c}": np.tile(v, repeats) for c, v in enumerate(labels_seen)}
        write_tensors(oracle, secret, made)
        secret |= {f"images/{c}": np.tile(v, repeats) for c, v in enumerate(images_seen)}
        secret |= {"candidates": held} if len(held) else {}
        if inputs:
            secret |= {f"inputs/{c}": v for c, v in enumerate(_seen_of(inputs, view))}
        secret["checkpoint"] = epochs_by_round
        secret["pass"] = np.tile(np.repeat(np.arange(passes), rounds // passes), len(epochs))
        secret |= {f"bytes/{c}": sizes[:, group].sum(1) for c, group in enumerate(view.groups)}
        if federation.get("watched"):
            lr = federation["local"]["lr"]
            secret |= alarms(model, origins, each, images, private, view.groups, lr, earlier)
        if accuracies:
            secret["accuracy"] = np.repeat(accuracies, rounds // len(accuracies))
        about = {"split": split, "clients": seen_samples}
        about |= {"expected": written.expected} if written.expected else {}
        if certified:
            stop = min(federation["private"]["stop"], len(labels))
            # The number of samples among which one is, for an attacker who knows all other samples of its
            # update.
            among = stop - federation["private"]["start"] - max(seen_samples) + 1
            about |= {"certificate": certified | {"among": among}}
        write_tensors(truth, secret, about | made)
