"""How far images are from the span of an update, in which every sample of the batch lies.

The gradient of a dense layer is a sum of products δ xᵀ, one for each sample x that it read, whatever stands
behind it. So its rows span the samples, if these are fewer than its neurons and inputs. Every step of
gradient descent on the same samples, and every other client of a sum, adds such products.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from leakbench.attacks.exact.adam import by_adam, by_error, once_by_adam
from leakbench.attacks.exact.first_layer import first_read
from leakbench.attacks.exact.span import Span, span
from leakbench.attacks.matching.received import local_steps
from leakbench.base.errors import Unfit
from leakbench.networks.layers import RandomLayer, dense_input, normalisation
from leakbench.networks.per_trial import hidden
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# A member lies outside the span by as much as noise moves the span, times this margin.
MARGIN = 2.0
# The rounding of single precision in what a client's layer reads, and the largest share outside the span that
# still counts as a member: half a level of 8 bits at every pixel of a dark image.
LEAST, MOST = 4 * torch.finfo(torch.float32).eps, 0.01

# The number of estimates of weight decay. Two find a decay of a hundredth of the weights to the last digit.
DECAY_ROUNDS = 3

# From pixels [n, channels, rows, columns] in [0, 1] to what the first dense layer reads of them, [n, inputs].
Read = Callable[[Tensor], Tensor]


class Seen(NamedTuple):
    """The span of one update.

    read: what the layer reads of pixels.
    of_pixels: whether it reads the (normalised) pixels themselves.
    found: the span, none where the update of the layer is zero.
    update: float64 [neurons, inputs], the update of the layer without weight decay.
    """

    round: int
    client: int
    read: Read
    of_pixels: bool
    found: Span | None
    update: Tensor


def spans(observation: Observation, attack: str) -> Iterator[Seen]:
    """Yield the span of every update, those of one round one after another.

    A first dense layer behind other layers reads features, which are those of the model that was sent.

    Raises Unfit where features move during several local steps or depend on the batch, on dropout or on
    hidden parameters, where a layer has no more neurons and inputs than an update has samples, and where
    clients take several steps of Adam.
    """
    adam = once_by_adam(observation)
    if by_adam(observation) and not adam:
        raise Unfit(f"attack: {attack} needs plain gradient descent, or one step of Adam alone, which scales "
                    "each weight by itself")  # fmt: skip

    @cache
    def layer(origin: int) -> tuple[str, bool, Read]:
        model = observation.model(origin).double()
        name, _, _, plain = first_read(observation, model, 2)
        if plain:
            mean, deviation = (value.double() for value in normalisation(model, observation.pixels[0]))
            return name, True, lambda x: ((x.double() - mean) / deviation).flatten(1)
        drawn = any(isinstance(layer, RandomLayer) and layer.active for layer in model.modules())
        if drawn or hidden(model) or observation.mode == "train":
            raise Unfit(
                f"attack: {attack} needs the features that {name} reads, and a client's own are hidden "
                "(dropout, parameters, or statistics of its batch)"
            )
        return name, False, lambda x: dense_input(model, x.double()).flatten(1)

    for number, origin in enumerate(observation.origin.tolist()):
        name, of_pixels, read = layer(origin)
        part, read, plain = _sent(observation, name, number, read, of_pixels)
        updates = observation.update(part, number).double()
        for client, batch in enumerate(observation.clients):
            if min(updates.shape[1:]) <= batch:
                raise Unfit(
                    f"attack: {attack} needs fewer samples than the first dense layer has neurons and inputs "
                    f"(client {client} has {batch}, {part} has {updates.shape[1]} × {updates.shape[2]})"
                )
            if not of_pixels and observation.kind == "model" and len(local_steps(observation, batch)) > 1:
                raise Unfit(f"attack: {attack} needs features that stand still, and {name} reads what local "
                            "steps move")  # fmt: skip
            update = updates[client]
            if adam or (observation.kind == "model" and observation.local.get("weight_decay")):
                sent = observation.sent(part, origin).double()
                # Nothing of weights of zero decays.
                update = (
                    by_error(update, sent, observation) if adam
                    else without_decay(update, sent, batch) if sent.any()
                    else update
                )  # fmt: skip
            yield Seen(number, client, read, plain, span(update, batch, clear=1.0), update)


def _sent(
    observation: Observation, name: str, number: int, read: Read, of_pixels: bool
) -> tuple[str, Read, bool]:
    """Return which matrix of the first dense layer was sent, what it reads, and whether that is pixels.

    An adapter B A on a frozen layer has two: A reads what the layer reads, and B what A makes of it. In one
    step from a B of zero A does not move, or by decay and noise alone.
    """
    weight, down, up = (f"{name}.{part}" for part in ("weight", "down", "up"))
    origin = int(observation.origin[number])
    if weight in observation.updates:
        return weight, read, of_pixels
    steps = max(len(local_steps(observation, n)) for n in observation.clients)
    once = observation.kind == "gradient" or steps == 1
    if down in observation.updates and (not once or observation.sent(up, origin).any()):
        return down, read, of_pixels
    if up not in observation.updates:
        raise Unfit(f"attack: clients do not send the update of the first dense layer, {name} (it is frozen)")
    through = observation.sent(down, origin).double()
    return up, lambda x: read(x) @ through.T, False


def without_decay(update: Tensor, sent: Tensor, batch: int) -> Tensor:
    """Return an update without the multiple of the sent weights that weight decay put in.

    The multiple depends on clients' steps and momentum, which may be unknown, so it is estimated: the part of
    the update that lies in neither span of its leading singular vectors is the multiple alone. Each better
    estimate also makes the singular vectors better.
    """
    for _ in range(DECAY_ROUNDS):
        seen = span(update, batch, clear=1.0)
        if seen is None:
            break
        rest, weights = (_beyond(seen, each) for each in (update, sent))
        update = update - (rest * weights).sum() / weights.square().sum() * sent
    return update


def _beyond(seen: Span, matrix: Tensor) -> Tensor:
    """Return the part of a matrix that lies in neither the column span nor the row span."""
    matrix = matrix - seen.left @ (seen.left.T @ matrix)
    return matrix - (matrix @ seen.right.T) @ seen.right


def outside(seen: Span | None, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return the share of each sample outside the span, [n], and which lie in it, bool [n].

    The share is 1 without a span or without length. A member is a combination c of the update's rows, so
    noise E puts at most ‖E‖ · ‖c‖ of it outside (to first order). A sample lies in the span if that explains
    its share.
    """
    length = samples.norm(dim=1)
    if seen is None:
        return torch.ones_like(length), torch.zeros_like(length, dtype=torch.bool)
    along = samples @ seen.right.T
    share = torch.where(length == 0, 1.0, (samples - along @ seen.right).norm(dim=1) / length)
    combination = (along / seen.values).norm(dim=1) / length
    allowed = MARGIN * seen.noise * seen.values[0] * combination + LEAST
    return share, share <= allowed.clamp_max(MOST)


def certified(observation: Observation, found: Reconstruction) -> Reconstruction:
    """Give images that an attack reconstructed from an update their distance from the span of the update.

    It shows without the truth how near an image may be to the batch. A reconstruction stays as it is if it
    does not consist of images, has a distance already or fewer rounds than the observation, or if the first
    dense layer does not read pixels.
    """
    if found.target != "images" or found.span_distance is not None or len(found.images) != observation.rounds:
        return found
    distance = torch.full(found.usable.shape, torch.nan, dtype=torch.float64)
    try:
        for seen in spans(observation, "certificate"):
            if not seen.of_pixels:
                return found
            place = seen.round, seen.client
            distance[place] = outside(seen.found, seen.read(found.images[place]))[0]
    except Unfit:
        return found
    found.span_distance = torch.where(found.usable, distance, torch.nan)
    return found
