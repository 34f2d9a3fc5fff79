"""Scores of a cell whose guesses are known: matching, failures, null baselines, what is reconstructed."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from cell import ORIGIN, STEM, Cell, known_guesses, make_cell, write_guesses
from scipy.stats import pearsonr

from leakbench.base.artefacts import read_tensors, write_tensors
from leakbench.base.errors import Altered
from leakbench.base.missing import pass_on
from leakbench.metrics.scoring.groups import elsewhere
from leakbench.networks.layers import dense_input
from leakbench.networks.victims.file import load_victim


def test_every_private_image_has_one_row(cell: Cell) -> None:
    rows, facts = cell.score("pearson", "mse")
    own = rows[rows["baseline"] == ""]
    assert len(own) == 3 * 2 + 3 * 3
    assert (facts["target"], facts["left_out"]) == ("images", "")
    assert rows["attack"].unique().tolist() == ["attack"]
    assert rows["seconds"].isna().all()
    assert not own.duplicated(["round", "client", "sample"]).any()
    for client, k in ((0, 2), (1, 3)):
        part = own[own["client"] == client].sort_values(["round", "sample"])
        assert part["image"].tolist() == cell.index[client].ravel().tolist()
        assert part["round"].tolist() == np.repeat(range(3), k).tolist()
        assert (part["local_samples"] == k).all()
        assert (part["checkpoint"] == 30).all()
        assert part["usable"].tolist() == np.repeat([3, 1, 0], k).tolist()


def test_rounds_that_were_pooled_have_one_row_for_each_image(cell: Cell) -> None:
    """An attacker who takes all rounds for one has one reconstruction of each image, whose chance is one."""
    truth = cell.results / f"truth/{ORIGIN}.safetensors"
    tensors, facts = read_tensors(truth)
    prices = {"accuracy": np.array([0.1, 0.5, 0.4]), "bytes/0": np.array([7, 8, 9])}
    write_tensors(truth, tensors | prices, facts)
    every, _ = cell.score("pearson", "update_bytes")
    guess, usable = known_guesses(cell)
    write_guesses(cell, guess[:1], usable[:1])
    rows, _ = cell.score("pearson", "update_bytes")
    own, before = (each[each["baseline"] == ""].reset_index(drop=True) for each in (rows, every))
    assert len(own) == 2 + 3
    expected = before[before["round"] == 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(own, expected)


WRONG_COSTS = {
    "no update": ('{"seconds": 3.0, "updates": 0}', "updates: is 0 and must be a number from 1 on"),
    "a text": ('{"seconds": "long", "updates": 6}', "seconds: is 'long' and must be a number from 0 on"),
    "nothing": ('{"seconds": 3.0}', "updates: is None and must be a number from 1 on"),
    "true": ('{"seconds": 3.0, "updates": true}', "updates: is True and must be a number from 1 on"),
    "below nothing": ('{"seconds": -1, "updates": 6}', "seconds: is -1 and must be a number from 0 on"),
    "too large for a float": (f'{{"seconds": 1{"0" * 400}, "updates": 6}}', "seconds: is 1000"),
    "no number": ('{"seconds": NaN, "updates": 6}', "not a record: seconds: nan is no finite number"),
    "infinity": ('{"seconds": 1e999, "updates": 6}', "not a record: seconds: inf is no finite number"),
}


@pytest.mark.parametrize("name", WRONG_COSTS)
def test_a_record_of_costs_that_is_none_is_one_line_with_file_and_key(cell: Cell, name: str) -> None:
    record = cell.root / "record.json"
    text, told = WRONG_COSTS[name]
    record.write_text(text)
    with pytest.raises(Altered, match=re.escape(f"{record}: {told}")):
        cell.score("pearson", attack_records=[record])


def test_images_that_a_defence_transformed_are_a_second_truth(cell: Cell) -> None:
    """The attack's result has lines beside what the client trained on, from the same reconstructions."""
    truth = cell.results / f"truth/{ORIGIN}.safetensors"
    tensors, facts = read_tensors(truth)
    own = {f"inputs/{client}": 1 - cell.truth(client) for client in (0, 1)}
    write_tensors(truth, tensors | own, facts)
    rows, _ = cell.score("pearson", "mse")
    plain, turned = (rows[rows["baseline"] == name] for name in ("", "transformed"))
    assert len(turned) == len(plain) == 3 * 2 + 3 * 3
    # Two candidates show the first image, at two scales: either may be taken. Pixels are kept in range.
    guess = np.clip(known_guesses(cell)[0], 0, 1)
    for row in turned.itertuples():
        if row.status == "ok":
            seen = 1 - cell.truth(row.client)[row.round, row.sample]
            wrong = guess[row.round, row.client, row.match] - seen
            assert row.mse == pytest.approx(float((wrong**2).mean()), rel=1e-4)
    merged = plain.merge(turned, on=["client", "round", "sample"])
    assert (merged["mse_x"] - merged["mse_y"]).abs().max() > 0.01


