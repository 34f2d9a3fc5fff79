"""The First Dense Layer Attack on the paper's victims, and attacks on records of a table."""

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from observations import observe
from observing import seen_of, sent_by
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench import attacks, defences
from leakbench.attacks import fidel as room
from leakbench.attacks import run
from leakbench.attacks.fidel import divide, fidel, join
from leakbench.datasets.columns import columns_of, decode, encode
from leakbench.metrics import measure
from leakbench.metrics.matching import best
from leakbench.metrics.pearson import pearson_matrix
from leakbench.networks import generators, victims
from leakbench.networks.layers import Normalise, dense_input, draw_masks
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

RNG = torch.Generator()
ACTIVATIONS = ["relu", "sigmoid", "tanh", "linear"]


@pytest.mark.parametrize(
    ("activation", "dropout", "kind"),
    [("relu", 0.0, "model"), ("relu", 0.5, "gradient"), ("sigmoid", 0.0, "gradient"), ("tanh", 0.5, "model")],
)
def test_one_sample_is_in_every_live_neuron(activation: str, dropout: float, kind: str) -> None:
    observation, images = observe(k=1, rounds=2, activation=activation, dropout=dropout, kind=kind)
    found = fidel(observation, RNG)
    assert found.images.shape == (2, 1, 128, 1, 28, 28)
    assert 20 < found.usable.sum() <= 256
    for turn in range(2):
        rows = found.images[turn, 0][found.usable[turn, 0]]
        if kind == "gradient":
            torch.testing.assert_close(rows, images[turn].expand_as(rows), rtol=1e-5, atol=1e-5)
        else:
            # A difference of float32 weights keeps few digits of a small step; the largest steps keep the
            # most.
            error = (rows - images[turn]).abs().flatten(1).amax(1)
            assert error.min() < 0.02
            assert error.max() > 1e-5
    assert not found.images[~found.usable].any()
    assert found.usable.all() or dropout or activation == "relu"


def test_one_sample_through_the_cnn_shows_what_its_dense_layer_reads() -> None:
    observation, images = observe("cnn", (32, 32, 3), k=1)
    found = fidel(observation, RNG)
    assert found.target == "features"
    assert found.images.shape == (1, 1, 128, 32, 15, 15)
    # This equality is what lets the generator be trained on forward passes alone.
    expected = dense_input(observation.model(), images[0])[0]
    rows = found.images[found.usable]
    assert len(rows) > 20
    torch.testing.assert_close(rows, expected.expand_as(rows), rtol=1e-4, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    k=st.integers(1, 9), seed=st.integers(0, 2**31), activation=st.sampled_from(ACTIVATIONS),
    dropout=st.sampled_from([0.0, 0.5]),
)  # fmt: skip
def test_every_row_is_the_samples_mixed_by_errors(k: int, seed: int, activation: str, dropout: float) -> None:
    shape = (3, 4, 1)
    parameters = {"activation": activation, "dropout": dropout, "width": 16}
    observation, images = observe("fcnn", shape, k, seed=seed, **parameters)
    model = observation.model().double()
    if dropout:
        mask = draw_masks(model, (1, 1, k), torch.Generator().manual_seed(seed))["dropout.keep"]
        model.get_submodule("dropout").keep = mask[0, 0].double()
    torch.manual_seed(seed)
    victims.build("fcnn", shape, 10, parameters)
    torch.rand(1, k, 1, 3, 4)
    labels = torch.randint(0, 10, (1, k))[0]
    outputs: list[Tensor] = []
    model.get_submodule("dense1").register_forward_hook(
        lambda _, __, out: (out.retain_grad(), outputs.append(out))[1]
    )
    cross_entropy(model(images[0].double()), labels).backward()
    error = outputs[0].grad
    found = fidel(observation, RNG)
    rows = found.images[0, 0].flatten(1).double()
    total, spread = error.sum(0), error.abs().sum(0)
    # Where errors cancel, the float32 of the update limits what can be compared.
    clear = (total.abs() > 1e-3 * spread) & (spread > 1e-12)
    mixture = (error.T @ images[0].flatten(1).double()) / total.unsqueeze(1)
    torch.testing.assert_close(rows[clear], mixture[clear], rtol=1e-3, atol=1e-2)
    assert not found.usable[0, 0][spread == 0].any()
    assert found.usable[0, 0][clear].all()


@settings(max_examples=100, deadline=None)
@example(
    weight=np.array([[1, np.nan, 0, 0], [np.inf, 1, 0, 0], [3e38, 0, 0, 0]], np.float32),
    bias=np.zeros(3, np.float32),
)
@given(
    weight=arrays(np.float32, (3, 4), elements=st.floats(width=32)),
    bias=arrays(np.float32, (3,), elements=st.floats(width=32)),
)
def test_no_nan_and_no_infinity_comes_out_whatever_goes_in(weight: np.ndarray, bias: np.ndarray) -> None:
    ratio, usable = divide(torch.from_numpy(weight), torch.from_numpy(bias))
    assert ratio.isfinite().all()
    assert not ratio[~usable].any()
    assert join(ratio, torch.from_numpy(bias) != 0).isfinite().all()


