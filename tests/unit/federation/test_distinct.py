"""Updates whose samples share no label, and victims whose batch norm has statistics that nobody trains."""

from functools import partial

import numpy as np
import pytest
import torch
from federations import LABELS, federation
from torch.nn.functional import cross_entropy

from leakbench.base.errors import UserError
from leakbench.defences import Defence
from leakbench.federation import play, private_samples
from leakbench.networks import victims

settings = partial(federation, clients=[4], rounds=50, distinct_labels=True)


def test_no_two_samples_of_an_update_share_a_label() -> None:
    truth = private_samples(settings(), LABELS, ("made", "federation", 0))
    (images,), (labels,) = truth.images, truth.labels
    assert images.shape == labels.shape == (50, 4)
    assert images.min() >= 20
    assert images.max() < 50
    assert np.array_equal(labels, LABELS[images])
    assert all(len(set(row)) == 4 for row in labels.tolist())
    # Rounds differ, labels are in no order, and without the key labels do repeat.
    assert len(set(map(tuple, images.tolist()))) > 45
    assert any(row != sorted(row) for row in labels.tolist())
    (free,) = private_samples(settings(distinct_labels=False), LABELS, ("made", "federation", 0)).labels
    assert any(len(set(row)) < 4 for row in free.tolist())


def test_every_label_and_image_has_its_turn() -> None:
    (images,) = private_samples(settings(rounds=600), LABELS, ("made", "federation", 0)).images
    assert set(images.ravel().tolist()) == set(range(20, 50))


def test_more_samples_than_labels_is_a_mistake_that_names_the_key() -> None:
    with pytest.raises(
        UserError, match="distinct_labels: the private images have 5 labels, an update needs 6"
    ):
        private_samples(settings(clients=[6]), LABELS, ("made", "federation", 0))


@pytest.mark.parametrize("update", ["gradient", "model"])
@pytest.mark.parametrize("server", ["frozen", "fedavg"])
def test_batch_norms_statistics_are_those_sent_and_stay_as_they_are(update: str, server: str) -> None:
    federation = settings(update=update, server=server, rounds=2, clients=[3])
    torch.manual_seed(0)
    model = victims.build("resnet20-4", (16, 16, 3), 5, {"width": 8})
    for name, value in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            value.uniform_(0.5, 2)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    images = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (60, 16, 16, 3), dtype=np.uint8))
    truth = private_samples(federation, LABELS, ("made", "federation", 0))
    seen: dict[int, dict[str, torch.Tensor]] = {}

    def sink(part: slice, client: int, found: dict[str, torch.Tensor]) -> None:
        for offset, turn in enumerate(range(*part.indices(2))):
            seen[turn] = {name: value[offset] for name, value in found.items()}

    sent = play(model, [start], images, truth, federation, Defence(), 0, sink)
    trained = dict(model.named_parameters())
    assert all(set(found) == set(trained) for found in seen.values())
    for weights in sent:
        assert set(weights) == set(start)
        assert all(torch.equal(weights[n], value) for n, value in start.items() if n not in trained)
    for turn, found in seen.items():
        model.load_state_dict(sent[turn] if server == "fedavg" else sent[0])
        x = images[torch.from_numpy(truth.images[0][turn])].permute(0, 3, 1, 2).contiguous().float() / 255
        loss = cross_entropy(model.eval()(x), torch.from_numpy(truth.labels[0][turn]))
        scale = 1.0 if update == "gradient" else -0.2
        for (name, _), slope in zip(
            model.named_parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
        ):
            torch.testing.assert_close(found[name], scale * slope, rtol=1e-3, atol=1e-5)
