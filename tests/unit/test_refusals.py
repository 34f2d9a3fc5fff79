"""Refusals as data: what is asked that cannot be, and what one line says of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from leakbench import defences
from leakbench.attacks.exact.span import span
from leakbench.base.errors import Unfit, UserError
from leakbench.datasets import rendered
from leakbench.datasets.columns import columns_of
from leakbench.datasets.official import Unavailable
from leakbench.defences.ats import applied
from leakbench.defences.encryption import build, quantise
from leakbench.defences.encryption.paillier import pack, unpack
from leakbench.federation.training.shares import divide
from leakbench.metrics import measure
from leakbench.metrics.images import displayed, pair
from leakbench.metrics.interval import interval, summary
from leakbench.metrics.lpips import lpips_alex
from leakbench.metrics.pearson import pearson
from leakbench.metrics.reidentification import top
from leakbench.metrics.ssim import ssim
from leakbench.metrics.success import successes
from leakbench.networks import generators, victims
from leakbench.networks.tasks import classification, recognition
from leakbench.observations.flower import record

GREY, NONE = np.zeros((1, 3, 32, 32)), np.zeros(4, bool)
NINE = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2])
POLICIES = "defence.parameters.policies: .*"


def combined(name: str, parameters: dict[str, Any], weights: list[int]) -> None:
    scheme = build(name, parameters)
    keys = scheme.keys()
    sealed = scheme.seal(keys, np.ones(2))
    scheme.combine(keys, [sealed, sealed], weights)


def opened(name: str, parameters: dict[str, Any]) -> None:
    scheme = build(name, parameters)
    keys = scheme.keys()
    scheme.opened(keys.without_private(), scheme.seal(keys, np.ones(2)))


def defence(name: str, **parameters: Any) -> Any:
    return defences.build(name, parameters)


def generator(name: str, shape: tuple[int, int, int], classes: int = 10, **parameters: Any) -> Any:
    return generators.build(name, (classes,), shape, parameters)


def victim(name: str, shape: tuple[int, int, int], **parameters: Any) -> nn.Module:
    return victims.build(name, shape, 36, parameters)


REFUSALS: list[tuple[Callable[[], object], type[Exception], str]] = [
    # Networks.
    (lambda: generator("biggan-deep", (256, 256, 1)), ValueError, "three channels"),
    (lambda: generator("cvae", (28, 28, 1)), ValueError, "28×28"),
    (lambda: generator("samples", (4, 4, 1), 3, each=4).keep(torch.rand(9, 1, 4, 4), NINE), UserError,
     "a class has fewer than 4 auxiliary images"),
    (lambda: victim("crnn", (28, 28, 1)), ValueError, "lines of 32 rows, not 28"),
    (lambda: victim("adapted", (30, 30, 1), kind="vit"), UserError, "patch 8 divides no picture"),
    (lambda: victim("vgg", (28, 28, 3)), ValueError, "at least 32×32"),
    (lambda: classification.loss(torch.zeros(2, 5, 4), NINE), UserError, "takes logits of two dimensions"),
    (lambda: classification.correct(torch.zeros(2, 5, 4), NINE), UserError, "takes logits of two dimensions"),
    (lambda: recognition.loss(torch.zeros(2, 5), NINE[None]), UserError, "have 2 dimensions"),
    (lambda: recognition.correct(torch.zeros(2, 5), NINE[None]), UserError, "have 2 dimensions"),
    # Metrics.
    (lambda: summary(np.zeros(4), NONE, clusters=np.zeros(3)), ValueError, "4 values but 3 clusters"),
    (lambda: interval(np.array([0.0, 1.0]), np.zeros(3)), ValueError, "2 values but 3 clusters"),
    (lambda: lpips_alex(GREY, GREY, lpips_backbones={}), UserError,
     r"alex/features\.0\.weight is missing, expected \(64, 3, 11, 11\)"),
    (lambda: displayed(np.zeros((4, 8, 8))), ValueError, r"expected \[N, C, H, W\]"),
    (lambda: displayed(np.zeros((2, 8, 8, 3))), ValueError, r"expected \[N, C, H, W\]"),
    (lambda: displayed(np.zeros(8)), ValueError, r"expected \[N, C, H, W\]"),
    (lambda: displayed(np.zeros((2, 2, 8, 8))), ValueError, r"expected \[N, C, H, W\]"),
    (lambda: pair(GREY, np.zeros((2, 3, 32, 32))), ValueError, "truths"),
    (lambda: measure(["pnsr"], GREY, GREY), UserError, r"'pnsr' is not a metric \(did you mean 'psnr'"),
    (lambda: measure(["lpips_vgg"], GREY, GREY), UserError, "'lpips_vgg' needs lpips_backbones"),
    (lambda: pearson(np.zeros((2, 5)), np.zeros((2, 6))), ValueError, "shape"),
    (lambda: top(1)(GREY[[0, 0]], GREY[[0, 0]], labels=np.array([0, 0]), judge=np.zeros((1, 3))), ValueError,
     "2 reconstructions, 1 answers, 2 labels"),
    (lambda: ssim(GREY[..., :6, :20], GREY[..., :6, :20]), ValueError,
     "6×20 are smaller than its 7×7 window"),
    (lambda: successes(np.zeros(1), NONE[:1], "lpips_alex"), ValueError, "lpips_alex"),
    (lambda: successes(np.zeros(2), NONE[:1], "mse"), ValueError, "2 values but 1 failures"),
    # Defences.
    (lambda: defence("ats", policies="3-x"), UserError, POLICIES + "are no policies"),
    (lambda: defence("ats", policies=""), UserError, POLICIES + "are no policies"),
    (lambda: defence("ats", policies="3-50"), UserError, POLICIES + "no transform 50"),
    (lambda: applied(torch.rand(2, 1, 1, 108), []), UserError, "a sample here is"),
    (lambda: applied(torch.rand(2, 2, 8, 8), []), UserError, "a sample here is"),
    (lambda: defence("dgp", largest=0.5, smallest=0.5), UserError,
     r"largest \(0.5\) and smallest \(0.5\) drop every coordinate"),
    (lambda: defence("soteria").model(nn.Conv2d(1, 4, 6), torch.Generator()), UserError,
     "has no dense layer"),
    # Encryption.
    (lambda: build("ckks", {"grid_bits": 40}), UserError, "leave no room for weights that add up to 100"),
    (lambda: combined("ckks", {"grid_bits": 36}, [100, 64]), UserError,
     "the weights add up to 164, the headroom is 163"),
    (lambda: pack([0, 2**5], 7, 9, 5), UserError, "takes 6 bits, the headroom is 5"),
    (lambda: pack([0, -(2**5)], 7, 9, 5), UserError, "takes 6 bits, the headroom is 5"),
    (lambda: combined("paillier", {"bits": 128}, [100, 29]), UserError,
     "weights add up to 129, the headroom is 128"),
    (lambda: combined("paillier", {"bits": 128}, [0, 0]), UserError, "all weights round to nothing"),
    (lambda: combined("paillier", {"bits": 128}, [101, -1]), UserError, "negative"),
    (lambda: build("paillier", {"bits": 128, "value_bits": 130}), UserError, "no room for a field"),
    (lambda: unpack([1 << 7 * 9], 7, 7, 9, 5, 1), UserError, "opens to no packed values"),
    (lambda: quantise.integers(np.array([1.0, np.nan]), 8, 1), UserError, "no finite number"),
    (lambda: opened("paillier", {"bits": 128}), UserError, "opens nothing"),
    (lambda: opened("ckks", {}), UserError, "opens nothing"),
    # Attacks, data and training.
    (lambda: span(torch.full((30, 40), 3e38), 5), Unfit, "too large to be multiplied"),
    (lambda: divide(np.repeat(np.arange(5), 60), 50, "dirichlet", 1e-6, np.random.default_rng(0)), UserError,
     "alpha 1e-06 leaves one of 50 clients without images"),
    *(
        (lambda column=column: columns_of([column]), UserError, r"columns: .* is no column")
        for column in (
            {"age": [17, 90]}, {"age": [90, 17, 1]}, {"a": ["x", "x"]}, {"a": ["x"], "b": ["y"]}, {},
        )
    ),
    (lambda: rendered.folder_in("matplotlib", "no-such-folder"), Unavailable,
     "the installed matplotlib brings no no-such-folder"),
    (lambda: record("FedAvg", "rounds"), UserError, "str has no configure_train and aggregate_train"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "says"), REFUSALS, ids=[says for *_, says in REFUSALS])
def test_it_is_refused_in_one_line(call: Callable[[], object], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says) as refused:
        call()
    assert "\n" not in str(refused.value)
