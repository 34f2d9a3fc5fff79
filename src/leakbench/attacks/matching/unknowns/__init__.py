"""What gradient matching optimises, one file each, found by its name.

The function of a file takes keyword arguments and returns a `matching.unknowns.Parameterisation`. A
parameterisation draws the first unknowns of a group of trials from a source of chance, and says how images
follow from unknowns.
"""
