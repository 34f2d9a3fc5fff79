"""Fitting networks: victims on the train split, generators on auxiliary pairs."""

from leakbench.federation.training.fit import fit

__all__ = ["fit"]
