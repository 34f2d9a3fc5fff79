"""Scores of judges, of several passes, and of what others than the server see."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from cell import ORIGIN, STEM, Cell, make_cell, tabled
from played import captured

from leakbench.base.artefacts import read_facts, read_tensors, write_tensors
from leakbench.base.errors import UserError
from leakbench.defences.encryption import build
from leakbench.federation.training.server import fused_shares
from leakbench.networks.victims.file import load_victim
from leakbench.observations.reading import read_observation
from leakbench.results.tables.attacked import CONDITION

JUDGES = ("densenet121-faces", "resnet18-faces")
METRICS = ("top1_resnet18", "top3_resnet18", "top1_densenet121")


@pytest.fixture
def judges(cell: Cell) -> list[Path]:
    """The cell's own untrained network, in the place of either judge, and one whose weights are turned
    round."""
    tensors, facts = read_tensors(cell.results / "victims/made/victim/0.safetensors")
    paths = [cell.results / f"victims/made/{name}/0.safetensors" for name in JUDGES]
    write_tensors(paths[0], {name: -value for name, value in tensors.items()}, facts)
    write_tensors(paths[1], tensors, facts)
    return paths


def told(path: Path, images: np.ndarray, labels: np.ndarray, count: int) -> list[float]:
    """Return whether each label is among the highest answers, by torch's own order."""
    model, _ = load_victim(path)
    with torch.no_grad():
        first = model(torch.from_numpy(images)).topk(count).indices.numpy()
    return [float(label in row) for label, row in zip(labels, first, strict=True)]


def test_a_judge_is_asked_about_each_matched_reconstruction(cell: Cell, judges: list[Path]) -> None:
    rows, facts = cell.score(*METRICS, "mse", judges=JUDGES, files=judges)
    assert (facts["left_out"], facts["classes"]) == ("", 10)
    # An attack without partners has no column of them.
    assert not [name for name in rows if name.startswith("matching_success")]
    assert (rows["pass"] == 0).all()
    own = rows[(rows["baseline"] == "") & (rows["client"] == 0)].set_index(["round", "sample"])
    guess, label = cell.truth(0)[0], cell.index[0][0] % 10
    for path, judge in zip(judges, ("densenet121", "resnet18"), strict=True):
        assert own.loc[0, f"top1_{judge}"].tolist() == told(path, guess, label, 1)
    assert own.loc[0, "top3_resnet18"].tolist() == told(judges[1], guess, label, 3)
    # A failed reconstruction counts, as the grey image that stands for it.
    grey = np.full((2, 1, 8, 8), 0.5, np.float32)
    assert own.loc[2, "status"].tolist() == ["nothing"] * 2
    assert own.loc[2, "top3_resnet18"].tolist() == told(judges[1], grey, cell.index[0][2] % 10, 3)


@pytest.mark.parametrize("matching", ["best", "hungarian"])
def test_the_private_images_themselves_are_a_baseline(cell: Cell, judges: list[Path], matching: str) -> None:
    rows, _ = cell.score(*METRICS, "mse", matching=matching, judges=JUDGES, files=judges)
    for client in (0, 1):
        given = rows[(rows["baseline"] == "original") & (rows["client"] == client)]
        images, labels = cell.pixels[cell.index[client].ravel()], cell.index[client].ravel() % 10
        assert given["image"].tolist() == cell.index[client].ravel().tolist()
        assert (given["pearson"] > 0.999).all()
        assert given["top3_resnet18"].tolist() == told(judges[1], images, labels, 3)
        # What compares images with themselves says nothing.
        assert given["mse"].isna().all()
    table = tabled(rows, [*METRICS, "mse"])
    assert set(table.loc[table["baseline"] == "original", "metric"]) == set(METRICS)
    assert {"random-gradient", "random-noise", "dataset-mean"} < set(table["baseline"])


def test_an_absent_judge_leaves_out_only_what_asks_it(cell: Cell, judges: list[Path]) -> None:
    write_tensors(judges[0], {}, {"absent": "no such data"})
    rows, facts = cell.score(*METRICS, "mse", judges=JUDGES, files=judges)
    assert facts["left_out"] == "no such data"
    assert "top1_densenet121" not in rows
    assert rows.loc[rows["baseline"] == "original", "top1_resnet18"].notna().all()
    assert rows.loc[rows["baseline"] == "", "mse"].notna().all()


def test_a_missing_judge_is_named(cell: Cell, judges: list[Path]) -> None:
    with pytest.raises(UserError, match="--judges: no file of densenet121-faces"):
        cell.score(*METRICS, judges=JUDGES[::-1], files=judges[1:])


