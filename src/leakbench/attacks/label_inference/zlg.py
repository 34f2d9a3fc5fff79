"""ZLG: the counts follow from the mean prediction and the mean input, both taken from noise."""

from torch import Tensor

from leakbench.attacks.label_inference import LastLayer, nearest

# How many images of noise pass through each client's own model.
COST = {"probed": "64 if local_epochs > 1 else 0"}


def zlg(layer: LastLayer) -> Tensor:
    """Return labels that may repeat: [trials, batch].

    The counts are n_k = B p_k - B s_k / O, with the row sums s of the weights' gradient, the mean prediction
    p and the mean sum O of the layer's inputs. Both means are measured on noise. They are taken to change
    evenly from the model that was sent to the client's last model, and each local step started from the model
    before it. The counts are scaled to B and rounded by the largest remainders. The rule is that of Geng et
    al., Towards general deep leakage in federated learning (2021), as in the code of Dimitrov et al., Data
    leakage in federated averaging (2022).
    """
    answers = [layer.noise.before()] + ([layer.noise.later()] if layer.steps > 1 else [])
    predictions = [each.logits.softmax(-1).mean(-2) for each in answers]
    inputs = [each.inputs.sum(-1).mean(-1) for each in answers]
    share = (layer.steps - 1) / (2 * layer.steps)
    p, o = (each[0] + share * (each[-1] - each[0]) for each in (predictions, inputs))
    ideal = (p - layer.weight.sum(2) / o[..., None]).clamp_min(0)
    return nearest(layer.batch * ideal / ideal.sum(1, keepdim=True).clamp_min(1e-30), layer.batch)
