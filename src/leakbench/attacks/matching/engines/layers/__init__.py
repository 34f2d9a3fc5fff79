"""What the engines know of layers: type → `LayerRule` (`layers.rule`). A new type enters `RULES`."""

from torch import nn

from leakbench.attacks.matching.engines.layers import without_weights
from leakbench.attacks.matching.engines.layers.convolution import CONVOLUTION
from leakbench.attacks.matching.engines.layers.dense import DENSE
from leakbench.attacks.matching.engines.layers.norm import NORM
from leakbench.attacks.matching.engines.layers.rule import LayerRule
from leakbench.networks.layers import Dropout, Normalise
from leakbench.networks.per_trial import HiddenNorm

_BY_AUTOGRAD = LayerRule()
RULES: dict[type[nn.Module], LayerRule] = {
    nn.Conv2d: CONVOLUTION,
    nn.Linear: DENSE,
    **dict.fromkeys((nn.BatchNorm2d, HiddenNorm), NORM),
    nn.Sigmoid: LayerRule(link=without_weights.SIGMOID),
    nn.Tanh: LayerRule(link=without_weights.TANH),
    nn.ReLU: LayerRule(link=without_weights.RELU),
    nn.MaxPool2d: LayerRule(link=without_weights.MAX_POOL, fits=lambda pool: not pool.ceil_mode),
    nn.Flatten: LayerRule(link=without_weights.FLATTEN, fits=lambda layer: layer.start_dim == 1),
    nn.AdaptiveAvgPool2d: LayerRule(
        link=without_weights.MEAN_POOL, fits=lambda pool: pool.output_size in (1, (1, 1))
    ),
    Normalise: LayerRule(link=without_weights.NORMALISE),
    Dropout: LayerRule(link=without_weights.DROPOUT),
    nn.Identity: LayerRule(link=without_weights.IDENTITY),
    **dict.fromkeys(
        (
            nn.Conv1d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.PReLU, nn.BatchNorm1d, nn.GroupNorm,
            nn.LayerNorm, nn.RMSNorm, nn.InstanceNorm1d, nn.InstanceNorm2d,
        ),
        _BY_AUTOGRAD,
    ),
}  # fmt: skip


def rule(layer: nn.Module) -> LayerRule | None:
    """Return what the engines know of a layer, or None if its exact type is not registered."""
    found = RULES.get(type(layer))
    return found if found is None or found.fits(layer) else _BY_AUTOGRAD
