"""Samples of an update of any loss, exact searches for columns, and gradients out of steps of Adam."""

from dataclasses import replace

import pytest
import torch
from observing import seen_of, sent_by
from torch import Tensor

from leakbench.attacks.exact import any_loss, sparse
from leakbench.attacks.exact.adam import stepped_back, unscaled
from leakbench.attacks.exact.first_layer import FirstLayer
from leakbench.attacks.exact.span import span
from leakbench.attacks.peel import peeled
from leakbench.networks import victims

BATCH = 8


def sent(seed: int, scores: int = 1, neurons: int = 200) -> tuple[FirstLayer, Tensor, Tensor]:
    """Return a first layer with its gradient in float32 for a loss of chance, samples, and columns."""
    torch.manual_seed(seed)
    alike = torch.rand(1, 36) * torch.linspace(0.3, 1, BATCH)[:, None]
    samples = (alike + 0.15 * torch.rand(BATCH, 36)).clamp(0, 1).double()
    weight, bias = (torch.rand(neurons, size).double() / 3 - 1 / 6 for size in (36, 1))
    last = torch.rand(neurons, scores).double() - 0.5
    ends = torch.zeros(36).double(), torch.ones(36).double()
    empty = weight[:, 0] * 0
    layer = FirstLayer(
        weight, bias[:, 0], weight, empty, BATCH, *ends, lambda z: z.relu() @ last, plain=False
    )
    opened = (samples @ weight.T + bias[:, 0] > 0).double()
    columns = opened * (torch.randn(BATCH, scores).double() @ last.T) / BATCH
    slope, offset = (columns.T @ samples).float().double(), columns.sum(0).float().double()
    return replace(layer, slope=slope, offset=offset), samples, columns


@pytest.mark.parametrize(("scores", "wrong"), [(1, 3), (2, 0), (3, 0)])
def test_what_is_proven_is_a_sample(scores: int, wrong: int) -> None:
    """With one score, a mixture may pass where columns are missing. All batches together have 96 samples."""
    proven, false = 0, 0
    for seed in range(12):
        layer, samples, _ = sent(seed, scores)
        seen = span(layer.slope, BATCH)
        assert seen is not None
        found = peeled(layer, seen)
        assert (found.labels == -1).all()
        off = torch.cdist(found.samples, samples).amin(1) > 1e-3
        proven, false = proven + len(off), false + int(off.sum())
    assert false <= wrong
    assert proven >= 40


def test_a_column_is_that_of_its_sample_alone() -> None:
    layer, samples, columns = sent(0, scores=3)
    seen = span(layer.slope, BATCH)
    assert seen is not None
    others = torch.rand(BATCH, 36).double()
    found, proven = any_loss.columns_of(layer, seen, torch.cat([samples, others]))
    assert proven.tolist() == [True] * BATCH + [False] * BATCH
    alike = torch.cosine_similarity(found[:BATCH] @ seen.left.T, columns)
    assert float(alike.abs().min()) > 1 - 1e-6


def test_the_last_column_follows_from_the_others() -> None:
    layer, samples, _ = sent(0, scores=2)
    seen = span(layer.slope, BATCH)
    assert seen is not None
    own = any_loss.columns_of(layer, seen, samples)[0]
    (found,) = any_loss.last_column(layer, seen, own[1:])
    assert float(torch.cosine_similarity(found, own[0], dim=0).abs()) > 1 - 1e-6
    assert any_loss.of_any_loss(layer, seen, samples, own).all()
    # A mixture has the column of one of its samples, so that another sample's column would be wrong.
    mixed = own.clone()
    mixed[1] += 0.1 * own[0]
    assert not any_loss.of_any_loss(layer, seen, samples, mixed).all()


def test_the_span_of_three_samples_is_theirs() -> None:
    rng = torch.Generator().manual_seed(0)
    samples = torch.randn(3, 40, generator=rng, dtype=torch.float64)
    found = span(torch.randn(30, 3, generator=rng, dtype=torch.float64) @ samples, 5)
    assert found is not None
    assert len(found.values) == 3
    # Each sample is the sum of its parts along the rows of the span.
    torch.testing.assert_close(samples @ found.right.T @ found.right, samples)


def test_a_gradient_of_nothing_and_a_layer_that_is_too_narrow_have_none() -> None:
    assert span(torch.zeros(30, 40), 5) is None
    assert span(torch.ones(5, 40), 5) is None


