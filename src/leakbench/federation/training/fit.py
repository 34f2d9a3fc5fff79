"""One training loop for victims and generators; a killed run resumes to the same result."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.base.progress import track
from leakbench.base.resume import packed, resume, save, unpack
from leakbench.base.seeds import stream
from leakbench.base.tensors import Tensors
from leakbench.networks.layers import RandomLayer

OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": partial(torch.optim.SGD, fused=True),
    "adam": partial(torch.optim.Adam, fused=True),
    "adadelta": torch.optim.Adadelta,
}


def optimiser_of(model: nn.Module, training: Mapping[str, Any]) -> torch.optim.Optimizer:
    """Return the optimiser that a regime names, over the model's parameters."""
    return OPTIMISERS[training["optimiser"]](
        model.parameters(), lr=training["lr"], **dict(training["options"])
    )


def shared(model: nn.Module, secret: frozenset[str] = frozenset()) -> Tensors:
    """Return a copy of the tensors of a model that its client sends: all but the secret ones."""
    return {name: value.detach().clone() for name, value in model.state_dict().items() if name not in secret}


def fit(
    model: nn.Module, inputs: Tensor, targets: Tensor, loss: Callable[[Any, Tensor], Tensor],
    training: Mapping[str, Any], seed: int, scratch: Path, label: str, save_every: float = 10.0,
) -> dict[int, Tensors]:  # fmt: skip
    """Fit `model` in place, and return its weights at each checkpoint, epoch → weights; 0 is untrained."""
    optimiser = optimiser_of(model, training)
    checkpoints, epochs, size = set(training["checkpoints"]), training["epochs"], training["batch_size"]
    # Convolutions and pools run twice as fast on a CPU if channels lie last.
    layout = torch.channels_last if any(p.dim() == 4 for p in model.parameters()) else torch.contiguous_format
    model.to(memory_format=layout)
    begin, before, kept = 0, math.inf, {0: shared(model)} if 0 in checkpoints else {}
    if scratch.is_file():
        groups, facts = resume(scratch)
        model.load_state_dict(groups.pop("model"))
        unpack(optimiser, model, groups.pop("optimiser", {}))
        begin, before = facts["epoch"], facts["mean"]
        kept = {int(group.removeprefix("kept-")): state for group, state in groups.items()}
    drawn = [layer for layer in model.modules() if isinstance(layer, RandomLayer) and layer.active]
    inputs, targets = inputs[: training["images"]], targets[: training["images"]]
    progress = track(range(begin, epochs), label, every=save_every)
    model.train()
    for epoch, due in progress:
        # Each epoch has a stream of its own, so that resuming needs no state of a generator.
        rng = torch.Generator().manual_seed(stream("epoch", seed, epoch))
        order = torch.randperm(len(inputs), generator=rng)
        masks = [layer.draw((len(inputs),), rng) for layer in drawn]
        total = torch.zeros(())
        for start in range(0, len(inputs), size):
            batch = order[start : start + size]
            x, y = (each.index_select(0, batch) for each in (inputs, targets))
            for layer, mask in zip(drawn, masks, strict=True):
                layer.keep = mask[start : start + size]
            optimiser.zero_grad()
            found = loss(model(x.contiguous(memory_format=layout)), y)
            found.backward()
            optimiser.step()
            total += found.detach() * len(batch)
        mean = float(total) / len(inputs)
        last = training["settled"] is not None and abs(mean - before) < training["settled"]
        before = mean
        if epoch + 1 in checkpoints or last:
            kept[epoch + 1] = shared(model)
        if last:
            break
        if due and epoch + 1 < epochs:
            groups = {f"kept-{number}": state for number, state in kept.items()}
            groups |= {"model": shared(model), "optimiser": packed(optimiser)}
            save(scratch, groups, {"epoch": epoch + 1, "mean": mean})
    for layer in drawn:
        layer.keep = torch.ones(())
    model.eval()
    scratch.unlink(missing_ok=True)
    return kept
