"""Run breaching on a task file.

The environment in which breaching is installed executes this file instead of the project's own environment.

`python breaching_worker.py TASK OUT THREADS` reads from TASK the victim's state, and the gradients, labels
and first images of each target. It writes to OUT the reconstructions and, as a fact, the seconds that the
reconstructions alone took. THREADS is the number of torch's threads.
"""

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch

from leakbench.base.artefacts import read_tensors, write_tensors
from leakbench.networks import victims


def main(task: Path, out: Path, threads: int) -> None:
    """Reconstruct every target of a task by breaching, one after another.

    task: the file with the victim and the targets.
    out: the file for the reconstructions.
    threads: the number of torch's threads.
    """
    import breaching

    torch.set_num_threads(threads)
    arrays, facts = read_tensors(task)
    tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
    model = victims.build(
        facts["module"], tuple(facts["shape"]), facts["classes"], facts["parameters"]
    ).eval()
    model.load_state_dict({n.removeprefix("model/"): v for n, v in tensors.items() if n.startswith("model/")})
    config = breaching.get_attack_config("invertinggradients")
    config.optim.max_iterations = facts["iterations"]
    config.optim.step_size = facts["lr"]
    config.optim.callback = facts["iterations"]
    config.regularization.total_variation.scale = 0.0
    setup = {"device": torch.device("cpu"), "dtype": torch.float32}
    attacker = breaching.attacks.prepare_attack(model, torch.nn.CrossEntropyLoss(), config, setup)
    metadata = SimpleNamespace(shape=(facts["shape"][2], *facts["shape"][:2]), modality="vision")
    payload = [
        {"parameters": list(model.parameters()), "buffers": list(model.buffers()), "metadata": metadata}
    ]
    names = [name for name, _ in model.named_parameters()]
    found, spent = [], 0.0
    for target in range(len(tensors["labels"])):
        update = {
            "gradients": [tensors[f"observed/{name}"][target] for name in names],
            "buffers": None,
            "metadata": {
                "num_data_points": 1, "labels": tensors["labels"][target], "local_hyperparams": None,
            },
        }  # fmt: skip
        start = time.perf_counter()
        guess, _ = attacker.reconstruct(
            payload, [update], server_secrets={}, initial_data=tensors["start"][target]
        )
        spent += time.perf_counter() - start
        found.append(guess["data"].detach())
    write_tensors(out, {"images": torch.stack(found).numpy()}, {"seconds": spent})


main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
