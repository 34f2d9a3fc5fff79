"""The clients' chance: drawn with a salt, and not to be found by trying seeds."""

import numpy as np
import pytest
import torch
from test_play import network, run, settings
from torch import Tensor

from leakbench import defences
from leakbench.base.seeds import stream
from leakbench.federation import generator


def test_torch_keeps_32_bits_of_a_seed_and_the_clients_generators_keep_all() -> None:
    """The first line is why they are needed: were it to fail, `manual_seed` would do."""
    small, large = (torch.Generator().manual_seed(seed) for seed in (5, 5 + 2**32))
    assert torch.equal(torch.rand(9, generator=small), torch.rand(9, generator=large))
    one, same, other = (torch.rand(9, generator=generator("local", seed)) for seed in (5, 5, 5 + 2**32))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert generator("a").initial_seed() == generator("b").initial_seed()


def test_the_whole_state_is_where_torch_has_it() -> None:
    """NumPy's MT19937 with the same 624 words gives the same numbers."""
    rng = generator("a name", 3)
    words = rng.get_state().numpy()[24 : 24 + 8 * 624].view(np.uint64).astype(np.uint32)
    assert len(set(words.tolist())) > 600
    twin = np.random.MT19937()
    twin.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": 624}}
    drawn = torch.randint(0, 2**20, (2000,), generator=rng).numpy()
    assert np.array_equal(drawn, twin.random_raw(2000) & (2**20 - 1))


SALT, SCALE = "5a17" * 16, 0.1


def unnoise(updates: dict[str, Tensor], *names: str | int) -> dict[str, Tensor]:
    """A cheat: draw a client's noise again from the names of its stream, and take it off."""
    rng = generator("defence", stream("capture", *names))
    found = {name: value.clone() for name, value in updates.items()}
    for turn in range(len(next(iter(found.values())))):
        for value in found.values():
            value[turn] -= SCALE * torch.randn(value[turn].shape, generator=rng)
    return found


def test_noise_is_taken_off_by_whoever_has_the_salt_and_by_nobody_else() -> None:
    names = ("made", "federation", 0)
    federation, (_, weights) = settings(clients=[2]), network()
    plain, _, _ = run(federation, [weights])
    gaussian = defences.build("gaussian", {"scale": SCALE})
    noisy, _, _ = run(federation, [weights], defence=gaussian, seed=stream("capture", *names, SALT))
    known, guessed = (unnoise(noisy, *names, *salt) for salt in ((SALT,), ()))
    for name, value in plain.items():
        torch.testing.assert_close(known[name], value, rtol=0, atol=1e-6)
    off = torch.cat([(guessed[name] - value).flatten() for name, value in plain.items()])
    # Noise on noise: the cheat without the salt makes it worse by the root of two.
    assert off.std().item() == pytest.approx(SCALE * 2**0.5, rel=0.1)
