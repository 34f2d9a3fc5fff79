"""Learning to invert: a network from updates to images, fitted to updates of the attacker's own samples."""

from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks import capable
from leakbench.attacks.inverter import Fitting, Inverter, Pairs, fitted
from leakbench.attacks.rehearsal import Rehearsal, known_defence, rehearsal
from leakbench.base.errors import Unfit
from leakbench.base.processes.workers import one_thread
from leakbench.networks.generators.samples import Samples
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# The largest number of samples in an update, and of models that were sent out. Each model, and each number of
# samples, takes an inverter of its own.
LARGEST, MODELS = 8, 5
# The share of the attacker's samples that are held out to choose the epoch.
HELD = 0.1
# The most bytes of updates that are kept from epoch to epoch, where clients would send the same again.
KEPT = 1_000_000_000
# What it costs: updates are drawn anew in each epoch unless the defence works on gradients of single samples,
# whose gradient alone is as dear as ten forward passes. Adam's step takes 170 for each million weights.
COST = {
    "products": "models * pairs * epochs * (6 + 170 / batch) * hidden / 1e6"
    " * (min(weights * 1e6, bins or weights * 1e6) + hidden + samples * values)",
    "calls": "models * pairs * defended",
    "passes": "models * pairs * (1 if defended else epochs) * samples * 10",
}


# The images of a round follow from its own update. Rounds of one model share only the inverter.
@capable(together=True)
def learned_inverter(
    observation: Observation,
    rng: torch.Generator,
    *,
    hidden: Annotated[int, Field(ge=1, le=10_000)] = 500,
    bins: Annotated[int, Field(ge=0, le=100_000)] = 4096,
    pairs: Annotated[int, Field(ge=1)] = 10_000,
    epochs: Annotated[int, Field(ge=1, le=10_000)] = 20,
    rate: Annotated[float, Field(gt=0)] = 3e-4,
    batch: Annotated[int, Field(ge=1)] = 64,
    defence: dict[str, str | dict[str, bool | int | float | str | list[str] | None]] | None = None,
) -> Reconstruction:
    """Fit dense layers to pairs of updates and images of the attacker's own, and apply them to each update.

    The attacker has surrogate data and knows the defence with its parameters. It plays a client's step on its
    own samples, at the weights that were sent, and passes the step through the defence, which draws anew in
    every epoch. A defence that works on the gradients of examples is played only once for each pair, because
    it may take long. The loss of an update of several samples is that of the best assignment of images. A
    tenth of the samples is held out and chooses the epoch.

    The method is that of Wu, Chen, Guo and Weinberger, Learning to invert (UAI 2023). Their release has 3,000
    hidden units, 50,000 samples and 200 epochs for single images, no bins for a network of this size, and a
    rate of 1e-4. It reports the epoch that is best on the attacked images. Here inputs are standardised, and
    the first image that the network makes is the mean image, so that few epochs are enough. The defence acts
    on the mean of a batch, as it does at the clients; the release defends each sample before the mean.

    hidden: the width of both hidden layers.
    bins: the number of bins. Each coordinate of an update falls into a bin by chance, and a bin holds their
    sum. With 0, or with as many bins as coordinates or more, nothing is summed.
    pairs: the largest number of updates of the attacker's own samples that the inverter is fitted to.
    epochs: the number of passes over these updates.
    rate: the learning rate of Adam in the first three quarters of the epochs; after that it is a tenth.
    batch: the number of updates in one step of Adam.
    defence: the clients' defence, its `module` and `parameters`. Without it, it is the one that the
    observation names, with its defaults (`attacks.rehearsal.known_defence`).

    Raises Unfit without labelled samples, with more than LARGEST samples in an update, for more than MODELS
    models, and where clients' updates cannot be played (`attacks.rehearsal`).
    """
    own_samples = observation.generator
    if not isinstance(own_samples, Samples):
        raise Unfit(
            "attack: learned-inverter needs labelled samples of the attacker's own (name some under "
            "generator)"
        )
    images, labels = own_samples.images, own_samples.labels
    acting = known_defence(observation, defence)
    origins, sizes = list(observation.by_model()), sorted(set(observation.clients))
    if sizes[-1] > LARGEST:
        raise Unfit(f"attack: learned-inverter: {sizes[-1]} samples in an update are more than {LARGEST}")
    if len(origins) > MODELS:
        raise Unfit(
            f"attack: learned-inverter: {len(origins)} models were sent out, and each of more than {MODELS} "
            "would take an inverter of its own"
        )
    lead = observation.rounds, len(observation.clients), sizes[-1]
    found = Reconstruction(torch.zeros(*lead, *images.shape[1:]), torch.zeros(lead, dtype=torch.bool))
    fitting = Fitting(hidden, epochs, rate, batch)
    with one_thread():
        for origin, rounds in origins:
            for size in sizes:
                chance = int(torch.randint(2**62, (), generator=rng))
                played = rehearsal(observation, origin, size, acting)
                into = _bins(played.size, bins, chance)
                own, held = _split(played, into, images, labels, size, pairs, chance)
                work = observation.work.part(f"inverter, model {origin}, {size} samples")
                file = work.scratch and work.scratch / "fit.safetensors"
                inverter, _ = fitted(own, held, fitting, chance, work.device, file, work.label)
                for client in np.flatnonzero(np.array(observation.clients) == size).tolist():
                    made = _inverted(observation, inverter, played, rounds, client, into)
                    place = rounds, client, slice(0, size)
                    found.images[place] = made.unflatten(-1, images.shape[1:])
                    found.usable[place] = True
    return found


