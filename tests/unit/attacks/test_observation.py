"""What the server saw: the null observation, and files that do not say what they should."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from observations import observe
from torch import nn

from leakbench.attacks.fidel import fidel
from leakbench.base.artefacts import write_tensors
from leakbench.base.errors import UserError
from leakbench.metrics.pearson import THRESHOLD, pearson_matrix
from leakbench.networks import generators
from leakbench.observations.observation import Observation
from leakbench.observations.reading import read_observation
from leakbench.observations.threat_model import ThreatModel

Tensors = dict[str, np.ndarray]


def test_the_null_observation_keeps_each_tensors_spread() -> None:
    observation, _ = observe(k=3, rounds=4)
    observation.updates["dense2.bias"][1] = 0
    null, again, other = (observation.randomised(3, torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    assert (null.rounds, observation.rounds) == (3, 4)
    for name, noise in null.updates.items():
        true = observation.updates[name][:3]
        assert noise.shape == true.shape
        assert noise.dtype == np.float32
        ratio = [n.std() / t.std() for n, t in zip(noise[[0, 2]], true[[0, 2]], strict=True)]
        assert ratio == pytest.approx([1, 1], abs=5 / np.sqrt(2 * true[0].size))
        assert not np.array_equal(noise, true)
        assert np.array_equal(noise, again.updates[name])
        assert not np.array_equal(noise, other.updates[name]) or not noise.any()
    assert not null.updates["dense2.bias"][1].any()
    assert null.weights is observation.weights


def test_the_null_observation_reveals_nothing() -> None:
    observation, images = observe(k=5, rounds=2)
    true, null = (
        fidel(observation, torch.Generator()),
        fidel(observation.randomised(2, torch.Generator().manual_seed(1)), torch.Generator()),
    )
    pixels = images.flatten(2).numpy()
    found = [pearson_matrix(r.images[:, 0].flatten(2).numpy(), pixels).max() for r in (true, null)]
    assert found[0] >= THRESHOLD
    # 128 neurons and five samples of 784 independent pixels: chance stays below 6 / 28.
    assert abs(found[1]) < 6 / 28


def test_each_sent_model_can_be_rebuilt() -> None:
    observation, _ = observe("fcnn", (4, 4, 1))
    weights = {n: np.concatenate([v, v + 1]) for n, v in observation.weights.items()}
    both = replace(observation, weights=weights)
    for origin in (0, 1):
        model = both.model(origin)
        assert not model.training
        for name, value in model.named_parameters():
            assert np.array_equal(value.detach(), weights[name][origin])


class Normed(nn.Sequential):
    """A victim with a batch norm, an instance norm, and dropout."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        norms = nn.BatchNorm2d(2), nn.InstanceNorm2d(2, affine=True, track_running_stats=True)
        super().__init__(
            nn.Conv2d(1, 2, 3), *norms, nn.Dropout(0.5), nn.Flatten(), nn.Linear(2 * 36, classes)
        )


def test_the_mode_says_what_norms_go_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "leakbench.networks.victims.normed", SimpleNamespace(normed=Normed))
    torch.manual_seed(0)
    victim, x = Normed((8, 8, 1), 3), torch.rand(4, 1, 8, 8)
    victim(x)
    weights = {name: value.numpy()[None].copy() for name, value in victim.state_dict().items()}
    network = {"module": "normed", "parameters": {}, "shape": [8, 8, 1], "classes": 3}
    seen = Observation(network, weights, {}, np.zeros(1, np.int64), [4], "gradient")
    assert torch.equal(seen.model()(x), victim.eval()(x))
    victim.train()
    victim[3].eval()
    found = replace(seen, mode="train").model()
    torch.testing.assert_close(found(x), victim(x))
    assert torch.equal(found(x), found(x))
    assert not torch.allclose(found(x), seen.model()(x), atol=1e-2)


