"""The attacks on text find every token and every sentence where they should, and say so where they cannot."""

import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from observations import observe
from observing import LOCAL, seen_of, sent_by
from text_observations import VOCABULARY, observe_text
from torch import Tensor

from leakbench.attacks.alignment import alignment
from leakbench.attacks.encoder_sentences import encoder_sentences
from leakbench.attacks.sentence_membership import sentence_membership
from leakbench.attacks.sentences import sentences
from leakbench.attacks.token_places import token_places
from leakbench.attacks.token_span import token_span
from leakbench.attacks.tokens import tokens, undecayed
from leakbench.base.errors import Unfit
from leakbench.networks import victims
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

RNG = torch.Generator().manual_seed(0)
LORA: dict[str, Any] = {"rank": 16}


def found(result: Reconstruction) -> set[int]:
    return set(result.usable[0, 0].nonzero()[:, 0].tolist())


def read(true: Tensor) -> set[int]:
    """The tokens that layers read: all but the last of each sentence."""
    return set(true[:, :-1].flatten().tolist())


def ranks(result: Reconstruction, tokens: Tensor, mean: bool = False) -> bool:
    """Return whether each of these tokens, or their mean, is nearer than any other."""
    distance, there = result.span_distance[0, 0], torch.zeros(VOCABULARY, dtype=torch.bool)
    there[tokens.flatten()] = True
    own, others = distance[there], distance[~there]
    return bool(own.mean() < others.mean() if mean else own.max() < others.min())


def written(seen: Observation, settings: dict[str, Any]) -> set[tuple[int, ...]]:
    """The sentences that the attack on this kind of network returns of the first update."""
    encodes = settings.get("module") == "encoder" or settings.get("like") == "bert"
    result = (encoder_sentences if encodes else sentences)(seen, RNG)
    of = (result.images[0, 0, result.usable[0, 0]] * VOCABULARY).round().long()
    return {tuple(each) for each in of.flatten(1).tolist()}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"k": 5},
        {"kind": "model", "epochs": 5, "decay": 0.1},
        {"kind": "model", "epochs": 20, "optimiser": "adamw", "lr": 0.001, "decay": 0.01},
        {"clients": 3, "k": 1},
        {"clients": 3, "k": 1, "kind": "model", "epochs": 5, "optimiser": "adamw", "lr": 0.001},
    ],
)
def test_the_rows_of_an_embedding_are_the_tokens_after_any_training(settings: dict[str, Any]) -> None:
    seen, true = observe_text(**settings)
    result = tokens(seen, RNG)
    assert found(result) == read(true)
    assert ranks(result, true[:, :-1])


def test_decay_is_known_from_the_few_tokens_that_did_not_occur() -> None:
    sent, moved = torch.randn(2, 50, 64, generator=torch.Generator().manual_seed(0)).double()
    moved[45:] = 0.0
    rows, rounding = undecayed(moved - 0.01 * sent, sent, 46)
    assert (rows.norm(dim=1) > rounding).tolist() == [True] * 45 + [False] * 5


def test_noise_on_every_row_hides_tokens_and_invents_none() -> None:
    seen, true = observe_text(noise=1.0)
    assert not found(tokens(seen, RNG)) & read(true)


@pytest.mark.parametrize(("of", "tied"), [("head", False), ("embedding", True)])
def test_the_head_and_an_embedding_that_is_the_head_rank_tokens_and_name_none(of: Any, tied: bool) -> None:
    seen, true = observe_text(tied=tied)
    result = tokens(seen, RNG, of=of)
    assert not found(result)
    assert ranks(result, true[:, :-1] if tied else true[:, 1:], mean=tied)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"clients": 3, "k": 1},
        # Adapters: at the first step from B alone, later from A, and with A frozen from B again.
        LORA,
        LORA | {"up": 0.1},
        LORA | {"up": 0.1, "kind": "model", "epochs": 5},
        LORA | {"down": False, "kind": "model", "epochs": 5},
        LORA | {"kind": "model", "decay": 0.01},
    ],
)
def test_the_span_of_attention_holds_the_tokens(settings: dict[str, Any]) -> None:
    seen, true = observe_text(**settings)
    assert found(token_span(seen, RNG)) == read(true)


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 20},
        {"clients": 3, "k": 1, "epochs": 5, "decay": 0.1},
        {"epochs": 20, "optimiser": "adamw", "lr": 0.001, "decay": 0.01},
        {"module": "published", "like": "bert", "epochs": 5},
    ],
)
def test_rows_of_tokens_and_of_places_tell_where_tokens_stood(settings: dict[str, Any]) -> None:
    if "like" in settings:
        pytest.importorskip("peft")
    seen, true = observe_text(**{"kind": "model"} | settings)
    named = token_places(seen, RNG).usable.view(VOCABULARY, -1)
    assert [set(place.nonzero()[:, 0].tolist()) for place in named.T] == [
        set(place.tolist()) for place in true[:, :-1].T
    ]


