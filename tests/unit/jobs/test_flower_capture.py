"""The recorder on a strategy of Flower's shape, and folders that do not say what they should."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from leakbench.base.artefacts import open_tensors, read_tensors, write_tensors
from leakbench.base.errors import Altered, UserError
from leakbench.jobs.flower_capture import flower_capture
from leakbench.networks import victims
from leakbench.observations.flower import record
from leakbench.observations.rounds import read_rounds

NETWORK = {"module": "fcnn", "parameters": {}, "shape": [4, 4, 1], "classes": 3}
State = dict[str, np.ndarray]


class Strategy:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    asked: tuple[int, ...] = ()

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        config["lr"] = 0.5
        return iter([SimpleNamespace(metadata=SimpleNamespace(dst_node_id=node)) for node in self.asked])

    def aggregate_train(self, server_round: int, replies: list[Any]) -> str:
        self.heard = list(replies)
        return "aggregated"


def arrays(state: State) -> dict[str, Any]:
    return {name: SimpleNamespace(numpy=lambda value=value: value) for name, value in state.items()}


def reply(node: int, state: State, samples: int, error: str = "") -> Any:
    content = SimpleNamespace(
        array_records={"arrays": arrays(state)}, metric_records={"metrics": {"num-examples": samples}}
    )
    return SimpleNamespace(
        has_error=lambda: bool(error), error=SimpleNamespace(reason=error), content=content,
        metadata=SimpleNamespace(src_node_id=node),
    )  # fmt: skip


@pytest.fixture
def state() -> State:
    torch.manual_seed(0)
    model = victims.build("fcnn", (4, 4, 1), 3, {})
    return {name: value.numpy() for name, value in model.state_dict().items()}


def spec(folder: Path, **facts: Any) -> Path:
    path = folder / "network.json"
    path.write_text(json.dumps({"network": NETWORK} | facts))
    return path


def play(folder: Path, state: State, rounds: list[dict[int, int]]) -> Strategy:
    """Record rounds, each a mapping of node → samples; node n returns everything plus n. Node 99 fails, node
    100 does not answer."""
    strategy = record(Strategy(), folder)
    for number, nodes in enumerate(rounds, 1):
        strategy.asked = (*nodes, 99, 100)
        messages = strategy.configure_train(number, arrays(state), {}, None)
        assert [message.metadata.dst_node_id for message in messages] == [*nodes, 99, 100]
        replies = [
            reply(node, {n: v + np.float32(node) for n, v in state.items()}, k) for node, k in nodes.items()
        ]
        replies.append(reply(99, {}, 1, error="out of memory\n at line 1"))
        assert strategy.aggregate_train(number, iter(replies)) == "aggregated"
    return strategy


def test_updates_are_what_came_back_less_what_was_sent(tmp_path: Path, state: State) -> None:
    strategy = play(tmp_path / "rounds", state, [{7: 2, 3: 1}, {3: 1, 7: 2}])
    assert len(strategy.heard) == 3
    said = spec(tmp_path, knows={"labels_known": True}, mode="train")
    flower_capture(tmp_path / "rounds", said, tmp_path / "out.safetensors")
    tensors, facts = read_tensors(tmp_path / "out.safetensors")
    assert (facts["clients"], facts["knows"]["labels_known"], facts["mode"]) == ([1, 2], True, "train")
    assert "local" not in facts
    for name, value in state.items():
        np.testing.assert_array_equal(tensors[f"global/{name}"], np.stack([value, value]))
        assert tensors[f"updates/{name}"].shape == (2, 2, *value.shape)
        for place, node in enumerate((3, 7)):
            np.testing.assert_allclose(tensors[f"updates/{name}"][:, place], node, atol=1e-5)
    rounds = read_rounds(tmp_path / "rounds")
    assert (rounds.config, rounds.nodes, rounds.clients) == ({"lr": 0.5}, [3, 7], [1, 2])


def test_clients_that_miss_a_round_or_change_are_left_out(
    tmp_path: Path, state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    play(tmp_path / "rounds", state, [{1: 1, 2: 2, 3: 3}, {1: 1, 3: 4}])
    flower_capture(tmp_path / "rounds", spec(tmp_path), tmp_path / "out.safetensors")
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("left out: the client of node ")[2] for line in said] == [
        "2 was not asked in round 2", "3 had 3 and 4 samples in different rounds",
        "99 failed ('out of memory at line 1') in round 1", "100 was asked and did not answer in round 1",
    ]  # fmt: skip
    tensors, facts = open_tensors(tmp_path / "out.safetensors")
    assert facts["clients"] == [1]
    assert tensors["updates/dense1.bias"].shape == (2, 1, 128)


def _other_network(folder: Path, state: State) -> None:
    play(folder, state | {"dense1.bias": np.zeros(5, np.float32)}, [{1: 1}])


def _without_models(*nodes: Any) -> Callable[[Path, State], None]:
    facts = {"nodes": [*nodes], "clients": [1]}
    return lambda folder, state: write_tensors(folder / "round-1.safetensors", {}, facts)


def _altered(
    change: Callable[[State, dict[str, Any]], object], last: int = 1
) -> Callable[[Path, State], None]:
    """Return what records rounds of one client and alters tensors or facts of the `last`."""

    def make(folder: Path, state: State) -> None:
        play(folder, state, [{7: 1}] * last)
        kept, facts = read_tensors(folder / f"round-{last}.safetensors")
        change(kept, facts)
        write_tensors(folder / f"round-{last}.safetensors", kept, facts)

    return make


def _two_of_one_number(folder: Path, state: State) -> None:
    play(folder, state, [{7: 1}])
    shutil.copy(folder / "round-1.safetensors", folder / "round-01.safetensors")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder, state: None, "no round-<number>.safetensors"),
        *((_altered(lambda kept, _, name=name, value=value: kept[name].fill(value), 2),
           rf"round-2\.safetensors: {name} holds NaN or Inf")
          for name, value in (("returned/7/dense1.bias", np.nan), ("global/dense1.bias", np.inf))),
        *((_altered(lambda _, facts, number=number: facts.update(clients=[number])),
           rf"round-1\.safetensors: clients: {number} is no number of samples")
          for number in (0, -5)),
        (_altered(lambda _, facts: facts.update(nodes=[7, 7], clients=[1, 2])), "each node once"),
        (_two_of_one_number, r"round-1\.safetensors: is round 1, as is round-01\.safetensors"),
        (lambda folder, state: play(folder, state, [{1: 1}, {2: 1}]),
         "no client answered in each of 2 rounds with as many samples: the client of node 1"),
        (_other_network, "the victim has float32"),
        (_without_models(1), "hold no models"),
        (_without_models("../../x"), "nodes is no list of whole numbers"),
        (_altered(lambda kept, _: kept.pop("returned/7/dense2.bias")),
         "dense2.bias is not in every round and reply"),
    ],
)  # fmt: skip
def test_a_folder_that_is_no_capture_is_refused(
    make: Callable[[Path, State], None], says: str, tmp_path: Path, state: State
) -> None:
    make(tmp_path / "rounds", state)
    with pytest.raises(UserError, match=says):
        flower_capture(tmp_path / "rounds", spec(tmp_path), tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_a_round_whose_bytes_changed_is_refused(tmp_path: Path, state: State) -> None:
    play(tmp_path, state, [{7: 1}])
    path = tmp_path / "round-1.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(Altered, match=r"its bytes have sha256 .* as written \(copy the file again"):
        read_rounds(tmp_path)


def test_what_lay_there_stays_where_the_rounds_do_not_fit(tmp_path: Path, state: State) -> None:
    _other_network(tmp_path / "rounds", state)
    out = tmp_path / "out.safetensors"
    out.write_text("of yesterday")
    with pytest.raises(UserError) as refused:
        flower_capture(tmp_path / "rounds", spec(tmp_path), out)
    where = f"{tmp_path / 'network.json'}: does not fit the rounds in {tmp_path / 'rounds'}: "
    assert str(refused.value).startswith(f"{where}global/dense1.bias is")
    assert out.read_text() == "of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network.json", "out.safetensors", "rounds"]


def test_what_a_strategy_sends_in_another_precision_is_the_clients(tmp_path: Path, state: State) -> None:
    """FedAdam sends float64 from its second round on."""
    play(tmp_path, {name: value.astype(np.float64) for name, value in state.items()}, [{1: 1}])
    tensors, facts = read_tensors(tmp_path / "round-1.safetensors")
    single = {n: v.astype(np.float32) if n.startswith("returned/") else v for n, v in tensors.items()}
    write_tensors(tmp_path / "round-1.safetensors", single, facts)
    rounds = read_rounds(tmp_path)
    kinds = {value.dtype.name for value in (*rounds.sent.values(), *rounds.updates.values())}
    assert kinds == {"float32"}


def test_a_reply_that_cannot_be_kept_is_a_failed_client(tmp_path: Path, state: State) -> None:
    """Training goes on, whatever the reply was."""
    strategy = record(Strategy(), tmp_path)
    strategy.asked = (1, 2)
    strategy.configure_train(1, arrays(state), {}, None)
    two, other = reply(1, state, 1), reply(2, state, 0)
    two.content.array_records["more"] = {}
    assert strategy.aggregate_train(1, [two, other]) == "aggregated"
    with pytest.raises(UserError) as refused:
        read_rounds(tmp_path)
    assert "node 1 failed ('its reply has 2 records of arrays, not one')" in str(refused.value)
    assert "node 2 failed ('its reply says no number of samples (num-examples)')" in str(refused.value)


@pytest.mark.parametrize(
    ("facts", "says"),
    [({"lcoal": {}}, "lcoal: is no key of it (did you mean 'local'?)"),
     ({"mode": "training"}, "mode is not train or eval"),
     ({"local": {"lr": -1, "batch_size": None, "epochs": 1}}, "local.lr is not a number from 1e-30"),
     ({"knows": {"labels": True}}, "knows.'labels' is no field of the threat model"),
     ({"network": {"module": "fcnn"}}, "'parameters' is missing")],
)  # fmt: skip
def test_a_wrong_spec_is_named(facts: dict[str, Any], says: str, tmp_path: Path, state: State) -> None:
    play(tmp_path / "rounds", state, [{1: 1}])
    path = spec(tmp_path, **facts)
    with pytest.raises(UserError, match=re.escape(says)) as refused:
        flower_capture(tmp_path / "rounds", path, tmp_path / "out.safetensors")
    assert str(refused.value).startswith(f"{path}: ")
