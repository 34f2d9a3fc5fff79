"""Matrix products by oneDNN, which has AVX-512 on every processor that has it.

torch multiplies matrices of float32 with MKL, which takes half of the vector registers where the processor
is not Intel's: 98 GFLOP/s on a core of an AMD EPYC, where oneDNN reaches 220. Its convolutions are oneDNN's.
"""

import torch
from torch import Tensor

# Multiplications below which what oneDNN takes to be called is more than it saves.
WORTH = 1 << 22


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two matrices, or of each trial's; it has no derivative.

    a [n, k] and b [k, m] → [n, m], or each with the trials before.
    """
    rows, inner, columns = *a.shape[-2:], b.shape[-1]
    if rows * inner * columns < WORTH or not _by_onednn(a) or not _by_onednn(b):
        return a @ b
    if a.dim() == 2:
        return _linear(a, b)
    found = a.new_empty(len(a), rows, columns)
    for into, left, right in zip(found, a, b, strict=True):
        into.copy_(_linear(left, right))
    return found


def _by_onednn(value: Tensor) -> bool:
    return (
        value.device.type == "cpu"
        and value.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def _linear(a: Tensor, b: Tensor) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.T, None, "none", [], "")
    return found
