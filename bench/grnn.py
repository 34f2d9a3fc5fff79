"""GRNN on its LeNet, single images: a batch of generators against one generator at a time in torch's layers.

Both sides may use all cores of the machine. The project's attack has one worker process for each core, and
the rival has torch's threads.
"""

import os
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench.ceiling import Ceiling, flop_of
from bench.measure import Row, Side, compare
from leakbench.attacks.gradient_matching import gradient_matching
from leakbench.attacks.matching.generator_weights import GeneratorWeights
from leakbench.attacks.matching.objectives.norm import norm
from leakbench.attacks.matching.objectives.squares import squares
from leakbench.attacks.matching.objectives.total_variation import total_variation
from leakbench.attacks.matching.optimisers.rmsprop import rmsprop
from leakbench.attacks.matching.terms import Term
from leakbench.attacks.matching.unknowns.generator import generator
from leakbench.base.processes.workers import Crew
from leakbench.networks import victims
from leakbench.observations.observation import Observation

# A whole attack takes a thousand iterations. With fewer iterations a turn is short, and drawing the first
# weights still takes only a small part of it.
TRIALS, ITERATIONS, ALONE = 16, 300, 50
SHAPE, CLASSES = (32, 32, 3), 10
TV, LR, MOMENTUM = 1e-3, 1e-4, 0.99


def _task(trials: int) -> tuple[nn.Module, list[list[Tensor]]]:
    """Return the victim and the gradients of `trials` images of noise.

    The cost of an iteration does not depend on the images.
    """
    torch.manual_seed(0)
    model = victims.build("lenet-grnn", SHAPE, CLASSES, {}).eval()
    pairs = [(torch.rand(1, 3, 32, 32), torch.randint(0, CLASSES, (1,))) for _ in range(trials)]
    loss = [cross_entropy(model(x), y) for x, y in pairs]
    return model, [list(torch.autograd.grad(each, list(model.parameters()))) for each in loss]


def batched(trials: int, iterations: int, workers: int) -> Tensor:
    """Return the reconstructions of all trials by the project's own attack.

    trials: the number of trials.
    iterations: the number of iterations of each trial.
    workers: the number of worker processes.
    """
    model, gradients = _task(trials)
    names = [name for name, _ in model.named_parameters()]
    observation = Observation(
        network={"module": "lenet-grnn", "parameters": {}, "shape": SHAPE, "classes": CLASSES},
        weights={name: p.detach().numpy()[None] for name, p in model.named_parameters()},
        updates={
            name: torch.stack(values)[:, None].numpy()
            for name, values in zip(names, zip(*gradients, strict=True), strict=True)
        },
        origin=np.zeros(trials, int),
        clients=[1],
        kind="gradient",
        labelling="joint",
        work=Crew(workers=workers),
    )
    objective: list[Term] = [squares(), norm(), total_variation(weight=TV, squared=True)]
    optimiser = rmsprop(lr=LR, momentum=MOMENTUM)
    return gradient_matching(
        observation,
        torch.Generator().manual_seed(0),
        objective,
        generator(),
        optimiser,
        iterations=iterations,
    ).images


class _Generator(nn.Module):
    """GRNN's generator in torch's layers, as its authors build it."""

    def __init__(self) -> None:
        super().__init__()
        self.widths = GeneratorWeights(32, 3, 1, CLASSES)
        first = self.widths.blocks[0][0]
        self.first = nn.Sequential(nn.ConvTranspose2d(self.widths.latent, 2 * first, 4), nn.GLU(1))
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Upsample(scale_factor=2),
                    nn.Conv2d(channels, 2 * out, 3, 1, 1, bias=False),
                    nn.BatchNorm2d(2 * out),
                    nn.GLU(1),
                )
                for channels, out in self.widths.blocks
            )
        )
        self.label = nn.Linear(self.widths.latent, CLASSES)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self.blocks(self.first(z[:, :, None, None])).sigmoid(), self.label(z).softmax(1)


def one_at_a_time(iterations: int) -> Tensor:
    """Return the reconstruction of one trial after `iterations` iterations of a loop like the authors'."""
    model, gradients = _task(1)
    generator, latent = _Generator(), torch.randn(1, 128)
    optimiser = torch.optim.RMSprop(generator.parameters(), lr=LR, momentum=MOMENTUM)
    wanted = torch.cat([g.flatten() for g in gradients[0]])
    images = torch.empty(0)
    for _ in range(iterations):
        images, labels = generator(latent)
        loss = -(labels * model(images).log_softmax(1)).sum(1).mean()
        found = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        gap = (torch.cat([g.flatten() for g in found]) - wanted).square().sum()
        rough = sum(images.diff(dim=axis).square().mean() for axis in (2, 3))
        optimiser.zero_grad()
        (gap + gap.sqrt() + TV * 2 * rough).backward()
        optimiser.step()
    return images


def rows(ceiling: Ceiling, small: bool) -> Iterator[Row]:
    """Yield the bench's row.

    ceiling: operations a second of all cores together, by kind of work.
    small: whether to take a tiny size, to see that the comparison works.
    """
    trials, iterations, alone = (2, 2, 1) if small else (TRIALS, ITERATIONS, ALONE)
    cores = len(os.sched_getaffinity(0))
    yield from compare(
        "grnn", f"GRNN, LeNet, batch 1, {trials} trials", "seconds per image-iteration",
        Side("ours", lambda: batched(trials, iterations, cores), trials * iterations,
             flop_of(lambda n: batched(2, n, 1), 2, small)),
        [Side("one at a time: torch's layers, autograd, torch.optim.RMSprop", lambda: one_at_a_time(alone),
              alone, flop_of(one_at_a_time, 1, small))],
        ceiling["convolution"], small=small,
    )  # fmt: skip
