"""Span membership of a batch of 64 among 1,000 further candidates, against a singular value decomposition.

The rival decomposes the whole update. A second rival is Fidel, which reconstructs from the same update
instead. The update is that of 256 tanh neurons that read images of CIFAR-10's size, in single precision.
"""

from collections.abc import Iterator

import numpy as np
import torch

from bench.ceiling import Ceiling
from bench.measure import Row, Side, compare
from leakbench.attacks import run
from leakbench.federation import local_update
from leakbench.networks import victims
from leakbench.observations.observation import Observation

K, OTHERS, WIDTH, SHAPE = 64, 1000, 256, (32, 32, 3)
LOCAL = {"lr": 0.1, "batch_size": None, "epochs": 1}


def observed(k: int, others: int) -> Observation:
    """Return what the server saw of random images, which are the first of its candidates.

    k: the number of images in the batch.
    others: the number of further candidates.
    """
    torch.manual_seed(0)
    parameters = {"hidden": [WIDTH, WIDTH], "activation": "tanh"}
    model = victims.build("mlp", SHAPE, 10, parameters)
    stored = torch.randint(0, 256, (k + others, *SHAPE), dtype=torch.uint8)
    weights = {name: p.detach() for name, p in model.named_parameters()}
    images, labels = stored[None, :k].permute(0, 1, 4, 2, 3) / 255, torch.randint(0, 10, (1, k))
    update = local_update(model, weights, images, labels, {}, LOCAL, "gradient")
    return Observation(
        network={"module": "mlp", "parameters": parameters, "shape": list(SHAPE), "classes": 10},
        weights={name: value.numpy()[None] for name, value in weights.items()},
        updates={name: value.numpy()[:, None] for name, value in update.items()},
        origin=np.zeros(1, np.int64),
        clients=[k],
        kind="gradient",
        candidates=stored.numpy(),
    )


def attacked(module: str, observation: Observation) -> None:
    """Run the attack `module` on the update of an observation."""
    run({"module": module, "parameters": {}}, observation, torch.Generator().manual_seed(0))


def decomposed(observation: Observation) -> None:
    """Rank the candidates of an observation by numpy's singular value decomposition of the whole update."""
    assert observation.candidates is not None
    slope = observation.updates["dense1.weight"][0, 0].astype(np.float64)
    rows = np.linalg.svd(slope, full_matrices=False)[2][: observation.clients[0]]
    samples = observation.candidates.transpose(0, 3, 1, 2).reshape(len(observation.candidates), -1) / 255
    np.linalg.norm(samples - samples @ rows.T @ rows, axis=1).argsort()


def rows(ceiling: Ceiling, small: bool) -> Iterator[Row]:
    """Yield the bench's rows, one for each rival.

    ceiling: not used.
    small: whether to take a tiny size, to see that the comparison works.
    """
    k, others = (8, 20) if small else (K, OTHERS)
    observation = observed(k, others)
    yield from compare(
        "membership",
        f"tell the {k} members of a batch among {k + others} candidates of CIFAR-10's size, {WIDTH} neurons",
        "seconds per update",
        Side("ours", lambda: attacked("membership", observation), 1),
        [
            Side("numpy.linalg.svd of the whole update", lambda: decomposed(observation), 1),
            Side("Fidel on the same update", lambda: attacked("fidel", observation), 1),
        ],
        small=small,
    )
