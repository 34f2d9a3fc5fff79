"""Models of transformers with adapters of peft, from configurations alone (extra `text`)."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leakbench.audit.audit import of_client
from leakbench.audit.client import client
from leakbench.networks import victims
from leakbench.networks.victims.encoder import certain
from leakbench.networks.victims.published import Published

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

WORDS, LENGTH, RECORDS, WIDTH = 400, 7, 4, 64
TOKENS = torch.randint(1, WORDS, (2 * RECORDS, LENGTH), generator=torch.Generator().manual_seed(0))
DISTINCT = len(TOKENS[:RECORDS].unique())
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def gpt2(**settings: Any) -> nn.Module:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_positions=LENGTH, n_embd=WIDTH, n_layer=2, n_head=2, activation_function="gelu",
        attn_implementation="eager", **NO_DROPOUT, **settings,
    )  # fmt: skip
    made: nn.Module = transformers.GPT2LMHeadModel(config).train()
    return made


def bert() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=WORDS, max_position_embeddings=LENGTH, hidden_size=WIDTH, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=2 * WIDTH, num_labels=3, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, attn_implementation="eager",
    )  # fmt: skip
    made: nn.Module = transformers.BertForSequenceClassification(config).train()
    return made


def adapted(model: nn.Module, rank: int, *targets: str, down: bool = True) -> nn.Module:
    """Return a model with LoRA, whose B is not zero any more; without `down` A is frozen (FFA-LoRA)."""
    made: nn.Module = peft.get_peft_model(
        model, peft.LoraConfig(r=rank, target_modules=list(targets), fan_in_fan_out="c_attn" in targets)
    )
    torch.manual_seed(1)
    for name, value in made.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(value, std=0.05)
        value.requires_grad_(value.requires_grad and (down or "lora_A" not in name))
    return made


def next_token(output: Any, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.logits[:, :-1].transpose(1, 2), targets)


def of_classes(output: Any, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.logits, targets)


# The last token of a sentence is predicted and never read.
READ, NEXT = len(TOKENS[:RECORDS, :-1].unique()), TOKENS[:, 1:]
# A model, its loss and targets, and words of the headline; each gives away all records.
MODELS: dict[str, tuple[Callable[[], nn.Module], Any, Tensor, str]] = {
    "a head of its own": (
        lambda: gpt2(tie_word_embeddings=False), next_token, NEXT,
        f"Exposed: {READ} of {DISTINCT} distinct tokens, certified",
    ),
    "a tied head": (gpt2, next_token, NEXT, "Recognisable"),
    "a decoder's adapters": (lambda: adapted(gpt2(), 48, "c_attn"), next_token, NEXT, "alone, rank 48"),
    "a decoder's adapters, A frozen": (
        lambda: adapted(gpt2(), 48, "c_attn", down=False), next_token, NEXT, "alone, rank 48",
    ),
    "an encoder's adapters": (
        lambda: adapted(bert(), 48, "query", "value"), of_classes, torch.arange(2 * RECORDS) % 3, "adapter",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_transformer_gives_away_its_sentences(name: str) -> None:
    make, loss, targets, words = MODELS[name]
    own = client((make(), loss, (TOKENS, targets)), RECORDS, 1, 0.1)
    audit = of_client(own, 60.0, lambda line: None)
    assert words in audit.headline()
    assert audit.besides[0].ran == (name == "a head of its own")
    assert (audit.recognisable(), audit.found[0].null) == (RECORDS, 0)


@pytest.mark.parametrize(("like", "rank"), [("gpt2", 0), ("gpt2", 3), ("bert", 0), ("bert", 3)])
def test_a_victim_of_transformers_sends_what_its_twin_sends(like: str, rank: int) -> None:
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "heads": 2, "rank": rank, "tied": False}
    victim = victims.build("published", (1, LENGTH + 1, 1), WORDS, {"like": like, **sizes})
    assert isinstance(victim, Published)
    for name, value in victim.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(value, std=0.05)
    sentences = torch.randint(0, WORDS, (3, LENGTH + 1), generator=torch.Generator().manual_seed(2))
    x, twin = (sentences / WORDS)[:, None, None], victim.twin()
    logits = twin(x) if like == "gpt2" else certain(*twin.read(x), x)
    for output in (victim(x), logits):
        nn.functional.cross_entropy(output, sentences[:, 1:]).backward()
    sent = victim.renamed({name: value.grad.numpy() for name, value in victim.named_parameters()})  # type: ignore[union-attr]
    own = dict(twin.named_parameters())
    # The three adapters of GPT-2 share an A, whose gradient is the sum of theirs.
    for name in [each for each in sent if each.endswith("value.down") and like == "gpt2"]:
        for other in ("query", "key"):
            own[name].grad += own[name.replace("value", other)].grad  # type: ignore[operator]
    both = sent.keys() & own.keys()
    assert len(both) == (8 if rank else len(own))
    for name in both:
        assert torch.allclose(torch.from_numpy(sent[name]), own[name].grad, rtol=1e-4, atol=1e-7), name  # type: ignore[arg-type]


def test_its_gpt2_is_the_one_with_a_head_for_language() -> None:
    torch.manual_seed(0)
    sizes = {"like": "gpt2", "width": WIDTH, "heads": 2, "tied": True}
    victim = victims.build("published", (1, LENGTH + 1, 1), WORDS, sizes)
    other = transformers.GPT2LMHeadModel(victim.trunk.config).eval()
    other.transformer.load_state_dict(victim.trunk.state_dict())  # type: ignore[union-attr]
    logits = other(TOKENS[:, :-1]).logits.transpose(1, 2)
    assert torch.allclose(victim((TOKENS / WORDS)[:, None, None]), logits, rtol=1e-4, atol=1e-6)
