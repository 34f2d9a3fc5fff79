"""LPIPS 0.1 (Zhang et al. 2018), a distance in the features of a trained network, and FedKL's use of it."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakbench.base.errors import UserError
from leakbench.metrics.images import pair, to_uint8, undisplayable
from leakbench.metrics.metric import Metric

if TYPE_CHECKING:
    import torch

# The narrowest images whose last feature map still has a pixel (measured: AlexNet 31, VGG16 16), and the
# width to which narrower ones are enlarged: that of the patches on which LPIPS was calibrated.
NARROWEST = {"alex": 31, "vgg": 16}
ENLARGED = 64
_PIXELS_AT_ONCE = 1 << 18
# The last network of each kind and the arrays it was made of: making a network takes as long as a dozen small
# images.
_made: dict[str, tuple[Mapping[str, np.ndarray], "torch.nn.Module"]] = {}


def network(net: str, backbones: Mapping[str, np.ndarray]) -> "torch.nn.Module":
    """Return the `lpips` network "alex" or "vgg": its own linear layers over the given backbone."""
    import lpips
    import torch

    with warnings.catch_warnings(), torch.device("meta"):
        # lpips 0.1.4 calls torchvision by an argument it has since renamed. On "meta" neither the 500 MB of
        # VGG's unused classifier nor random values are made.
        warnings.filterwarnings("ignore", module="torchvision")
        model = lpips.LPIPS(net=net, pretrained=False, pnet_rand=True, verbose=False)
    linear = Path(lpips.__file__).parent / "weights" / "v0.1" / f"{net}.pth"
    state = dict(torch.load(linear, map_location="cpu", weights_only=True))
    for name, parameter in model.net.named_parameters():
        _, layer, kind = name.split(".")
        key = f"{net}/features.{layer}.{kind}"
        if key not in backbones or tuple(np.shape(backbones[key])) != tuple(parameter.shape):
            found = np.shape(backbones[key]) if key in backbones else "missing"
            raise UserError(
                f"lpips backbones: {key} is {found}, expected {tuple(parameter.shape)} (fetch them again)"
            )
        state[f"net.{name}"] = torch.tensor(np.array(backbones[key], dtype=np.float32))
    model.load_state_dict(state, strict=False, assign=True)
    return model.requires_grad_(False).eval()


def _kept_network(net: str, backbones: Mapping[str, np.ndarray]) -> "torch.nn.Module":
    """Return `network`, the same one as long as `backbones` is the same object."""
    if net not in _made or _made[net][0] is not backbones:
        _made[net] = (backbones, network(net, backbones))
    return _made[net][1]


Images = tuple[np.ndarray, np.ndarray]


def _standard(reconstructions: np.ndarray, truths: np.ndarray) -> Images:
    a, b = pair(reconstructions, truths)
    return 2.0 * a - 1.0, 2.0 * b - 1.0


def _raw255_bgr(reconstructions: np.ndarray, truths: np.ndarray) -> Images:
    """Return images as FedKL's `evaluation_metrics.py` gives them: 8-bit values 0..255 in BGR order."""
    a, b = pair(reconstructions, truths)
    nothing = undisplayable(a, b)[:, None, None, None]
    x, y = (np.where(nothing, np.nan, to_uint8(batch)[:, ::-1]) for batch in (a, b))
    return x, y


def _distance(net: str, backbones: Mapping[str, np.ndarray], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the distance of batches in the network's input scale, float64 [N], NaN where either is NaN."""
    import torch

    model = _kept_network(net, backbones)
    scores = np.full(len(a), np.nan)
    shown = np.flatnonzero(~undisplayable(a, b))
    height, width = a.shape[2:]
    factor = ENLARGED / min(height, width) if min(height, width) < NARROWEST[net] else 1.0
    size = (round(height * factor), round(width * factor))
    step = max(1, _PIXELS_AT_ONCE // (size[0] * size[1]))
    with torch.inference_mode():
        for start in range(0, len(shown), step):
            rows = shown[start : start + step]
            # One memory layout for both: torch picks its convolution by layout, and they round differently.
            layout = (np.ascontiguousarray(batch[rows], dtype=np.float32) for batch in (a, b))
            x, y = (torch.from_numpy(batch).expand(-1, 3, -1, -1) for batch in layout)
            if size != (height, width):
                x, y = (torch.nn.functional.interpolate(image, size, mode="bilinear") for image in (x, y))
            scores[rows] = model(x, y).flatten().double().numpy()
    return scores


def _lpips(net: str, scaled: Callable[[np.ndarray, np.ndarray], Images]) -> Callable[..., np.ndarray]:
    """Return LPIPS with a network ("alex", "vgg") whose input is what `scaled` makes of the images."""

    def distance(
        reconstructions: np.ndarray, truths: np.ndarray, *, lpips_backbones: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        return _distance(net, lpips_backbones, *scaled(reconstructions, truths))

    return distance


lpips_alex, lpips_vgg = (_lpips(net, _standard) for net in ("alex", "vgg"))
# What thesis Table 5.6 prints as LPIPS, which is not LPIPS as its authors define it.
lpips_alex_raw255_bgr, lpips_vgg_raw255_bgr = (_lpips(net, _raw255_bgr) for net in ("alex", "vgg"))

METRICS = (
    Metric("lpips_alex", lpips_alex, "standard", higher_is_better=False, needs=("lpips_backbones",)),
    Metric("lpips_vgg", lpips_vgg, "standard", higher_is_better=False, needs=("lpips_backbones",)),
    Metric("lpips_alex_raw255_bgr", lpips_alex_raw255_bgr, "published", higher_is_better=False,
    needs=("lpips_backbones",)),
    Metric("lpips_vgg_raw255_bgr", lpips_vgg_raw255_bgr, "published", higher_is_better=False,
    needs=("lpips_backbones",)),
)  # fmt: skip
