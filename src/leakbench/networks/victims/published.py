"""GPT-2 and BERT as the packages transformers and peft build them (extra `text`), with weights drawn here."""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import linear

from leakbench.base.errors import Unfit, UserError
from leakbench.networks.layers import freeze, tokens
from leakbench.networks.victims.encoder import certain
from leakbench.networks.victims.transformer import Transformer, raise_unless_adapted, raise_unless_sized

READS = "tokens"
COST = {"operations": "width * (24 * blocks * width + 4096) / 1e6 * tokens", "dense": True,
        "weights": "width * (12 * blocks * width + 2048) / 1e6 + 2048 * width / 1e6",
        "layers": "8 * blocks + 2"}  # fmt: skip
# Their names → those of our transformer, replaced one after the other.
_BOTH = {".base_layer": "", ".lora_A.default.weight": ".down", ".lora_B.default.weight": ".up"}
_NAMES = {
    "gpt2": _BOTH | {
        "trunk.h.": "blocks.", "trunk.wte": "embedding", "trunk.wpe": "position", "trunk.ln_f": "norm",
        "ln_1": "norm1", "ln_2": "norm2", "attn.c_proj": "mix", "mlp.c_fc": "wide", "mlp.c_proj": "narrow",
    },
    "bert": _BOTH | {
        "trunk.encoder.layer.": "blocks.", "trunk.embeddings.LayerNorm": "norm",
        "trunk.embeddings.word_embeddings": "embedding", "trunk.embeddings.position_embeddings": "position",
        "attention.output.LayerNorm": "norm1", "attention.output.dense": "mix", "attention.self.": "",
        "intermediate.dense": "wide", "output.LayerNorm": "norm2", "output.dense": "narrow",
    },
}  # fmt: skip
# The one layer of GPT-2 for query, key and value, and BERT's vector for the kind of each token.
_JOINT, _KIND = "attn.c_attn", "trunk.embeddings.token_type_embeddings.weight"
_TURNED = ("mix.weight", "wide.weight", "narrow.weight", f"{_JOINT}.weight")


