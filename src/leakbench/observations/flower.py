"""The recorder that runs within a user's Flower (flwr) app and keeps what the server sends and receives.

The recorder needs NumPy and this package, but neither torch nor a particular version of flwr.
`leakbench.observations.rounds` reads the files that it writes, one a round (docs/flower.md).
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from leakbench.base.artefacts import Facts, write_tensors
from leakbench.base.errors import UserError

S = TypeVar("S")
LONGEST = 200
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def record(strategy: S, folder: Path | str, samples: str = "num-examples") -> S:
    """Let a Flower strategy keep what its server sends and receives in training.

    The training itself does not change.

    strategy: any strategy of `flwr.serverapp.strategy`, such as FedAvg, FedProx or FedAdam, before it starts.
    folder: where a file `round-<number>.safetensors` is written after each round. It holds the arrays that
    were sent out, those that came back from each client, the settings of training that were sent, and which
    clients were asked, answered or failed.
    samples: the metric of a client's reply that holds its number of samples.

    Returns `strategy` itself. Raises UserError if it is no such strategy, or if a file cannot be written.
    """
    wrapped: Any = strategy
    if not hasattr(wrapped, "configure_train") or not hasattr(wrapped, "aggregate_train"):
        raise UserError(
            f"record: {type(strategy).__name__} has no configure_train and aggregate_train (give a strategy "
            "of flwr.serverapp.strategy)"
        )
    configure, aggregate = wrapped.configure_train, wrapped.aggregate_train
    sent: dict[str, np.ndarray] = {}
    facts: Facts = {}

    def configure_train(server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        messages = list(configure(server_round, arrays, config, grid))
        sent.update(_arrays(arrays))
        # The settings are read now, because the strategy may have added one, as FedProx adds its weight.
        settings = {
            name: value for name, value in dict(config).items() if isinstance(value, int | float | str)
        }
        facts["config"] = settings
        facts["asked"] = [int(message.metadata.dst_node_id) for message in messages]
        return messages

    def aggregate_train(server_round: int, replies: Iterable[Any]) -> Any:
        heard = list(replies)
        _write(Path(folder), sent, facts | {"round": server_round}, heard, samples)
        sent.clear()
        return aggregate(server_round, heard)

    wrapped.configure_train, wrapped.aggregate_train = configure_train, aggregate_train
    return strategy


def _arrays(record: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(array.numpy()) for name, array in record.items()}


def _samples(reply: Any, samples: str) -> Any:
    return next(
        (metrics[samples] for metrics in reply.content.metric_records.values() if samples in metrics), 0
    )


def _reason(reply: Any, samples: str) -> str:
    """Return in one line why a reply cannot be kept; an empty text if it can."""
    if reply.has_error():
        # The reason is a traceback in the colours of a terminal, whose end says what happened.
        words = " ".join(_COLOUR.sub("", str(reply.error.reason)).split())
        return f"…{words[-LONGEST:]}" if len(words) > LONGEST else words or "no reason given"
    records = len(reply.content.array_records)
    if records != 1:
        return f"its reply has {records} records of arrays, not one"
    count = _samples(reply, samples)
    return "" if isinstance(count, int) and count > 0 else f"its reply says no number of samples ({samples})"


def _write(folder: Path, sent: dict[str, np.ndarray], facts: Facts, replies: list[Any], samples: str) -> None:
    tensors = {f"global/{name}": value for name, value in sent.items()}
    clients, failed = {}, {}
    for reply in replies:
        node = int(reply.metadata.src_node_id)
        if reason := _reason(reply, samples):
            failed[str(node)] = reason
            continue
        (arrays,) = reply.content.array_records.values()
        tensors |= {f"returned/{node}/{name}": value for name, value in _arrays(arrays).items()}
        clients[node] = _samples(reply, samples)
    nodes = sorted(clients)
    write_tensors(
        folder / f"round-{facts['round']}.safetensors",
        tensors,
        facts | {"nodes": nodes, "clients": [clients[node] for node in nodes], "failed": failed},
    )
