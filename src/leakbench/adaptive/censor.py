"""Against CENSOR: the client keeps the direction that lowers the loss most, which leans towards the
gradient."""

from leakbench.adaptive import Adaptation


def censor() -> Adaptation:
    """Average the rounds: directions differ in chance, and what they have in common is the gradient's.

    Of directions that are exactly orthogonal to the gradient nothing is left in the mean.
    """
    return Adaptation(pooled=lambda seen: seen.mean(0))
