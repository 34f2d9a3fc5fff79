"""Read the bins of an imprint block: what two neighbours of one query differ by (Fowl et al., ICLR 2022)."""

import torch
from torch import nn

from leakbench.attacks.fidel import divide
from leakbench.attacks.observation import Observation
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.errors import Unfit
from leakbench.matching.received import noise_images
from leakbench.victims.layers import first_dense, normalisation

# Two rows ask the same query if their cosine is this near to 1.
ALIKE = 1e-6
# A difference is empty if it is this many times below the largest: single precision leaves as much of a sum.
EMPTY = 1e-5


@torch.no_grad()
def imprint(observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Reconstruct from a first dense layer whose neurons ask one query of a sample and differ in their
    biases.

    The neurons are ordered by their biases. A sample opens all of them up to its place, so what the gradients
    of two neighbours differ by is what the samples between them add: with one sample there, the difference of
    the weights' gradients over that of the biases' is it. Of more bins than the batch has samples those with
    the largest gradients are kept. Source: Robbing the Fed (Fowl et al., ICLR 2022), section 4. Raises Unfit
    where the layer has no bias, reads something other than samples, or asks several queries.
    """
    model = observation.model()
    rows, columns, channels = observation.network["shape"]
    pixels = (channels, rows, columns)
    name, read = first_dense(model, noise_images(pixels))
    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    if f"{name}.bias" not in observation.updates or tuple(read.shape[1:]) != pixels:
        raise Unfit(f"attack: imprint needs a dense layer with a bias that reads samples ({name} does not)")
    rounds, batch = observation.rounds, max(observation.clients)
    neurons, inputs = layer.weight.shape
    kept = min(batch, neurons)
    found = torch.zeros(rounds, len(observation.clients), kept, inputs)
    usable = torch.zeros(found.shape[:-1], dtype=torch.bool)
    for number in range(rounds):
        origin = int(observation.origin[number])
        weight, bias = (
            torch.tensor(observation.weights[f"{name}.{part}"][origin]) for part in ("weight", "bias")
        )
        unit = weight.double() / weight.double().norm(dim=1, keepdim=True)
        if (unit @ unit[0] < 1 - ALIKE).any():
            raise Unfit(f"attack: imprint needs neurons that ask one query, and those of {name} ask several")
        order = bias.argsort()
        one = slice(number, number + 1)
        slope, offset = (
            torch.diff(
                observation.update(f"{name}.{part}", one)[0][:, order].double(), dim=1, prepend=prepend
            )
            for part, prepend in (
                ("weight", torch.zeros(len(observation.clients), 1, inputs, dtype=torch.float64)),
                ("bias", torch.zeros(len(observation.clients), 1, dtype=torch.float64)),
            )
        )
        ratio, full = divide(slope, offset)
        size = slope.abs().mean(-1)
        full &= size > EMPTY * size.amax(1, keepdim=True)
        best = torch.where(full, size, 0).topk(kept, 1).indices
        found[number] = ratio.gather(1, best[..., None].expand(-1, -1, inputs)).float()
        usable[number] = full.gather(1, best)
    mean, deviation = normalisation(model, channels)
    partial = found.unflatten(-1, pixels) * deviation + mean
    return Reconstruction(torch.where(usable[..., None, None, None], partial, 0), usable)


imprint.rounds_at_once = 1  # type: ignore[attr-defined]
