"""Against ATS: a candidate may have been trained on in any of the forms that the policies give it."""

from leakbench.defences.ats import alternatives
from leakbench.observations.adaptation import Adaptation


def ats() -> Adaptation:
    """Take each candidate as each of the transformed images that the default policies make of it.

    All clients train by the same policies, so the server knows them. An attack that reconstructs images
    cannot adapt: what it finds is the transformed image.
    """
    return Adaptation(alternatives=alternatives)
