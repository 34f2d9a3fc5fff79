"""The metrics of text and the rows of attacks on tokens, beside one who knows how frequent tokens are."""

from pathlib import Path

import numpy as np
import pytest

from leakbench.base.artefacts import write_tensors
from leakbench.metrics import measure
from leakbench.metrics.scoring.attack import token_rows
from leakbench.metrics.scoring.truths import Truths
from leakbench.metrics.text import agreement

VOCABULARY = 10


def stored(*sentences: list[int]) -> np.ndarray:
    return (np.array(sentences) / VOCABULARY).astype(np.float32)[:, None, :, None]


@pytest.fixture
def truths(tmp_path: Path) -> Truths:
    """Two rounds of one sentence: 1 2 1 9 and 3 4 5 9. Public text has 0 most, then 1, then 2."""
    victim = tmp_path / "victim.safetensors"
    write_tensors(victim, {"epoch-0/x": np.zeros(1)}, {"network": {"classes": VOCABULARY}})
    arrays = {
        "train/images": stored([0, 0, 1, 1], [0, 0, 1, 2]),
        "test/images": stored([1, 2, 1, 9], [3, 4, 5, 9]),
    }
    arrays |= {f"{split}/labels": np.zeros((2, 3), np.int64) for split in ("train", "test")}
    secret = {"images/0": np.array([[0], [1]]), "checkpoint": np.zeros(2), "pass": np.zeros(2)}
    return Truths(secret, {"split": "test", "clients": [1]}, arrays, victim)


def test_tokens_that_were_read_are_the_members(truths: Truths) -> None:
    distance = np.ones((2, 1, VOCABULARY))
    distance[0, 0, [1, 2]], distance[1, 0, [3, 9]] = 0.1, 0.2
    nulls = np.ones((1, 1, VOCABULARY))
    tensors = {
        "span_distance": distance,
        "usable": distance < 1,
        "null/span_distance": nulls,
        "null/usable": nulls > 1,
    }
    rows = token_rows(tensors, truths, 0, ["membership_auc", "members_accepted", "false_acceptances"])
    own = rows[rows["baseline"] == ""]
    # The last token is only predicted, so 9 is no member.
    assert own["members_accepted"].tolist() == [1.0, pytest.approx(1 / 3)]
    assert own["false_acceptances"].tolist() == [0, 1]
    assert own["membership_auc"].iloc[0] == 1
    (frequent,) = rows[rows["baseline"] == "frequent-tokens"].to_dict("records")
    # It takes 0, 1 and 2 for an update of three tokens.
    assert (frequent["members_accepted"], frequent["false_acceptances"]) == (1.0, 1)
    assert frequent["membership_auc"] == pytest.approx(14 / 16)


def test_tokens_at_their_places_are_pairs(truths: Truths) -> None:
    named = np.zeros((2, 1, VOCABULARY, 3), bool)
    named[0, 0, [1, 2, 1], [0, 1, 2]] = named[1, 0, [3, 5], [0, 1]] = True
    named = named.reshape(2, 1, -1)
    tensors = {"span_distance": 1.0 - named, "usable": named}
    tensors |= {f"null/{name}": value[:1] for name, value in tensors.items()}
    rows = token_rows(tensors, truths, 0, ["members_accepted", "false_acceptances"]).set_index("baseline")
    assert rows.loc["", "members_accepted"].tolist() == [1.0, pytest.approx(1 / 3)]
    assert rows.loc["", "false_acceptances"].tolist() == [0, 1]
    # Public text has 0, 0 and 1 at these places. The update has 1 and 2.
    assert rows.loc["frequent-tokens", "members_accepted"] == pytest.approx(1 / 3)
    shuffled = rows.loc["shuffled-tokens"]
    assert shuffled["usable"] == 3
    assert 3 * shuffled["members_accepted"] + shuffled["false_acceptances"] == 3


def test_sentences_are_guessed_from_public_text_alone(truths: Truths) -> None:
    blind = {
        name: (each * VOCABULARY).round().ravel().tolist() for name, each in truths.blind("images").items()
    }
    assert blind == {"typical-record": [0, 0, 1, 1], "frequent-tokens": [0, 1, 2, 3]}
    assert truths.vocabulary == VOCABULARY


def test_pictures_have_no_vocabulary(truths: Truths) -> None:
    arrays = {
        name: value[..., 0] if name.endswith("labels") else value for name, value in truths.arrays.items()
    }
    assert not Truths(truths.secret, truths.facts, arrays, truths.victim).vocabulary


NAMES = ["token_accuracy", "exact_sentence", "rouge_1", "rouge_2"]


def share(*rows: list[int]) -> np.ndarray:
    return (np.array(rows, np.float32) / 10)[:, None, None]


@pytest.mark.parametrize(
    ("guess", "expected"),
    [
        ([1, 2, 3, 4], (1.0, 1.0, 1.0, 1.0)),
        ([1, 2, 3, 5], (0.75, 0.0, 0.75, 2 / 3)),
        # The same tokens at other places; of the pairs 12, 23, 34 only 12 is there.
        ([4, 1, 2, 3], (0.0, 0.0, 1.0, 2 / 3)),
        ([2, 1, 4, 3], (0.0, 0.0, 1.0, 0.0)),
        # A token that is guessed twice counts once.
        ([1, 1, 1, 1], (0.25, 0.0, 0.25, 0.0)),
        ([9, 9, 9, 9], (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_by_hand(guess: list[int], expected: tuple[float, ...]) -> None:
    found = measure(NAMES, share(guess), share([1, 2, 3, 4]), {"vocabulary": 10})
    assert [float(found[name][0]) for name in NAMES] == pytest.approx(expected)


def test_each_pair_agrees_in_its_share_of_tokens() -> None:
    guesses, truths = share([1, 2, 3, 4], [1, 2, 9, 9])[:, 0, 0], share([1, 2, 3, 4], [5, 5, 5, 4])[:, 0, 0]
    assert agreement(guesses, truths, 10).tolist() == [[1.0, 0.25], [0.5, 0.0]]
