"""Models of transformers with adapters of peft, from configurations alone (extra `text`)."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leakbench.audit.audit import of_client
from leakbench.audit.client import client
from leakbench.networks.victims.transformer import Transformer

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


def theirs(own: Transformer) -> dict[str, Tensor]:
    """Return weights of the catalogue's transformer under the names of GPT2LMHeadModel, also of an update."""
    state, out = dict(own.named_parameters()), {}
    names = {"embedding.weight": "transformer.wte.weight", "position.weight": "transformer.wpe.weight"}
    names |= {"head.weight": "lm_head.weight"}
    names |= {f"norm.{part}": f"transformer.ln_f.{part}" for part in ("weight", "bias")}
    for n in range(len(own.blocks)):
        to = f"transformer.h.{n}"
        layers = {
            "norm1": "ln_1",
            "norm2": "ln_2",
            "mix": "attn.c_proj",
            "wide": "mlp.c_fc",
            "narrow": "mlp.c_proj",
        }
        names |= {
            f"blocks.{n}.{ours}.{part}": f"{to}.{other}.{part}"
            for ours, other in layers.items()
            for part in ("weight", "bias")
        }
        for part in ("weight", "bias"):
            state[f"blocks.{n}.qkv.{part}"] = torch.cat(  # type: ignore[assignment]
                [state.pop(f"blocks.{n}.{layer}.{part}") for layer in ("query", "key", "value")]
            )
            names[f"blocks.{n}.qkv.{part}"] = f"{to}.attn.c_attn.{part}"
    for ours, other in names.items():
        value = state.pop(ours).detach()
        # transformers' Conv1D keeps its matrix transposed.
        out[other] = value.T if ".h." in other and value.dim() == 2 else value
    assert not state
    return out


def test_the_transformer_of_the_catalogue_sends_what_gpt2_sends() -> None:
    torch.manual_seed(0)
    own = Transformer(LENGTH + 1, WORDS, WIDTH, 2, 2, 0, tied=False)
    other = gpt2(tie_word_embeddings=False)
    missing = other.load_state_dict(theirs(own), strict=False)
    assert not missing.unexpected_keys
    assert not [name for name in missing.missing_keys if not name.endswith(".attn.bias")]
    sentences = torch.randint(0, WORDS, (3, LENGTH + 1), generator=torch.Generator().manual_seed(2))
    score = nn.functional.cross_entropy(own((sentences / WORDS)[:, None, None]), sentences[:, 1:])
    score.backward()
    logits = other(sentences[:, :-1]).logits.transpose(1, 2)
    nn.functional.cross_entropy(logits, sentences[:, 1:]).backward()
    for value in own.parameters():
        value.data = value.grad
    expected = theirs(own)
    assert expected.keys() == dict(other.named_parameters()).keys()
    for name, value in other.named_parameters():
        assert torch.allclose(value.grad, expected[name], rtol=1e-4, atol=1e-7), name