class Published(nn.Module):
    """A trunk of transformers behind a head: it reads and returns what `Transformer` or `Encoder` does."""

    def __init__(self, trunk: nn.Module, like: str, sizes: Mapping[str, int], *, tied: bool) -> None:
        super().__init__()
        self.trunk, self.like, self.sizes = trunk, like, sizes
        self.head = None if tied else nn.Linear(sizes["width"], sizes["vocabulary"], bias=False)
        if self.head is not None:
            nn.init.normal_(self.head.weight, 0.0, 0.02)

    def forward(self, x: Tensor) -> Tensor:
        weight = (self.head or self.trunk.get_input_embeddings()).weight  # type: ignore[operator]
        states = self.trunk(tokens(x, len(weight))[:, :-1]).last_hidden_state
        return linear(states, weight).transpose(1, 2) if self.like == "gpt2" else certain(states, weight, x)

    def adopt(self, tensors: Mapping[str, np.ndarray], source: str) -> None:
        """Take a user's weights (`datasets.checkpoint`), those of the first blocks, tokens and places.

        Raises UserError, which begins with their `source`, where they do not fit.
        """
        mend = (
            "put others there, or set the width, blocks and heads of the victim to those of its config.json"
        )
        if tensors["heads"] != self.sizes["heads"]:
            own = self.sizes["heads"]
            raise UserError(f"{source}: it has {int(tensors['heads'][0])} heads, the victim {own} ({mend})")
        for name, own in self.trunk.state_dict().items():
            theirs = name.replace(".base_layer", "")
            if "lora_" in name:
                continue
            if theirs not in tensors:
                raise UserError(f"{source}: it has no {theirs}, and the victim has one ({mend})")
            given = tensors[theirs]
            if theirs.endswith(("embeddings.weight", "wte.weight", "wpe.weight")):
                given = given[: len(own)]
            if given.shape != own.shape:
                shapes = f"{given.shape}, the victim's {tuple(own.shape)}"
                raise UserError(f"{source}: its {theirs} is {shapes} ({mend})")
            own.copy_(torch.from_numpy(given.copy()))

    def twin(self) -> Transformer:
        """Return our transformer of the same mathematics and weights, which attacks read block by block."""
        state = self.renamed({name: value.numpy() for name, value in self.state_dict().items()})
        if self.like == "bert":
            state["position.weight"] = state["position.weight"] + state.pop(_KIND)[:1]
        twin = Transformer(**self.sizes, tied=self.head is None, causal=self.like == "gpt2", like=self.like)
        for layer in twin.modules():
            if isinstance(layer, nn.LayerNorm) and self.like == "bert":
                layer.eps = self.trunk.config.layer_norm_eps  # type: ignore[union-attr, assignment]
        for name in twin.state_dict().keys() - state.keys():
            # The adapters of GPT-2's query, key and value have one A.
            state[name] = state[name.replace("query", "value").replace("key", "value")]
        twin.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in state.items()})
        return twin.eval()

    def renamed(self, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return weights or updates [..., *shape] by the names of our transformer, in its shapes."""
        out: dict[str, np.ndarray] = {}
        for name, value in tensors.items():
            for theirs, ours in _NAMES[self.like].items():
                name = name.replace(theirs, ours)
            # Conv1D, the dense layer of their GPT-2, keeps its matrix transposed.
            if self.like == "gpt2" and name.endswith(_TURNED):
                value = value[:].swapaxes(-1, -2)
            if _JOINT not in name:
                out[name] = value[:]
            elif name.endswith("down"):
                out[name.replace(_JOINT, "value")] = value[:]
            else:
                parts = np.split(value[:], 3, -1 if name.endswith("bias") else -2)
                for layer, part in zip(("query", "key", "value"), parts, strict=True):
                    out[name.replace(_JOINT, layer)] = part
        return out


def published(
    shape: tuple[int, int, int],
    classes: int,
    *,
    like: Literal["gpt2", "bert"],
    width: Annotated[int, Field(gt=0)] = 256,
    blocks: Annotated[int, Field(gt=0)] = 2,
    heads: Annotated[int, Field(gt=0)] = 4,
    tied: bool = False,
    rank: Annotated[int, Field(ge=0)] = 0,
    down: bool = True,
) -> nn.Module:
    """Return a GPT-2 or a BERT of a configuration, without dropout.

    A BERT predicts the last token of a sentence from the mean of all places.

    like: `gpt2` or `bert`.
    width: the length of a token's vector; a multiple of `heads`.
    blocks: the number of blocks.
    heads: the number of heads of each attention.
    tied: whether the head's weights are those of the embedding, as in the GPT-2 that was published.
    rank: the rank of peft's LoRA on the query and the value of each block; in GPT-2 also on the key, as they
    are one layer. Clients then train it alone. With 0 there is none.
    down: whether clients train the matrices A too; without it only the matrices B (FFA-LoRA).

    Raises Unfit without these packages.
    """
    raise_unless_sized(shape, width, heads)
    raise_unless_adapted(rank, changed=not down)
    try:
        import peft
        import transformers
    except ImportError as lacking:
        raise Unfit(f"victim: {lacking.name} is not installed (install leakbench[text])") from lacking
    both = {"vocab_size": classes, "attn_implementation": "eager", "use_cache": False}
    trunk: nn.Module
    if like == "gpt2":
        off = {
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
            "bos_token_id": None,
            "eos_token_id": None,
        }
        own = {"n_positions": shape[1] - 1, "n_embd": width, "n_layer": blocks, "n_head": heads}
        trunk = transformers.GPT2Model(transformers.GPT2Config(**both, **own, **off))
    else:
        off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        own = {"hidden_size": width, "num_hidden_layers": blocks, "num_attention_heads": heads}
        own |= {"max_position_embeddings": shape[1] - 1, "intermediate_size": 4 * width}
        trunk = transformers.BertModel(transformers.BertConfig(**both, **own, **off), add_pooling_layer=False)
    if rank:
        targets = ["c_attn"] if like == "gpt2" else ["query", "value"]
        lora = peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=targets, fan_in_fan_out=like == "gpt2")
        peft.inject_adapter_in_model(lora, trunk)
    sizes = {"length": shape[1], "vocabulary": classes, "width": width, "blocks": blocks, "heads": heads}
    network = Published(trunk, like, sizes | {"rank": rank}, tied=tied)
    if rank:
        freeze(network, ("lora_A", "lora_B") if down else ("lora_B",))
    return network