def test_best_lets_one_reconstruction_serve_several_images(cell: Cell) -> None:
    rows, _ = cell.score("pearson", "mse")
    own = rows[(rows["baseline"] == "") & (rows["client"] == 0)].set_index(["round", "sample"])
    assert own.loc[(0, 0), "match"] in (0, 2)
    assert own.loc[(0, 1), "match"] == 1
    assert own.loc[(1, 1), "match"] == 3
    # The one live candidate of round 1 is all there is for the other image too.
    assert own.loc[(1, 0), "match"] == 3
    assert own.loc[[(0, 0), (0, 1), (1, 1)], "pearson"].tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    truth = cell.truth(0)[1]
    r = pearsonr(truth[1].ravel(), truth[0].ravel())[0]
    assert own.loc[(1, 0), "pearson"] == pytest.approx(r, abs=1e-5)
    assert own.loc[(1, 0), "mse"] == pytest.approx(np.square(truth[0] - truth[1]).mean(), rel=1e-5)
    assert own.loc[(1, 1), "mse"] == pytest.approx(0, abs=1e-12)
    # Two neurons show the first image, yet its row is one.
    assert own.loc[(0, 0), "neurons"] == 2
    assert own["neurons"].tolist() == [2, 1, 0, 1, 0, 0]


def test_hungarian_gives_each_reconstruction_to_one_image_at_most(cell: Cell) -> None:
    rows, _ = cell.score("pearson", "mse", matching="hungarian")
    own = rows[(rows["baseline"] == "") & (rows["client"] == 1)].set_index(["round", "sample"])
    # Three images, three live candidates of round 0: the scaled copy is left for the third.
    assert own.loc[0, "match"].tolist() == [0, 1, 2]
    assert own.loc[(0, 0), "mse"] == pytest.approx(0, abs=1e-12)
    assert own.loc[1, "match"].tolist() == [-1, 3, -1]
    assert own.loc[1, "status"].tolist() == ["nothing", "ok", "nothing"]


@pytest.mark.parametrize("matching", ["best", "hungarian"])
def test_nothing_is_scored_as_mid_grey_and_says_so(cell: Cell, matching: str) -> None:
    rows, _ = cell.score("pearson", "mse", "psnr", matching=matching)
    own = rows[(rows["baseline"] == "") & (rows["client"] == 1) & (rows["round"] == 2)]
    assert (own["status"] == "nothing").all()
    assert (own["match"] == -1).all()
    assert (own["pearson"] == 0).all()
    grey = np.square(cell.truth(1)[2] - 0.5).mean((1, 2, 3))
    assert own["mse"].tolist() == pytest.approx(grey.tolist(), rel=1e-6)
    assert own["psnr"].tolist() == pytest.approx((-10 * np.log10(grey)).tolist(), rel=1e-6)


def test_a_candidate_that_is_not_usable_is_never_matched(cell: Cell) -> None:
    # The very images, but declared unusable, beside one live constant.
    guess, usable = np.zeros((3, 2, 4, 1, 8, 8), np.float32), np.zeros((3, 2, 4), bool)
    guess[:, :, :2] = np.stack([cell.truth(c)[:, :2] for c in range(2)], 1)
    guess[:, :, 2] = np.random.default_rng(1).random((3, 2, 1, 8, 8))
    usable[:, :, 2] = True
    write_guesses(cell, guess, usable)
    for matching in ("best", "hungarian"):
        rows, _ = cell.score("pearson", matching=matching)
        own = rows[rows["baseline"] == ""]
        assert set(own["match"]) <= {2, -1}
        assert (own["match"] == 2).any()
        assert own["pearson"].max() < 0.9


@pytest.mark.parametrize("matching", ["best", "hungarian"])
def test_null_baselines_are_scored_beside_the_attack(cell: Cell, matching: str) -> None:
    rows, _ = cell.score("pearson", "mse", matching=matching)
    counts = rows.groupby(["baseline", "client"]).size()
    for name in ("random-gradient", "random-noise", "dataset-mean"):
        # The null attack has two rounds.
        assert (counts[name, 0], counts[name, 1]) == (4, 6)
        null = rows[rows["baseline"] == name]
        assert set(null["round"]) == {0, 1}
        assert null["pearson"].max() < 0.9
        for client in (0, 1):
            images = null[null["client"] == client]["image"]
            assert images.tolist() == cell.index[client][:2].ravel().tolist()
    mean = rows[rows["baseline"] == "dataset-mean"]
    assert (mean["status"] == "ok").all()
    train = np.random.default_rng(0)
    train.integers(0, 256, (20, 8, 8, 1), dtype=np.uint8)
    average = train.integers(0, 100, (30, 8, 8, 1), dtype=np.uint8).mean(0).transpose(2, 0, 1) / 255
    expected = np.square(cell.pixels[mean["image"]] - average).mean((1, 2, 3))
    assert mean["mse"].tolist() == pytest.approx(expected.tolist(), rel=1e-5)


