"""The recorder that runs within a user's Flower (flwr) app and keeps what the server sends and receives.

The recorder needs NumPy and this package, but neither torch nor a particular version of flwr.
`leakbench.observations.rounds` reads the files that it writes, one a round (docs/flower.md).
"""

import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from leakbench.base.artefacts import Facts, write_tensors
from leakbench.base.errors import UserError

S = TypeVar("S")
Arrays = dict[str, np.ndarray]
LONGEST = 200
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def record(strategy: S, folder: Path | str, samples: str = "num-examples") -> S:
    """Let a Flower strategy keep what its server sends and receives in training.

    The training itself does not change.

    strategy: any strategy of `flwr.serverapp.strategy`, such as FedAvg, FedProx or FedAdam, or of the older
    `flwr.server.strategy`, before it starts.
    folder: where a file `round-<number>.safetensors` is written after each round. It holds the arrays that
    were sent out, those that came back from each client, the settings of training that were sent, and which
    clients were asked, answered or failed.
    samples: the metric of a client's reply that holds its number of samples; older replies need none.

    Returns `strategy` itself. Raises UserError if it is no such strategy, or if a file cannot be written.
    """
    wrapped: Any = strategy
    if hasattr(wrapped, "configure_fit") and hasattr(wrapped, "aggregate_fit"):
        _older(wrapped, Path(folder))
        return strategy
    if not hasattr(wrapped, "configure_train") or not hasattr(wrapped, "aggregate_train"):
        raise UserError(
            f"record: {type(strategy).__name__} has no configure_train and aggregate_train (give a strategy "
            "of Flower)"
        )
    configure, aggregate = wrapped.configure_train, wrapped.aggregate_train
    sent: Arrays = {}
    facts: Facts = {}

    def configure_train(server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        messages = list(configure(server_round, arrays, config, grid))
        sent.update(_arrays(arrays))
        # The settings are read now, because the strategy may have added one, as FedProx adds its weight.
        facts["config"] = _settings(config)
        facts["asked"] = [int(message.metadata.dst_node_id) for message in messages]
        return messages

    def aggregate_train(server_round: int, replies: Iterable[Any]) -> Any:
        heard = list(replies)
        back, failed = {}, {}
        for reply in heard:
            node = int(reply.metadata.src_node_id)
            if reason := _reason(reply, samples):
                failed[str(node)] = reason
                continue
            (arrays,) = reply.content.array_records.values()
            back[node] = _arrays(arrays), _samples(reply, samples)
        _write(Path(folder), sent, facts | {"round": server_round, "failed": failed}, back)
        sent.clear()
        return aggregate(server_round, heard)

    wrapped.configure_train, wrapped.aggregate_train = configure_train, aggregate_train
    return strategy


def _settings(config: Any) -> Facts:
    return {name: value for name, value in dict(config).items() if isinstance(value, int | float | str)}


def _arrays(record: Any) -> Arrays:
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
    return _uncounted(_samples(reply, samples), f" ({samples})")


def _uncounted(count: Any, where: str = "") -> str:
    return "" if isinstance(count, int) and count > 0 else f"its reply says no number of samples{where}"


def _write(folder: Path, sent: Arrays, facts: Facts, back: dict[int, tuple[Arrays, int]]) -> None:
    """Write a round. `back` has the arrays and the number of samples of each node that answered."""
    tensors = {f"global/{name}": value for name, value in sent.items()}
    nodes = sorted(back)
    for node in nodes:
        tensors |= {f"returned/{node}/{name}": value for name, value in back[node][0].items()}
    path = folder / f"round-{facts['round']}.safetensors"
    write_tensors(path, tensors, facts | {"nodes": nodes, "clients": [back[node][1] for node in nodes]})


def _older(strategy: Any, folder: Path) -> None:
    """Let a strategy of `flwr.server.strategy`, whose arrays have no names, keep its rounds."""
    configure, aggregate = strategy.configure_fit, strategy.aggregate_fit
    sent: Arrays = {}
    facts: Facts = {}
    numbers: dict[str, int] = {}

    def node(client: Any) -> int:
        return int(client.cid) if str(client.cid).isdigit() else numbers.setdefault(client.cid, len(numbers))

    def configure_fit(server_round: int, parameters: Any, client_manager: Any) -> Any:
        asked = list(configure(server_round, parameters, client_manager))
        sent.update(_unnamed(parameters))
        facts["config"] = _settings(asked[0][1].config if asked else {})
        facts["asked"] = [node(client) for client, _ in asked]
        return asked

    def aggregate_fit(server_round: int, results: Any, failures: Any) -> Any:
        lost = (each[0] for each in failures if isinstance(each, tuple))
        failed, back = {str(node(client)): "it says that it failed" for client in lost}, {}
        for client, reply in results:
            if reason := _uncounted(reply.num_examples):
                failed[str(node(client))] = reason
            else:
                back[node(client)] = _unnamed(reply.parameters), reply.num_examples
        _write(folder, sent, facts | {"round": server_round, "failed": failed}, back)
        sent.clear()
        return aggregate(server_round, results, failures)

    strategy.configure_fit, strategy.aggregate_fit = configure_fit, aggregate_fit


def _unnamed(parameters: Any) -> Arrays:
    loaded = (np.load(io.BytesIO(each), allow_pickle=False) for each in parameters.tensors)
    return {f"arr_{place}": value for place, value in enumerate(loaded)}
