"""Scores of labels alone: counts by hand, and what guesses without an update score."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from leakbench.metrics.baselines import constant_labels
from leakbench.metrics.labels import label_accuracy, label_counts, label_presence
from leakbench.metrics.scoring import labels as scoring


def test_presence_counts_and_instances_by_hand() -> None:
    truth, guess = np.array([0, 0, 0, 2]), np.array([0, 0, 1, 1])
    # Of five classes 0, 3 and 4 are told rightly, and as many as there are of 3 and 4 alone.
    assert label_presence(guess, truth, 5) == pytest.approx(3 / 5)
    assert label_counts(guess, truth, 5) == pytest.approx(2 / 5)
    assert label_accuracy(guess, truth) == pytest.approx(2 / 4)


def test_absent_classes_flatter_presence() -> None:
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(0, 100, 24), rng.integers(0, 100, 24)) for _ in range(200)]
    assert np.mean([label_presence(g, t, 100) for g, t in pairs]) > 0.6
    assert np.mean([label_accuracy(g, t) for g, t in pairs]) < 0.3


def test_the_constant_answer_has_the_shares_of_the_classes() -> None:
    assert constant_labels(np.array([0.5, 0.3, 0.2]), 10).tolist() == [0] * 5 + [1] * 3 + [2] * 2
    assert constant_labels(np.array([0.4, 0.35, 0.25]), 3).tolist() == [0, 1, 2]


def test_each_update_has_a_row_and_its_null_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "read_facts", lambda _: {"network": {"classes": 4}})
    truth = np.array([[0, 1], [2, 2], [3, 0]])
    hidden = SimpleNamespace(
        secret={
            "labels/0": truth, "images/0": np.arange(6).reshape(3, 2),
            "checkpoint": np.array([0, 0, 5]), "pass": np.zeros(3, int),
        },
        facts={"split": "test"}, arrays={"train/labels": np.array([0, 1, 2, 3])}, victim=Path("v"),
    )  # fmt: skip
    guesses = {"labels": truth[:, None], "null/labels": np.array([[[1, 1]]])}
    frames = list(scoring.label_rows(guesses, hidden, 0, np.random.default_rng(0)))  # type: ignore[arg-type]
    assert [frame["baseline"].iloc[0] for frame in frames] == [
        "", "random-gradient", "label-prior", "label-constant",
    ]  # fmt: skip
    own, null, _, constant = frames
    assert own["label_accuracy"].tolist() == own["label_counts"].tolist() == [1, 1, 1]
    assert own["checkpoint"].tolist() == [0, 0, 5]
    assert null["label_accuracy"].tolist() == [0.5]
    assert constant["label_accuracy"].tolist() == [1.0, 0.0, 0.5]


def test_what_is_no_class_is_counted_for_none() -> None:
    truth = np.array([0, 1, 1])
    assert label_presence(np.array([-1, 1, 9]), truth, 4) == 0.75
    assert label_counts(np.array([-1, 1, 9]), truth, 4) == 0.5
