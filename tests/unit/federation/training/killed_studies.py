"""Studies that are killed in their third round."""

from collections.abc import Callable
from typing import Any

import pytest

from leakbench.federation.training import study as module


def killed(monkeypatch: pytest.MonkeyPatch, run: Callable[[], object]) -> None:
    """Run a study to its death; afterwards rounds are played as before."""
    play, done = module.play_round, []

    def dying(*arguments: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(1)
        return play(*arguments)

    monkeypatch.setattr(module, "play_round", dying)
    with pytest.raises(KeyboardInterrupt):
        run()
    monkeypatch.setattr(module, "play_round", play)
