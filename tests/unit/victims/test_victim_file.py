"""A trained victim's file gives back the network of each checkpoint."""

from pathlib import Path

import numpy as np
import torch

from leakbench.base.artefacts import write_tensors
from leakbench.networks import victims
from leakbench.networks.victims.file import load_victim


def test_each_checkpoint_comes_back_and_the_last_by_default(tmp_path: Path) -> None:
    states = {}
    for epoch in (0, 2, 10):
        torch.manual_seed(epoch)
        states[epoch] = victims.build("fcnn", (4, 4, 1), 3, {"width": 5, "dropout": 0.5}).state_dict()
    tensors = {f"epoch-{e}/{name}": v.numpy() for e, state in states.items() for name, v in state.items()}
    network = {"module": "fcnn", "parameters": {"width": 5, "dropout": 0.5}, "shape": [4, 4, 1], "classes": 3}
    # Epoch 10 must not be taken for epoch 1, nor 2 be the last because its digit is.
    write_tensors(tmp_path / "v.safetensors", tensors, {"network": network, "checkpoints": [0, 2, 10]})
    for epoch, expected in ((0, 0), (2, 2), (10, 10), (None, 10)):
        model, facts = load_victim(tmp_path / "v.safetensors", epoch)
        assert not model.training
        assert facts["network"] == network
        for name, value in model.state_dict().items():
            assert np.array_equal(value, states[expected][name])
    # The file is mapped read-only: a model that trains on must not write into it.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    again, _ = load_victim(tmp_path / "v.safetensors")
    assert torch.equal(again.state_dict()["dense1.weight"], states[10]["dense1.weight"])
