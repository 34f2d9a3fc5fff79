"""Comparisons of ways to do the same work, in one run on one machine. `make bench` writes
results/bench.csv."""

import os

from leakbench.process import prepare

# As every job does, before torch is loaded.
prepare(len(os.sched_getaffinity(0)))
