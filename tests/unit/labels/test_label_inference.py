"""Label inference on the gradients of real untrained networks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from leakbench import labels, victims
from leakbench.errors import Unfit
from leakbench.labels import infer
from leakbench.victims.layers import last_dense

VICTIMS: list[tuple[str, dict[str, Any]]] = [
    ("resnet20-4", {"width": 8, "normalise": "cifar10"}),
    ("lenet-dlg", {}),
    ("convnet", {"width": 8}),
    ("fcnn", {}),
]
IDS = [name for name, _ in VICTIMS]
EVEN = torch.full((10,), 0.1)
METHODS = sorted(path.stem for path in Path(labels.__file__).parent.glob("*.py") if path.stem != "__init__")


def updates(
    module: str, parameters: dict[str, Any], truth: Tensor, classes: int = 10, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return weight and bias gradients of the last dense layer for each row of `truth` [trials, batch], and
    the prior."""
    torch.manual_seed(seed)
    model = victims.build(module, (32, 32, 3), classes, parameters).eval()
    layer = model.get_submodule(last_dense(model))
    each = []
    for row in truth:
        loss = cross_entropy(model(torch.rand(len(row), 3, 32, 32)), row)
        each.append(torch.autograd.grad(loss, list(layer.parameters())))
    weight, bias = (torch.stack(parts) for parts in zip(*each, strict=True))
    with torch.no_grad():
        prior = model(torch.rand(64, 3, 32, 32)).softmax(1).mean(0)
    return weight, bias, prior


def right(found: Tensor, truth: Tensor) -> float:
    """Return the share of labels found, counting each as often as it is there."""
    shared = [
        sum(min(int((f == c).sum()), int((t == c).sum())) for c in t.unique())
        for f, t in zip(found, truth, strict=True)
    ]
    return sum(shared) / truth.numel()


def test_the_room_holds_the_three_methods() -> None:
    assert METHODS == ["counted", "idlg", "row_minimum"]


