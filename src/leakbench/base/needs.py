"""What metrics need beyond images, by name."""

# The weights of the networks by which LPIPS measures distances.
BACKBONES = "lpips_backbones"
_JUDGE = "judge_"


def judge(need: str) -> str:
    """Return the victim that a need names, such as resnet18-faces for `judge_resnet18_faces`."""
    return need.removeprefix(_JUDGE).replace("_", "-") if need.startswith(_JUDGE) else ""
