"""Play the rounds of a federation and write down every update that is sent, by round and client."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leakbench.base.errors import Unfit, UserError
from leakbench.base.pixels import pixels
from leakbench.base.seeds import stream
from leakbench.base.tensors import Tensors
from leakbench.defences import Defence, protected
from leakbench.federation.chance import generator
from leakbench.federation.local import local_update
from leakbench.networks.layers import draw_masks

WORKING_BYTES = 300_000_000
Sink = Callable[[slice, int, Tensors], None]
Moved = Callable[[nn.Module, Tensors], None]


@dataclass
class Private:
    """What the server must not know: the indices and labels of each client's images, [rounds, k] each."""

    images: list[np.ndarray]
    labels: list[np.ndarray]


def _any(rng: np.random.Generator, pool: np.ndarray, k: int, labels: np.ndarray) -> np.ndarray:
    return rng.choice(pool, k, replace=False, shuffle=True)


def _without_repeats(rng: np.random.Generator, pool: np.ndarray, k: int, labels: np.ndarray) -> np.ndarray:
    """Draw k samples with k different labels: the first of each label in a random order of the pool."""
    order = rng.permutation(pool)
    _, first = np.unique(labels[order], return_index=True)
    if len(first) < k:
        raise UserError(
            f"federation: distinct_labels: the private images have {len(first)} labels, an update needs {k}"
        )
    return order[np.sort(first)[:k]]


def _skewed(
    rng: np.random.Generator, pool: np.ndarray, k: int, labels: np.ndarray, alpha: float
) -> np.ndarray:
    """Draw k samples whose classes have shares from a symmetric Dirichlet distribution."""
    own = labels[pool]
    classes = np.unique(own)
    wanted = rng.choice(len(classes), k, p=rng.dirichlet(np.full(len(classes), alpha)))
    drawn = []
    for label, count in zip(classes, np.bincount(wanted, minlength=len(classes)), strict=True):
        members = pool[own == label]
        drawn.append(rng.choice(members, min(count, len(members)), replace=False))
    chosen = np.concatenate(drawn)
    more = rng.choice(np.setdiff1d(pool, chosen), k - len(chosen), replace=False)
    return rng.permutation(np.concatenate([chosen, more]))


