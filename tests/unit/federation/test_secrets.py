"""A defence with secrets: what leaves a client, what stays, what moves; and the chance of clients."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_play import network, run, settings
from torch import Tensor

from leakbench import defences
from leakbench.base.artefacts import read_tensors, write_tensors
from leakbench.base.errors import Unfit
from leakbench.base.seeds import stream
from leakbench.catalogue.spec import spec_of
from leakbench.federation import Private, generator, play
from leakbench.jobs.capture import capture
from leakbench.networks import victims
from leakbench.observations.reading import read_observation

SHAPE, CLASSES, LENGTH = (8, 8, 1), 4, 5
NETWORK: dict[str, Any] = {"module": "lenet-dlg", "parameters": {"norm": "batch"}}
SECRET = {f"norm1.{name}" for name in ("key", "scale.weight", "scale.bias", "shift.weight", "shift.bias")}
FEDERATION: dict[str, Any] = {
    "clients": [1, 2], "rounds": 3, "private": {"split": "test", "start": 0, "stop": 20},
    "local": {"lr": 0.5, "batch_size": None, "epochs": 1}, "update": "gradient", "server": "frozen",
    "local_set": "fixed", "distinct_labels": False, "passes": 1, "checkpoints": "last", "keep": True,
    "evaluate": None,
}  # fmt: skip
IMAGES = np.random.default_rng(0).integers(0, 256, (20, *SHAPE), dtype=np.uint8)
LABELS = np.random.default_rng(1).integers(0, CLASSES, 20)


def played(
    server: str, shares: list[str]
) -> tuple[dict[str, Tensor], dict[str, Tensor], list[dict[str, Tensor]]]:
    """Return updates and what is shown by name [rounds, clients, …], and the models that were sent out."""
    torch.manual_seed(0)
    model = victims.build(NETWORK["module"], SHAPE, CLASSES, NETWORK["parameters"])
    index = [np.repeat(np.arange(k)[None], 3, 0) for k in FEDERATION["clients"]]
    told: tuple[dict[str, Any], dict[str, Any]] = {}, {}

    def note(kind: int) -> Any:
        def sink(part: slice, client: int, values: dict[str, Tensor]) -> None:
            for name, value in values.items():
                # Batches of clients differ in no shape of an update.
                told[kind].setdefault(name, torch.zeros(3, 2, *value.shape[1:]))[part, client] = value

        return sink

    defence = defences.build("key-lock", {"key_length": LENGTH, "activation": "sigmoid", "shares": shares})
    sent = play(
        model, [model.state_dict()], torch.from_numpy(IMAGES), Private(index, [LABELS[i] for i in index]),
        FEDERATION | {"server": server}, defence, 0, note(0), show=note(1),
    )  # fmt: skip
    return *told, sent


@pytest.mark.parametrize("server", ["frozen", "fedavg"])
def test_nothing_of_a_lock_is_sent(server: str) -> None:
    updates, shown, sent = played(server, [])
    assert not shown
    assert all(name not in SECRET for name in updates)
    assert all(set(weights).isdisjoint(SECRET | {"norm1.weight", "norm1.bias"}) for weights in sent)
    assert "conv1.weight" in updates
    assert updates["dense.weight"].abs().sum() > 0
    # Clients have locks of their own, which stand still before a frozen server.
    _, shown, _ = played("frozen", ["key", "lock-weights"])
    assert set(shown) == SECRET
    for value in shown.values():
        assert not torch.equal(value[0, 0], value[0, 1])
        assert torch.equal(value[0], value[2])


def test_a_lock_layer_moves_by_its_own_clients_gradients_alone() -> None:
    updates, shown, _ = played("fedavg", ["key", "lock-weights", "lock-gradients"])
    for name in SECRET - {"norm1.key"}:
        assert torch.allclose(shown[name][1], shown[name][0] - 0.5 * updates[name][0], atol=1e-6)
        assert not torch.equal(shown[name][0], shown[name][1])
    assert torch.equal(shown["norm1.key"][0], shown["norm1.key"][2])


def captured(root: Path, shares: list[str], network: dict[str, Any] = NETWORK) -> Path:
    write_tensors(root / "data.safetensors", {"test/images": IMAGES, "test/labels": LABELS}, {})
    torch.manual_seed(0)
    state = victims.build(network["module"], SHAPE, CLASSES, network["parameters"]).state_dict()
    write_tensors(
        root / "victim.safetensors",
        {f"epoch-0/{name}": value.numpy() for name, value in state.items()},
        {"network": network | {"shape": list(SHAPE), "classes": CLASSES}, "checkpoints": [0]},
    )
    lock = {"module": "key-lock", "parameters": {"key_length": LENGTH, "shares": shares}}
    spec = {
        "federation": FEDERATION, "federation_name": "f", "victim": network, "seed": 0, "salt": 32 * "0",
        "defence": lock,
        "dataset": {"name": "made", "shape": list(SHAPE), "classes": CLASSES},
    }  # fmt: skip
    asked: Any = spec_of("capture", spec, "spec.json")
    outs = [root / f"{name}.safetensors" for name in ("capture", "oracle", "truth")]
    capture(asked, root / "data.safetensors", root / "victim.safetensors", *outs, None)
    return outs[0]


def test_a_capture_under_the_lock_holds_no_secret(tmp_path: Path) -> None:
    file = captured(tmp_path, [])
    tensors, facts = read_tensors(file)
    assert not [name for name in tensors if name.split("/", 1)[-1] in SECRET]
    assert not [name for name in tensors if name.endswith(("norm1.weight", "norm1.bias"))]
    about = {"key_length": LENGTH, "activation": "relu"}
    assert facts["hidden"] == {"layers": ["norm1"], "about": about, "shown": [], "sent": []}
    observation, _ = read_observation(file)
    assert not observation.shown
    words = observation.in_words()
    assert (words["secret"], words["defence"]) == ("weight and bias of norm1", "key-lock")
    assert "shared of the secret" not in words


@pytest.mark.parametrize(
    ("shares", "more"),
    [(["key"], {"shown/norm1.key"}),
     (["lock-gradients"], {f"updates/{name}" for name in SECRET - {"norm1.key"}}),
     (["lock-weights"], {f"shown/{name}" for name in SECRET - {"norm1.key"}})],
)  # fmt: skip
def test_what_is_shared_has_names_of_its_own(tmp_path: Path, shares: list[str], more: set[str]) -> None:
    file = captured(tmp_path, shares)
    tensors, facts = read_tensors(file)
    assert {name for name in tensors if name.split("/", 1)[-1] in SECRET} == more
    places = {"shown": "shown", "sent": "updates"}
    assert {f"{place}/{n}" for key, place in places.items() for n in facts["hidden"][key]} == more
    seen, _ = read_observation(file)
    assert "norm1." in seen.in_words()["shared of the secret"]
    for name, value in seen.updates.items():
        assert np.array_equal(value, tensors[f"updates/{name}"])
    # Arrays of an observation know no file.
    for array in (*seen.updates.values(), *seen.weights.values(), *seen.shown.values()):
        while array is not None:
            assert not hasattr(array, "filename")
            array = getattr(array, "base", None)


@pytest.mark.parametrize(("statistics", "mode"), [("running", "eval"), ("batch", "train")])
def test_the_mode_is_that_of_the_norms(tmp_path: Path, statistics: str, mode: str) -> None:
    """A norm that keeps no statistics goes by the batch even where the clients call model.eval()."""
    network = NETWORK | {"parameters": NETWORK["parameters"] | {"statistics": statistics}}
    facts = read_tensors(captured(tmp_path, [], network))[1]
    assert (facts["mode"], facts["dropout"]) == (mode, False)
    # A victim without batch norm marks the cell.
    file = captured(tmp_path, [], {"module": "lenet-dlg", "parameters": {}})
    assert "no batch norm behind its first convolution" in read_tensors(file)[1]["absent"]


def altered(file: Path, change: dict[str, np.ndarray], **hidden: Any) -> Path:
    tensors, facts = read_tensors(file)
    out = file.with_name("altered.safetensors")
    write_tensors(out, dict(tensors) | change, facts | {"hidden": facts["hidden"] | hidden})
    return out


def test_an_undeclared_lock_layer_or_a_key_of_other_rounds_is_refused_in_one_line(tmp_path: Path) -> None:
    file = captured(tmp_path, ["key"])
    layer = np.zeros((3, 2, 12, LENGTH), np.float32)
    for where in ("updates", "global", "shown"):
        with pytest.raises(Unfit, match=f"{where}/norm1.scale.weight belongs to no layer"):
            read_observation(altered(file, {f"{where}/norm1.scale.weight": layer}))
    short = {"shown/norm1.key": np.zeros((2, 2, LENGTH), np.float32)}
    with pytest.raises(Unfit, match=r"shown/norm1.key is .*not float32 of 3 rounds and 2 clients"):
        read_observation(altered(file, short))
    with pytest.raises(Unfit, match=r"shown/norm1.scale.weight is missing .*declares"):
        read_observation(altered(file, {}, shown=["norm1.key", "norm1.scale.weight"]))


def test_torch_keeps_32_bits_of_a_seed_and_the_clients_generators_keep_all() -> None:
    """The first line is why they are needed: were it to fail, `manual_seed` would do."""
    small, large = (torch.Generator().manual_seed(seed) for seed in (5, 5 + 2**32))
    assert torch.equal(torch.rand(9, generator=small), torch.rand(9, generator=large))
    one, same, other = (torch.rand(9, generator=generator("local", seed)) for seed in (5, 5, 5 + 2**32))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert generator("a").initial_seed() == generator("b").initial_seed()


def test_the_whole_state_is_where_torch_has_it() -> None:
    """NumPy's MT19937 with the same 624 words gives the same numbers."""
    rng = generator("a name", 3)
    words = rng.get_state().numpy()[24 : 24 + 8 * 624].view(np.uint64).astype(np.uint32)
    assert len(set(words.tolist())) > 600
    twin = np.random.MT19937()
    twin.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": 624}}
    drawn = torch.randint(0, 2**20, (2000,), generator=rng).numpy()
    assert np.array_equal(drawn, twin.random_raw(2000) & (2**20 - 1))


