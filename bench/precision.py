"""Whether bfloat16 reconstructs as well as float32: InvG's loop on ResNet20-4 in both precisions.

    python -m bench.precision 5 4000
    python -m bench.precision 5 4000 cuda:0

Both commands take five targets and 4,000 iterations. The targets and first images are the same in both
precisions. The commands print the PSNR of each target in each precision, the mean difference, and the seconds
that each precision took. The last argument is torch's name of a GPU (default: the processor).

Recorded evidence may be made in bfloat16 where the mean difference of at least five pairs at 4,000 iterations
is within 1 dB.
"""

import sys
import time

import torch

from bench.matching import attacked, psnr, setting

MODULE = "resnet20-4"


def main(targets: int, iterations: int, device: str = "cpu") -> None:
    """Print a line for each target, then the mean difference and its standard error.

    targets: the number of targets.
    iterations: the number of iterations.
    device: torch's name of the device on which the attack computes.
    """
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
