"""What a Flower (flwr) server sends and receives, kept round by round: the part that runs within somebody's
Flower app.

It needs NumPy and this package, not torch, and no version of flwr in particular. `leakbench capture
--from-flower` makes an observation of the folder (docs/observation.md).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from leakbench.artefacts import write_tensors

S = TypeVar("S")


def record(strategy: S, folder: Path | str, samples: str = "num-examples") -> S:
    """Return `strategy` (of flwr.serverapp.strategy), which from now on keeps what the server sees of
    training in `folder`.

    A file per round, `round-<number>.safetensors`: `global/<name>`, the arrays that were sent out, and
    `returned/<client>/<name>`, those that came back, clients in order of their node. `samples` is the metric
    in which a client tells its number of samples. Replies that are errors are left out. Nothing of the
    training changes.
    """
    wrapped: Any = strategy
    configure, aggregate = wrapped.configure_train, wrapped.aggregate_train
    sent: dict[int, dict[str, np.ndarray]] = {}

    def configure_train(server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        sent[server_round] = _arrays(arrays)
        return configure(server_round, arrays, config, grid)

    def aggregate_train(server_round: int, replies: Iterable[Any]) -> Any:
        heard = list(replies)
        _write(Path(folder), server_round, sent.pop(server_round, {}), heard, samples)
        return aggregate(server_round, heard)

    wrapped.configure_train, wrapped.aggregate_train = configure_train, aggregate_train
    return strategy


def _arrays(record: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(array.numpy()) for name, array in record.items()}


def _write(folder: Path, number: int, sent: dict[str, np.ndarray], replies: list[Any], samples: str) -> None:
    sound = sorted(
        (reply for reply in replies if not reply.has_error()), key=lambda reply: reply.metadata.src_node_id
    )
    tensors = {f"global/{name}": value for name, value in sent.items()}
    clients, nodes = [], []
    for reply in sound:
        (arrays,) = reply.content.array_records.values()
        (metrics,) = reply.content.metric_records.values()
        node = int(reply.metadata.src_node_id)
        tensors |= {f"returned/{node}/{name}": value for name, value in _arrays(arrays).items()}
        clients.append(int(metrics[samples]))
        nodes.append(node)
    write_tensors(
        folder / f"round-{number}.safetensors",
        tensors,
        {"round": number, "nodes": nodes, "clients": clients},
    )