SALT, SCALE = "5a17" * 16, 0.1


def unnoise(updates: dict[str, Tensor], *names: str | int) -> dict[str, Tensor]:
    """A cheat: draw a client's noise again from the names of its stream, and take it off."""
    rng = generator("defence", stream("capture", *names))
    found = {name: value.clone() for name, value in updates.items()}
    for turn in range(len(next(iter(found.values())))):
        for value in found.values():
            value[turn] -= SCALE * torch.randn(value[turn].shape, generator=rng)
    return found


def test_noise_is_taken_off_by_whoever_has_the_salt_and_by_nobody_else() -> None:
    names = ("made", "federation", 0)
    federation, (_, weights) = settings(clients=[2]), network()
    plain, _, _ = run(federation, [weights])
    gaussian = defences.build("gaussian", {"scale": SCALE})
    noisy, _, _ = run(federation, [weights], defence=gaussian, seed=stream("capture", *names, SALT))
    known, guessed = (unnoise(noisy, *names, *salt) for salt in ((SALT,), ()))
    for name, value in plain.items():
        torch.testing.assert_close(known[name], value, rtol=0, atol=1e-6)
    off = torch.cat([(guessed[name] - value).flatten() for name, value in plain.items()])
    # Noise on noise: the cheat without the salt makes it worse by the root of two.
    assert off.std().item() == pytest.approx(SCALE * 2**0.5, rel=0.1)
