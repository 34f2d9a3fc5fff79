"""RLU: the confidence that the network wrongly has in a class is measured on samples of the other classes."""

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from leakbench.attacks.label_inference import LastLayer, Probe, nearest
from leakbench.base.errors import Unfit

# What does not go with it in one attack (`catalogue.sections.check_fit`).
EXCLUDES = {"": ("generator: none",)}

# How often simulated logits are compared with measured ones at most, and what difference is small enough.
ROUNDS, CLOSE = 5, 0.1
# How many images pass through each client's own model, samples of each class.
COST = {"probed": "100 * classes if local_epochs > 1 else 0"}


def rlu(layer: LastLayer) -> Tensor:
    """Return labels that may repeat: [trials, batch].

    μ_k is the mean of logit k over the attacker's samples of other classes, and e = softmax(μ) is the
    erroneous confidence. Then n_k is proportional to max(0, e_k - g_k). Over several local steps the logits
    move by dμ_k = -lr (e_k - n_k / B) h with h = Σ_d O_d². O_d is the mean over classes of the row's entry d
    divided by the bias's entry. The logits of these steps are simulated and compared with those of the
    client's own model. While they differ by more than 0.1, and at most 5 times, one label moves from the
    class whose logit came out too high to the class whose logit came out too low. The confidence is then
    averaged over the steps of the new simulation. Raises Unfit without a bias or without samples of the
    attacker's own.

    The rule is that of Chen and Vikalo, Recovering labels from local updates in federated learning (ICML
    2024), with the slips of the released code mended. ρ weights local steps by the client's momentum; here
    there is no momentum and ρ is 1, where the code uses the rate's decay. O is taken of each update alone,
    where the code mixes updates. The samples are never those of the clients.
    """
    bias = layer.needed_bias("rlu").double()
    if layer.auxiliary is None:
        raise Unfit("labels: rlu needs labelled samples of the attacker's own (name them under generator)")
    sent = mean_logits(layer.auxiliary, layer.auxiliary.before().logits)
    start = sent.expand_as(bias)
    confidence = start.softmax(1)
    if layer.steps == 1:
        return _labels(confidence, bias, layer.batch)
    reached = mean_logits(layer.auxiliary, layer.auxiliary.later().logits)
    divisor = torch.where(bias == 0, torch.full_like(bias, torch.inf), bias)
    inputs = (layer.weight.double() / divisor[:, :, None]).mean(1)
    length = inputs.square().sum(1, keepdim=True)
    counts = one_hot(_labels(confidence, bias, layer.batch), layer.classes).sum(1)
    for _ in range(ROUNDS):
        confidence, final = _simulated(start, counts / layer.batch, layer.steps, layer.lr * length)
        counts = one_hot(_labels(confidence, bias, layer.batch), layer.classes).sum(1)
        over = final - reached
        moved = over.abs().amax(1) > CLOSE
        high = torch.where(counts > 0, over, -torch.inf).argmax(1)
        counts[torch.arange(len(counts)), high] -= moved.long()
        counts[torch.arange(len(counts)), over.argmin(1)] += moved.long()
    confidence, _ = _simulated(start, counts / layer.batch, layer.steps, layer.lr * length)
    return _labels(confidence, bias, layer.batch)


def mean_logits(auxiliary: Probe, logits: Tensor) -> Tensor:
    """Return the mean of each logit over the samples of other classes, [..., classes]."""
    assert auxiliary.labels is not None
    others = 1 - one_hot(auxiliary.labels, logits.shape[-1]).double()
    return (logits.double() * others).sum(-2) / others.sum(0).clamp_min(1)


def _simulated(start: Tensor, shares: Tensor, steps: int, rate: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean confidence over the steps, and the logits after them, both [trials, classes]."""
    logits, total = start, torch.zeros_like(start)
    for _ in range(steps):
        confidence = logits.softmax(1)
        total = total + confidence
        logits = logits - rate * (confidence - shares)
    return total / steps, logits


def _labels(confidence: Tensor, bias: Tensor, batch: int) -> Tensor:
    ideal = (confidence - bias).clamp_min(0)
    return nearest(batch * ideal / ideal.sum(1, keepdim=True).clamp_min(1e-30), batch)
