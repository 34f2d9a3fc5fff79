"""Local training with differential privacy: DP-SGD by Opacus, and the ε that its accountant gives."""

from collections.abc import Mapping
from typing import Any

import torch

from leakbench.base.errors import UserError
from leakbench.defences import Defence, mixes
from leakbench.federation.training.federated import Prepare, Trainee, at_work
from leakbench.federation.training.server import Fit
from leakbench.networks.tasks import task_of


def steps_of(count: int, size: int) -> int:
    return max(1, round(count / size))


def epsilon(privacy: Mapping[str, Any], count: int, size: int, epochs: int) -> float:
    """Return ε of (ε, δ)-differential privacy of a client's images, by Rényi divergences (Mironov 2017)."""
    from opacus.accountants import RDPAccountant

    # It holds against anyone who sees the models, of Poisson samples. Reported losses have no noise.
    accountant = RDPAccountant()
    accountant.history = [(privacy["noise"], min(1.0, size / count), steps_of(count, size) * epochs)]
    return float(accountant.get_epsilon(privacy["delta"]))


def made_private(client: Trainee, privacy: Mapping[str, Any], size: int) -> None:
    """Let a client's model keep each image's gradient, and its optimiser clip and blur them, in place."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from opacus.validators import ModuleValidator

    for name, layer in client.model.named_modules():
        # Opacus knows further layers, and neither plain recurrent ones nor batch norm under another name.
        if mixes(layer) or (not [*layer.children()] and ModuleValidator.validate(layer, strict=False)):
            raise UserError(
                f"privacy: layer '{name}' ({type(layer).__name__}) has no gradient of each image by itself "
                "(choose a network without it, such as one with group norm)"
            )
    try:
        # Hooks on the layers do the work; the model itself stays what it was.
        GradSampleModule(client.model, batch_first=True, loss_reduction="mean")
    except NotImplementedError as problem:
        what = " ".join(str(problem).split())[:200]
        raise UserError(
            f"privacy: the network has a layer that Opacus does not know: {what} (choose another network)"
        ) from problem
    client.optimiser = DPOptimizer(
        client.optimiser,
        noise_multiplier=privacy["noise"],
        max_grad_norm=privacy["clip"],
        expected_batch_size=min(size, len(client.labels)),
    )


def train_privately(
    client: Trainee, training: Mapping[str, Any], lr: float, prepare: Prepare, rng: torch.Generator,
    defence: Defence,
) -> Fit:  # fmt: skip
    """Train as `train_locally` does, on Poisson samples and with noise (Abadi et al. 2016)."""
    model, optimiser, count, size = client.model, client.optimiser, len(client.labels), training["batch_size"]
    optimiser.generator = rng  # type: ignore[attr-defined]
    rate = min(1.0, size / count)
    loss_sum = right = seen = 0.0
    with at_work(client, lr, prepare, rng, task_of(training), Defence()) as step:
        for _ in range(training["local_epochs"]):
            loss_sum = right = seen = 0.0
            for _ in range(steps_of(count, size)):
                batch = torch.nonzero(torch.rand(count, generator=rng) < rate).flatten()
                if len(batch):
                    loss, correct = step(batch)
                    loss_sum += float(loss) * len(batch)
                    right += int(correct)
                    seen += len(batch)
                    continue
                # An empty sample is a step of noise alone.
                optimiser.zero_grad()
                for parameter in model.parameters():
                    parameter.grad_sample = parameter.new_zeros((0, *parameter.shape))  # type: ignore[attr-defined]
                optimiser.step()
    return Fit(loss_sum / max(seen, 1), right / max(seen, 1))
