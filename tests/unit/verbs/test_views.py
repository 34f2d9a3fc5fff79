"""What others than the server see of a round: the capture under defences that act in aggregation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from played import captured

from leakbench.base.artefacts import read_facts, read_tensors
from leakbench.defences.encryption import build
from leakbench.federation.training.server import fused_shares
from leakbench.observations.observation import read_observation

CLIENTS = (1, 2, 3)
Files = dict[str, Any]


def played(root: Path, module: str, clients: tuple[int, ...] = CLIENTS, **parameters: Any) -> Files:
    root.mkdir()
    found = captured(root, defence={"module": module, "parameters": parameters}, clients=clients)
    found["facts"] = read_facts(root / "capture.safetensors")
    # It is an observation like any other: it fits its victim.
    read_observation(root / "capture.safetensors")
    return found


def updates(files: Files) -> dict[str, np.ndarray]:
    return {
        name: value.astype(float) for name, value in files["capture"].items() if name.startswith("updates/")
    }


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return played(tmp_path_factory.mktemp("plain") / "none", "none")


@pytest.mark.parametrize(("observer", "first"), [("server", 0), ("client", 1)])
def test_a_sum_is_that_of_all_or_of_all_others(
    plain: Files, tmp_path: Path, observer: str, first: int
) -> None:
    found = played(tmp_path / "own", "aggregated", observer=observer)
    shares = np.array(CLIENTS[first:]) / sum(CLIENTS[first:])
    for name, value in updates(plain).items():
        mean = np.einsum("rc...,c->r...", value[:, first:], shares)
        np.testing.assert_allclose(updates(found)[name][:, 0], mean, atol=1e-6)
    assert found["facts"]["clients"] == [sum(CLIENTS[first:])]
    for kind in ("images", "labels"):
        own = [plain["truth"][f"{kind}/{client}"] for client in range(first, 3)]
        np.testing.assert_array_equal(found["truth"][f"{kind}/0"], np.hstack(own))
    np.testing.assert_array_equal(found["oracle"]["labels/0"], found["truth"]["labels/0"])
    sent = sum(plain["truth"][f"bytes/{client}"] for client in range(first, 3))
    np.testing.assert_array_equal(found["truth"]["bytes/0"], sent)


def test_of_two_clients_one_sees_the_others_update(tmp_path: Path) -> None:
    alone = played(tmp_path / "none", "none", (2, 3))
    found = played(tmp_path / "own", "aggregated", (2, 3), observer="client")
    for name, value in updates(alone).items():
        np.testing.assert_allclose(updates(found)[name][:, 0], value[:, 1], atol=1e-6)


def test_fused_updates_are_mixtures_of_all_and_the_observers_own_is_none_of_them(
    plain: Files, tmp_path: Path
) -> None:
    found = played(tmp_path / "own", "fused", own=0.8)
    mixed = np.array(fused_shares(3, 0.8))[1:]
    for name, value in updates(plain).items():
        np.testing.assert_allclose(
            updates(found)[name], np.einsum("oc,rc...->ro...", mixed, value), atol=1e-6
        )
    assert found["facts"]["clients"] == list(CLIENTS[1:])
    assert found["facts"]["knows"]["observer"] == "client"
    np.testing.assert_array_equal(found["truth"]["images/0"], plain["truth"]["images/1"])


def test_known_shares_are_solved_for_and_secret_ones_are_others_in_each_round(
    plain: Files, tmp_path: Path
) -> None:
    known = played(tmp_path / "known", "fused", shares="known")
    drawn = played(tmp_path / "drawn", "fused", shares="drawn")
    wanted = {name: value[:, 1:] for name, value in updates(plain).items()}
    for name, value in wanted.items():
        np.testing.assert_allclose(updates(known)[name], value, atol=1e-5)
    mixtures = []
    for turn in range(3):
        of = {name: value[turn].reshape(3, -1) for name, value in updates(plain).items()}
        seen = {name: value[turn].reshape(2, -1) for name, value in updates(drawn).items()}
        every, got = (np.hstack([part[name] for name in sorted(of)]) for part in (of, seen))
        shares = np.linalg.lstsq(every.T, got.T, rcond=None)[0].T
        np.testing.assert_allclose(shares.sum(1), 1, atol=1e-4)
        assert shares.argmax(1).tolist() == [1, 2]
        assert (shares > 0).all()
        mixtures.append(shares)
    assert np.ptp(mixtures, axis=0).min() > 0.01


def test_a_server_without_the_key_sees_numbers_that_say_nothing(plain: Files, tmp_path: Path) -> None:
    found = played(tmp_path / "own", "encrypted")
    every, seen = (np.hstack([v.ravel() for v in updates(f).values()]) for f in (plain, found))
    assert abs(np.corrcoef(every, seen)[0, 1]) < 4 / np.sqrt(every.size)
    assert abs(seen.mean()) < 4 / np.sqrt(3 * seen.size)
    assert seen.std() == pytest.approx(1 / np.sqrt(3), rel=0.05)
    # 51 values of 40 bits in a plaintext of 2048 bits, twice that in a ciphertext.
    values = sum(v[0, 0].size for v in updates(plain).values())
    np.testing.assert_allclose(found["truth"]["bytes/0"], values * -(-4096 // 51) / 8, atol=1)
    again = played(tmp_path / "again", "encrypted")
    assert all((v == updates(again)[n]).all() for n, v in updates(found).items())


def test_with_a_clients_key_it_sees_updates_in_steps_of_the_quantisation(
    plain: Files, tmp_path: Path
) -> None:
    found = played(tmp_path / "own", "encrypted", observer="colluding")
    step = 100 / 2**32
    for name, value in updates(plain).items():
        np.testing.assert_allclose(updates(found)[name], value, atol=0.5 * step + 1e-7)
    assert found["facts"]["knows"]["observer"] == "colluding"


def test_an_encrypted_sum_opens_to_what_pailliers_scheme_opens(plain: Files, tmp_path: Path) -> None:
    found = played(tmp_path / "own", "encrypted", observer="sum")
    assert found["facts"]["clients"] == [sum(CLIENTS)]
    scheme = build("paillier", {"bits": 128})
    keys = scheme.keys()
    shares = [round(scheme.pieces * count / sum(CLIENTS)) for count in CLIENTS]
    for name, value in updates(plain).items():
        if name.endswith("bias"):
            sealed = [scheme.seal(keys, each.ravel()) for each in value[0]]
            opened = scheme.opened(keys, scheme.combine(keys.without_private(), sealed, shares))
            np.testing.assert_array_equal(updates(found)[name][0, 0].ravel(), opened.astype(np.float32))


@pytest.mark.parametrize("module", ["fused", "aggregated"])
def test_a_client_alone_has_nobody_to_hide_among(tmp_path: Path, module: str) -> None:
    root = tmp_path / "own"
    root.mkdir()
    captured(root, defence={"module": module, "parameters": {}}, clients=(2,))
    assert "nobody to hide among" in read_facts(root / "capture.safetensors")["absent"]
    assert read_tensors(root / "capture.safetensors")[0] == {}
