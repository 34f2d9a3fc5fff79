"""A record that an exact attack recovers from the client's own gradient, whoever wrote the weights."""

import numpy as np
import torch

from leakbench.attacks.fidel import fidel
from leakbench.attacks.imprint import imprint
from leakbench.attacks.peel import peel
from leakbench.base.errors import Unfit
from leakbench.federation.detectors import Received
from leakbench.observations.observation import Observation

# The number of samples: one recovered sample is too many.
ALARM = 0.5
# A sample is recovered if each of its values is this near to that of a reconstruction: half a step of 8 bits.
NEAR = 0.5 / 255


@torch.no_grad()
def isolation(received: Received) -> float:
    """Return how many samples of the client's batch an exact attack recovers from its gradient.

    The attacks are Fidel, peeling and the reading of bins. The client compares their reconstructions with its
    own samples. An attack that the network does not admit finds none. Raises Unfit where the network admits
    none of them.
    """
    images, labels = received.by_entropy()
    shape = images.shape[1:]
    network = {"shape": [shape[1], shape[2], shape[0]], "classes": received.model(images[:2]).shape[1]}
    with torch.enable_grad():
        gradient = received.gradient
    observation = Observation(
        network=network,
        weights={name: value.numpy()[None] for name, value in received.model.state_dict().items()},
        updates={name: value.numpy()[None, None] for name, value in gradient.items()},
        origin=np.zeros(1, np.int64),
        clients=[len(labels)],
        kind="gradient",
        own=received.model,
    )
    out = torch.zeros(len(labels), dtype=torch.bool)
    reasons = []
    for attack in (fidel, imprint, peel):
        try:
            found = attack(observation, torch.Generator().manual_seed(0))
        except Unfit as reason:
            reasons.append(reason)
            continue
        if found.target == "images":
            guesses = found.images[0, 0][found.usable[0, 0]].float()
            for guess in guesses:
                out |= ((images - guess).abs() <= NEAR).flatten(1).all(1)
    if len(reasons) == 3:
        # Parameters that are not trained are buffers, which the attacks take for missing ones.
        for name, _ in received.layer.named_buffers(recurse=False):
            raise Unfit(f"the {name} of the first dense layer is not trained and not sent")
        raise reasons[0]
    return float(out.sum())
