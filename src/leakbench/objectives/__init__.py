"""Terms of an attack's objective; one file each, found by its name.

The function of a file takes keyword arguments and returns one of the three kinds of `matching.terms`: a
distance of gradients, weights of the layers in the distances, or a prior that says how likely images are.
"""
