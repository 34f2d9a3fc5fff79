"""The log of a long job says how far it is and how long it still takes."""

import pytest

from leakbench.base import progress


def test_a_log_has_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 10_000, 4))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    assert [item for item, _ in progress.track(range(4), "epoch")] == [0, 1, 2, 3]
    lines = capsys.readouterr().err.splitlines()
    assert lines
    for line in lines:
        done, _, left = line.removeprefix("epoch: ").partition(" of 4, about ")
        assert float(left.removesuffix(" s left")) > 0
        assert 0 < int(done) < 4
