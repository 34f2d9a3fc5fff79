"""capture: play the federation; write what the server saw and, apart from it, what it must not know."""

from pathlib import Path

import numpy as np
import torch

from leakbench import defences
from leakbench.artefacts import creating, open_tensors, write_tensors
from leakbench.errors import UserError
from leakbench.federation import play, private_samples
from leakbench.parts import dotted
from leakbench.provenance import provenance, read_spec, recording
from leakbench.seeds import stream
from leakbench.verbs.absence import absent, pass_on
from leakbench.victims.file import load_victim


def capture(
    spec: Path, data: Path, victim: Path, out: Path, oracle: Path, truth: Path, record: Path | None
) -> None:
    """Write the observation to `out` (docs/observation.md) and image indices and labels to `truth`.

    `oracle` holds the labels alone, for attacks that are assumed to know them.
    """
    with recording(record, "capture"):
        reason = absent([data, victim])
        if reason:
            return pass_on(reason, [out, oracle, truth])
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
            origins.append(loaded.state_dict())
        rounds, clients = federation["rounds"], federation["clients"]
        moving = federation["server"] == "fedavg"
        passes = federation["passes"]
        sent = (passes if passes > 1 else rounds) if moving else len(epochs)
        layout = {
            f"updates/{name}": ((len(epochs) * rounds, len(clients), *value.shape), "float32")
            for name, value in model.named_parameters()
        }
        layout |= {
            f"global/{name}": ((sent, *value.shape), str(value.dtype).removeprefix("torch."))
            for name, value in origins[0].items()
        }
        layout["origin"] = ((len(epochs) * rounds,), "int64")
        local = federation["local"]
        made = provenance(
            value,
            "leakbench.verbs.capture",
            dotted("victims", value["victim"]["module"]),
            dotted("defences", value["defence"]["module"]),
        )
        observed = {
            "network": {**value["victim"], "shape": image["shape"], "classes": image["classes"]},
            "clients": clients,
            "kind": federation["update"],
            "local": local,
            "knows": {
                "threat model": "honest-but-curious server",
                "shared": f"{federation['update']} update of each client, each round",
                "labels": "unknown",
                "batch size": "known",
                "local training": f"lr {local['lr']}, epochs {local['epochs']}, batch {local['batch_size'] or 'whole set'}; known",
                "buffers": "sent with the model"
                if len(origins[0]) > len(dict(model.named_parameters()))
                else "none",
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
            starts = np.repeat(np.arange(sent), len(epochs) * rounds // sent)
            tensors["origin"][:] = starts
        repeats = (len(epochs), 1)
        secret = {f"images/{c}": np.tile(v, repeats) for c, v in enumerate(hidden.images)}
        secret |= {f"labels/{c}": np.tile(v, repeats) for c, v in enumerate(hidden.labels)}
        write_tensors(oracle, {n: v for n, v in secret.items() if n.startswith("labels/")}, made)
        secret["checkpoint"] = epochs_by_round
        secret["pass"] = np.tile(np.repeat(np.arange(passes), rounds // passes), len(epochs))
        write_tensors(truth, secret, {"split": split, "clients": clients} | made)
