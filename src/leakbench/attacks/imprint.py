"""Read the bins of an imprint block from differences of neighbouring neurons (Fowl et al., ICLR 2022)."""

from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.attacks import capable
from leakbench.attacks.exact.levels import LEVELS, brightest
from leakbench.attacks.fidel import divide
from leakbench.attacks.matching.received import noise_images
from leakbench.base.errors import Unfit
from leakbench.networks.layers import first_dense, normalisation
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# Two rows ask the same query if their cosine is at least 1 minus this.
ALIKE = 1e-6
# A difference is empty up to this share of the largest, the rounding of a sum in single precision.
EMPTY = 1e-5


@capable(rounds_at_once=1)
@torch.no_grad()
def imprint(
    observation: Observation,
    rng: torch.Generator,
    *,
    scale: Literal["levels", "maximum"] = "levels",
    denoised: Annotated[bool, Field(exclude_if=lambda on: on == 0)] = False,
) -> Reconstruction:
    """Reconstruct from a first dense layer whose neurons ask one query and differ in their biases.

    The neurons are ordered by their biases. A sample opens all of them up to its place. So the gradients of
    two neighbours differ by what the samples between them add. With a single sample between them, the
    difference of the weights' gradients divided by that of the biases' gradients is the sample. If there are
    more bins than samples in the batch, those with the largest gradients are kept.

    Where each client was sent a model of its own, every block of columns that reads the samples of one of
    these models is read by itself. In a sum of several such clients the gradients of the biases are mixed, so
    each sample is known only up to its scale.

    Where the rows differ in length, each neuron has a bin of its own, as in LOKI's attack on weights after
    local steps. The change of a row is then itself a sample, up to its scale.

    The method is that of Robbing the Fed (Fowl et al., ICLR 2022), section 4. The blocks and `maximum` are
    those of LOKI (Zhao et al., S&P 2024).

    scale: how the scale is found where it is not known. `levels` uses that pixels of 8 bits are whole
    multiples of one number and takes the smallest brightness that makes them so; where there is none, the
    brightest value is taken for 1. `maximum` always takes the brightest value for 1.
    denoised: whether the attack is adapted to noise. Neurons between the places of two samples have one
    gradient. So the attack takes the means of as many runs of neighbours as fit the update best, and holds a
    sample to its bin.

    Raises Unfit where the layer has no bias, reads something other than samples, or asks several queries,
    where samples are known only up to their scale and the network normalises them, and where `denoised` meets
    several blocks or neurons with bins of their own.
    """
    model = observation.model()
    pixels = observation.pixels
    name, _ = first_dense(model, noise_images(pixels))
    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    if f"{name}.bias" not in observation.updates:
        raise Unfit(f"attack: imprint needs a dense layer with a bias that reads samples ({name} does not)")
    clients, batch = len(observation.clients), max(observation.clients)
    kept, layouts = 0, {}
    for origin, _ in observation.by_model():
        order, own, alike = _query(observation, origin, name)
        blocks = _blocks(observation, origin, name, own)
        if not alike:
            raise Unfit(f"attack: imprint needs neurons that ask one query, and those of {name} ask several")
        if denoised and (own or len(blocks) > 1):
            raise Unfit(
                "attack: imprint: denoised reads one block of neurons that share their bins, and the "
                "server wrote another (drop denoised)"
            )
        layouts[origin] = order, own, blocks
        kept = min(batch, layer.out_features * len(blocks))
    found = torch.zeros(observation.rounds, clients, kept, *pixels)
    usable = torch.zeros(found.shape[:3], dtype=torch.bool)
    mean, deviation = normalisation(model, pixels[0])
    for number, origin in enumerate(observation.origin.tolist()):
        order, own, blocks = layouts[origin]
        query, cuts = (observation.sent(f"{name}.{part}", origin).double() for part in ("weight", "bias"))
        slope, offset = (
            observation.update(f"{name}.{part}", number)[:, order].double() for part in ("weight", "bias")
        )
        mixed = own or len(blocks) > clients
        if mixed and (mean.any() or (deviation != 1).any()):
            raise Unfit(
                "attack: imprint knows samples of a sum up to a factor, and the network normalises them"
            )
        for client in range(clients):
            ratios, sizes = [], []
            for block in blocks:
                steps = slope[client][:, block] if own else _steps(slope[client][:, block])
                # A mixed gradient of a bias cannot give the scale.
                factors = _steps(0 * offset[client] if mixed else offset[client])
                if denoised:
                    seen = slope[client][:, block], offset[client]
                    steps, factors = _levelled(*seen, query[0, block], -cuts[order], kept)
                ratio, full = divide(steps, factors)
                sizes.append(torch.where(full, steps.abs().mean(-1), 0))
                ratios.append(ratio.float())
            size = torch.cat(sizes)
            best = size.topk(kept).indices
            usable[number, client] = size[best] > EMPTY * size.amax()
            samples = torch.cat(ratios)[best].unflatten(-1, pixels) * deviation + mean
            found[number, client] = _scaled(samples, scale) if mixed else samples
    return Reconstruction(torch.where(usable[..., None, None, None], found, 0), usable)


