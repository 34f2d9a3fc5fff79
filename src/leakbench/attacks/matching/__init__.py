"""Gradient matching, for all trials of a cell at once.

An attack combines a gradient model, a parameterisation, an objective and an optimiser.
"""
