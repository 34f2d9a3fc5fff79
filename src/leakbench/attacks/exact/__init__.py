"""Exact attacks on a dense first layer: they solve for samples and prove each from the update alone."""
