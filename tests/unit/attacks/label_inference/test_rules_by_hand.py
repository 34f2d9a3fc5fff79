"""Label rules on gradients whose counts theory gives exactly, and what is said of the slips of released
code."""

from dataclasses import replace

import pytest
import torch
from last_layers import by_hand, never
from torch import Tensor, nn

from leakbench.attacks.label_inference import Answers, LastLayer, Probe, infer
from leakbench.attacks.label_inference.rlu import mean_logits

COUNTS = torch.tensor([[5, 0, 2, 1], [0, 8, 0, 0], [2, 2, 2, 2]])


def exact(counts: Tensor, spread: float = 2.0) -> LastLayer:
    """Return the gradients of batches of which every sample of one class is read as the same input, and the
    exact bias gradient p_k - n_k / B; the attacker's samples are one of each class."""
    generator = torch.Generator().manual_seed(0)
    classes, batch = counts.shape[1], int(counts[0].sum())
    inputs = torch.rand(classes, 6, generator=generator).double() + 0.1
    layer = nn.Linear(6, classes).double()
    with torch.no_grad():
        layer.weight.copy_(spread * torch.randn(classes, 6, generator=generator).double())
        logits = layer(inputs)
    shares = counts.double() / batch
    errors = logits.softmax(1) - torch.eye(classes)
    own = Probe(lambda: Answers(inputs, logits), never, torch.arange(classes))
    return LastLayer(
        weight=torch.einsum("ti,ik,id->tkd", shares, errors, inputs),
        bias=shares @ errors,
        batch=batch,
        noise=own,
        sent=layer,
        auxiliary=own,
    )


def counted(found: Tensor, classes: int) -> Tensor:
    return torch.stack([torch.bincount(row, minlength=classes) for row in found])


def test_ilrg_solves_its_equations_exactly_where_classes_keep_apart() -> None:
    """Where a row holds one class alone, its ratio is that class's input and the system holds."""
    # A network that is sure of class 3 whatever it sees: the other rows hold their own samples alone.
    layer = exact(COUNTS, spread=0.0)
    with torch.no_grad():
        layer.sent.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 30.0]))
    sure = layer.sent.bias.softmax(0)
    shares = COUNTS.double() / layer.batch
    inputs = layer.noise.before().inputs
    mean = shares @ inputs
    weight = sure[None, :, None] * mean[:, None] - shares[:, :, None] * inputs
    found = infer("ilrg", replace(layer, weight=weight, bias=sure - shares))
    assert torch.equal(counted(found, 4), COUNTS)


@pytest.mark.parametrize("rule", ["counted", "zlg"])
def test_counts_are_exact_where_the_prior_is_the_batchs_own_prediction(rule: str) -> None:
    """One input for all samples: the mean prediction on it and its sum are those of any batch."""
    inputs = torch.tensor([[0.5, 2.0, 0.25]]).double()
    logits = torch.tensor([[1.0, -1.0, 0.5, 0.0]]).double()
    bias = logits.softmax(1) - COUNTS.double() / 8
    noise = Probe(lambda: Answers(inputs, logits), never)
    layer = LastLayer(bias[:, :, None] * inputs[0], bias, 8, noise, nn.Linear(3, 4).double())
    assert torch.equal(counted(infer(rule, layer), 4), COUNTS)


def test_zlg_takes_the_statistics_of_the_models_that_steps_started_from() -> None:
    """Five steps: the mean prediction lies two fifths of the way from the first model to the last."""
    inputs = torch.tensor([[0.5, 2.0, 0.25]]).double()
    first, last = torch.tensor([0.9, 0.05, 0.05]).double(), torch.tensor([0.1, 0.1, 0.8]).double()
    counts = torch.tensor([[3, 4, 3]])
    bias = first + 0.4 * (last - first) - counts / 10
    noise = Probe(
        lambda: Answers(inputs, first.log()[None]), lambda: Answers(inputs[None], last.log()[None, None])
    )
    layer = LastLayer(bias[:, :, None] * inputs[0], bias, 10, noise, nn.Linear(3, 3), steps=5)
    assert counted(infer("zlg", layer), 3).tolist() == counts.tolist()
    assert counted(infer("zlg", replace(layer, steps=1)), 3).tolist() != counts.tolist()


