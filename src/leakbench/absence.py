"""An input that is not to be had makes its outputs say so, with the reason; it never fails the rest."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from leakbench.artefacts import read_facts, to_json, write_table, write_tensors, write_text


def absent(paths: Iterable[Path]) -> str | None:
    """Return the reason of the first input that is absent, or None."""
    for path in paths:
        reason = read_facts(path).get("absent")
        if reason:
            return str(reason)
    return None


def pass_on(reason: str, outputs: Iterable[Path]) -> None:
    """Write each output as absent for `reason`, in the form its suffix asks for."""
    for path in outputs:
        if path.suffix == ".safetensors":
            write_tensors(path, {}, {"absent": reason})
        elif path.suffix == ".parquet":
            write_table(path, pd.DataFrame(), {"absent": reason})
        else:
            write_text(path, to_json({"absent": reason}) + "\n")