PASSES = np.array([0, 0, 1, 1])
# Of the one client's four rounds of two images, the second pass has the first one's in another order.
INDEX = np.array([[3, 4], [5, 6], [6, 3], [4, 5]])
PARTNERS = {
    "partner": [[-1, -1], [-1, -1], [3, 0], [1, 2]],
    "partner_plain": [[-1, -1], [-1, -1], [3, 1], [-1, 2]],
}
OF_PASSES = ["pearson", "matching_success", "matching_success_plain", "matching_success_no_labels"]


@pytest.fixture
def scored(tmp_path: Path) -> pd.DataFrame:
    cell = make_cell(tmp_path, np.zeros((4, 1, 2, 1, 8, 8)), np.ones((4, 1, 2), bool), ks=(2,))
    path = cell.results / f"truth/{ORIGIN}.safetensors"
    tensors, facts = read_tensors(path)
    write_tensors(path, tensors | {"images/0": INDEX, "pass": PASSES}, facts)
    path = cell.results / f"guesses/{STEM}.safetensors"
    tensors, facts = read_tensors(path)
    guess = {"images": cell.pixels[INDEX][:, None]}
    # The last round's candidates stand the other way round.
    guess["images"][3] = guess["images"][3, :, ::-1].copy()
    partners = {name: np.array(rows)[:, None] for name, rows in PARTNERS.items()}
    for rows in partners.values():
        rows[3] = rows[3, :, ::-1].copy()
    write_tensors(path, tensors | guess | partners, facts)
    return cell.score(*OF_PASSES, matching="hungarian")[0]


def test_each_way_of_matching_is_a_column(scored: pd.DataFrame) -> None:
    own = scored[scored["baseline"] == ""]
    assert own["pass"].tolist() == PASSES.repeat(2).tolist()
    assert own["matching_success"][:4].isna().all()
    assert own["matching_success"][4:].tolist() == [1, 1, 1, 1]
    assert own["matching_success_plain"][4:].tolist() == [1, 0, 0, 1]
    assert "matching_success_no_labels" not in scored
    assert scored.loc[scored["baseline"] != "", "matching_success"].isna().all()


def test_a_table_tells_passes_apart_where_there_are_several(scored: pd.DataFrame) -> None:
    lines = tabled(scored, OF_PASSES)
    assert list(lines.columns[: len(CONDITION) + 1]) == [*CONDITION, "pass"]
    success = lines[lines["metric"].str.startswith("matching_success")].set_index("metric")
    assert success["pass"].tolist() == [1, 1]
    assert success["mean"].to_dict() == {"matching_success": 1.0, "matching_success_plain": 0.5}
    assert success["n"].tolist() == [4, 4]
    only = tabled(scored[scored["pass"] == 1], OF_PASSES)
    assert "pass" not in only


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
    seen = files["capture"].items()
    return {name: value.astype(float) for name, value in seen if name.startswith("updates/")}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return played(tmp_path_factory.mktemp("plain") / "none", "none")


@pytest.mark.parametrize(("observer", "first"), [("server", 0), ("client", 1)])
def test_a_sum_is_of_all_or_of_all_others(plain: Files, tmp_path: Path, observer: str, first: int) -> None:
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


def test_fused_updates_are_mixtures_but_for_the_observers_own(plain: Files, tmp_path: Path) -> None:
    found = played(tmp_path / "own", "fused", own=0.8)
    mixed = np.array(fused_shares(3, 0.8))[1:]
    for name, value in updates(plain).items():
        mean = np.einsum("oc,rc...->ro...", mixed, value)
        np.testing.assert_allclose(updates(found)[name], mean, atol=1e-6)
    assert found["facts"]["clients"] == list(CLIENTS[1:])
    assert found["facts"]["knows"]["observer"] == "client"
    np.testing.assert_array_equal(found["truth"]["images/0"], plain["truth"]["images/1"])


def test_known_shares_are_solved_for_and_secret_ones_drawn_each_round(plain: Files, tmp_path: Path) -> None:
    known = played(tmp_path / "known", "fused", shares="known")
    drawn = played(tmp_path / "drawn", "fused", shares="drawn")
    for name, value in updates(plain).items():
        np.testing.assert_allclose(updates(known)[name], value[:, 1:], atol=1e-5)
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


def test_with_a_clients_key_it_sees_quantised_updates(plain: Files, tmp_path: Path) -> None:
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
