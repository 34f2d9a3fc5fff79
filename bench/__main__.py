"""Run every comparison and write results/bench.csv."""

from pathlib import Path

import pandas as pd
import torch

from bench import encryption, fidel, grnn, matching, scheduler
from bench.measure import COLUMNS
from leakbench.artefacts import write_text


def main() -> None:
    """Print and write the table; all of the machine's cores are used."""
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    frame = pd.DataFrame(
        [*fidel.rows(), *grnn.rows(), *encryption.rows(), *matching.rows(), *scheduler.rows()],
        columns=COLUMNS,
    )
    print(frame.drop(columns="work").to_string(index=False))
    write_text(Path("results/bench.csv"), frame.to_csv(index=False))


main()
