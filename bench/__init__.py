"""Comparisons of ways to do the same work, in one run on one machine. `make bench` writes
results/bench.csv."""
