"""Batches: brought to size, and moved and mirrored as told."""

import torch

from leakbench.federation.training.batches import PADDING, flip_crop, to_size


def test_images_are_in_the_unit_range_with_channels_first() -> None:
    x = to_size(torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8), None)
    assert x.shape == (1, 3, 1, 1)
    torch.testing.assert_close(x.flatten(), torch.tensor([0.0, 0.2, 1.0]))


def test_a_constant_image_stays_itself_at_any_size() -> None:
    x = to_size(torch.full((2, 8, 8, 3), 102, dtype=torch.uint8), 20)
    assert x.shape == (2, 3, 20, 20)
    torch.testing.assert_close(x, torch.full_like(x, 0.4))


def test_each_image_is_a_moved_or_mirrored_copy() -> None:
    """Every place of the result holds what one of the 2 × 9 × 9 variants has there."""
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(40, 2, 6, 5, generator=rng) + 1
    found = flip_crop(x, rng)
    seen = set()
    for image, varied in zip(x, found, strict=True):
        hits = []
        for flipped in (False, True):
            own = image.flip(-1) if flipped else image
            padded = torch.nn.functional.pad(own, [PADDING] * 4)
            for down in range(2 * PADDING + 1):
                for right in range(2 * PADDING + 1):
                    if torch.equal(padded[:, down : down + 6, right : right + 5], varied):
                        hits.append((flipped, down, right))
        # Where next to nothing of an image is left, several variants may agree.
        assert hits or not varied.any()
        seen |= set(hits[:1])
    assert {flipped for flipped, *_ in seen} == {False, True}
    assert len(seen) > 20
