"""Label inference on the gradients of real untrained networks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from last_layers import EVEN, by_hand, seen
from torch import Tensor

from leakbench.attacks import label_inference as labels
from leakbench.attacks.label_inference import Answers, LastLayer, Probe, apportioned, infer, nearest
from leakbench.base.errors import Unfit

METHODS = sorted(path.stem for path in Path(labels.__file__).parent.glob("*.py") if path.stem != "__init__")
BY_BIAS = ("ilrg", "rlu")
RESNET: dict[str, Any] = {"width": 8, "normalise": "cifar10"}


def right(found: Tensor, truth: Tensor) -> float:
    """Return the share of labels found, counting each as often as it is there."""
    shared = [
        sum(min(int((f == c).sum()), int((t == c).sum())) for c in t.unique())
        for f, t in zip(found, truth, strict=True)
    ]
    return sum(shared) / truth.numel()


@pytest.mark.parametrize("module", ["resnet20-4", "lenet-dlg"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("biased", [True, False])
def test_every_method_reads_the_label_of_one_image(method: str, module: str, biased: bool) -> None:
    if method == "zlg" and module == "lenet-dlg":
        pytest.skip("the inputs of its last layer sum to about zero for noise, by which ZLG divides")
    if method in BY_BIAS and not biased:
        pytest.skip("needs a bias, as another test demands")
    truth = torch.arange(10)[:, None]
    layer = seen(module, RESNET if module == "resnet20-4" else {}, truth, biased)
    assert torch.equal(infer(method.replace("_", "-"), layer), truth)


def test_idlg_reads_the_label_of_two_classes_and_of_an_image_taken_for_another() -> None:
    """Rows p - 1 and p of equal size: only the sign tells them apart."""
    for truth in (0, 1):
        row = torch.full((2,), 0.7)
        row[truth] = -0.7
        assert infer("idlg", by_hand(row, 1)).tolist() == [[truth]]
    # The network is sure of class 2, the label is 0.
    row = torch.tensor([1e-9 - 1, 1e-9, 1 - 2e-9])
    assert infer("idlg", by_hand(row, 1)).tolist() == [[0]]


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("method", ["counted", "llg", "llg-star", "zlg", "ilrg", "rlu"])
def test_repeats_are_counted(method: str, classes: int, biased: bool) -> None:
    if method in BY_BIAS and not biased:
        pytest.skip("needs a bias, as another test demands")
    truth = torch.tensor([[3, 3, 3, 3], [1, 1, 2, 2], [0, 5, 5, 5], [9, 8, 7, 7], [4, 4, 4, 6]])
    found = infer(method, seen("resnet20-4", RESNET, truth, biased, classes))
    assert torch.equal(found, truth.sort(1).values)


@pytest.mark.parametrize("method", ["counted", "llg", "llg-star", "zlg", "ilrg", "rlu"])
def test_batches_larger_than_the_classes(method: str) -> None:
    truth = torch.randint(0, 10, (4, 32), generator=torch.Generator().manual_seed(0))
    found = infer(method, seen("convnet", {"width": 8}, truth))
    assert found.shape == (4, 32)
    # LLG reads what a sample adds off the negative rows, and such a batch leaves few and small ones.
    assert (right(found, truth) > 0.95) == (method != "llg")


@pytest.mark.parametrize("batch", [8, 32])
def test_counted_knows_a_network_that_is_sure_of_one_class_whatever_it_sees(batch: int) -> None:
    """As DLG's LeNet is before training: without the prior half of the labels are taken for another."""
    truth = torch.randint(0, 10, (16, batch), generator=torch.Generator().manual_seed(0))
    layer = seen("lenet-dlg", {}, truth)
    assert right(infer("counted", layer), truth) > 0.95
    object.__setattr__(layer, "prior", EVEN)
    assert right(infer("counted", layer), truth) < 0.9


def test_row_minimum_gives_no_label_twice() -> None:
    (found,) = infer("row-minimum", seen("resnet20-4", RESNET, torch.tensor([[3, 3, 3, 1]])))
    assert len(set(found.tolist())) == 4
    assert {1, 3} <= set(found.tolist())
    assert infer("row-minimum", by_hand(torch.rand(10) - 0.5, 10)).tolist() == [list(range(10))]


