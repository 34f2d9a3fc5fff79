"""Our local differential privacy and SecAgg+ against flwr's own code, on the same numbers and draws."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from leakbench import defences
from leakbench.defences import protected
from leakbench.defences.flower_secagg_plus import quantised

PYTHON = Path(__file__).parents[2] / ".flower/bin/python"
SAMPLES = (32, 700)

# Runs with flwr: draws come from the file instead of NumPy's generator.
THEIRS = """
import sys

import numpy as np
from flwr.clientapp.mod import LocalDpMod
from flwr.common.secure_aggregation import quantization
from flwr.common.secure_aggregation.ndarrays_arithmetic import (
    factor_combine, factor_extract, parameters_addition, parameters_multiply,
)
from flwr.app import ArrayRecord, Message, RecordDict

given = dict(np.load(sys.argv[1]))
names = ["weight", "bias"]
out = {}

waiting = [given[f"noise/{name}"] for name in names]
np.random.normal = lambda mean, deviation, shape: mean + deviation * waiting.pop(0)
sent = ArrayRecord([given[f"sent/{name}"].copy() for name in names])
new = ArrayRecord([given[f"sent/{name}"] + given[f"update/{name}"] for name in names])
class Reply:
    content = RecordDict({"arrays": new})
    def has_error(self):
        return False
class Asked:
    content = RecordDict({"arrays": sent})
mod = LocalDpMod(clipping_norm=1.0, sensitivity=1e-4, epsilon=10.0, delta=1e-5)
answer = mod(Asked(), None, lambda message, context: Reply())
for name, value in zip(names, answer.content["arrays"].to_numpy_ndarrays()):
    out[f"dp/{name}"] = value

RANGE, CLIPPING, MAX_WEIGHT = 4194304, 8.0, 1000.0
total = None
for client, samples in enumerate(given["samples"].tolist()):
    waiting = [given[f"rand/{client}/{name}"] for name in names]
    np.random.rand = lambda *shape: waiting.pop(0)
    ratio = round(samples / MAX_WEIGHT * RANGE)
    weights = [given[f"sent/{name}"] + given[f"update/{name}"] for name in names]
    levels = quantization.quantize(parameters_multiply(weights, ratio / RANGE), CLIPPING, RANGE)
    for name, value in zip(names, levels):
        out[f"levels/{client}/{name}"] = value
    own = factor_combine(ratio, [value.astype(np.int64) for value in levels])
    total = own if total is None else parameters_addition(total, own)
ratio, levels = factor_extract(total)
for name, value in zip(names, quantization.dequantize(levels, CLIPPING, RANGE)):
    value += -(len(given["samples"]) - 1) * CLIPPING
    value *= RANGE / ratio
    out[f"mean/{name}"] = value
np.savez(sys.argv[2], **out)
"""


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


@pytest.fixture(scope="module")
def numbers(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, torch.Tensor], dict[str, np.ndarray]]:
    """Return the numbers that are given to both, and flwr's results."""
    if not PYTHON.exists():
        pytest.skip("no .flower environment (make flower)")
    folder, shapes = tmp_path_factory.mktemp("privacy"), {"weight": (60, 70), "bias": (60,)}
    rng = torch.Generator().manual_seed(0)
    given = {"samples": torch.tensor(SAMPLES)}
    for name, shape in shapes.items():
        given[f"sent/{name}"] = torch.randn(shape, generator=rng)
        given[f"update/{name}"] = 0.05 * torch.randn(shape, generator=rng)
    # A weight beyond the range in which SecAgg+ rounds.
    given["sent/weight"][0, 0] = 40.0
    noise = generator()
    given |= {f"noise/{name}": torch.randn((1, *shape), generator=noise)[0] for name, shape in shapes.items()}
    for client in range(len(SAMPLES)):
        uniform = generator()
        for name, shape in shapes.items():
            drawn = torch.rand((1, *shape), generator=uniform, dtype=torch.float64)[0]
            given[f"rand/{client}/{name}"] = drawn
    np.savez(folder / "given.npz", **{name: value.numpy() for name, value in given.items()})
    command = [str(PYTHON), "-c", THEIRS, str(folder / "given.npz"), str(folder / "theirs.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return given, dict(np.load(folder / "theirs.npz"))


def ours(module: str, given: dict[str, torch.Tensor], samples: int = 1) -> dict[str, torch.Tensor]:
    """Return the weights that a client sends under a defence."""
    sent, update = (
        {name: given[f"{kind}/{name}"] for name in ("weight", "bias")} for kind in ("sent", "update")
    )
    rounds = {name: value[None] for name, value in update.items()}
    changed = protected(defences.build(module, {}), rounds, {}, generator(), sent, samples)
    return {name: sent[name].double() + value[0].double() for name, value in changed.items()}


def test_local_dp_is_flwrs(numbers: tuple[dict[str, torch.Tensor], dict[str, np.ndarray]]) -> None:
    given, theirs = numbers
    for name, value in ours("flower-local-dp", given).items():
        # One step of single precision, at a weight of up to 40, on the way to the difference and back.
        scale = np.maximum(1, np.abs(theirs[f"dp/{name}"]))
        assert np.abs(value.numpy() - theirs[f"dp/{name}"]).max() < 3e-7 * scale.max()
    # The norm was beyond the bound and noise was added, or the test would show nothing.
    moved = theirs["dp/weight"] - given["sent/weight"].numpy()
    assert 0.9 < np.linalg.norm(moved) < 1.1
    assert np.linalg.norm(given["update/weight"]) > 2


def test_every_level_is_flwrs(numbers: tuple[dict[str, torch.Tensor], dict[str, np.ndarray]]) -> None:
    given, theirs = numbers
    for client, samples in enumerate(SAMPLES):
        rng, factor = generator(), round(samples / 1000 * 2**22) / 2**22
        for name in ("weight", "bias"):
            weights = given[f"sent/{name}"] + given[f"update/{name}"]
            levels = quantised((weights * factor)[None], rng)[0]
            assert np.array_equal(levels.numpy(), theirs[f"levels/{client}/{name}"])
    assert theirs["levels/1/weight"][0, 0] == 2**22


def test_the_sum_is_flwrs(numbers: tuple[dict[str, torch.Tensor], dict[str, np.ndarray]]) -> None:
    given, theirs = numbers
    view = defences.build("flower-secagg-plus", {}).view(SAMPLES)
    assert view.shares is not None
    each = [ours("flower-secagg-plus", given, samples) for samples in SAMPLES]
    for name in ("weight", "bias"):
        mean = sum(share * own[name] for share, own in zip(view.shares[0].tolist(), each, strict=True))
        # Ours is off by the single precision of each difference: 4e-6 where a weight of 40 was cut off.
        apart = np.abs(mean.numpy() - theirs[f"mean/{name}"])
        assert np.sort(apart, axis=None)[-2] < 2e-8
        assert apart.max() < 4e-6
