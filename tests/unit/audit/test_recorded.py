"""Recorded rounds and captures, where only proofs count; and victims of the catalogue beside the pipeline."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from clients import client_of, faces, frozen, mlp, round_of
from safetensors.torch import save_file
from torch import Tensor, nn

from leakbench.attacks import run
from leakbench.audit.attacks import attack, catalogue
from leakbench.audit.audit import of_recorded
from leakbench.audit.client import Client, view
from leakbench.audit.findings import READ
from leakbench.audit.recorded import Options, _example
from leakbench.audit.report import Audit
from leakbench.base.artefacts import write_tensors
from leakbench.base.errors import Altered, UserError
from leakbench.metrics.exact import exact as exact_metric
from leakbench.metrics.matching import match
from leakbench.metrics.mse import mse_matrix
from leakbench.networks import victims
from leakbench.observations.flower import record

OPTIONS = Options(budget=60.0, declared={}, lr=0.5)


def rounds(folder: Path, network: nn.Module, clients: int = 2, number: int = 1, idle: int = -1,
    asked: list[int] | None = None) -> None:  # fmt: skip
    """Write a round of clients with 4 pictures each, one step at rate 0.5, as the recorder keeps it; the
    client `idle` sends back what it was sent."""
    sent = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    tensors = {f"global/{name}": value for name, value in sent.items()}
    for node in range(clients):
        own = round_of(network, faces(4, 4 * node), lr=0.5)
        for name, value in own.update.items():
            step = np.float32(0 if node == idle else 0.5)
            tensors[f"returned/{node}/{name}"] = sent[name] - step * value.numpy()
    nodes = list(range(clients))
    facts = {"round": number, "nodes": nodes, "clients": [4] * clients, "asked": asked or nodes}
    write_tensors(folder / f"round-{number}.safetensors", tensors, facts)


Audits = Callable[..., tuple[Audit, list[str]]]


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> Audits:
    """Return a function that audits a path with a network of one's own; it returns the lines too."""

    def run(path: Path, network: Any, example: Tensor | None = torch.rand(1, 25, 25), **options: Any) -> Any:  # noqa: B008
        made = network if example is None else (network, example)
        monkeypatch.setattr("leakbench.audit.recorded.loaded", lambda name: made)
        lines: list[str] = []
        given = replace(OPTIONS, **{"model": "my_app.py:net"} | options)
        return of_recorded(path, given, lines.append), lines

    return run


def test_recorded_rounds_are_audited_with_ones_own_network(tmp_path: Path, audited: Audits) -> None:
    network = mlp(400, 20)
    rounds(tmp_path, network, asked=[0, 1, 9])
    found, lines = audited(tmp_path, network)
    assert found.records == found.exposed() == max(each.proven for each in found.found) == 8
    assert any("nothing proves" in each.why_not for each in found.found if each.attack == "fidel")
    assert lines[-1].startswith("Exposed: 8 of 8 records")
    # A message names each client that is left out.
    why = "the client of node 9 was asked and did not answer in round 1"
    assert lines[0] == f"left out: {why}"
    assert f"Left out: {why}." in found.assumptions
    with pytest.raises(UserError, match="--model is missing"):
        audited(tmp_path, network, model=None)
    with pytest.raises(UserError, match=r"1\.weight is \(400, 625\), and \(300, 625\) in the network"):
        audited(tmp_path, mlp(300), None)
    found, _ = audited(tmp_path, frozen(network, "3.weight", "3.bias"))
    assert found.exposed() == 8
    assert any("2 of 6 tensors are not trained" in line for line in found.assumptions)


def test_the_size_of_inputs_is_read_off_a_network_that_allows_one() -> None:
    def after(pool: nn.Module, size: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 6, 5), nn.ReLU(), pool, nn.Flatten(), nn.Linear(size, 10))

    assert _example(after(nn.MaxPool2d(2), 6 * 14 * 14)).shape == (2, 3, 32, 32)
    assert _example(mlp(20, inputs=7)).shape == (2, 7)
    with pytest.raises(UserError, match=r"return \(network, example\)"):
        _example(after(nn.AdaptiveAvgPool2d(1), 6))


@pytest.mark.parametrize(("repeats", "records", "exposed"), [(True, 8, 8), (False, 16, 12)])
def test_a_record_that_several_rounds_give_away_counts_once(
    repeats: bool, records: int, exposed: int, tmp_path: Path, audited: Audits
) -> None:
    """Of two clients with the same pictures in both rounds; one is seen in the second round alone."""
    networks = [mlp(400), mlp(400)]
    for value in networks[1].parameters():
        value.data *= 0.9
    for number, network in enumerate(networks, 1):
        rounds(tmp_path, network, number=number, idle=1 if number == 1 else -1)
    found, _ = audited(tmp_path, networks[0], repeats=repeats)
    assert (found.records, found.exposed()) == (records, exposed)
    assert ("the same records" in " ".join(found.assumptions)) == repeats


def catalogued(records: int) -> tuple[Client, dict[str, Any]]:
    """Return a client of the catalogue's network of dense layers, and how a capture names that network."""
    network = {"module": "mlp", "parameters": {"hidden": [300]}, "shape": [25, 25, 1], "classes": 2}
    torch.manual_seed(0)
    model = victims.build("mlp", (25, 25, 1), 2, {"hidden": [300]})
    pictures, labels = faces(records)
    pictures = (pictures * 255).round() / 255
    return client_of(model, (pictures[:, None], labels)), network