def content(observation: Observation) -> tuple[Tensors, dict[str, Any]]:
    """Return tensors and facts of the file that this observation would be."""
    tensors = {f"global/{n}": v for n, v in observation.weights.items()}
    tensors |= {f"updates/{n}": v.copy() for n, v in observation.updates.items()}
    tensors["origin"] = observation.origin
    facts = {"network": observation.network, "clients": observation.clients, "kind": observation.kind}
    return tensors, facts | {"knows": {"labels_known": True}}


def test_a_whole_file_comes_back(tmp_path: Path) -> None:
    observation, _ = observe("fcnn", (4, 4, 1), k=2, rounds=3)
    tensors, facts = content(observation)
    write_tensors(tmp_path / "c.safetensors", tensors, facts)
    found, read = read_observation(tmp_path / "c.safetensors")
    assert read == facts
    knows = ThreatModel(labels_known=True, local_known=False)
    assert (found.clients, found.kind, found.knows, found.rounds) == ([2], "gradient", knows, 3)
    assert found.mode == "eval"
    for name, value in observation.updates.items():
        assert np.array_equal(found.updates[name], value)
        assert torch.equal(found.update(name, slice(1, 2)), torch.from_numpy(value[1:2]))
    assert set(found.updates) == set(found.weights) == set(observation.weights)
    # The models that rounds start from may be numbered by bytes.
    numbered = tensors | {"origin": tensors["origin"].astype(np.uint8)}
    write_tensors(tmp_path / "other.safetensors", numbered, facts | {"mode": "train"})
    other = read_observation(tmp_path / "other.safetensors")[0]
    assert (other.mode, other.origin.tolist()) == ("train", [0, 0, 0])


def test_the_words_follow_from_the_fields() -> None:
    observation, _ = observe("fcnn", (4, 4, 1))
    words = observation.in_words()
    assert words["threat model"] == "honest-but-curious server"
    assert (words["labels"], words["defence"], words["buffers"]) == ("unknown", "none", "none")
    assert not {"local set", "secret", "dropout", "source"} & set(words)
    knows = ThreatModel(observer="colluding", defence="clip", local_set_repeats=True, local_known=False)
    hidden = {"layers": ["norm1"], "shown": ["norm1.key"], "sent": [], "about": {}}
    words = replace(observation, knows=knows, hidden=hidden, dropout=True).in_words()
    assert words["threat model"] == "server and client that collude"
    assert (words["defence"], words["local training"]) == ("clip", "unknown")
    assert words["local set"] == "the same every round"
    assert (words["secret"], words["shared of the secret"]) == ("weight and bias of norm1", "norm1.key")


Change = Callable[[Tensors, dict[str, Any]], object]


def drop(name: str) -> Change:
    return lambda tensors, facts: (tensors.pop(name, None), facts.pop(name, None))


