"""Optimisers of many independent trials at once; one file each, found by its name.

The function of a file takes keyword arguments and returns what makes a fresh optimiser for a run of a given
number of iterations (`matching.optimiser.Make`). Each trial has its own state, its own history and its own
end.
"""