def test_a_capture_is_audited_like_its_client(tmp_path: Path) -> None:
    own, network = catalogued(8)
    played = own.play()
    tensors = {"origin": np.zeros(1, np.int64)}
    tensors |= {f"global/{name}": value.numpy()[None] for name, value in played.model.state_dict().items()}
    tensors |= {f"updates/{name}": value.numpy()[None, None] for name, value in played.update.items()}
    facts = {"network": network, "clients": [8], "kind": "gradient"}
    write_tensors(tmp_path / "capture.safetensors", tensors, facts)
    found = of_recorded(tmp_path / "capture.safetensors", OPTIONS, lambda line: None)
    observation, truth = view(played)
    for each in found.found:
        if not each.why_not:
            assert each.proven == attack(each.attack, observation, truth, 60).proven > 0
    data = bytearray((tmp_path / "capture.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "capture.safetensors").write_bytes(data)
    with pytest.raises(Altered, match="as written"):
        of_recorded(tmp_path / "capture.safetensors", OPTIONS, lambda line: None)


@pytest.mark.parametrize("name", ["fidel", "peel"])
def test_the_audit_of_a_catalogued_victim_finds_what_the_pipeline_scores(name: str) -> None:
    own, network = catalogued(12)
    observation, truth = view(own.play())
    mine = attack(name, observation, truth, 60).count(READ)
    # The victim by its name, as a capture has it.
    weights, updates = (
        {key.removeprefix("network."): value for key, value in each.items()}
        for each in (observation.weights, observation.updates)
    )
    named = replace(observation, network=network, own=None, weights=weights, updates=updates)
    made = run(catalogue()[name].entry, named, torch.Generator().manual_seed(0))
    images = made.images[0, 0][made.usable[0, 0]].numpy()
    index = match(mse_matrix(images, truth.images.numpy()))
    scored = exact_metric(images[np.maximum(index, 0)], truth.images.numpy())[index >= 0]
    assert mine == int(scored.sum()) > 0


class Leaves:
    """Writes a file when it is unpickled."""

    def __reduce__(self) -> Any:
        return Path.write_text, (Path("was-run"), "")


def saved(path: Path, state: dict[str, Tensor]) -> None:
    if path.suffix == ".npz":
        np.savez(path, *[value.numpy() for value in state.values()])
    elif path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save({f"module.{name}": value for name, value in state.items()}, path)


@pytest.mark.parametrize("suffix", [".pt", ".npz", ".safetensors"])
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.MultiMarginLoss()])
def test_two_weight_files_are_audited(suffix: str, loss: nn.Module, tmp_path: Path, audited: Audits) -> None:
    network = mlp(400)
    before, after = tmp_path / f"before{suffix}", tmp_path / f"after{suffix}"
    played = round_of(network, lr=0.5, loss=loss)
    sent = {name: value.clone() for name, value in network.state_dict().items()}
    saved(before, sent)
    saved(after, {name: value - 0.5 * played.update[name] for name, value in sent.items()})
    with pytest.raises(UserError, match="--model and --batch are missing"):
        audited(before, network, returned=str(after))
    found, _ = audited(before, network, returned=str(after), batch=4)
    assert found.exposed() == found.records == 4
    saved(after, {name: value.half().float() for name, value in sent.items()})
    found, _ = audited(before, network, returned=str(after), batch=4)
    assert any("rounded to float16" in sentence for sentence in found.assumptions)


@pytest.mark.parametrize("kind", ["object", "text", "other names", "large"])
def test_a_file_that_is_no_state_is_refused_and_nothing_of_it_is_run(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audited: Audits
) -> None:
    network, path = mlp(20), tmp_path / "odd.pt"
    monkeypatch.chdir(tmp_path)
    contents = {"object": Leaves(), "other names": {"a": torch.ones(2)}, "large": {"a": torch.ones(1 << 20)}}
    path.write_text("hello") if kind == "text" else torch.save(contents[kind], path)
    saved(tmp_path / "before.pt", network.state_dict())
    with pytest.raises(UserError, match=r"odd\.pt: "):
        audited(tmp_path / "before.pt", network, returned=str(path), batch=1)
    assert not Path("was-run").exists()


class Older:
    """A strategy of `flwr.server.strategy` with one client, as far as a recorder sees it."""

    def __init__(self, back: list[np.ndarray]) -> None:
        self.client, self.back = SimpleNamespace(cid="ipv4:1"), back

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> Any:
        return [(self.client, SimpleNamespace(parameters=parameters, config={"lr": 0.5}))]

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        return packed(self.back), {}


def packed(arrays: list[np.ndarray]) -> Any:
    buffers = [io.BytesIO() for _ in arrays]
    for buffer, array in zip(buffers, arrays, strict=True):
        np.save(buffer, array)
    return SimpleNamespace(tensors=[buffer.getvalue() for buffer in buffers])


def test_rounds_of_an_older_strategy_are_recorded_and_audited(tmp_path: Path, audited: Audits) -> None:
    network = mlp(400).insert(2, nn.BatchNorm1d(400).eval())  # type: ignore[operator]
    played = round_of(network, lr=0.5)
    sent = network.state_dict()
    back = [(v - 0.5 * played.update[n] if n in played.update else v).numpy() for n, v in sent.items()]
    strategy = record(Older(back), tmp_path)
    ((client, asked),) = strategy.configure_fit(1, packed([v.numpy() for v in sent.values()]), None)
    reply = SimpleNamespace(parameters=packed(back), num_examples=4)
    assert strategy.aggregate_fit(1, [(client, reply)], [])[1] == {}
    found, _ = audited(tmp_path, network, lr=asked.config["lr"])
    assert found.exposed() == found.records == 4
