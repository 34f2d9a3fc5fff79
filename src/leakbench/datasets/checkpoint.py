"""The weights of a GPT-2 or a BERT that a user has, as the package transformers saves them."""

import json
from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Damaged, Found, parsing, present

# The number of heads, which no weight shows, is kept beside the weights under this name.
HEADS = "heads"
_SIZES = "n_head", "num_attention_heads"
# What old files call the two parts of a norm.
_OLD = {".gamma": ".weight", ".beta": ".bias"}


def checkpoint(folder: Path) -> Found:
    """Read all files *.safetensors and config.json of a folder, float32 under the names of transformers.

    Raises Damaged for a file that is malformed or missing, and for pickles, which are never opened.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        other = next((file for file in sorted(folder.iterdir()) if file.name != "config.json"), folder)
        raise Damaged(
            other, "no weights that can be opened safely", "", "model.safetensors, because no pickle is read"
        )
    config = present(folder / "config.json")
    with parsing(config, "a configuration of transformers"):
        given = json.loads(config.read_text("utf-8"))
        heads = next(int(given[name]) for name in _SIZES if name in given)
    tensors, of = {HEADS: np.array([heads], np.float32)}, {HEADS: config}
    for file in files:
        with parsing(file, "a file of safetensors"):
            from safetensors.torch import load_file

            for name, value in load_file(file).items():
                own = name.removeprefix("transformer.").removeprefix("bert.")
                for old, new in _OLD.items():
                    own = own.removesuffix(old) + new if own.endswith(old) else own
                tensors[own], of[own] = value.float().numpy(), file
    return Found(tensors, of, [])
