"""Comparisons of different ways to do the same work, in one run on one machine.

`make bench` writes results/bench.csv. Each entry of the bench is a module with a function
`rows(ceiling, small)`, which yields rows of that file:

ceiling: operations a second of all cores together, by kind of work (`bench.ceiling.Ceiling`).
small: whether to take a tiny size, to see that the comparison works.
"""
