"""Terms of an attack's objective, one file each, found by its name.

The function of a file takes keyword arguments and returns one of the kinds of `matching.terms`: a distance of
gradients, weights of the layers in the distances, the entries that the distances compare, a penalty on how
the distances change, or a prior that says how likely images are.
"""