def test_llg_star_measures_its_impact_as_backward_passes_would() -> None:
    """The closed form is compared with gradients of dummies of one label after another."""
    torch.manual_seed(0)
    layer, dummies, batch = nn.Linear(6, 4), torch.rand(16, 6), 8
    rows = []
    for label in range(4):
        loss = nn.functional.cross_entropy(layer(dummies), torch.full((16,), label))
        rows.append(torch.autograd.grad(loss, layer.weight)[0].sum(1))
    gradients = torch.stack(rows)
    impact = gradients.diagonal().mean() / batch * (1 + 1 / 4)
    offset = (gradients.sum(0) - gradients.diagonal()) / 3
    # Rows of counts 1 to 3 exactly by this impact and offset.
    counts = torch.tensor([1, 2, 3, 2])
    weight = ((offset + impact * counts)[:, None] / 6).expand(4, 6)[None]
    with torch.no_grad():
        noise = Probe(lambda: Answers(dummies, layer(dummies)), never)
    found = infer("llg-star", LastLayer(weight, None, batch, noise, layer))
    assert counted(found, 4)[0].tolist() == counts.tolist()


def test_llg_reads_the_published_example_of_a_row_that_is_negative_twice_as_much() -> None:
    """Two negative rows, the one twice the other; three samples of four classes."""
    layer = by_hand(torch.tensor([-0.4, 0.05, -0.2, 0.05]), 3, biased=False)
    assert infer("llg", layer).tolist() == [[0, 0, 2]]


def test_rlus_confidence_is_of_samples_of_other_classes() -> None:
    logits = torch.tensor([[9.0, 1.0], [3.0, 7.0], [5.0, 8.0]])
    own = Probe(lambda: Answers(logits, logits), never, torch.tensor([0, 1, 1]))
    assert mean_logits(own, logits).tolist() == [4.0, 1.0]


def test_rlu_weights_no_step_without_momentum() -> None:
    """ρ is 1: the counts are those of max(0, e - g) itself. With 1.1 in its place, as the released code has,
    a class that is absent would get a sample."""
    confidence = torch.tensor([0.6, 0.2, 0.2])
    logits = confidence.log()
    # One sample of each class, all with the mean logits.
    own = Probe(lambda: Answers(logits.expand(3, 3), logits.expand(3, 3)), never, torch.arange(3))
    bias = confidence - torch.tensor([0.0, 0.5, 0.5])
    layer = replace(by_hand(bias, 16), auxiliary=own)
    assert counted(infer("rlu", layer), 3).tolist() == [[0, 8, 8]]
    scaled = (1.1 * confidence - bias).clamp_min(0)
    assert (16 * scaled / scaled.sum()).round()[0] > 0


@pytest.mark.parametrize(
    ("counts", "start", "lr"),
    [
        ([[2, 14, 4]], [[1.5, 0.0, 0.0]], 0.05),
        # The logit of a class without samples comes out too high, and the class has none to give away.
        ([[0, 9, 11]], [[0.0, -2.0, 2.0]], 0.5),
    ],
)
def test_rlu_simulates_the_logits_of_local_steps(
    counts: list[list[int]], start: list[list[float]], lr: float
) -> None:
    """Updates whose logits move exactly as RLU supposes: the mean confidence over the steps is found, which
    that of the first model alone would miss."""
    steps, batch = 10, 20
    inputs = torch.tensor([0.5, 2.0, 0.25]).double()
    sent = torch.tensor(start).double()
    shares = torch.tensor(counts) / batch
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
        bias[:, :, None] * inputs, bias, batch, own, nn.Linear(3, 3), steps=steps, lr=lr, auxiliary=own
    )
    assert counted(infer("rlu", layer), 3).tolist() == counts
    assert counted(infer("rlu", replace(layer, steps=1)), 3).tolist() != counts
