"""LLG*: LLG in which the effect of one sample is measured on noise, in the model that the server sent."""

from torch import Tensor

from leakbench.attacks.label_inference import LastLayer, apportioned


def llg_star(layer: LastLayer) -> Tensor:
    """Return labels that may repeat: [trials, batch].

    A batch of noise in which all samples have label i changes row i by the impact of B samples, and the other
    rows by an offset. Both follow from the inputs and predictions of the last layer on noise, without a
    backward pass. With the sum O of the layer's inputs and its prediction p, the offset of row j is the mean
    of p_j O. The impact of one sample, averaged over labels, is the mean of (1/K - 1) O over B. LLG
    multiplies it by 1 + 1/K. The source is that of `llg`; of the published kinds of dummies these are the
    random ones.
    """
    rows, noise = layer.weight.sum(2), layer.noise.before()
    inputs = noise.inputs.sum(1)
    offset = (noise.logits.softmax(1) * inputs[:, None]).mean(0)
    impact = (1 / layer.classes**2 - 1) * inputs.mean() / layer.batch
    return apportioned((rows - offset) / impact.clamp_max(-1e-30), (rows < 0).long(), layer.batch)
