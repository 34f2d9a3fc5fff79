"""Examples of what a network reads in a few words of each test set, as Table 4.2 of the thesis shows some."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from leakbench.federation.training.batches import to_size
from leakbench.federation.training.sets import Examined
from leakbench.networks.tasks.recognition import read

SHOWN = 6


@torch.no_grad()
def examples(model: nn.Module, tests: Mapping[str, Examined], size: int | None) -> dict[str, Any]:
    """Return the first SHOWN words of each test set that the published rule counts, and what is read in them.

    Each test set has `words` and `read`, codes padded with -1, and `pictures`, grey uint8 [words, rows,
    columns].
    """
    device, found = next(model.parameters()).device, {}
    for name, test in tests.items():
        chosen = torch.arange(len(test.labels)) if test.counted is None else test.counted.nonzero()[:, 0]
        images, labels = (x[chosen[:SHOWN]] for x in (test.images, test.labels))
        if len(images):
            found[name] = {
                "words": labels.tolist(),
                "read": read(model.eval()(to_size(images.to(device), size))).tolist(),
                "pictures": images.float().mean(3).round().byte().tolist(),
            }
    return found