def private_samples(
    federation: Mapping[str, Any], labels: np.ndarray, names: tuple[str | int, ...]
) -> Private:
    """Draw each client's samples of each round from the private range, none twice within an update."""
    private, rounds, passes = (federation[name] for name in ("private", "rounds", "passes"))
    truth = Private([], [])
    stop = min(private["stop"], len(labels))
    needed = max(federation["clients"]) * (rounds // passes if passes > 1 else 1)
    if needed > stop - private["start"]:
        raise Unfit(
            f"the copy of {names[0]} that is here has {max(0, stop - private['start'])} private images of "
            f"the split {private['split']}, the federation needs {needed} "
            "(put the whole set into a directory of LEAKBENCH_DATA)"
        )
    if drawn := federation.get("drawn"):
        rng = np.random.default_rng(drawn["seed"])
        pool = np.arange(private["start"], stop)
        chosen = rng.choice(pool, min(drawn["of"], len(pool)), replace=False)
        first = chosen[None, : federation["clients"][0]]
        return Private([first], [labels[first]])
    for client, k in enumerate(federation["clients"]):
        rng = np.random.Generator(np.random.PCG64(stream("private", *names, client)))
        pool = np.arange(private["start"], stop)
        fixed = federation["local_set"] == "fixed"
        draw = _without_repeats if federation["distinct_labels"] else _any
        if (alpha := federation.get("alpha")) is not None:
            draw = partial(_skewed, alpha=alpha)
        if passes > 1 and not fixed:
            own = rng.choice(pool, k * rounds // passes, replace=False, shuffle=True)
            chosen = np.concatenate([rng.permutation(own) for _ in range(passes)]).reshape(rounds, k)
        else:
            draws: list[np.ndarray] = []
            for _ in range(rounds // passes if passes > 1 else 1 if fixed else rounds):
                draws.append(draw(rng, pool, k, labels))
                # Within a pass each sample is used only once.
                pool = np.setdiff1d(pool, draws[-1]) if passes > 1 else pool
            chosen = np.stack(draws * (rounds // len(draws)))
        truth.images.append(chosen)
        truth.labels.append(labels[chosen])
    return truth


def candidates(
    federation: Mapping[str, Any], private: Private, images: int, names: tuple[str | int, ...]
) -> np.ndarray:
    """Return the indices [n] of the images that the server holds, in random order; n may be 0."""
    others = federation.get("candidates", 0)
    if not others:
        return np.zeros(0, np.int64)
    rng = np.random.Generator(np.random.PCG64(stream("candidates", *names)))
    own = np.unique(np.concatenate([index.reshape(-1) for index in private.images]))
    start, stop = (federation["private"][key] for key in ("start", "stop"))
    free = np.setdiff1d(np.arange(start, min(stop, images)), own)
    if len(free) < others:
        raise Unfit(
            f"the copy of {names[0]} that is here has {len(free)} images beside the private ones, the "
            f"federation needs {others} as candidates (put the whole set into a directory of LEAKBENCH_DATA)"
        )
    return rng.permutation(np.concatenate([own, rng.choice(free, others, replace=False)]))


def _masks(model: nn.Module, epochs: int, rounds: int, k: int, rng: torch.Generator) -> Tensors:
    """Draw dropout masks [epochs, rounds, k, width] round by round."""
    drawn = [draw_masks(model, (epochs, 1, k), rng) for _ in range(rounds)]
    return {name: torch.cat([masks[name] for masks in drawn], 1) for name in drawn[0]}


def _orders(epochs: int, rounds: int, k: int, rng: torch.Generator) -> Tensor:
    """Draw each epoch's order of the local set, [epochs, rounds, k], round by round as masks are drawn."""
    drawn = [torch.stack([torch.randperm(k, generator=rng) for _ in range(epochs)]) for _ in range(rounds)]
    return torch.stack(drawn, 1)


def _chunks(rounds: int, model: nn.Module, k: int, size: int, alone: bool) -> Iterator[slice]:
    parameters = sum(p.numel() for p in model.parameters())
    step = 1 if alone else max(1, WORKING_BYTES // (4 * (4 * parameters + 40 * k * size)))
    for start in range(0, rounds, step):
        yield slice(start, min(rounds, start + step))


def play(
    model: nn.Module, origins: list[Tensors], images: Tensor, truth: Private, federation: Mapping[str, Any],
    defence: Defence, seed: int, sink: Sink,
    moved: Moved = lambda model, weights: None,
    show: Sink = lambda rounds, client, values: None,
    trained_on: Callable[[slice, int, Tensor], None] = lambda rounds, client, images: None,
    each: Sequence[Tensors] = (),
) -> list[Tensors]:  # fmt: skip
    """Play all rounds, hand every update to `sink`, and return the models that were sent out.

    A `frozen` server plays all rounds from each model in `origins` (as the demonstration code restores them).
    With `fedavg` it adds the mean update, weighted by samples, after each round or pass. `show` gets what the
    defence shows of each client's own secrets, which no model of the server holds.
    """
    local, rounds = federation["local"], federation["rounds"]
    rng, shuffle = generator("local", seed), generator("order", seed)
    # Dropout gets masks of its own; batch norm uses the statistics sent with the model (docs/decisions.md).
    model.eval()
    guard = generator("defence", seed)
    changed = [defence.model(model, guard) for _ in federation["clients"]]
    model = changed[0]
    of_examples = defence.examples
    alone = defence.inputs is not None or of_examples is not None
    memories: list[Tensors] = [{} for _ in federation["clients"]]
    trained = {name for name, _ in model.named_parameters()}
    secret, shown, sent_too = (names(model) for names in (defence.secret, defence.shown, defence.sent))
    own = [{n: v.detach() for n, v in each.state_dict().items() if n in secret} for each in changed]
    server = set(model.state_dict()) - secret
    origins = [{name: value for name, value in origin.items() if name in server} for origin in origins]

    def send(public: Tensors, part: slice, where: slice, client: int) -> Tensors:
        weights = public | own[client]
        index = truth.images[client][part]
        chosen = torch.from_numpy(index)
        # index_select copies whole images, where indexing copies value by value.
        x = pixels(images.index_select(0, chosen.flatten()).unflatten(0, chosen.shape))
        y = torch.from_numpy(truth.labels[client][part])
        if defence.inputs is not None:
            x, y = (each[None] for each in defence.inputs(x[0], y[0], guard))
            trained_on(where, client, x)
        drawn = local["epochs"], len(index), len(y[0])
        masks = _masks(model, *drawn, rng)
        orders = _orders(*drawn, shuffle) if local.get("reshuffled") else None
        moving, fixed = (
            {name: value for name, value in weights.items() if (name in trained) == moves}
            for moves in (True, False)
        )
        update = local_update(
            model, moving, x, y, masks, local, federation["update"], fixed,
            None if of_examples is None
            else lambda batch: of_examples(replace(batch, memory=memories[client]), guard),
            orders,
        )  # fmt: skip
        begun = weights if federation["update"] == "model" else None
        update = protected(defence, update, memories[client], guard, begun, len(y[0]))
        sink(where, client, {n: v for n, v in update.items() if n not in secret or n in sent_too})
        count = len(index)
        show(where, client, {n: own[client][n].expand(count, *own[client][n].shape) for n in sorted(shown)})
        return update

    if federation["server"] == "fedavg":
        sent = [origins[0]]
        shares = torch.tensor(federation["clients"], dtype=torch.float32)
        shares = shares / shares.sum()
        together = rounds // federation["passes"] if federation["passes"] > 1 else 1
        scale = 1.0 if federation["update"] == "model" else -local["lr"]
        for begin in range(0, rounds, together):
            total = {name: torch.zeros_like(value) for name, value in sent[-1].items() if name in trained}
            for client, k in enumerate(federation["clients"]):
                for part in _chunks(together, model, k, images[0].numel(), alone):
                    where = slice(begin + part.start, begin + part.stop)
                    update = send(sent[-1], where, where, client)
                    for name, value in update.items():
                        change = scale * value.sum(0)
                        if name in secret:
                            own[client][name] = own[client][name] + change
                        else:
                            total[name] += shares[client] * change
            sent.append({n: v + total[n] if n in trained else v for n, v in sent[-1].items()})
            moved(model, sent[-1] | own[0])
        return sent[:-1]
    for number, weights in enumerate(origins):
        memories = [{} for _ in federation["clients"]]
        for client, k in enumerate(federation["clients"]):
            own_sent = {name: value[client] for name, value in each[number].items()} if each else {}
            for part in _chunks(rounds, model, k, images[0].numel(), alone):
                where = slice(number * rounds + part.start, number * rounds + part.stop)
                send(weights | own_sent, part, where, client)
    return origins
