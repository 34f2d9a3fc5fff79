"""Attacks on records of a table: what one real update of a dense network gives away of them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from observing import seen_of, sent_by

from leakbench.attacks import run
from leakbench.datasets.columns import columns_of, decode, encode
from leakbench.metrics import measure
from leakbench.metrics.matching import best
from leakbench.metrics.pearson import pearson_matrix
from leakbench.networks import victims
from leakbench.networks.layers import Normalise
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

NUMBERS: list[dict[str, Any]] = [{f"number {n}": [0, 1000, 1]} for n in range(12)]
BLOCKS: list[dict[str, Any]] = [{f"category {n}": ["a", "b", "c", "d"]} for n in range(4)]
COLUMNS = columns_of([*NUMBERS, *BLOCKS])
SHAPE = (1, COLUMNS[-1].place.stop, 1)


def people(count: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    numbers = {f"number {n}": rng.integers(0, 1001, count).astype(float) for n in range(len(NUMBERS))}
    return pd.DataFrame(
        numbers | {f"category {n}": rng.choice(list("abcd"), count) for n in range(len(BLOCKS))}
    )


def seen(table: pd.DataFrame, **parameters: Any) -> tuple[Observation, np.ndarray]:
    """Return what the server saw of a client that holds a table, and its records [n, width]."""
    torch.manual_seed(0)
    model = victims.build("mlp", SHAPE, 2, parameters)
    for layer in model.modules():
        if isinstance(layer, Normalise):
            layer.measure(torch.from_numpy(encode(people(1000, 1), COLUMNS))[:, None, None])
    records = encode(table, COLUMNS)
    x = torch.from_numpy(records)[None, :, None, None]
    update = sent_by(model, x, torch.arange(len(table))[None] % 2)
    network = {"module": "mlp", "parameters": parameters, "shape": SHAPE, "classes": 2}
    return seen_of(model, network, update, len(table)), records


def found_by(module: str, observation: Observation) -> Reconstruction:
    return run({"module": module, "parameters": {}}, observation, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("module", "normalise", "count"), [("fidel", "none", 3), ("peel", "none", 6), ("spear", "train", 6)]
)
def test_records_come_back_value_for_value(module: str, normalise: str, count: int) -> None:
    table = people(count, 0)
    observation, records = seen(table, hidden=[600, 100, 100], normalise=normalise)
    found = found_by(module, observation)
    guessed = found.images[0, 0][found.usable[0, 0]].reshape(-1, SHAPE[1]).numpy()
    index, _ = best(pearson_matrix(guessed, records))
    again = decode(guessed[index], COLUMNS)
    pd.testing.assert_frame_equal(again, table, check_exact=True, check_dtype=False)
    four = [each[:, None, None] for each in (guessed[index], records)]
    assert measure(["exact_record"], *four, {"columns": COLUMNS})["exact_record"].tolist() == [1] * count


def test_fidel_undoes_a_normalisation_and_leaves_dead_neurons_at_zero() -> None:
    observation, records = seen(people(1, 0), hidden=[50], normalise="train")
    found = found_by("fidel", observation)
    alive = found.usable[0, 0]
    assert 0 < int(alive.sum()) < len(alive)
    np.testing.assert_allclose(
        found.images[0, 0][alive].flatten(1).numpy(), np.repeat(records, int(alive.sum()), 0), atol=1e-4
    )
    assert not found.images[0, 0][~alive].any()