@pytest.mark.parametrize(
    ("method", "batch", "biased", "says"),
    [("row-minimum", 11, True, "11 images need as many classes, not 10.*use counted"),
     ("idlg", 2, True, "idlg reads one label, the batch has 2 images.*use counted"),
     ("ilrg", 2, False, "ilrg needs the gradient of the last layer's bias, and it has none.*use counted"),
     ("rlu", 2, False, "rlu needs the gradient of the last layer's bias, and it has none.*use counted"),
     ("rlu", 2, True, "rlu needs labelled samples of the attacker's own.*name them under generator")],
)  # fmt: skip
def test_what_a_rule_cannot_serve_is_refused(method: str, batch: int, biased: bool, says: str) -> None:
    layer = by_hand(torch.linspace(-0.5, 0.5, 10), batch, biased)
    with pytest.raises(Unfit, match=says):
        infer(method, layer)


@pytest.mark.parametrize("method", METHODS)
def test_labels_come_sorted_and_each_trial_has_its_own(method: str) -> None:
    """A rule that kept something of one update for the next would fail (so RLU's released code)."""
    truth = torch.tensor([[9, 1, 4], [0, 8, 2], [6, 5, 3]])
    truth = truth[:, :1] if method == "idlg" else truth
    name = method.replace("_", "-")
    together = infer(name, seen("resnet20-4", RESNET, truth))
    assert together.dtype == torch.int64
    assert torch.equal(together, truth.sort(1).values)
    for trial in range(3):
        assert torch.equal(infer(name, seen("resnet20-4", RESNET, truth, only=trial))[0], together[trial])


def test_zlg_takes_the_statistics_of_the_models_that_steps_started_from() -> None:
    """Five steps: the mean prediction lies two fifths of the way from the first model to the last."""
    inputs = torch.tensor([[0.5, 2.0, 0.25]]).double()
    first, last = torch.tensor([0.9, 0.05, 0.05]).double(), torch.tensor([0.1, 0.1, 0.8]).double()
    bias = first + 0.4 * (last - first) - torch.tensor([[3, 4, 3]]) / 10
    noise = Probe(
        lambda: Answers(inputs, first.log()[None]), lambda: Answers(inputs[None], last.log()[None, None])
    )
    layer = LastLayer(bias[:, :, None] * inputs[0], bias, 10, noise, torch.nn.Linear(3, 3), steps=5)
    assert torch.bincount(infer("zlg", layer)[0]).tolist() == [3, 4, 3]
    assert torch.bincount(infer("zlg", replace(layer, steps=1))[0]).tolist() != [3, 4, 3]


def test_llg_star_measures_its_impact_as_backward_passes_would() -> None:
    """The closed form is compared with gradients of dummies of one label after another."""
    torch.manual_seed(0)
    layer, dummies, batch, rows = torch.nn.Linear(6, 4), torch.rand(16, 6), 8, []
    for label in range(4):
        loss = torch.nn.functional.cross_entropy(layer(dummies), torch.full((16,), label))
        rows.append(torch.autograd.grad(loss, layer.weight)[0].sum(1))
    gradients = torch.stack(rows)
    impact = gradients.diagonal().mean() / batch * (1 + 1 / 4)
    offset = (gradients.sum(0) - gradients.diagonal()) / 3
    # Rows of counts 1 to 3 exactly by this impact and offset.
    weight = ((offset + impact * torch.tensor([1, 2, 3, 2]))[:, None] / 6).expand(4, 6)[None]
    with torch.no_grad():
        noise = Probe(lambda: Answers(dummies, layer(dummies)), lambda: pytest.fail("one gradient"))
    found = infer("llg-star", LastLayer(weight, None, batch, noise, layer))
    assert torch.bincount(found[0]).tolist() == [1, 2, 3, 2]


def test_llg_reads_the_published_example_of_a_row_that_is_negative_twice_as_much() -> None:
    """Two negative rows, the one twice the other; three samples of four classes."""
    layer = by_hand(torch.tensor([-0.4, 0.05, -0.2, 0.05]), 3, biased=False)
    assert infer("llg", layer).tolist() == [[0, 0, 2]]


def test_labels_are_apportioned_by_what_falls_short_most() -> None:
    ideal = torch.tensor([[2.6, 0.3, 1.1], [0.2, 3.4, 0.5]])
    assert apportioned(ideal, torch.zeros(2, 3, dtype=torch.int64), 4).tolist() == [
        [0, 0, 0, 2],
        [1, 1, 1, 2],
    ]
    # More labels are there at the start than the batch holds: those least expected go.
    assert apportioned(ideal, torch.ones(2, 3, dtype=torch.int64), 1).tolist() == [[0], [1]]


