"""A small transformer that predicts the next token of a sentence, built like GPT-2."""

from collections.abc import Callable
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from leakbench.base.errors import UserError
from leakbench.networks.layers import freeze, tokens

# Its data sets hold tokens (`labels: tokens`), and no other network reads those.
READS = "tokens"
# Its size (`catalogue.costs.Network`), if it knows 2,048 tokens. Rows of the embedding are looked up.
COST = {"operations": "width * (24 * blocks * width + 4096) / 1e6 * tokens", "dense": True,
        "weights": "width * (12 * blocks * width + 2048) / 1e6 + 2048 * width / 1e6",
        "layers": "8 * blocks + 2"}  # fmt: skip


class Adapted(nn.Linear):
    """A dense layer with a low-rank adapter: W x + b + B A x (LoRA, whose alpha is the rank).

    `down` is A [rank, inputs], and `up` is B [outputs, rank], zero at the start.
    """

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__(inputs, outputs)
        self.down = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5)
        self.up = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + linear(linear(x, self.down), self.up)


class TransformerBlock(nn.Module):
    """A layer of attention and two dense layers, each behind a norm and beside a shortcut.

    `causal`: whether a place sees no later one. `like`: `bert` has the norms behind the layers, and `gpt2`
    approximates GELU and has adapters on the key too.
    """

    def __init__(self, width: int, heads: int, rank: int, *, causal: bool = True, like: str = "") -> None:
        super().__init__()
        self.heads, self.causal, self.like = heads, causal, like
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        adapted = (lambda: Adapted(width, width, rank)) if rank else (lambda: nn.Linear(width, width))
        self.query, self.value = adapted(), adapted()
        self.key = adapted() if like == "gpt2" else nn.Linear(width, width)
        self.mix = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        q, k, v = (each.transpose(1, 2) for each in self._read(x))
        # Written out, because a vmapped gradient has no rule for torch's fused attention.
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        if self.causal:
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        seen = scores.softmax(3) @ v
        return self._behind(x, seen.transpose(1, 2).reshape(n, length, width))

    def after(self, begun: Tensor, x: Tensor) -> Tensor:
        """Return what becomes of x [m, width] behind each of `begun` [n, places, width], [n, m, width]."""
        places, width = begun.shape[1:]
        _, keys, values = self._read(begun)
        q, k, v = self._read(x)
        before = torch.einsum("mhs,nphs->nmhp", q, keys)
        own = (q * k).sum(2).expand(len(begun), -1, -1)
        share = (torch.cat([before, own[..., None]], 3) / (width // self.heads) ** 0.5).softmax(3)
        seen = torch.einsum("nmhp,nphs->nmhs", share[..., :places], values) + share[..., places:] * v
        return self._behind(x, seen.flatten(2))

    def amid(self, x: Tensor, others: Tensor) -> Callable[[Tensor], Tensor]:
        """Return what becomes of x [n, width], [n, width], as a function of the shares [n, m] that it sees of
        `others` [m, width].
        """
        q, _, _ = self._read(x)
        _, keys, values = self._read(others)
        own = (torch.einsum("nhs,mhs->nhm", q, keys) / q.shape[2] ** 0.5).softmax(2)

        def seen(shares: Tensor) -> Tensor:
            weight = own * shares[:, None]
            read = torch.einsum("nhm,mhs->nhs", weight / weight.sum(2, keepdim=True), values)
            return self._behind(x, read.flatten(1))

        return seen

    def reads(self, x: Tensor) -> Tensor:
        """Return what query, key and value read of x [..., width]."""
        out: Tensor = x if self.like == "bert" else self.norm1(x)
        return out

    def _read(self, x: Tensor) -> list[Tensor]:
        """Return query, key and value of x [..., width], each [..., heads, width / heads]."""
        read = self.reads(x)
        return [layer(read).unflatten(-1, (self.heads, -1)) for layer in (self.query, self.key, self.value)]

    def _behind(self, x: Tensor, seen: Tensor) -> Tensor:
        """Return what the rest of the block makes of what attention has seen."""
        x = x + self.mix(seen)
        x = self.norm1(x) if self.like == "bert" else x
        wide: Tensor = self.wide(x if self.like == "bert" else self.norm2(x))
        out: Tensor = x + self.narrow(gelu(wide, approximate="tanh" if self.like == "gpt2" else "none"))
        return self.norm2(out) if self.like == "bert" else out


class Transformer(nn.Module):
    """Tokens of sentences to logits of the token that follows each of them."""

    def __init__(
        self, length: int, vocabulary: int, width: int, blocks: int, heads: int, rank: int, *, tied: bool,
        causal: bool = True, like: str = "",
    ) -> None:  # fmt: skip
        super().__init__()
        self.causal, self.like = causal, like
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length - 1, width)
        self.blocks = nn.ModuleList(
            TransformerBlock(width, heads, rank, causal=causal, like=like) for _ in range(blocks)
        )
        self.norm = nn.LayerNorm(width)
        self.head = None if tied else nn.Linear(width, vocabulary, bias=False)
        for table in (self.embedding, self.position):
            nn.init.normal_(table.weight, 0.0, 0.02)

    def embedded(self, read: Tensor) -> Tensor:
        """Return what the first block reads of tokens int64 [n, length], [n, length, width]."""
        return self.at(read, torch.arange(read.shape[1], device=read.device))

    def at(self, read: Tensor, place: int | Tensor) -> Tensor:
        """Return what the first block reads of tokens int64 [n] that stand at a place, [n, width]."""
        out: Tensor = self.embedding(read) + self.position.weight[place]
        return self.norm(out) if self.like == "bert" else out

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [n, vocabulary, length - 1] of sentences [n, 1, 1, length] (`datasets.text`).

        The last token is only predicted, and no layer reads it.
        """
        x, weight = self.read(x)
        return linear(x, weight).transpose(1, 2)

    def begins(self, x: Tensor) -> Tensor:
        """Return what the first block reads of sentences, [n, length - 1, width]."""
        return self.embedded(tokens(x, self.embedding.num_embeddings)[:, :-1])

    def read(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the head reads at each place of sentences, and its weights [vocabulary, width]."""
        x = self.begins(x)
        for block in self.blocks:
            x = block(x)
        return x if self.like == "bert" else self.norm(x), (self.head or self.embedding).weight


def transformer(
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: Annotated[int, Field(gt=0)] = 256,
    blocks: Annotated[int, Field(gt=0)] = 2,
    heads: Annotated[int, Field(gt=0)] = 4,
    tied: bool = False,
    rank: Annotated[int, Field(ge=0)] = 0,
    down: bool = True,
    begun: bool = False,
) -> nn.Module:
    """Return a decoder of `blocks` layers of attention, whose norms stand before the layers.

    width: the length of a token's vector; a multiple of `heads`.
    blocks: the number of blocks.
    heads: the number of heads of each attention.
    tied: whether the head's weights are those of the embedding, as in GPT-2.
    rank: the rank of adapters on the query and the value of each block. Clients then train these alone, and
    all other weights are frozen. With 0 there are none, and clients train all weights.
    down: whether clients train the matrices A of the adapters too; without it only the matrices B (FFA-LoRA).
    begun: whether the adapters were trained together with the network before; else their B is zero.
    """
    raise_unless_sized(shape, width, heads)
    raise_unless_adapted(rank, changed=begun or not down)
    network = Transformer(shape[1], classes, width, blocks, heads, rank, tied=tied)
    if rank:
        freeze(network, ("up", "down") if down else ("up",), begun=begun)
    return network


def raise_unless_sized(shape: tuple[int, int, int], width: int, heads: int) -> None:
    """Raise UserError where heads do not share a width evenly, and where images are no sentences."""
    if width % heads:
        raise UserError(f"victim: parameters: width {width} is no multiple of heads {heads} (change one)")
    if shape[0] != 1 or shape[2] != 1 or shape[1] < 3:
        raise UserError(f"victim: {shape} is no sentence of three tokens or more (choose a data set of text)")


def raise_unless_adapted(rank: int, *, changed: bool) -> None:
    """Raise UserError where adapters of rank 0 are `changed`."""
    if not rank and changed:
        raise UserError(
            "victim: parameters: rank is 0, so there are no adapters (raise it, or drop down and begun)"
        )