@pytest.mark.parametrize("decays", [False, True])
def test_how_far_each_loss_fell_is_kept_unless_the_step_size_decays(cell: Cell, decays: bool) -> None:
    file = cell.results / f"guesses/{STEM}.safetensors"
    losses = np.full((3, 2, 40), 0.5, np.float32)
    losses[1, 0, 30:] = 0.4
    write_tensors(file, read_tensors(file)[0] | {"losses": losses}, read_tensors(file)[1])
    _, facts = cell.score("mse", decays=decays)
    assert facts.get("falls") == (None if decays else [0, 0, 0.2, 0, 0, 0])


@pytest.mark.parametrize("matching", ["best", "hungarian"])
def test_features_are_compared_with_what_the_dense_layer_reads(tmp_path: Path, matching: str) -> None:
    made = make_cell(tmp_path, np.zeros((2, 1, 2, 32, 3, 3)), np.ones((2, 1, 2), bool), (2,), "features")
    model, _ = load_victim(made.results / "victims/made/victim/0.safetensors")
    features = dense_input(model, torch.from_numpy(made.truth(0).reshape(4, 1, 8, 8))).numpy()
    guess = features.reshape(2, 1, 2, 32, 3, 3)[:, :, ::-1]
    write_guesses(made, guess, np.ones((2, 1, 2), bool), "features")
    rows, facts = made.score("pearson", "mse", "channel_pearson", matching=matching)
    own = rows[rows["baseline"] == ""]
    assert facts["target"] == "features"
    assert own["match"].tolist() == [1, 0, 1, 0]
    assert own["pearson"].tolist() == pytest.approx([1] * 4, abs=1e-5)
    # Metrics of images do not apply; those of features do.
    assert "mse" not in rows
    assert rows["channel_pearson"].between(0, 1).all()
    assert set(rows["baseline"]) == {"", "random-gradient", "random-noise", "dataset-mean", "other-update"}


def test_an_attacks_seconds_are_shared_among_its_updates(cell: Cell) -> None:
    record = cell.root / "record.json"
    record.write_text(json.dumps({"seconds": 3.0, "updates": 6}))
    rows, _ = cell.score("pearson", attack_records=[record])
    own = rows["baseline"] == ""
    assert (rows.loc[own, "seconds"] == 0.5).all()
    assert rows.loc[~own, "seconds"].isna().all()


