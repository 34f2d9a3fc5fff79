"""Gradient matching: gradient model × parameterisation × objective × optimiser, over all trials of a cell at
once."""
