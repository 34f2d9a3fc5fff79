"""What the server does: it trains by each strategy in turn, and leakbench keeps what it sees."""

from pathlib import Path

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp, strategy

from leakbench.observations.flower import record
from quickstart.task import Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    for name in config["strategies"].split():
        torch.manual_seed(0)
        chosen = record(getattr(strategy, name)(fraction_evaluate=0.0), Path(config["folder"], name))
        chosen.start(
            grid=grid,
            initial_arrays=ArrayRecord(Net().state_dict()),
            train_config=ConfigRecord({"lr": config["learning-rate"]}),
            num_rounds=config["num-server-rounds"],
        )