def test_work_in_parts_changes_no_score(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    for matching in ("best", "hungarian"):
        whole, _ = cell.score("pearson", "mse", matching=matching)
        with monkeypatch.context() as patch:
            patch.setattr("leakbench.metrics.scoring.candidates.WORKING_FLOATS", 1)
            parts, _ = cell.score("pearson", "mse", matching=matching)
        assert whole.equals(parts)
    # Noise too is the same from run to run, and differs from round to round.
    noise = whole[whole["baseline"] == "random-noise"]["mse"]
    assert noise.nunique() == len(noise)


def test_an_absent_input_makes_absent_scores(cell: Cell) -> None:
    pass_on("no such archive", [cell.results / f"guesses/{STEM}.safetensors"])
    rows, facts = cell.score("pearson")
    assert facts == {"absent": "no such archive"}
    assert rows.empty


def test_absent_backbones_leave_out_only_what_needs_them(cell: Cell) -> None:
    backbones = cell.root / "data/lpips-backbones.safetensors"
    write_tensors(backbones, {}, {"absent": "no network"})
    rows, facts = cell.score("pearson", "lpips_alex", "mse", backbones=backbones)
    assert facts["left_out"] == "no network"
    assert "lpips_alex" not in rows
    assert rows["mse"].notna().all()


def test_attacks_on_a_capture_share_lpips_networks(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    backbones = cell.root / "data/lpips-backbones.safetensors"
    write_tensors(backbones, {"alex/features.0.weight": np.zeros(1)}, {})
    made: list[str] = []

    def network(net: str, _: object) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        made.append(net)
        return lambda x, y: (x - y).abs().mean((1, 2, 3))

    monkeypatch.setattr("leakbench.metrics.lpips.network", network)
    attacks = ("attack", "again", "once-more")
    rows, _ = cell.score("lpips_alex", "lpips_vgg", backbones=backbones, attacks=attacks)
    assert sorted(made) == ["alex", "vgg"]
    scores = [rows.loc[rows["attack"] == name, "lpips_alex"].to_numpy() for name in attacks]
    assert all(np.array_equal(scores[0], other, equal_nan=True) for other in scores)
    # Those of another capture may be others.
    cell.score("lpips_vgg", backbones=backbones)
    assert made.count("vgg") == 2


def test_unrelated_images_stand_beside_a_published_convention(cell: Cell) -> None:
    rows, _ = cell.score("psnr", "psnr_uint8_wrap", "mse")
    pairs = rows[rows["baseline"] == "unrelated-image"]
    assert pairs.groupby("client").size().tolist() == [64, 64]
    first = pairs[pairs["client"] == 0]
    assert first["round"].is_unique
    assert (first["status"] == "ok").all()
    # Each is the error of some other image of the split, and of none with itself.
    errors = np.square(cell.pixels[:, None] - cell.pixels[None]).mean((2, 3, 4))
    for image, mse in zip(first["image"], first["mse"], strict=True):
        others = np.delete(errors[image], image)
        assert np.abs(others - mse).min() < 1e-6
    assert first["psnr"].tolist() == pytest.approx((-10 * np.log10(first["mse"])).tolist())
    assert first["image"].nunique() > 10
    second = pairs[pairs["client"] == 1]
    assert (second["local_samples"] == 3).all()
    assert second["mse"].tolist() == first["mse"].tolist()
    again, _ = cell.score("psnr", "psnr_uint8_wrap", "mse")
    assert again.equals(rows)


def test_unrelated_images_are_not_scored_for_standard_metrics_and_change_no_other_row(cell: Cell) -> None:
    plain, _ = cell.score("pearson", "mse")
    assert "unrelated-image" not in set(plain["baseline"])
    more, _ = cell.score("pearson", "mse", "rmse_255")
    rest = more[more["baseline"] != "unrelated-image"]
    assert rest["mse"].tolist() == plain["mse"].tolist()


def test_a_candidate_that_is_no_number_is_scored_as_nothing(cell: Cell) -> None:
    """An attack that writes NaN where it is unsure would leave the means, and look better than it is."""
    guess, usable = known_guesses(cell)
    write_guesses(cell, guess, usable)
    honest, _ = cell.score("pearson", "mse", "psnr")
    for value in (np.nan, np.inf):
        spoilt = guess.copy()
        spoilt[0] = value
        write_guesses(cell, spoilt, usable)
        rows, _ = cell.score("pearson", "mse", "psnr")
        own = rows[(rows["baseline"] == "") & (rows["round"] == 0)]
        assert len(rows) == len(honest)
        assert set(own["status"]) == {"nothing"}
        assert (own["pearson"] == 0).all()
        grey = np.square(cell.pixels[own["image"]] - 0.5).mean((1, 2, 3))
        assert own["mse"].tolist() == pytest.approx(grey.tolist(), rel=1e-5)
        assert np.isfinite(rows[["mse", "psnr"]][rows["mse"] > 0]).all(axis=None)


def test_what_an_honest_attack_made_of_another_update_is_no_success(cell: Cell) -> None:
    rows, _ = cell.score("pearson", "mse")
    one = rows[rows["client"] == 0].groupby("baseline")["pearson"].max()
    assert one[""] > 0.98
    assert one["other-update"] < 0.9
    # All rounds of the other client share images.
    assert "other-update" not in set(rows[rows["client"] == 1]["baseline"])


def test_another_update_shares_no_image_with_its_own() -> None:
    index = np.array([[0, 1], [1, 2], [3, 4], [5, 6]])
    for count in (4, 1):
        others = elsewhere(index, count)
        assert others is not None
        assert len({*others.tolist()}) == count
        assert all(not {*index[one]} & {*index[other]} for one, other in enumerate(others))
        assert np.array_equal(others, elsewhere(index, count))
    # Whoever does not know the images cannot know which round is shown beside another one.
    first = [int(elsewhere(np.arange(30)[:, None] + 30 * draw, 2)[0]) for draw in range(100)]  # type: ignore[index]
    assert len({*first}) > 20
    assert 0 not in first
    # Hardly any permutation fits.
    others = elsewhere(np.repeat(np.arange(2), 20)[:, None], 40)
    assert others is not None
    assert sorted(others[:20]) == [*range(20, 40)]
    assert sorted(others[20:]) == [*range(20)]
    assert elsewhere(np.array([[0], [0]]), 2) is None
    assert elsewhere(np.array([[0]]), 1) is None
