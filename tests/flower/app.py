"""A Flower app of two clients, run in simulation by .flower's Python: `app.py FOLDER ROUNDS`, with leakbench
on its path.

The network is leakbench's fcnn, trained by hand in NumPy, so that the app shares nothing with what attacks it
but the names of the arrays. Each client takes one full-batch step on its private images, made from its
number; the test makes them again.
"""

import sys
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from private import CLASSES, LAYERS, LR, private

from leakbench.flower import record


def start() -> dict[str, np.ndarray]:
    """Return the first model."""
    rng = np.random.default_rng(0)
    out = {}
    for number, (reads, writes) in enumerate(LAYERS, 1):
        out[f"dense{number}.weight"] = rng.normal(0, np.sqrt(2 / reads), (writes, reads)).astype(np.float32)
        out[f"dense{number}.bias"] = np.full(writes, 0.01, np.float32)
    return out


def step(model: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Return the model after one step of gradient descent on the mean cross-entropy; ReLU between dense
    layers."""
    seen = [images.reshape(len(images), -1)]
    for number in range(1, len(LAYERS) + 1):
        z = seen[-1] @ model[f"dense{number}.weight"].T + model[f"dense{number}.bias"]
        seen.append(np.maximum(z, 0) if number < len(LAYERS) else z)
    shifted = np.exp(seen[-1] - seen[-1].max(1, keepdims=True))
    slope = (shifted / shifted.sum(1, keepdims=True) - np.eye(CLASSES)[labels]) / len(images)
    out = {}
    for number in range(len(LAYERS), 0, -1):
        weight, bias = (model[f"dense{number}.{kind}"] for kind in ("weight", "bias"))
        out[f"dense{number}.weight"] = (weight - LR * slope.T @ seen[number - 1]).astype(np.float32)
        out[f"dense{number}.bias"] = (bias - LR * slope.sum(0)).astype(np.float32)
        slope = (slope @ weight) * (seen[number - 1] > 0)
    return out


client = ClientApp()


@client.train()
def train(message, context):
    model = {name: array.numpy() for name, array in message.content["arrays"].items()}
    images, labels = private(int(context.node_config["partition-id"]))
    found = step(model, images, labels)
    content = RecordDict(
        {
            "arrays": ArrayRecord({name: _array(value) for name, value in found.items()}),
            "metrics": MetricRecord(
                {"num-examples": len(images), "partition": int(context.node_config["partition-id"])}
            ),
        }
    )
    return Message(content=content, reply_to=message)


def _array(value):
    from flwr.app import Array

    return Array(value)


server = ServerApp()


@server.main()
def main(grid: Grid, context) -> None:
    strategy = record(FedAvg(fraction_evaluate=0.0), Path(sys.argv[1]))
    arrays = ArrayRecord({name: _array(value) for name, value in start().items()})
    strategy.start(
        grid=grid, initial_arrays=arrays, num_rounds=int(sys.argv[2]), train_config=ConfigRecord({})
    )


if __name__ == "__main__":
    # Ray's workers are processes of their own, which must find `private` and leakbench too: by PYTHONPATH.
    run_simulation(
        server, client, num_supernodes=2,
        backend_config={"client_resources": {"num_cpus": 1},
        "init_args": {"num_cpus": 2, "include_dashboard": False}},
    )  # fmt: skip
