"""The bytes of an update under each defence, counted by hand."""

from typing import Any

import pytest
import torch

from leakbench import defences

# Two rounds of one tensor of 100 and one of 10 coordinates; only the second round has zeros, 60 and none.
UPDATE = {"a": 1 + torch.rand(2, 20, 5), "b": 1 + torch.rand(2, 10)}
UPDATE["a"][1, 8:] = 0


def bytes_of(module: str, **parameters: Any) -> list[int]:
    defence = defences.build(module, parameters)
    sent = defence.update(UPDATE, torch.Generator().manual_seed(0))
    return defences.sent_bytes(defence, sent).tolist()


@pytest.mark.parametrize(
    ("module", "parameters"),
    [("none", {}), ("gaussian", {"scale": 0.1}), ("laplacian", {"scale": 0.1}), ("clip", {"norm": 1.0})]
)  # fmt: skip
def test_what_sends_every_coordinate_sends_four_bytes_each(module: str, parameters: dict[str, float]) -> None:
    assert bytes_of(module, **parameters) == [440, 440]


def test_pruned_updates_tell_places_where_few_are_sent_and_a_mask_where_many() -> None:
    # 1 of 100 and 1 of 10: a place of 32 bits is shorter than 100 bits, and longer than 10.
    assert bytes_of("prune", share=0.01) == [-(-(64 + 32 + 10) // 8)] * 2
    # 50 and 5 of them; the second round has only 40 that are not zero.
    assert bytes_of("prune", share=0.5) == [
        -(-(100 + 50 * 32 + 10 + 5 * 32) // 8),
        -(-(100 + 40 * 32 + 10 + 5 * 32) // 8),
    ]
    assert bytes_of("prune", share=1.0)[0] == 440


def test_withheld_updates_are_counted_as_they_are() -> None:
    defence = defences.build("withhold", {"share": 0.5})
    sent = defence.update(UPDATE, torch.Generator().manual_seed(0))
    for turn, found in enumerate(defences.sent_bytes(defence, sent).tolist()):
        kept = [int((value[turn] != 0).sum()) for value in sent.values()]
        assert 0 < kept[1] < 10
        told = [min(100, 32 * kept[0]), min(10, 32 * kept[1])]
        assert found == -(-(sum(told) + 32 * sum(kept)) // 8)


def test_signs_are_a_bit_each_and_a_number_and_zeros_a_second_bit() -> None:
    assert bytes_of("sign") == [-(-(110 + 64) // 8), -(-(100 + 40 + 10 + 64) // 8)]


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_quantised_updates_have_their_bits_and_two_numbers_for_each_tensor(bits: int) -> None:
    assert bytes_of("quantise", bits=bits) == [-(-(110 * bits + 4 * 32) // 8)] * 2
