"""Gradient matching, for all trials of a cell at once: an objective, unknowns, an optimiser, engines."""
