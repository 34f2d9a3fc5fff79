"""Top-k of a judge against torch's order, ties, and what is no image."""

import numpy as np
import pytest
import torch

from leakbench.metrics import METRICS, measure
from leakbench.metrics.reidentification import top

JUDGES = {"resnet18": "judge_resnet18_faces", "densenet121": "judge_densenet121_faces"}


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_label_is_among_the_highest_answers(judge: str, count: int) -> None:
    rng = np.random.default_rng(count)
    images, labels = rng.random((200, 3, 4, 4)), rng.integers(0, 12, 200)
    answers = rng.standard_normal((200, 12))
    # Somewhat better than chance.
    answers[np.arange(200), labels] += 1
    other = {need: rng.standard_normal((200, 12)) for need in JUDGES.values()}
    name = f"top{count}_{judge}"
    found = measure([name], images, images, other | {"labels": labels, JUDGES[judge]: answers})[name]
    assert set(found) == {0.0, 1.0}
    first = torch.from_numpy(answers).topk(count).indices.numpy()
    assert found.tolist() == [float(label in row) for label, row in zip(labels, first, strict=True)]
    assert METRICS[name].needs == ("labels", JUDGES[judge])


def test_a_tie_is_no_identification() -> None:
    images, labels = np.zeros((2, 1, 4, 4)), np.array([1, 1])
    answers = np.array([[0.0, 0.0, -1.0], [0.0, 0.1, 0.0]])
    assert top(1)(images, images, labels=labels, judge=answers).tolist() == [0, 1]
    assert top(3)(images, images, labels=labels, judge=answers).tolist() == [1, 1]


def test_what_is_no_image_has_no_person() -> None:
    images = np.zeros((2, 3, 4, 4))
    images[0, 0, 0, 0] = np.nan
    found = top(1)(images, images, labels=np.array([0, 0]), judge=np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert np.isnan(found[0])
    assert found[1] == 1


def test_answers_belong_to_their_images() -> None:
    images = np.zeros((2, 3, 4, 4))
    with pytest.raises(ValueError, match="2 reconstructions, 1 answers, 2 labels"):
        top(1)(images, images, labels=np.array([0, 0]), judge=np.zeros((1, 3)))