@pytest.mark.parametrize(("module", "parameters"), VICTIMS, ids=IDS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("biased", [True, False])
def test_every_method_reads_the_label_of_one_image(
    method: str, module: str, parameters: dict[str, Any], biased: bool
) -> None:
    if method == "row_minimum" and module == "fcnn":
        pytest.skip(
            "its rule supposes inputs that are not negative, which holds, and not all zero, which may not"
        )
    truth = torch.arange(10)[:, None]
    weight, bias, prior = updates(module, parameters, truth)
    found = infer(method.replace("_", "-"), weight, bias if biased else None, 1, prior)
    assert torch.equal(found, truth)


def test_idlg_reads_the_label_of_two_classes_and_of_an_image_taken_for_another() -> None:
    """Rows p - 1 and p of equal size: only the sign tells them apart."""
    x = torch.tensor([0.5, 2.0, 0.25])
    for truth in (0, 1):
        row = torch.full((2,), 0.7)
        row[truth] = -0.7
        found = infer("idlg", (row[:, None] * x)[None], row[None], 1, EVEN)
        assert found.tolist() == [[truth]]
    # The network is sure of class 2, the label is 0.
    row = torch.tensor([1e-9 - 1, 1e-9, 1 - 2e-9])
    assert infer("idlg", (row[:, None] * x)[None], row[None], 1, EVEN).tolist() == [[0]]


# LeNet's uniform weights make it sure of one class for any image, whose row then is never negative.
@pytest.mark.parametrize(("module", "least"), [("resnet20-4", 1.0), ("convnet", 1.0), ("lenet-dlg", 0.75)])
@pytest.mark.parametrize("method", ["row-minimum", "counted"])
def test_several_distinct_labels(method: str, module: str, least: float) -> None:
    truth = torch.stack(
        [torch.randperm(10, generator=torch.Generator().manual_seed(s))[:4] for s in range(8)]
    )
    weight, bias, prior = updates(module, dict(VICTIMS)[module], truth)
    assert right(infer(method, weight, bias, 4, prior), truth) >= least


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("biased", [True, False])
def test_counted_handles_repeats(classes: int, biased: bool) -> None:
    truth = torch.tensor([[3, 3, 3, 3], [1, 1, 2, 2], [0, 5, 5, 5], [9, 8, 7, 7], [4, 4, 4, 6]])
    weight, bias, prior = updates("resnet20-4", {"width": 8, "normalise": "cifar10"}, truth, classes)
    found = infer("counted", weight, bias if biased else None, 4, prior)
    assert right(found, truth) == 1.0
    assert torch.equal(found, truth.sort(1).values)


def test_counted_takes_batches_larger_than_the_classes() -> None:
    rng = torch.Generator().manual_seed(0)
    truth = torch.randint(0, 10, (4, 32), generator=rng)
    weight, bias, prior = updates("convnet", {"width": 8}, truth)
    found = infer("counted", weight, bias, 32, prior)
    assert found.shape == (4, 32)
    assert right(found, truth) > 0.95


@pytest.mark.parametrize("batch", [8, 32])
def test_counted_knows_a_network_that_is_sure_of_one_class_whatever_it_sees(batch: int) -> None:
    """As DLG's LeNet is before training: without the prior half of the labels are taken for another."""
    truth = torch.randint(0, 10, (16, batch), generator=torch.Generator().manual_seed(0))
    weight, bias, prior = updates("lenet-dlg", {}, truth)
    assert right(infer("counted", weight, bias, batch, prior), truth) > 0.95
    assert right(infer("counted", weight, bias, batch, EVEN), truth) < 0.9


def test_row_minimum_gives_no_label_twice() -> None:
    truth = torch.tensor([[3, 3, 3, 1]])
    weight, bias, prior = updates("resnet20-4", {"width": 8}, truth)
    (found,) = infer("row-minimum", weight, bias, 4, prior)
    assert len(set(found.tolist())) == 4
    assert {1, 3} <= set(found.tolist())


@pytest.mark.parametrize(
    ("method", "batch", "says"),
    [
        ("row-minimum", 11, "11 images need as many classes, not 10"),
        ("idlg", 2, "idlg reads one label, the batch has 2 images"),
    ],
)
def test_a_batch_that_is_too_large_is_unfit_and_names_the_method_that_fits(
    method: str, batch: int, says: str
) -> None:
    with pytest.raises(Unfit, match=says) as problem:
        infer(method, torch.rand(2, 10, 5), torch.rand(2, 10), batch, EVEN)
    assert "use counted" in str(problem.value)
    assert "\n" not in str(problem.value)


def test_row_minimum_takes_as_many_images_as_classes() -> None:
    found = infer("row-minimum", torch.rand(2, 10, 5) - 0.5, None, 10, EVEN)
    assert found.tolist() == [list(range(10))] * 2


@pytest.mark.parametrize("method", METHODS)
def test_labels_come_sorted_and_each_trial_has_its_own(method: str) -> None:
    batch = 1 if method == "idlg" else 3
    truth = torch.tensor([[7], [2], [5]]) if batch == 1 else torch.tensor([[9, 1, 4], [0, 8, 2], [6, 5, 3]])
    weight, bias, prior = updates("resnet20-4", {"width": 8}, truth)
    name = method.replace("_", "-")
    together = infer(name, weight, bias, batch, prior)
    assert together.dtype == torch.int64
    assert torch.equal(together, truth.sort(1).values)
    for trial in range(3):
        assert torch.equal(infer(name, weight[[trial]], bias[[trial]], batch, prior)[0], together[trial])


def test_a_method_is_a_file_and_its_function() -> None:
    for method in METHODS:
        module = __import__(f"leakbench.labels.{method}", fromlist=[method])
        found: Callable[..., Tensor] = getattr(module, method)
        assert found.__doc__
