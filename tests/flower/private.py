"""The private images of the app's clients, which the test makes again to see whether the attack finds
them."""

import numpy as np

SHAPE, CLASSES, LR = (8, 8, 1), 4, 0.1
LAYERS = [(64, 128), (128, 128), (128, 64), (64, CLASSES)]


def private(client: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images [n, rows, columns, channels] in [0, 1] and labels [n]: one image of client 0, two of
    client 1."""
    rng = np.random.default_rng(100 + client)
    count = client + 1
    return rng.random((count, *SHAPE)).astype(np.float32), np.arange(count)