def _steps(values: Tensor) -> Tensor:
    """Return what each of values [bins, …] adds to the one before it; the first is compared with zero."""
    return torch.diff(values, dim=0, prepend=torch.zeros_like(values[:1]))


def _levelled(
    slope: Tensor, offset: Tensor, query: Tensor, cuts: Tensor, changes: int
) -> tuple[Tensor, Tensor]:
    """Return the steps [changes, inputs] of a gradient that is level between them, and their factors.

    The rows are cut into runs, each of which is taken for its mean, so that the squared error is least. A
    step divided by its factor is a sample. The factor is the step of `offset`, or the nearest one that puts
    the sample into its bin.
    """
    values = torch.cat([slope, offset[:, None]], 1)
    total = torch.zeros(len(values) + 1, values.shape[1], dtype=values.dtype)
    total[1:] = values.cumsum(0)
    gram = total @ total.T
    square = gram.diagonal()
    length = torch.arange(len(total))
    length = length[None] - length[:, None]
    # What a mean of the neurons from a row's number to a column's explains.
    gain = (square[None] + square[:, None] - 2 * gram) / length.clamp_min(1)
    gain = gain.where(length > 0, -torch.inf)
    best, chosen = torch.zeros(len(total), dtype=values.dtype), []
    for _ in range(changes):
        best, start = (best[:, None] + gain).max(0)
        chosen.append(start)
    end, places = len(values), list[int]()
    for start in reversed(chosen):
        end = int(start[end])
        places.insert(0, end)
    bounds = [*places, len(values)]
    levels = _steps(torch.stack([values[a:b].mean(0) for a, b in zip(places, bounds[1:], strict=True)]))
    # A sample's own answer to the query lies between the cuts beside its place.
    above = torch.cat([cuts.new_full((1,), torch.inf), cuts])
    answer = levels[:, :-1] @ query
    return levels[:, :-1], answer / (answer / levels[:, -1]).clamp(cuts[places], above[places])


def _query(observation: Observation, origin: int, name: str) -> tuple[Tensor, bool, bool]:
    """Return the order of neurons by bias, whether each has its own bin, and whether all ask one query."""
    weight, bias = (observation.sent(f"{name}.{part}", origin) for part in ("weight", "bias"))
    length = weight.double().norm(dim=1)
    unit = weight.double() / length[:, None]
    own = bool((length / length[0] - 1).abs().amax() > ALIKE)
    return bias.argsort(), own, not bool((unit @ unit[0] < 1 - ALIKE).any())


def _blocks(observation: Observation, origin: int, name: str, scaled: bool) -> list[Tensor]:
    """Return for each model sent which inputs [pixels] of a layer are a sample's pixels, in order."""
    model = observation.model(origin)
    noise = noise_images(observation.pixels)[:2]
    mean, deviation = normalisation(model, noise.shape[1])
    wanted = ((noise - mean) / deviation).flatten(1)
    each = {tensor: torch.from_numpy(np.array(value[origin])) for tensor, value in observation.each.items()}
    found: list[Tensor] = []
    for client in range(len(next(iter(each.values()))) if each else 1):
        model.load_state_dict({tensor: value[client] for tensor, value in each.items()}, strict=False)
        read = first_dense(model, noise)[1].flatten(1).to(wanted.dtype)
        block = read.any(0).nonzero()[:, 0]
        alike = len(block) == wanted.shape[1]
        factor = read[:, block].norm() / wanted.norm() if alike and scaled else 1.0
        if not (alike and torch.allclose(read[:, block] / factor, wanted, rtol=1e-5, atol=1e-6)):
            raise Unfit(
                f"attack: imprint needs a dense layer with a bias that reads samples ({name} does not)"
            )
        # Clients share a block if their models differ only in the layer or behind it.
        if not any(torch.equal(block, other) for other in found):
            found.append(block)
    return found


def _scaled(samples: Tensor, scale: str) -> Tensor:
    """Return samples [n, *pixels] that are known up to a factor, brought to scale."""
    flat = samples.flatten(1)
    peak = flat.gather(1, flat.abs().argmax(1, keepdim=True))
    flat = flat / torch.where(peak == 0, 1, peak)
    if scale == "levels":
        level = brightest(flat)
        flat = flat * torch.where(level > 0, level / LEVELS, 1)[:, None]
    return flat.view_as(samples)
