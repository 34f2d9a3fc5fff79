"""DP-SGD: bound each sample's gradient and add noise to their sum (Abadi et al., arXiv:1607.00133)."""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.base.artefacts import Facts
from leakbench.base.errors import UserError
from leakbench.base.tensors import over
from leakbench.defences import Batch, Defence, Update, View, each_update, mixes
from leakbench.defences.certification import certificate

# Thousands of calls of torch for each sample, whose own gradient it changes (`catalogue.costs`).
COST = 0.1


def bounded(parts: Sequence[Tensor], clip: float) -> Tensor:
    """Return the factor [n] that scales each sample's gradient down to a norm of at most `clip`."""
    length = torch.stack([value.flatten(1).square().sum(1) for value in parts]).sum(0).sqrt()
    return torch.where(length.isfinite(), (clip / length.clamp_min(1e-30)).clamp_max(1), 0.0)


def dp_sgd(
    *,
    noise_multiplier: Annotated[float, Field(ge=0.1, le=1000)],
    clip: Annotated[float, Field(gt=0)],
    delta: Annotated[float, Field(ge=1e-09, lt=0.5)] = 1e-5,
    sample_rate: Annotated[float, Field(ge=0.0001, le=1)] = 1.0,
    noise: Literal["local", "central"] = "local",
    observer: Literal["server", "client"] = "server",
) -> Defence:
    """Clip each sample's gradient, add noise to their sum, and divide by the expected number of samples.

    The certificate counts every step in which a sample may take part. The only secrecy that it counts on is
    that of `sample_rate`: the server knows in which rounds a client takes part. The noise has single
    precision and comes from a generator that a seed determines, which is good enough for experiments but not
    for a deployment.

    noise_multiplier: standard deviation of the noise on the sum of gradients, in units of `clip`.
    clip: the Euclidean norm that each sample's gradient is scaled down to.
    delta: the δ at which ε is reported.
    sample_rate: probability that a sample of a batch takes part in a step. Only the client knows which
    samples do.
    noise: who adds the noise: each client in every step (`local`), or once the party that sums up the
    clients' gradients (`central`).
    observer: who attacks. Central noise protects from a client, which receives the noised mean, but not from
    the server that adds the noise.

    Raises UserError for a network with batch norm, where a sample changes the gradients of others, or with
    recurrent layers, whose gradients torch cannot take sample by sample. Raises UserError if central noise
    meets clients that send weights after local steps, because a bound on single gradients does not bound the
    sum of several steps.
    """

    def model(network: nn.Module, rng: torch.Generator) -> nn.Module:
        for name, layer in network.named_modules():
            if mixes(layer):
                raise UserError(
                    f"victim: layer '{name}' ({type(layer).__name__}) leaves no sample a gradient of its "
                    "own, which defence dp-sgd bounds (choose a victim without batch norm and recurrent "
                    "layers)"
                )
        return network

    def examples(batch: Batch, rng: torch.Generator) -> Update:
        total = {name: torch.zeros_like(value) for name, value in batch.weights.items()}
        for gradients in batch.gradients():
            factor = bounded(list(gradients.values()), clip)
            if sample_rate < 1:
                drawn = torch.full(factor.shape, sample_rate)
                factor = factor * torch.bernoulli(drawn, generator=rng).to(factor.device)
            for name, value in gradients.items():
                kept = torch.where(over(factor, value) > 0, value, 0.0)
                total[name] += torch.tensordot(factor, kept, 1)
        if noise == "local":
            for name, value in total.items():
                drawn = torch.randn(value.shape, generator=rng)
                total[name] = value + noise_multiplier * clip * drawn.to(value.device)
        expected = sample_rate * len(batch.labels)
        return {name: value / expected for name, value in total.items()}

    def view(clients: Sequence[int]) -> View:
        if noise == "local" or observer == "server":
            return each_update(clients)
        samples = torch.tensor(clients, dtype=torch.float64)
        deviation = noise_multiplier * clip / (sample_rate * float(samples.sum()))

        def seen(updates: Update, rng: torch.Generator) -> Update:
            means = {n: torch.tensordot(samples / samples.sum(), v.double(), 1) for n, v in updates.items()}
            return {
                name: (value + deviation * torch.randn(value.shape, generator=rng)).float()[None]
                for name, value in means.items()
            }

        shared = f"the noised mean of {len(clients)} clients' gradients, each round"
        return View([list(range(len(clients)))], seen, {"observer": observer, "shared": shared})

    def certified(steps: int, kind: str) -> Facts | None:
        if noise == "central" and kind != "gradient":
            raise UserError(
                "defence.parameters.noise: central noise covers one gradient of each client, and these "
                "clients send weights after local steps (set the federation's update: gradient, or noise: "
                "local)"
            )
        if noise == "central" and observer == "server":
            return None
        return certificate(noise_multiplier, sample_rate, steps, delta)

    return Defence(model=model, examples=examples, view=view, certificate=certified)