def put(name: str, value: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda tensors, _: tensors.update({name: value(tensors[name])})


def say(**facts: Any) -> Change:
    return lambda _, own: own.update(facts)


def spoil(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[-1] = value
        return array

    return change


def network(**changes: Any) -> Change:
    """Change the network's facts; one that is None is left out."""

    def change(_: Tensors, facts: dict[str, Any]) -> None:
        facts["network"] = {k: v for k, v in (facts["network"] | changes).items() if v is not None}

    return change


MALFORMED: list[tuple[Change, str]] = [
    *((drop(name), f"{name} is missing") for name in ("updates/dense1.weight", "global/dense2.bias")),
    *((drop(name), f"'{name}' is missing") for name in ("origin", "network", "clients", "kind")),
    (put("updates/dense1.weight", lambda a: a[..., :-1]),
     r"updates/dense1.weight is float32 \(128, 15\), the victim has float32 \(128, 16\)"),
    (put("updates/dense1.bias", lambda a: a[0]), "updates/dense1.bias is float32"),
    (put("updates/dense1.bias", lambda a: a.astype(np.float64)), "updates/dense1.bias is float64"),
    (put("updates/dense4.bias", spoil(np.nan)), "updates/dense4.bias holds NaN or Inf"),
    (put("updates/dense4.weight", spoil(-np.inf)), "updates/dense4.weight holds NaN or Inf"),
    (put("global/dense1.bias", lambda a: a[:, :-1]), r"global/dense1.bias is float32 \(127,\)"),
    (put("global/dense1.bias", spoil(np.nan)), "global/dense1.bias holds NaN or Inf"),
    (put("updates/dense3.bias", lambda a: a[:-1]), r"updates/dense3.bias has \(2, 1\) rounds"),
    (put("origin", lambda a: a + 4), "has 1 models, origin names 5"),
    (put("origin", lambda a: a - 1), "origin is int64"),
    (put("origin", lambda a: a.astype(np.float32)), "origin is float32"),
    (say(mode="training"), "mode is not train or eval .*docs/observation.md"),
    # The threat model of an older file.
    (say(knows={"local set": "the same"}), "knows.'local set' is no field .*capture again"),
    (say(knows={"observer": "god"}), "server or client"),
    (say(knows={"labels_known": "unknown"}), "knows.labels_known is not true or"),
    (say(knows={"defence": "../x"}), "knows.defence is not the name of a defence"),
    (say(knows={"shared": "a\nb"}), "knows.shared is not a line"),
    (say(dropout="drawn"), "dropout is not true or false"),
    (say(hidden={"about": {}}), "'layers' is missing"),
    (lambda tensors, _: tensors.update({"updates/x": np.zeros((3, 1, 4), np.float32)}),
     "updates/x belongs to no layer of the victim"),
    # More than a machine's whole number.
    (say(local={"lr": 10**20, "batch_size": None, "epochs": 1}),
     "local.lr is not a number from 1e-30 to 100000"),
    (say(local={"lr": 0.1, "batch_size": None, "optimizer": "adam"}),
     "local.'optimizer' is no fact of local training .*docs/observation.md"),
    (network(module="no-such-network"), "network is not a victim"),
    (network(parameters={"depth": 3}), "network is not a victim"),
    (network(module=None), "network is not a victim .*module"),
    (network(shape=[4]), "network is not a victim"),
    (network(parameters={"activation": "gelu"}), "network is not a victim"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), MALFORMED)
def test_a_malformed_observation_is_refused_in_one_line(tmp_path: Path, change: Change, message: str) -> None:
    tensors, facts = content(observe("fcnn", (4, 4, 1), k=2, rounds=3)[0])
    change(tensors, facts)
    path = tmp_path / "made elsewhere.safetensors"
    write_tensors(path, tensors, facts)
    with pytest.raises(UserError, match=message) as refused:
        read_observation(path)
    assert str(refused.value).startswith(f"{path}: ")


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    with pytest.raises(UserError, match="no such file"):
        read_observation(path)
    path.write_bytes(b"\x80\x04pickle")
    with pytest.raises(UserError, match="not a whole safetensors file"):
        read_observation(path)


def test_a_generator_is_read_with_its_weights_or_refused(tmp_path: Path) -> None:
    observation, _ = observe("cnn")
    tensors, facts = content(observation)
    capture, path = tmp_path / "c.safetensors", tmp_path / "g.safetensors"
    write_tensors(capture, tensors, facts)
    generator = generators.build("fidel-mnist", (32, 13, 13), (28, 28, 1), {})
    made = {"module": "fidel-mnist", "features": [32, 13, 13], "parameters": {}}
    state = {name: value.numpy() for name, value in generator.state_dict().items()}
    write_tensors(path, state, made)
    found = read_observation(capture, path)[0].generator
    assert not found.training
    assert all(torch.equal(v, generator.state_dict()[n]) for n, v in found.state_dict().items())
    state.pop("dense.bias")
    for spoiled, about in ((state, made), (state, {}), (state, made | {"module": "gan"})):
        write_tensors(path, spoiled, about)
        with pytest.raises(UserError, match="not a generator") as refused:
            read_observation(capture, path)
        assert str(refused.value).startswith(f"{path}: ")
