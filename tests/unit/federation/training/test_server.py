"""The server's side of a round: mixtures, weights, encryption, and who is left out."""

import logging
from typing import Any

import numpy as np
import pytest
import torch

from leakbench.base.errors import UserError
from leakbench.defences import aggregation, encryption
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
    with pytest.raises(UserError, match="round 1: no client's update can be used: no update came") as told:
        play(nobody)
    assert "\n" not in str(told.value)


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
