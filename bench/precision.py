"""Whether bfloat16 reconstructs as float32 does: InvG's loop on ResNet20-4, the same targets and first images
in both.

    python -m bench.precision 5 4000

takes five targets and 4,000 iterations, and prints the PSNR of each target in either precision and how far
they are apart. Recorded evidence may be taken in bfloat16 where the mean of at least five pairs at 4,000
iterations is within 1 dB.
"""

import sys

import torch

from bench.matching import attacked, psnr, setting

MODULE = "resnet20-4"


def main(targets: int, iterations: int) -> None:
    """Print a line for each target, then the mean difference and its standard error."""
    work = {"parameters": {}, "targets": targets, "iterations": iterations, "derivative": "frozen"}
    model, tensors, truth = setting(MODULE, work)
    values = [
        psnr(attacked(MODULE, work | {"precision": each}, model, tensors, torch.get_num_threads()), truth)
        for each in ("float32", "bfloat16")
    ]
    for number, (one, other) in enumerate(zip(*values, strict=True)):
        print(f"target {number}: float32 {one:.2f} dB, bfloat16 {other:.2f} dB")
    apart = values[1] - values[0]
    error = apart.std() / targets**0.5
    print(f"bfloat16 less float32: {apart.mean():.2f} dB, standard error {error:.2f}, n = {targets}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
