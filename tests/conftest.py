"""What all tests share: one thread each, as the jobs of the workflow have."""

import os

import pytest

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the workflow's tests first: a worker that began one of these long files last would work alone."""
    items.sort(key=lambda item: "workflow" not in item.path.parts)
