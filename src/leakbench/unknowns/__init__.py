"""What gradient matching optimises; one file each, found by its name.

The function of a file takes keyword arguments and returns a `matching.unknowns.Parameterisation`: from a
group of trials and a source of chance to the first unknowns, and how images follow from them.
"""
