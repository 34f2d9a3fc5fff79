"""The clients' chance: drawn with a salt, and not to be found by trying seeds."""

import numpy as np
import torch
from test_play import LABELS, settings

from leakbench.federation import generator, private_samples


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


def test_another_salt_gives_other_private_images() -> None:
    one, same, other = (
        private_samples(settings(), LABELS, ("mnist", "f", 0, salt)).images[1] for salt in ("a", "a", "b")
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