def searched(columns: Tensor, share: float, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return how many columns [n, rank] the search finds, and how many directions it sharpens."""
    sharpened = sparse._sharpened
    calls: list[int] = []

    def counted(rows: sparse.Rows, q: Tensor, zero: float) -> tuple[int, Tensor]:
        calls.append(1)
        return sharpened(rows, q, zero)

    monkeypatch.setattr(sparse, "_sharpened", counted)
    basis = torch.linalg.svd(columns, full_matrices=False).U
    rng = torch.Generator().manual_seed(1)
    none = torch.zeros(0, columns.shape[1]).double()
    found = [q for _, q in sparse.directions(sparse.distinct(basis), 1e-8, share, 3, rng, none)]
    true = torch.nn.functional.normalize(basis.T @ columns, dim=0)
    assert found
    return int(((torch.stack(found) @ true).abs() > 1 - 1e-9).any(0).sum()), len(calls)


@pytest.mark.parametrize(("neurons", "samples"), [(80, 1), (80, 2), (80, 3), (80, 4), (400, 4), (200, 8)])
def test_columns_are_found_and_sharpened_once(
    neurons: int, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few samples many rows are parallel."""
    rng = torch.Generator().manual_seed(0)
    columns = torch.randn(neurons, samples, generator=rng).double().relu()
    found, sharpened = searched(columns, 0.25, monkeypatch)
    assert found == samples
    assert sharpened < 100


def test_one_sample_takes_one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(torch.ones(1, 1).double(), 0.0, monkeypatch) == (1, 1)


def test_a_search_that_finds_nothing_ends_when_patience_does(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = []

    def nothing(rows: sparse.Rows, *_: object) -> Tensor:
        batches.append(1)
        return rows.unit[:0]

    monkeypatch.setattr(sparse, "_drawn", nothing)
    rows = sparse.distinct(torch.eye(9, 4, dtype=torch.float64))
    rng = torch.Generator()
    assert not list(sparse.directions(rows, 1e-9, 0.3, 60, rng, rows.unit[:0], "drawn", patience=5))
    assert len(batches) == 5


LOCAL = {"optimiser": "adamw", "lr": 0.001, "batch_size": None, "epochs": 1, "weight_decay": 0.01}


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_gradient_follows_from_one_step_of_torchs_adamw(decay: float) -> None:
    torch.manual_seed(0)
    weight = torch.randn(1000) * 10.0 ** -torch.arange(1000).remainder(6)
    slope = torch.randn(1000) * 10.0 ** -torch.arange(1000).remainder(5)
    own = torch.nn.Parameter(weight.clone())
    own.grad = slope.clone()
    torch.optim.AdamW([own], lr=0.01, weight_decay=decay).step()
    found, error = unscaled(own.detach() - weight, weight, 0.01, decay)
    off = (found - slope).abs() / error
    # What rounding leaves open is known from below.
    open_ = error > 0.3 * found.abs()
    assert off[~open_].max() < 6
    assert (slope.abs() > 0.3 * found.abs())[open_].all()
    assert 300 < int((~open_).sum()) < 900


@pytest.mark.parametrize(
    ("module", "shape", "gain"), [("mlp", (12, 12, 1), 0.1), ("lenet-dlg", (8, 8, 1), -0.01)]
)
def test_a_step_tells_more_than_its_signs(module: str, shape: tuple[int, int, int], gain: float) -> None:
    """A network with gradients beyond what rounding resolves leaves hardly more than signs, and no less."""
    torch.manual_seed(0)
    model = victims.build(module, shape, 10, {})
    images, labels = torch.rand(2, 4, shape[2], *shape[:2]), torch.randint(0, 10, (2, 4))
    slope, step = (sent_by(model, images, labels, kind, LOCAL) for kind in ("gradient", "model"))
    seen = seen_of(model, {"module": module, "shape": shape}, step, 4, kind="model", local=LOCAL)
    found = stepped_back(seen)
    assert found.kind == "gradient"
    whole = along({name: torch.from_numpy(value) for name, value in found.updates.items()}, slope)
    assert whole > along({name: -value.sign() for name, value in step.items()}, slope) + gain
    # Several steps have no such gradient.
    later = seen_of(
        model, {"module": module, "shape": shape}, step, 4, kind="model", local=LOCAL | {"epochs": 2}
    )
    assert stepped_back(later) is later


def along(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    flat = [torch.cat([each[name].flatten() for name in other]).double() for each in (one, other)]
    return float(torch.cosine_similarity(*flat, dim=0))
