"""What the audit says of clients whose records are tokens."""

from typing import Any

import pytest
import torch
from clients import Own
from torch import Tensor, nn

import leakbench
from leakbench.audit.audit import of_client
from leakbench.audit.child import _raised
from leakbench.audit.client import client
from leakbench.audit.report import Audit
from leakbench.base.errors import UserError
from leakbench.networks.victims.transformer import Transformer

WORDS, LENGTH, RECORDS = 300, 6, 8
TOKENS = torch.randint(1, WORDS, (2 * RECORDS, LENGTH), generator=torch.Generator().manual_seed(0))
DISTINCT = len(TOKENS[:RECORDS].unique())


class Decoder(nn.Module):
    """The catalogue's transformer behind an input of whole numbers. Each token is predicted from itself."""

    def __init__(self, rank: int = 0, *, begun: bool = False, tied: bool = False) -> None:
        super().__init__()
        self.network = Transformer(LENGTH + 1, WORDS, 64, 2, 2, rank, tied=tied)
        for name, value in self.network.named_parameters():
            last = name.rpartition(".")[2]
            value.requires_grad_(not rank or last in ("up", "down"))
            if begun and last == "up":
                nn.init.normal_(value, std=0.05)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.network.embedded(tokens)
        for block in self.network.blocks:
            x = block(x)
        return self.network.norm(x) @ (self.network.head or self.network.embedding).weight.T  # type: ignore[no-any-return]


def scored(output: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.transpose(1, 2), targets)


def audited(model: nn.Module, steps: int = 1, lr: float = 0.1, records: int = RECORDS) -> Audit:
    """Return the audit of a client with the first of TOKENS; the others are those of other clients."""
    torch.manual_seed(0)
    own = client((model, scored, (TOKENS, TOKENS.roll(1, 1))), records, steps, lr)
    return of_client(own, 60.0, lambda line: None)


def made(**arguments: Any) -> Decoder:
    torch.manual_seed(1)
    return Decoder(**arguments)


@pytest.mark.parametrize("steps", [1, 5])
def test_rows_of_the_embedding_expose_every_token(steps: int) -> None:
    audit = audited(made(), steps)
    assert audit.headline().startswith(
        f"Exposed: {DISTINCT} of {DISTINCT} distinct tokens, certified, by any"
    )
    # Several steps move the embedding, and with it what the matrices read.
    assert audit.recognisable() == (RECORDS if steps == 1 else 0)


@pytest.mark.parametrize("begun", [False, True])
def test_adapters_make_records_recognisable(begun: bool) -> None:
    audit = audited(made(rank=60, begun=begun))
    assert audit.recognisable() == RECORDS
    assert "8 of 8 records, from the adapter alone, rank 60" in audit.headline()
    assert audit.exposed() == audit.found[0].null == 0
    assert audit.answers()["Linkability"].startswith("8 of 8 records are recognised")
    assert "the adapter alone" in audit.page()


def test_adapters_below_the_number_of_tokens_are_not_said_to_be_safe() -> None:
    audit = audited(made(rank=4, begun=True, tied=True))
    # A frozen embedding is not sent, whatever shares it.
    assert "network.embedding is not trained and not sent" in audit.besides[0].line
    assert not audit.ran()
    assert audit.headline().startswith("No attack gave a result")
    assert "the number of tokens (the widest has 8)" in audit.headline()


def test_a_tied_head_leaves_nothing_certified() -> None:
    audit = audited(made(tied=True))
    assert not audit.besides[0].ran
    assert f"{WORDS} of {WORDS} rows of network.embedding moved" in audit.besides[0].line
    assert audit.headline().startswith("Recognisable: 8 of 8 records")


def test_sparse_gradients_and_padding_are_read() -> None:
    net = Own(
        lambda net, x: net.b(net.a(x).mean(1)),
        a=nn.Embedding(WORDS, 8, padding_idx=0, sparse=True),
        b=nn.Linear(8, 2),
    )  # type: ignore[call-arg, misc, arg-type]
    tokens = TOKENS.clone()
    tokens[:, -1] = 0
    own = client((net, nn.CrossEntropyLoss(), (tokens, torch.arange(len(tokens)) % 2)), RECORDS, 3, 0.1)
    audit = of_client(own, 60.0, lambda line: None)
    distinct = len(tokens[:RECORDS].unique()) - 1
    assert f"{distinct} of {distinct} distinct tokens, certified" in audit.headline()
    assert "from the set of exposed tokens" in audit.headline()


def test_an_observation_of_tokens_is_refused_and_the_way_round_is_named() -> None:
    with pytest.raises(UserError, match=r"the records are tokens.*leakbench\.audit"):
        leakbench.observe(made(), scored, (TOKENS, TOKENS.roll(1, 1)))


@pytest.mark.parametrize("package", ["transformers", "peft"])
def test_a_package_that_a_client_lacks_is_named_with_its_extra(package: str) -> None:
    line = _raised(ModuleNotFoundError(f"No module named {package!r}", name=package))
    assert line == f"ModuleNotFoundError: No module named {package!r}; install leakbench[text]"
