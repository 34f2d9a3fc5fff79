"""Weights that a user puts into LEAKBENCH_DATA become a victim, or are refused in one line."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from leakbench.base.artefacts import open_tensors, read_facts, write_tensors
from leakbench.base.errors import UserError
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.spec import spec_of
from leakbench.datasets import fetch
from leakbench.jobs.train import train
from leakbench.networks import victims
from leakbench.networks.victims.file import load_victim

ROOT = Path(__file__).resolve().parents[3]
SIZES = {"width": 16, "heads": 2, "blocks": 3}
PREFIX = {"gpt2": "transformer.", "bert": "bert."}


def theirs(folder: Path, like: str, **config: Any) -> dict[str, torch.Tensor]:
    """Save a network of 30 tokens and 9 places as transformers does, and return its weights."""
    pytest.importorskip("peft")
    torch.manual_seed(3)
    trunk = victims.build("published", (1, 10, 1), 30, {"like": like} | SIZES).trunk
    state = {name: value.clone() for name, value in trunk.state_dict().items()}
    (folder / like).mkdir()
    save_file(
        {PREFIX[like] + name: value for name, value in state.items()}, folder / like / "model.safetensors"
    )
    heads = {"n_head" if like == "gpt2" else "num_attention_heads": 2}
    (folder / like / "config.json").write_text(json.dumps(heads | config), "utf-8")
    return state


def victim(folder: Path, like: str, **parameters: Any) -> Path:
    """Fetch the weights and train the victim of 20 tokens and 5 places that has them."""
    weights, data, out = (folder / f"{name}.safetensors" for name in ("weights", "data", "out"))
    entry = {"name": f"{like}-weights"} | load_kind(ROOT / "config", "datasets")[
        f"{like}-weights"
    ].model_dump()
    fetch(entry, weights, [folder], folder)
    write_tensors(data, {"test/images": np.zeros((2, 1, 6, 1), np.float32)}, {})
    own = {
        "module": "published",
        "parameters": {"like": like, **SIZES, "blocks": 2, "tied": True} | parameters,
    }
    value = {"victim": own | {"training": None, "weights": f"{like}-weights"}, "seed": 0}
    value["dataset"] = {"name": "made", "shape": [1, 6, 1], "classes": 20}
    train(spec_of("train", value, "spec.json"), data, out, None, None, folder, further=[weights])
    return out


@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("like", ["gpt2", "bert"])
def test_the_victim_has_the_weights_of_the_folder(like: str, rank: int, tmp_path: Path) -> None:
    state = theirs(tmp_path, like)
    model, _ = load_victim(victim(tmp_path, like, rank=rank))
    own = {n.replace(".base_layer", ""): v for n, v in model.trunk.state_dict().items() if "lora_" not in n}  # type: ignore[union-attr, operator]
    assert own
    for name, value in own.items():
        assert torch.equal(value, state[name][: len(value)]), name


def test_a_victim_without_its_weights_is_absent(tmp_path: Path) -> None:
    facts = read_facts(victim(tmp_path, "gpt2"))
    assert "put model.safetensors and config.json of a GPT-2 in gpt2" in facts["absent"]


@pytest.mark.parametrize(
    ("spoil", "parameters", "says"),
    [("", {"width": 32}, r"wte.weight is \(20, 16\), the victim's \(20, 32\)"),
     ("", {"blocks": 4}, r"no h\.3\."), ("", {"heads": 4}, "2 heads, the victim 4"),
     ("config.json", {}, "no such file"), ("model.safetensors", {}, "cut short or altered")],
)  # fmt: skip
def test_unfit_weights_are_refused(spoil: str, parameters: dict[str, Any], says: str, tmp_path: Path) -> None:
    theirs(tmp_path, "gpt2")
    if spoil == "config.json":
        (tmp_path / "gpt2" / spoil).unlink()
    elif spoil:
        (tmp_path / "gpt2" / spoil).write_bytes(b"x" * 100)
    with pytest.raises(UserError, match=says) as refused:
        victim(tmp_path, "gpt2", **parameters)
    assert "\n" not in str(refused.value)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2/pytorch_model.bin").write_bytes(pickle.dumps({}))
    with pytest.raises(UserError, match="because no pickle is read"):
        victim(tmp_path, "gpt2")


def test_weights_of_fewer_tokens_than_the_data_are_refused(tmp_path: Path) -> None:
    theirs(tmp_path, "gpt2")
    file = tmp_path / "gpt2/model.safetensors"
    weights = {name: torch.from_numpy(v.copy()) for name, v in open_tensors(file)[0].items()}
    weights["transformer.wte.weight"] = weights["transformer.wte.weight"][:10].clone()
    save_file(weights, file)
    with pytest.raises(UserError, match=r"\(10, 16\), the victim's \(20, 16\)"):
        victim(tmp_path, "gpt2")