def _bins(coordinates: int, bins: int, chance: int) -> Tensor | None:
    """Return the bin of each coordinate, int64 [coordinates], or None where nothing is summed."""
    if not 0 < bins < coordinates:
        return None
    return torch.randint(bins, (coordinates,), generator=torch.Generator().manual_seed(chance))


def hashed(updates: Tensor, into: Tensor | None) -> Tensor:
    """Return updates [n, coordinates] summed by bin, [n, bins]."""
    if into is None:
        return updates
    return updates.new_zeros(len(updates), int(into.max()) + 1).index_add_(1, into, updates)


def _split(
    played: Rehearsal, into: Tensor | None, images: Tensor, labels: Tensor, size: int, pairs: int, chance: int
) -> tuple[Pairs, Pairs]:
    """Return pairs to fit to and pairs to choose the epoch by, made of different samples."""
    rng = torch.Generator().manual_seed(chance + 1)
    order = torch.randperm(len(images), generator=rng)
    count = max(1, round(HELD * len(order)))
    if min(count, len(order) - count) < size:
        raise Unfit(
            f"attack: learned-inverter: {len(order)} samples of the attacker's own are too few for updates "
            f"of {size} (raise each of the generator)"
        )
    made = []
    for samples, most in ((order[count:], pairs), (order[:count], count)):
        rows = samples[:most, None]
        if size > 1:
            drawn = [torch.randperm(len(samples), generator=rng)[:size] for _ in rows]
            rows = samples[torch.stack(drawn)]
        made.append(_pairs(played, into, images[rows], labels[rows]))
    return made[0], made[1]


def _pairs(played: Rehearsal, into: Tensor | None, images: Tensor, labels: Tensor) -> Pairs:
    """Return pairs of images [n, size, …] and their updates."""

    def sent(rows: Tensor, rng: torch.Generator) -> Tensor:
        return hashed(played.updates(images[rows], labels[rows], rng), into)

    few = torch.arange(min(2, len(images)))
    again = [sent(few, torch.Generator().manual_seed(seed)) for seed in range(2)]
    same = torch.equal(*again) or played.defence.examples is not None
    kept: list[Tensor] = []

    def once(rows: Tensor, rng: torch.Generator) -> Tensor:
        if not kept:
            parts = torch.arange(len(images)).split(256)
            kept.append(torch.cat([sent(part, rng) for part in parts]))
        return kept[0][rows]

    fits = again[0][0].numel() * 4 * len(images) <= KEPT
    return Pairs(images.flatten(2), once if same and fits else sent)


@torch.no_grad()
def _inverted(
    observation: Observation, inverter: Inverter, played: Rehearsal, rounds: Tensor, client: int,
    into: Tensor | None,
) -> Tensor:  # fmt: skip
    """Return the images of a client's updates in `rounds` [n], float32 [n, size, values]."""
    names = list(played.weights)
    made = []
    for few in rounds.split(64):
        seen = [observation.update(name)[few, client].flatten(1).float() for name in names]
        made.append(inverter(hashed(torch.cat(seen, 1), into)))
    return torch.cat(made)
