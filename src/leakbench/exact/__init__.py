"""Exact attacks on a dense first layer: they solve for the samples and prove each one from the update
alone."""