@pytest.mark.parametrize(
    ("weight", "bias", "image"),
    [
        # Samples (1, 2) and (3, 1) that add -1 and 1.5 to the bias: -2 and 3 times them, outside their range.
        *(([f * 3.5, f * -0.5], f * 0.5, [7.0, -1.0]) for f in (1.0, -1.0, -0.01, 1e-6, 1e6)),
        ([1.0, 2.0], 1.0, [1.0, 2.0]),
        # A bias change of exactly zero: the row is scaled by its largest magnitude.
        ([0.5, -2.0], 0.0, [0.25, -1.0]),
        ([3.0, 1.5], -0.0, [1.0, 0.5]),
        # The image is black, or the neuron reads nothing: the row is zero either way.
        ([0.0, 0.0], 0.3, None),
        ([0.0, 0.0], 0.0, None),
    ],
)
def test_a_row_is_divided_by_its_bias(weight: list[float], bias: float, image: list[float] | None) -> None:
    ratio, usable = divide(torch.tensor([weight]), torch.tensor([bias]))
    torch.testing.assert_close(ratio, torch.tensor([image or [0.0, 0.0]]))
    assert usable.tolist() == [image is not None]


def test_only_the_first_dense_layer_is_read() -> None:
    observation, _ = observe(k=4)
    updates = {n: v if n.startswith("dense1") else np.full_like(v, 7) for n, v in observation.updates.items()}
    other = replace(observation, updates=updates)
    assert torch.equal(fidel(other, RNG).images, fidel(observation, RNG).images)


