"""The network that reads: its shape, its size as counted by hand, and that it learns to read."""

import pytest
import torch

from leakbench.networks.tasks import recognition
from leakbench.networks.victims.crnn import crnn

SHAPE = (32, 100, 3)


def parameters_by_hand(width: int) -> int:
    channels = [3, *(width * times for times in (1, 2, 4, 4, 8, 8, 8))]
    sizes = [3, 3, 3, 3, 3, 3, 2]
    convolutions = sum((size**2 * channels[n] + 1) * channels[n + 1] for n, size in enumerate(sizes))
    norms = 2 * (channels[3] + channels[5] + channels[7])
    units = 4 * width
    # Four gates, each with two biases in torch, both directions, two layers that read 8 widths.
    lstms = 2 * 2 * 4 * units * (8 * width + units + 2)
    return convolutions + norms + lstms + (8 * width + 1) * 37


@pytest.mark.parametrize("width", [4, 64])
def test_it_has_the_published_layers(width: int) -> None:
    model = crnn(SHAPE, 36, width=width)
    assert sum(p.numel() for p in model.parameters()) == parameters_by_hand(width)


@pytest.mark.parametrize("columns", [100, 160])
def test_a_step_for_every_four_columns(columns: int) -> None:
    model = crnn((32, columns, 3), 36, width=4)
    assert model(torch.rand(2, 3, 32, columns)).shape == (2, columns // 4, 37)


def test_pixels_are_centred_in_the_network() -> None:
    model = crnn(SHAPE, 36, width=4)
    levels = torch.tensor([0.0, 127.5, 255.0])[:, None, None, None].expand(3, 3, 32, 100)
    assert model.normalise(levels / 255)[:, 0, 0, 0].tolist() == pytest.approx([-1, 0, 1])


def test_it_starts_as_keras_starts_it() -> None:
    torch.manual_seed(0)
    model = crnn(SHAPE, 36, width=8).network
    lstm = model.lstm1.lstm
    recurrent = lstm.weight_hh_l0.detach()
    torch.testing.assert_close(recurrent.T @ recurrent, torch.eye(32), atol=1e-5, rtol=0)
    biases = lstm.bias_ih_l0 + lstm.bias_hh_l0
    assert biases.view(4, 32).sum(1).tolist() == [0, 32, 0, 0]
    assert model.conv5.weight.abs().max().item() <= (6 / (9 * (32 + 64))) ** 0.5
    assert not model.conv5.bias.any()


def test_lines_of_other_heights_are_refused() -> None:
    with pytest.raises(ValueError, match="lines of 32 rows, not 28"):
        crnn((28, 28, 1), 36)


def test_it_learns_what_a_few_pictures_say() -> None:
    torch.manual_seed(0)
    model = crnn(SHAPE, 3, width=3)
    x = torch.rand(4, 3, 32, 100)
    y = torch.tensor([[0, 1, -1], [1, 0, -1], [2, -1, -1], [2, 2, 1]])
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        optimiser.zero_grad()
        recognition.loss(model(x), y).backward()
        optimiser.step()
        if recognition.correct(model(x), y).all():
            return
    raise AssertionError(recognition.read(model(x)))
