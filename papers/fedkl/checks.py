"""A check of chapter 5 that no expression can make: how much of a network the lock is."""

from collections.abc import Mapping

from leakbench.papers.scorecard.checking import Evidence
from leakbench.papers.scorecard.quantity import Measured, exactly

# The printed name of a locked network → its name in the catalogue.
LOCKED = {
    "LeNet": "lenet-dlg-running-norm", "ResNet-20": "resnet20", "ResNet-32": "resnet32",
    "ResNet-18": "resnet18-unpooled", "ResNet-34": "resnet34-unpooled", "VGG-16": "vgg16-batch-norm",
}  # fmt: skip


def lock_share(evidence: Evidence, row: Mapping[str, str]) -> Measured:
    """Return the share of the lock layers in all values of a locked network with 100 classes, in percent.

    All tensors count but the key.
    """
    import torch

    from leakbench.defences.key_lock import first_norms
    from leakbench.networks import victims

    entry = evidence.fact(f"networks.{LOCKED[row['model']]}")
    side = int(row["resolution"].partition("x")[0])
    with torch.device("meta"):
        network = victims.build(entry["module"], (side, side, 3), 100, entry["parameters"])
    state = network.state_dict()
    channels = state[f"{first_norms(network)[0]}.weight"].numel()
    locked = 2 * channels * (evidence.fact("defences.key-lock.key_length") + 1)
    return exactly(100 * locked / (sum(value.numel() for value in state.values()) - 2 * channels + locked))