def test_the_span_names_no_token_of_adamw_but_ranks_them() -> None:
    settings = LORA | {"kind": "model", "epochs": 20, "optimiser": "adamw", "lr": 0.001, "decay": 0.01}
    seen, true = observe_text(**settings)
    result = token_span(seen, RNG)
    assert not found(result)
    assert ranks(result, true[:, :-1], mean=True)


@pytest.mark.parametrize("more", [LORA, {"rank": 13}, LORA | {"down": False, "decay": 0.01}])
def test_one_step_of_adamw_tells_the_gradient(more: dict[str, Any]) -> None:
    """Its signs alone rank the sentence behind some of 200 others."""
    settings = {"k": 1, "kind": "model", "optimiser": "adamw", "lr": 0.001, "candidates": 200}
    seen, _ = observe_text(**settings | more)
    member, *others = sentence_membership(seen, RNG).span_distance[0, 0].tolist()
    assert member < 0.6 * min(others)


ENCODER = {"module": "encoder"}


@pytest.mark.parametrize(
    "settings",
    [
        *({"k": 1}, {"k": 4}, {"clients": 3, "k": 1}, {"kind": "model"}),
        *(
            ENCODER | {"k": 1},
            ENCODER | {"k": 3},
            ENCODER | {"kind": "model", "lr": 1.0},
            ENCODER | {"bare": True},
        ),
    ],
)
def test_sentences_come_back_whole_from_one_step(settings: dict[str, Any]) -> None:
    bare = settings.pop("bare", False)
    seen, true = observe_text(**settings)
    if bare:
        # Without the embedding's gradient no order is known.
        del seen.updates["embedding.weight"]
    assert written(seen, settings) == {tuple(each) for each in true.tolist()}


@pytest.mark.parametrize("settings", [LORA, LORA | {"up": 0.1}, LORA | {"down": False}, {"tied": True}])
def test_without_the_head_all_but_the_last_token_come_back(settings: dict[str, Any]) -> None:
    seen, true = observe_text(**settings)
    assert {each[:-1] for each in written(seen, settings)} == {tuple(each[:-1]) for each in true.tolist()}


@pytest.mark.parametrize("module", ["transformer", "encoder"])
def test_noise_leaves_no_sentence(module: str) -> None:
    seen, _ = observe_text(noise=1.0, module=module)
    assert not written(seen, {"module": module})


@pytest.mark.parametrize(
    "settings",
    [
        {"noise": 1e-4},
        # A moves little, and noise hides it.
        {"noise": 1e-4, "kind": "model", "epochs": 5},
        # Noise hides B, which moves as much as A.
        {"noise": 3e-4, "kind": "model", "epochs": 5, "up": 0.1},
    ],
)
def test_under_noise_the_matrix_of_an_adapter_that_tells_more_is_read(settings: dict[str, Any]) -> None:
    seen, true = observe_text(**LORA, **settings)
    assert ranks(token_span(seen, RNG), true[:, :-1])


@pytest.mark.parametrize("settings", [{}, LORA, LORA | {"up": 0.1, "kind": "model", "epochs": 5}])
def test_members_are_told_from_other_sentences(settings: dict[str, Any]) -> None:
    seen, true = observe_text(candidates=30, **settings)
    result = sentence_membership(seen, RNG)
    assert result.usable[0, 0].tolist() == [True] * len(true) + [False] * 30


@pytest.mark.parametrize("rank", [4, 16])
@pytest.mark.parametrize("settings", [{}, {"kind": "model", "epochs": 20, "optimiser": "adamw", "lr": 0.001}])
def test_neither_adamw_nor_a_small_rank_hides_the_direction_of_a_sentence(
    settings: dict[str, Any], rank: int
) -> None:
    seen, true = observe_text(rank=rank, candidates=40, **settings)
    distance = alignment(seen, RNG).span_distance[0, 0]
    assert distance[: len(true)].max() < distance[len(true) :].min()


def test_the_second_block_knows_the_order_of_tokens() -> None:
    seen, true = observe_text(candidates=1)
    # Each token at a place of its own, but in a sentence that nobody wrote.
    mixed = torch.cat([true[0, :3], true[1, 3:]])
    assert seen.candidates is not None
    seen.candidates[-1] = (mixed / VOCABULARY)[None, :, None].numpy()
    assert sentence_membership(seen, RNG).usable[0, 0].tolist() == [True, True, False]