def test_the_nearest_counts_have_the_right_sum_and_are_never_negative() -> None:
    ideal = torch.tensor([[-3.0, 1.5, 1.5], [torch.nan, 9.0, -9.0], [torch.inf, 0.2, 0.1], [0.9, 0.9, 0.9]])
    found = nearest(ideal, 2)
    assert found.shape == (4, 2)
    assert found[1:3].tolist() == [[1, 1], [0, 0]]
    assert set(found[0].tolist()) == {1, 2}
    assert len(set(found[3].tolist())) == 2


@pytest.mark.parametrize("seed", range(6))
def test_rlu_moves_labels_from_logits_that_come_out_too_high(seed: int) -> None:
    """RLU over three local steps, written out for one update (Chen and Vikalo, ICML 2024)."""
    rng = torch.Generator().manual_seed(seed)
    classes, inputs, batch, steps, lr, samples = 4, 6, 5, 3, 0.02, 8
    weight, bias = (
        torch.randn(size, generator=rng, dtype=torch.double) for size in ((classes, inputs), (classes,))
    )
    before, later = (torch.randn((samples, classes), generator=rng, dtype=torch.double) for _ in range(2))
    of_samples = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])

    def mean(logits: Tensor) -> list[float]:
        return [float(logits[of_samples != k, k].mean()) for k in range(classes)]

    def likely(logits: list[float]) -> list[float]:
        return torch.tensor(logits, dtype=torch.double).softmax(0).tolist()

    reach = float((weight / bias[:, None]).mean(0).square().sum())

    def played(counts: list[int]) -> tuple[list[float], list[float]]:
        logits, seen_of = mean(before), [0.0] * classes
        for _ in range(steps):
            e = likely(logits)
            seen_of = [total + part for total, part in zip(seen_of, e, strict=True)]
            logits = [m - lr * (p - n / batch) * reach for m, p, n in zip(logits, e, counts, strict=True)]
        return [total / steps for total in seen_of], logits

    def counted(e: list[float]) -> list[int]:
        ideal = [max(0.0, p - float(g)) for p, g in zip(e, bias, strict=True)]
        found = nearest(torch.tensor([[batch * part / sum(ideal) for part in ideal]]), batch)[0]
        return torch.bincount(found, minlength=classes).tolist()

    counts, moves = counted(likely(mean(before))), 0
    for _ in range(5):
        e, final = played(counts)
        counts = counted(e)
        over = [a - b for a, b in zip(final, mean(later), strict=True)]
        if max(map(abs, over)) > 0.1:
            counts[max((k for k in range(classes) if counts[k]), key=over.__getitem__)] -= 1
            counts[min(range(classes), key=over.__getitem__)] += 1
            moves += 1
    expected = counted(played(counts)[0])
    assert moves
    none = torch.zeros((samples, inputs))
    probe = Probe(lambda: Answers(none, before), lambda: Answers(none[None], later[None]), of_samples)
    sent = torch.nn.Linear(inputs, classes)
    layer = LastLayer(weight[None], bias[None], batch, probe, sent, steps, lr, probe)
    found = infer("rlu", layer)[0]
    assert torch.bincount(found, minlength=classes).tolist() == expected


@pytest.mark.parametrize(
    ("counts", "start", "lr"),
    [
        ([2, 14, 4], [1.5, 0.0, 0.0], 0.05),
        # The logit of a class without samples comes out too high, and the class has none to give away.
        ([0, 9, 11], [0.0, -2.0, 2.0], 0.5),
    ],
)
def test_rlu_simulates_the_logits_of_local_steps(counts: list[int], start: list[float], lr: float) -> None:
    """The mean confidence over the steps is found, which that of the first model alone would miss."""
    steps, batch = 10, 20
    inputs, sent = torch.tensor([0.5, 2.0, 0.25]).double(), torch.tensor([start]).double()
    shares = torch.tensor([counts]) / batch
    logits, total = sent, torch.zeros_like(sent)
    for _ in range(steps):
        total = total + logits.softmax(1)
        logits = logits - lr * inputs.square().sum() * (logits.softmax(1) - shares)
    bias = total / steps - shares
    own = Probe(
        lambda: Answers(inputs.expand(3, 3), sent.expand(3, 3)),
        lambda: Answers(inputs.expand(1, 3, 3), logits[:, None].expand(1, 3, 3)),
        torch.arange(3),
    )
    layer = LastLayer(
        bias[:, :, None] * inputs, bias, batch, own, torch.nn.Linear(3, 3), steps=steps, lr=lr, auxiliary=own
    )
    assert torch.bincount(infer("rlu", layer)[0], minlength=3).tolist() == counts
    assert torch.bincount(infer("rlu", replace(layer, steps=1))[0], minlength=3).tolist() != counts
