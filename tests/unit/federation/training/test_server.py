"""The server of a training study, and the sets that its clients hold."""

import logging
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leakbench.base.artefacts import write_tensors
from leakbench.base.errors import UserError
from leakbench.defences import aggregation, encryption
from leakbench.federation.training.batches import PADDING, flip_crop, to_size
from leakbench.federation.training.server import (
    Aggregate,
    Fit,
    Protocol,
    State,
    aggregate,
    averaged,
    flat,
    fused_shares,
    moved,
)
from leakbench.federation.training.sets import examined, told_apart, training_images
from leakbench.federation.training.shares import divide, hold_out

SERVER: State = {"w": torch.zeros(2, 3), "b": torch.ones(2), "steps": torch.tensor(0)}
FITS = [Fit(0.2, 0.9), Fit(0.3, 0.8), Fit(0.9, 0.5)]
LOSSES = np.array([[0.2, 0.3, 0.4], [0.3, 0.2, 0.5], [0.9, 0.8, 1.0]])


def uploads() -> list[State]:
    rng = torch.Generator().manual_seed(0)
    return [
        {"w": torch.randn(2, 3, generator=rng), "b": torch.randn(2, generator=rng), "steps": torch.tensor(n)}
        for n in (4, 6, 5)
    ]


def rounded(state: State) -> list[float]:
    return [round(value, 6) for value in flat(state).tolist()]


def play(protocol: Protocol, turn: int = 0, seen: list[Any] | None = None) -> Aggregate:
    """Play a round in which client j finds the n-th model it is shown to have LOSSES[n, j]."""
    shown: dict[int, int] = {}

    def validate(client: int, state: State) -> tuple[float, float]:
        number = shown[client] = shown.get(client, -1) + 1
        if seen is not None:
            seen.append((client, rounded(state)))
        return 1 - float(LOSSES[number, client]) / 2, float(LOSSES[number, client])

    return aggregate(SERVER, uploads(), FITS, [10, 10, 20], protocol, turn, validate)


def protocol(module: str = "fedboosting-code", scheme: str = "", **more: Any) -> Protocol:
    built = encryption.build(scheme, more.pop("parameters", {})) if scheme else None
    return Protocol(
        aggregation.build(module, {}), aggregation.cross_validates(module),
        sealing=(built, built.keys()) if built else None, **more,
    )  # fmt: skip


def test_weights_are_the_rules_of_what_clients_measured() -> None:
    outcome = play(protocol())
    by_hand = 1 / LOSSES.mean(1) / np.array([0.2, 0.3, 0.9])
    by_hand /= by_hand.sum()
    np.testing.assert_allclose(outcome.weights, by_hand)
    np.testing.assert_allclose(outcome.validation_loss, LOSSES.mean(1))
    np.testing.assert_allclose(outcome.validation_accuracy, 1 - LOSSES.mean(1) / 2)
    expected = sum(w * flat(upload) for w, upload in zip(by_hand, uploads(), strict=True))
    np.testing.assert_allclose(flat(outcome.state), expected, atol=1e-6)
    assert outcome.state["steps"].item() == 6


def test_fedavg_by_rule_is_the_mean_by_images_and_validates_nothing() -> None:
    seen: list[Any] = []
    outcome = play(protocol("fedavg"), seen=seen)
    assert seen == []
    assert np.isnan(outcome.validation_loss).all()
    torch.testing.assert_close(outcome.state, averaged(uploads(), [10, 10, 20]))


def test_a_fused_model_is_nine_tenths_its_own_and_the_rest_the_others() -> None:
    assert fused_shares(3, 0.9) == [
        pytest.approx([0.9, 0.05, 0.05]), pytest.approx([0.05, 0.9, 0.05]), pytest.approx([0.05, 0.05, 0.9]),
    ]  # fmt: skip
    assert fused_shares(1, 0.9) == [[1.0]]
    seen: list[Any] = []
    play(protocol(fusion=0.9), seen=seen)
    first, second, third = (flat(upload) for upload in uploads())
    by_hand = 0.05 * first + 0.9 * second + 0.05 * third
    of_second = [state for _, state in seen[3:6]]
    assert of_second[0] == of_second[1] == of_second[2] == pytest.approx(by_hand.tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("scheme", "parameters"), [("paillier", {}), ("paillier", {"bits": 128, "packed": False}), ("ckks", {})]
)
def test_encrypted_and_plain_rounds_agree_to_the_bound(scheme: str, parameters: dict[str, Any]) -> None:
    plain = play(protocol(fusion=0.9))
    secure = protocol(scheme=scheme, parameters=parameters, fusion=0.9)
    outcome = play(secure)
    np.testing.assert_allclose(outcome.weights, plain.weights)
    assert secure.sealing
    used = secure.sealing[0]
    moves = np.stack([flat(upload) - flat(SERVER) for upload in uploads()])
    rounding = np.abs(moves).sum(0) / (2 * used.pieces)
    error = np.abs(flat(outcome.state) - flat(plain.state))
    assert (error <= rounding + used.bound([100]) + 1e-6).all()
    assert error.max() > 0
    assert outcome.state["steps"].item() == 6