@pytest.mark.parametrize(("down", "epochs"), [(True, 1), (False, 1), (True, 5), (False, 5)])
def test_members_are_told_from_other_pictures_by_patches_that_attention_read(down: bool, epochs: int) -> None:
    settings = {"kind": "vit", "width": 32, "rank": 16, "down": down}
    images = torch.rand(22, 3, 16, 16, generator=RNG)
    held = (255 * images).round().byte()
    model = victims.build("adapted", (16, 16, 3), 10, settings)
    network = {"module": "adapted", "parameters": settings, "shape": (16, 16, 3)}
    how = {"kind": "model", "local": LOCAL | {"epochs": epochs}}
    sent = sent_by(model, held[None, :2] / 255, torch.tensor([[1, 2]]), **how)
    seen = seen_of(model, network, sent, 2, candidates=held.permute(0, 2, 3, 1).numpy(), **how)
    distance = sentence_membership(seen, RNG).span_distance[0, 0]
    assert distance[:2].max() < 0.1 * distance[2:].min()
    with pytest.raises(Unfit, match="embeds tokens"):
        token_span(seen, RNG)
    with pytest.raises(Unfit, match=r"an update has 32, blocks\.0 (16|32)"):
        sentence_membership(replace(seen, clients=[8]), RNG)


def head(seen: Observation, rng: torch.Generator) -> Reconstruction:
    return tokens(seen, rng, of="head")


REFUSED: list[tuple[Any, dict[str, Any] | None, str]] = [
    *((head, settings, "do not send") for settings in ({"tied": True}, LORA)),
    (token_places, LORA, "do not send"),
    (token_span, {"rank": 12}, "fewer tokens than dimensions"),
    (sentences, {"kind": "model", "epochs": 2}, "two blocks"),
    (sentences, {"kind": "model", "optimiser": "adamw"}, "two blocks"),
    (sentences, {"blocks": 1}, "two blocks"),
    (sentences, ENCODER, "choose encoder-sentences"),
    (encoder_sentences, {}, r"choose sentences\)"),
    (sentence_membership, {}, "candidates"),
    *((attack, None, "embeds tokens") for attack in (tokens, token_span, sentences)),
]


@pytest.mark.parametrize(("attack", "settings", "says"), REFUSED)
def test_what_an_attack_cannot_read_is_refused(
    attack: Any, settings: dict[str, Any] | None, says: str
) -> None:
    """Without settings the network embeds no tokens."""
    seen, _ = observe("mlp") if settings is None else observe_text(**settings)
    with pytest.raises(Unfit, match=says):
        attack(seen, RNG)


def test_an_adapter_whose_update_is_not_sent_is_one_line() -> None:
    seen, _ = observe_text(**LORA)
    for name in [each for each in seen.updates if each.startswith("blocks.0")]:
        del seen.updates[name]
    with pytest.raises(Unfit, match="needs the update of a query, key or value, or of an adapter"):
        token_span(seen, RNG)


GPT2, BERT = ({"module": "published", "like": like} for like in ("gpt2", "bert"))


@pytest.mark.parametrize(
    "settings",
    [
        GPT2,
        {**GPT2, "tied": True},
        {**GPT2, "clients": 3, "k": 1, "kind": "model"},
        {**GPT2, **LORA},
        {**GPT2, **LORA, "up": 0.1},
        {**GPT2, **LORA, "down": False},
        *(BERT, {**BERT, "k": 1}, {**BERT, **LORA}, {**BERT, **LORA, "up": 0.1}),
    ],
)
def test_victims_of_transformers_give_away_tokens_sentences_and_members(settings: dict[str, Any]) -> None:
    pytest.importorskip("peft")
    seen, true = observe_text(candidates=30, **settings)
    assert found(token_span(seen, RNG)) == read(true)
    assert sentence_membership(seen, RNG).usable[0, 0].tolist() == [True] * len(true) + [False] * 30
    # Without a head of its own the last token is the model's guess.
    stop = None if not settings.keys() & {"rank", "tied"} else -1
    assert {each[:stop] for each in written(seen, settings)} == {tuple(each[:stop]) for each in true.tolist()}
    if "rank" not in settings:
        assert found(tokens(seen, RNG)) == (set() if "tied" in settings else read(true))


def test_without_transformers_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(Unfit, match=r"peft is not installed \(install leakbench\[text\]\)"):
        observe_text(**GPT2)