class Standardises(nn.Module):
    """A network that standardises pixels by a calculation, which no layer tells of."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.dense = nn.Linear(shape[0] * shape[1] * shape[2], classes)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.dense((x.flatten(1) - 0.5) / 0.2)
        return found


def test_what_a_calculation_makes_of_pixels_is_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    own = SimpleNamespace(standardises=Standardises)
    monkeypatch.setitem(sys.modules, "leakbench.networks.victims.standardises", own)
    observation, images = observe("standardises", (6, 6, 1))
    found = fidel(observation, RNG)
    assert found.target == "features"
    torch.testing.assert_close(found.images[0, 0, 0], (images[0, 0] - 0.5) / 0.2, rtol=1e-3, atol=1e-4)


def test_rounds_are_attacked_one_like_many(monkeypatch: pytest.MonkeyPatch) -> None:
    observation, _ = observe("fcnn", (6, 6, 1), k=3, rounds=45)
    whole = fidel(observation, RNG)
    monkeypatch.setitem(attacks._CAPABILITIES, fidel, attacks.Capabilities(rounds_at_once=7))
    parts = list(attacks.pieces({"module": "fidel", "parameters": {"combine": True}}, observation, RNG))
    assert [rounds for rounds, _ in parts] == [slice(i, min(i + 7, 45)) for i in range(0, 45, 7)]
    assert torch.equal(torch.cat([part.images for _, part in parts])[:, :, :-1], whole.images)
    assert torch.equal(torch.cat([part.usable for _, part in parts])[..., :-1], whole.usable)
    assert whole.usable[-1].any()


def test_only_so_many_live_neurons_are_used_as_asked_for() -> None:
    observation, _ = observe("fcnn", (6, 6, 1), k=3, rounds=5)
    whole, part = fidel(observation, RNG), fidel(observation, RNG, neurons=4)
    assert torch.equal(part.usable, whole.usable & (whole.usable.cumsum(-1) <= 4))
    assert part.usable.sum() < whole.usable.sum()
    assert torch.equal(part.images[part.usable], whole.images[part.usable])
    assert not part.images[~part.usable].any()


def test_join_is_the_median_of_what_was_shared() -> None:
    ratio = torch.tensor([[1.0, 0.0, 4.0], [3.0, 0.0, 5.0], [2.0, 0.0, 0.0], [90.0, 90.0, 90.0]])
    # The last neuron's bias change was not shared: its row has another scale and stays out.
    found = join(ratio, torch.tensor([True, True, True, False]))
    assert found.tolist() == [2.0, 0.0, 4.0]
    assert join(ratio, torch.zeros(4, dtype=torch.bool)).tolist() == [0.0, 0.0, 0.0]


def test_joined_neurons_fill_the_gaps_of_a_partial_update() -> None:
    observation, images = observe(k=1, activation="tanh")
    part = {n: torch.from_numpy(v[:, 0]) for n, v in observation.updates.items()}
    part = defences.build("withhold", {"share": 0.5}).update(part, torch.Generator().manual_seed(0))
    shared = replace(observation, updates={n: v.numpy()[:, None] for n, v in part.items()})
    found = fidel(shared, RNG, combine=True)
    assert found.images.shape[2] == 129
    joint, rows = found.images[0, 0, -1], found.images[0, 0, :-1]
    assert bool(found.usable[0, 0, -1])
    torch.testing.assert_close(joint, images[0, 0], rtol=1e-4, atol=1e-4)
    assert ((rows == 0).float().mean((1, 2, 3)) > 0.3).all()
    assert fidel(shared, RNG).images.shape[2] == 128


def test_nothing_shared_joins_to_nothing() -> None:
    observation, _ = observe("fcnn", (4, 4, 1))
    silent = replace(observation, updates={n: 0 * v for n, v in observation.updates.items()})
    found = fidel(silent, RNG, combine=True)
    assert not found.usable.any()
    assert not found.images.any()


def test_a_generator_turns_live_neurons_into_images(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    generator = generators.build("fidel-mnist", (32, 13, 13), (28, 28, 1), {}).eval()
    observation, _ = observe("cnn", k=2, rounds=1, generator=generator)
    monkeypatch.setattr(room, "IMAGES_AT_ONCE", 50)
    found = fidel(observation, RNG)
    features = fidel(replace(observation, generator=None), RNG)
    assert (found.target, features.target) == ("images", "features")
    assert found.images.shape == (1, 1, 128, 1, 28, 28)
    assert torch.equal(found.usable, features.usable)
    assert 0 <= found.images.min() <= found.images.max() <= 1
    assert (~found.usable).any()
    assert not found.images[~found.usable].any()
    live = features.usable[0, 0].nonzero().flatten()[:8]
    with torch.no_grad():
        expected = generator(features.images[0, 0, live])
    torch.testing.assert_close(found.images[0, 0, live], expected)


def test_an_attacker_who_knows_of_noise_reads_clearer_images() -> None:
    observation, images = observe("mlp", (16, 16, 1), k=4, hidden=[200, 20])
    noise = torch.Generator().manual_seed(0)
    updates = {
        name: value + 0.3 * value.std() * torch.randn(value.shape, generator=noise).numpy()
        for name, value in observation.updates.items()
    }
    noisy = replace(observation, updates=updates)

    def nearest(seen: Observation, **parameters: bool) -> float:
        found = fidel(seen, RNG, **parameters).images[0, 0]
        return float(torch.cdist(images[0].flatten(1), found.flatten(1).float()).amin(1).mean())

    assert nearest(noisy, denoised=True) < 0.6 * nearest(noisy)
    # Without noise it reads as well.
    assert nearest(observation, denoised=True) < 1.05 * nearest(observation) < 0.02


NUMBERS: list[dict[str, Any]] = [{f"number {n}": [0, 1000, 1]} for n in range(12)]
BLOCKS: list[dict[str, Any]] = [{f"category {n}": ["a", "b", "c", "d"]} for n in range(4)]
COLUMNS = columns_of([*NUMBERS, *BLOCKS])
SHAPE = (1, COLUMNS[-1].place.stop, 1)


def people(count: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    numbers = {f"number {n}": rng.integers(0, 1001, count).astype(float) for n in range(len(NUMBERS))}
    return pd.DataFrame(
        numbers | {f"category {n}": rng.choice(list("abcd"), count) for n in range(len(BLOCKS))}
    )


def seen(table: pd.DataFrame, **parameters: Any) -> tuple[Observation, np.ndarray]:
    """Return what the server saw of a client that holds a table, and its records [n, width]."""
    torch.manual_seed(0)
    model = victims.build("mlp", SHAPE, 2, parameters)
    for layer in model.modules():
        if isinstance(layer, Normalise):
            layer.measure(torch.from_numpy(encode(people(1000, 1), COLUMNS))[:, None, None])
    records = encode(table, COLUMNS)
    x = torch.from_numpy(records)[None, :, None, None]
    update = sent_by(model, x, torch.arange(len(table))[None] % 2)
    network = {"module": "mlp", "parameters": parameters, "shape": SHAPE, "classes": 2}
    return seen_of(model, network, update, len(table)), records


def found_by(module: str, observation: Observation) -> Reconstruction:
    return run({"module": module, "parameters": {}}, observation, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("module", "normalise", "count"), [("fidel", "none", 3), ("peel", "none", 6), ("spear", "train", 6)]
)
def test_records_come_back_value_for_value(module: str, normalise: str, count: int) -> None:
    table = people(count, 0)
    observation, records = seen(table, hidden=[600, 100, 100], normalise=normalise)
    found = found_by(module, observation)
    guessed = found.images[0, 0][found.usable[0, 0]].reshape(-1, SHAPE[1]).numpy()
    index, _ = best(pearson_matrix(guessed, records))
    again = decode(guessed[index], COLUMNS)
    pd.testing.assert_frame_equal(again, table, check_exact=True, check_dtype=False)
    four = [each[:, None, None] for each in (guessed[index], records)]
    assert measure(["exact_record"], *four, {"columns": COLUMNS})["exact_record"].tolist() == [1] * count


def test_fidel_undoes_a_normalisation_and_leaves_dead_neurons_at_zero() -> None:
    observation, records = seen(people(1, 0), hidden=[50], normalise="train")
    found = found_by("fidel", observation)
    alive = found.usable[0, 0]
    assert 0 < int(alive.sum()) < len(alive)
    np.testing.assert_allclose(
        found.images[0, 0][alive].flatten(1).numpy(), np.repeat(records, int(alive.sum()), 0), atol=1e-4
    )
    assert not found.images[0, 0][~alive].any()
