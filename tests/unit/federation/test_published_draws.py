"""Private samples that published code draws are drawn again."""

from typing import Any

import numpy as np
import pytest
from federations import LABELS, federation
from pydantic import ValidationError

from leakbench.federation import private_samples

DRAWN = {"seed": 55726, "of": 16}
ONE = {"clients": [5], "rounds": 1, "drawn": DRAWN}


def test_the_update_has_the_first_of_the_images_that_the_seed_draws() -> None:
    whole = {"split": "train", "start": 0, "stop": 100}
    found = private_samples(federation(**ONE, private=whole), LABELS, ("made", "federation", 0))
    wanted = np.random.default_rng(55726).choice(60, size=16, replace=False)[:5]
    assert found.images[0].tolist() == [wanted.tolist()]
    assert found.labels[0].tolist() == [LABELS[wanted].tolist()]


@pytest.mark.parametrize("change", [{"rounds": 2}, {"clients": [5, 5]}, {"clients": [17]}, {"alpha": 1.0}])
def test_such_a_draw_is_of_one_update(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="drawn"):
        federation(**ONE | change)


def test_no_other_federation_has_the_key() -> None:
    assert "drawn" not in federation(clients=[5], rounds=1)
