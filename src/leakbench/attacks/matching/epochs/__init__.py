"""How updates of several epochs are attacked together, one file each, found by its name.

The function of a file takes keyword arguments and returns a `matching.composition.Epochs`. An attack without
this section reconstructs each update from itself alone.
"""
