"""Optimisers of many independent trials at once, one file each, found by its name.

The function of a file takes keyword arguments and returns a `matching.optimiser.Make`, which makes a fresh
optimiser for a run of a given number of iterations. Each trial has its own state, its own history and its own
end.
"""
