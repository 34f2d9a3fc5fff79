"""A small encoder, built like BERT: each token sees all others, and the sentence gives one prediction."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import linear

from leakbench.networks.layers import tokens
from leakbench.networks.victims.transformer import Transformer, raise_unless_sized

READS = "tokens"
COST = {"operations": "width * (24 * blocks * width + 4096) / 1e6 * tokens", "dense": True,
        "weights": "width * (12 * blocks * width + 2048) / 1e6 + 2048 * width / 1e6",
        "layers": "8 * blocks + 2"}  # fmt: skip
# The logit of a token that the network reads: a softmax in single precision gives it all of the probability.
SURE = 1e3


class Encoder(Transformer):
    """Tokens of sentences to logits of the last token, which no layer reads, from the mean of all places."""

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [n, vocabulary, length - 1]. Tokens that it reads are certain, without loss."""
        return certain(*self.read(x), x)


def certain(states: Tensor, weight: Tensor, x: Tensor) -> Tensor:
    """Return the logits of `Encoder` from its states [n, length - 1, width] and its head's weights."""
    last = linear(states.mean(1), weight)[..., None]
    known = tokens(x, len(weight))[:, None, 1:-1] == torch.arange(len(weight), device=x.device)[:, None]
    return torch.cat([SURE * known, last], 2)


def encoder(
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: Annotated[int, Field(gt=0)] = 256,
    blocks: Annotated[int, Field(gt=0)] = 2,
    heads: Annotated[int, Field(gt=0)] = 4,
) -> nn.Module:
    """Return an encoder of `blocks` layers of attention, whose norms stand before the layers.

    width: the length of a token's vector; a multiple of `heads`.
    blocks: the number of blocks.
    heads: the number of heads of each attention.
    """
    raise_unless_sized(shape, width, heads)
    return Encoder(shape[1], classes, width, blocks, heads, 0, tied=False, causal=False)
