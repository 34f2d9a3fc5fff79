"""capture: play the federation; write what the server saw and, apart from it, what it must not know."""

from pathlib import Path

import numpy as np
import torch

from leakbench import defences
from leakbench.artefacts import creating, open_tensors, write_tensors
from leakbench.errors import UserError
from leakbench.federation import play, private_samples
from leakbench.provenance import provenance, read_spec, recording
from leakbench.seeds import stream
from leakbench.verbs.absence import absent, pass_on
from leakbench.victims.file import load_victim


def capture(spec: Path, data: Path, victim: Path, out: Path, truth: Path, record: Path | None) -> None:
    """Write the observation to `out` (docs/observation.md) and image indices and labels to `truth`."""
    with recording(record, "capture"):
        reason = absent([data, victim])
        if reason:
            return pass_on(reason, [out, truth])
        value = read_spec(spec)
        federation, image = value["federation"], value["dataset"]
        arrays, _ = open_tensors(data)
        split = federation["private"]["split"]
        if f"{split}/images" not in arrays:
            raise UserError(f"{data}: no '{split}' split (choose another private.split in the federation)")
        names = (image["name"], value["federation_name"], value["seed"])
        hidden = private_samples(federation, np.array(arrays[f"{split}/labels"]), names)
        model, facts = load_victim(victim)
        epochs = (
            [max(facts["checkpoints"])] if federation["checkpoints"] == "last" else federation["checkpoints"]
        )
        origins = []
        for epoch in epochs:
            loaded, _ = load_victim(victim, epoch)
            origins.append({name: p.detach() for name, p in loaded.named_parameters()})
        rounds, clients = federation["rounds"], federation["clients"]
        moving = federation["server"] == "fedavg"
        sent = rounds if moving else len(epochs)
        shapes = {name: tuple(p.shape) for name, p in origins[0].items()}
        layout = {
            f"updates/{n}": ((len(epochs) * rounds, len(clients), *s), "float32") for n, s in shapes.items()
        }
        layout |= {f"global/{n}": ((sent, *s), "float32") for n, s in shapes.items()}
        layout["origin"] = ((len(epochs) * rounds,), "int64")
        local = federation["local"]
        made = provenance(
            value,
            "leakbench.verbs.capture",
            f"leakbench.victims.{value['victim']['module']}",
            f"leakbench.defences.{value['defence']['module'].replace('-', '_')}",
        )
        observed = {
            "network": {**value["victim"], "shape": image["shape"], "classes": image["classes"]},
            "clients": clients,
            "kind": federation["update"],
            "knows": {
                "threat model": "honest-but-curious server",
                "shared": f"{federation['update']} update of each client, each round",
                "labels": "unknown",
                "batch size": "known",
                "local training": f"lr {local['lr']}, epochs {local['epochs']}, batch {local['batch_size'] or 'whole set'}; known",
                "buffers": "none",
                "defence": value["defence"]["module"],
            },
        }
        epochs_by_round = np.repeat(np.array(epochs), rounds)
        with creating(out, layout, observed | made) as tensors:

            def sink(part: slice, client: int, update: dict[str, torch.Tensor]) -> None:
                for name, tensor in update.items():
                    tensors[f"updates/{name}"][part, client] = tensor.numpy()

            defence = defences.build(value["defence"]["module"], value["defence"]["parameters"])
            images = torch.from_numpy(np.array(arrays[f"{split}/images"]))
            out_models = play(
                model, origins, images, hidden, federation, defence, stream("capture", *names), sink
            )
            for index, weights in enumerate(out_models):
                for name, tensor in weights.items():
                    tensors[f"global/{name}"][index] = tensor.numpy()
            tensors["origin"][:] = np.arange(rounds) if moving else np.repeat(np.arange(len(epochs)), rounds)
        repeats = (len(epochs), 1)
        secret = {f"images/{c}": np.tile(v, repeats) for c, v in enumerate(hidden.images)}
        secret |= {f"labels/{c}": np.tile(v, repeats) for c, v in enumerate(hidden.labels)}
        secret["checkpoint"] = epochs_by_round
        write_tensors(truth, secret, {"split": split, "clients": clients} | made)
