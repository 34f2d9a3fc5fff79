"""Matrix products by oneDNN, which uses AVX-512 on every processor that has it.

MKL uses half of each vector register on processors that are not Intel's: 98 GFLOP/s on a core of an AMD EPYC,
where oneDNN reaches 220.
"""

import torch
from torch import Tensor

# With fewer multiplications than this, the overhead of calling oneDNN is more than it saves.
WORTH = 1 << 22


def product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply two matrices, or the two matrices of each trial, without a derivative."""
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
    return torch.ops.mkldnn._linear_pointwise(a, b.T, None, "none", [], "")