@pytest.mark.parametrize(
    ("kind", "says"),
    [("absent", "no update came"), ("malformed", "malformed"), ("other-key", "another key pair")],
)
def test_what_cannot_be_used_is_left_out_and_the_others_are_kept(
    kind: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    secure = protocol("fedavg", "paillier", parameters={"bits": 128}, faults={1: {0: kind}})
    assert play(secure, 0).problems == {}
    with caplog.at_level(logging.WARNING):
        outcome = play(secure, 1)
    assert outcome.weights.tolist() == pytest.approx([0, 1 / 3, 2 / 3])
    assert says in outcome.problems[0]
    assert f"round 2: client 0 is left out: {outcome.problems[0]}" in caplog.text
    expected = 0.33 * flat(uploads()[1]) + 0.67 * flat(uploads()[2])
    np.testing.assert_allclose(flat(outcome.state), expected, atol=1e-6)
    # So is an update beyond the headroom. A round without any update is an error in one line.
    far = uploads()
    far[2]["w"][0, 0] = 1e4
    outcome = aggregate(SERVER, far, FITS, [10, 10, 20], secure, 0, lambda *_: (0, 0))
    assert outcome.weights.tolist() == [0.5, 0.5, 0]
    assert "headroom" in outcome.problems[2]
    nobody = protocol("fedavg", faults={0: dict.fromkeys(range(3), "absent")})
    with pytest.raises(UserError, match="round 1: no client's update can be used: no update came"):
        play(nobody)


def test_the_order_of_a_states_names_makes_no_difference() -> None:
    upload = uploads()[0]
    turned = dict(reversed(list(upload.items())))
    assert np.array_equal(flat(turned), flat(upload))
    one, other = moved(upload, np.arange(8.0)), moved(turned, np.arange(8.0))
    assert all(torch.equal(one[name], other[name]) for name in upload)
    # Moving by what `flat` gives is addition.
    there = moved(SERVER, flat(upload) - flat(SERVER))
    torch.testing.assert_close(there["w"], upload["w"])
    assert there["steps"].item() == 0


def write(path: Path, level: int, count: int = 4, **more: np.ndarray) -> Path:
    tensors: dict[str, np.ndarray] = {}
    for split in ("train", "test"):
        tensors[f"{split}/images"] = np.full((count, 2, 3, 1), level, np.uint8)
        tensors[f"{split}/labels"] = np.arange(count) + level
    write_tensors(path, tensors | more, {})
    return path


def test_images_of_several_sets_are_their_owners(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a", 10), write(tmp_path / "b", 20, count=3)]
    images, labels, owners = training_images(paths, None)
    assert images[:, 0, 0, 0].tolist() == [10] * 4 + [20] * 3
    assert labels.tolist() == [10, 11, 12, 13, 20, 21, 22]
    assert owners.tolist() == [0] * 4 + [1] * 3
    few, _, owners = training_images(paths, 2)
    assert few[:, 0, 0, 0].tolist() == [10, 10, 20, 20]
    assert owners.tolist() == [0, 0, 1, 1]
    # Images of one set are whose it says.
    assert training_images(paths[:1], None)[2] is None
    own = np.array([1, 0, 1, 0])
    assert training_images([write(tmp_path / "c", 10, **{"train/clients": own})], 3)[2].tolist() == [1, 0, 1]


def test_the_published_rule_counts_wide_plain_words_of_three_to_25_characters(tmp_path: Path) -> None:
    # Codes, length with signs, width, counted or not.
    words = [
        (5, 5, 160.0, True), (5, 5, 99.9, False), (5, 5, 100.0, True), (2, 2, 160.0, False),
        (3, 3, 160.0, True), (5, 6, 160.0, False), (25, 26, 400.0, False), (25, 25, 400.0, True),
    ]  # fmt: skip
    tensors = {
        "images": np.zeros((8, 32, 100, 3), np.uint8),
        "labels": np.array([[7] * codes + [-1] * (25 - codes) for codes, *_ in words]),
        "lengths": np.array([length for _, length, *_ in words]),
        "widths": np.array([width for *_, width, _ in words], np.float32),
    }
    write_tensors(tmp_path / "words", {f"test/{name}": value for name, value in tensors.items()}, {})
    found = examined(tmp_path / "words", None)
    assert found.counted.tolist() == [counted for *_, counted in words]
    assert len(examined(tmp_path / "words", 3).labels) == 3
    assert examined(write(tmp_path / "a", 10), None).counted is None


@pytest.mark.parametrize(("apart", "low", "high"), [(0, 0.4, 0.6), (12, 0.7, 0.95), (60, 0.99, 1.0)])
def test_owners_are_told_apart_as_far_as_their_images_differ(apart: int, low: float, high: float) -> None:
    rng, owners = np.random.default_rng(0), np.repeat([0, 1], 300)
    images = rng.integers(60, 160, (600, 8, 12, 3))
    # One corner of four by four pixels is brighter; a mean of its 48 numbers shakes by four levels.
    images[300:, :4, :4] += apart // 2
    assert low <= told_apart(torch.from_numpy(images.astype(np.uint8)), owners) <= high
    small = np.repeat([0, 1, 2], 20)
    grey = (small[:, None, None, None] * 40 + np.zeros((1, 2, 3, 1))).astype(np.uint8)
    assert told_apart(torch.from_numpy(grey), small) >= 2 / 3


LABELS = np.repeat(np.arange(5), 60)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("split", "alpha"), [("iid", None), ("dirichlet", 0.5)])
def test_every_image_is_some_clients_once(split: str, alpha: float | None) -> None:
    shares = divide(LABELS, 3, split, alpha, rng())
    assert sorted(np.concatenate(shares)) == list(range(len(LABELS)))
    assert split != "iid" or {len(share) for share in shares} == {100}
    # What is held out is not trained on.
    kept, held = hold_out(200, 0.1, rng())
    assert (len(kept), len(held), sorted([*kept, *held])) == (180, 20, list(range(200)))


def skew(alpha: float) -> float:
    """Mean over clients and draws of the share of a client's commonest class."""
    found = [
        np.bincount(LABELS[share], minlength=5).max() / len(share)
        for seed in range(20)
        for share in divide(LABELS, 3, "dirichlet", alpha, rng(seed))
    ]
    return float(np.mean(found))


def test_a_smaller_concentration_makes_clients_less_alike() -> None:
    assert skew(0.1) > skew(1.0) + 0.1 > skew(1000.0) + 0.1
    assert skew(1000.0) == pytest.approx(0.2, abs=0.03)


def test_a_split_by_client_is_the_data_sets_own() -> None:
    owners = np.array([1, 0, 1, 1, 0])
    shares = divide(LABELS[:5], 2, "by-client", None, rng(), owners)
    assert [share.tolist() for share in shares] == [[1, 4], [0, 2, 3]]
    for clients in (1, 3):
        with pytest.raises(UserError, match="are of 2 clients"):
            divide(LABELS[:5], clients, "by-client", None, rng(), owners)
    with pytest.raises(UserError, match="does not say whose"):
        divide(LABELS, 2, "by-client", None, rng())


def test_images_are_in_the_unit_range_with_channels_first() -> None:
    x = to_size(torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8), None)
    assert x.shape == (1, 3, 1, 1)
    torch.testing.assert_close(x.flatten(), torch.tensor([0.0, 0.2, 1.0]))
    # A constant image stays itself at any size.
    x = to_size(torch.full((2, 8, 8, 3), 102, dtype=torch.uint8), 20)
    assert x.shape == (2, 3, 20, 20)
    torch.testing.assert_close(x, torch.full_like(x, 0.4))


def test_each_image_is_a_moved_or_mirrored_copy() -> None:
    """Every place of the result holds what one of the 2 × 9 × 9 variants has there."""
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(40, 2, 6, 5, generator=rng) + 1
    seen = set()
    for image, varied in zip(x, flip_crop(x, rng), strict=True):
        padded = [torch.nn.functional.pad(own, [PADDING] * 4) for own in (image, image.flip(-1))]
        moves = product((0, 1), range(2 * PADDING + 1), range(2 * PADDING + 1))
        hits = [(n, y, x) for n, y, x in moves if torch.equal(padded[n][:, y : y + 6, x : x + 5], varied)]
        # Where next to nothing of an image is left, several variants may agree.
        assert hits or not varied.any()
        seen |= set(hits[:1])
    assert {flipped for flipped, *_ in seen} == {0, 1}
    assert len(seen) > 20
