"""Whether bfloat16 reconstructs as float32 does: InvG's loop on ResNet20-4, the same targets and first images
in both.

    python -m bench.precision 5 4000
    python -m bench.precision 5 4000 cuda:0

takes five targets and 4,000 iterations, and prints the PSNR of each target in either precision and how far
they are apart, and what each took. Recorded evidence may be taken in bfloat16 where the mean of at least five
pairs at 4,000 iterations is within 1 dB. The last argument is torch's name of a GPU (default: the processor).
"""

import sys
import time

import torch

from bench.matching import attacked, psnr, setting

MODULE = "resnet20-4"


def main(targets: int, iterations: int, device: str = "cpu") -> None:
    """Print a line for each target, then the mean difference and its standard error."""
    work = {"parameters": {}, "targets": targets, "iterations": iterations, "derivative": "frozen"}
    model, tensors, truth = setting(MODULE, work)
    values = []
    for precision in ("float32", "bfloat16"):
        start = time.perf_counter()
        asked = work | {"precision": precision, "device": device}
        values.append(psnr(attacked(MODULE, asked, model, tensors, torch.get_num_threads()), truth))
        print(f"{precision} on {device}: {time.perf_counter() - start:.0f} s", flush=True)
    for number, (one, other) in enumerate(zip(*values, strict=True)):
        print(f"target {number}: float32 {one:.2f} dB, bfloat16 {other:.2f} dB")
    apart = values[1] - values[0]
    error = apart.std() / targets**0.5
    print(f"bfloat16 less float32: {apart.mean():.2f} dB, standard error {error:.2f}, n = {targets}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
