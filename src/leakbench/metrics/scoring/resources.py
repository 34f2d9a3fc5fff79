"""What a cell's metrics need beyond its images, and which metrics can do without."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leakbench.base.artefacts import open_tensors, read_facts
from leakbench.base.errors import UserError
from leakbench.base.missing import absent
from leakbench.base.parts import BACKBONES, judge
from leakbench.metrics import METRICS

Answer = Callable[[np.ndarray], np.ndarray]
Needs = dict[str, Any]


@dataclass(frozen=True)
class Resources:
    """What metrics need beyond images: what serves all, judges (images → logits), and what is left out."""

    fixed: Needs
    judges: dict[str, Answer]
    classes: int
    left_out: str

    def of(self, images: np.ndarray, labels: np.ndarray | None) -> Needs:
        """Return all needs for some images, by name."""
        if labels is None:
            return self.fixed
        return self.fixed | {"labels": labels} | {need: ask(images) for need, ask in self.judges.items()}


def judged(names: list[str]) -> list[str]:
    return [name for name in names if any(judge(need) for need in METRICS[name].needs)]


def cheap(names: list[str]) -> list[str]:
    """Return the metrics among `names` that do not need the backbones of LPIPS."""
    return [name for name in names if BACKBONES not in METRICS[name].needs]


# The tensors of LPIPS' file, or the reason why there are none.
Backbones = tuple[Mapping[str, np.ndarray] | None, str]


def open_backbones(path: Path | None) -> Backbones:
    """Open LPIPS' file, if there is one. LPIPS builds its networks once for each mapping returned here."""
    reason = (path and absent([path])) or ""
    return (None if reason or path is None else open_tensors(path)[0]), reason


def gather(
    names: list[str], backbones: Backbones, judges: dict[str, Path],
    of_data: Mapping[str, Callable[[], Any] | None],
) -> tuple[list[str], Resources]:  # fmt: skip
    """Return the metrics that can be measured, and what they need."""
    tensors, reason = backbones
    fixed: Needs = {} if tensors is None else {BACKBONES: tensors}
    lacking: dict[str, str] = {BACKBONES: reason} if reason else {}
    answers: dict[str, Answer] = {}
    classes = 0
    for need in sorted({need for name in judged(names) for need in METRICS[name].needs if judge(need)}):
        if judge(need) not in judges:
            raise UserError(
                f"score: --judges: no file of {judge(need)} (give one for each judge of the spec)"
            )
        path = judges[judge(need)]
        if why := absent([path]):
            lacking[need] = why
        else:
            answers[need], classes = _asked(path), read_facts(path)["network"]["classes"]
    asked = {need for name in names for need in METRICS[name].needs} & of_data.keys()
    made = {need: make() for need in sorted(asked) if (make := of_data[need])}
    lacking |= {
        need: f"the data set holds no {'text' if need == 'vocabulary' else 'records of a table'}"
        for need in asked - made.keys()
    }
    kept = [name for name in names if not lacking.keys() & set(METRICS[name].needs)]
    return kept, Resources(fixed | made, answers, classes, "; ".join(dict.fromkeys(lacking.values())))


def _asked(path: Path) -> Answer:
    """Return a function that asks the classifier in a victim's file."""
    import torch

    from leakbench.networks.victims.file import load_victim

    model, _ = load_victim(path)

    @torch.inference_mode()
    def ask(images: np.ndarray) -> np.ndarray:
        # Images are clamped as a screen shows them, which is how the classifier was trained.
        shown = np.clip(np.nan_to_num(images), 0, 1, dtype=np.float32)
        return np.concatenate([model(part).numpy() for part in torch.from_numpy(shown).split(500)])

    return ask
