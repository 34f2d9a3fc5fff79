"""attack: from an observation alone to guesses, and the same attack on noise as a null baseline."""

from pathlib import Path

import torch

from leakbench import attacks
from leakbench.artefacts import creating
from leakbench.attacks.observation import read_observation
from leakbench.provenance import provenance, read_spec, recording
from leakbench.seeds import stream
from leakbench.verbs.absence import absent, pass_on


def attack(capture: Path, spec: Path, out: Path, generator: Path | None, record: Path | None) -> None:
    """Write `images` and `usable` of the reconstruction, and `null/…` of the attack on randomised updates."""
    with recording(record, "attack") as cost:
        reason = absent([capture] if generator is None else [capture, generator])
        if reason:
            return pass_on(reason, [out])
        value = read_spec(spec)
        entry = value["attack"]
        observation, _ = read_observation(capture, generator)
        rng = torch.Generator().manual_seed(stream("attack", value["attack_name"], value["seed"]))
        found = attacks.run(entry["module"], observation, rng, entry["parameters"])
        rng = torch.Generator().manual_seed(stream("null", value["attack_name"], value["seed"]))
        noise = observation.randomised(min(value["null_rounds"], observation.rounds), rng)
        null = attacks.run(entry["module"], noise, rng, entry["parameters"])
        tensors = {
            "images": found.images,
            "usable": found.usable,
            "null/images": null.images,
            "null/usable": null.usable,
        }
        knows = observation.knows | {
            "labels": {"none": "not needed", "oracle": "given"}.get(entry["labels"], entry["labels"]),
            "auxiliary data": "yes: the generator's" if generator else "none",
        }
        facts = {
            "target": found.target,
            "iterations": found.iterations,
            "knows": knows,
            "matching": entry["matching"],
        }
        made = provenance(
            value, "leakbench.verbs.attack", f"leakbench.attacks.{entry['module'].replace('-', '_')}"
        )
        layout = {name: (tuple(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in tensors.items()}
        with creating(out, layout, facts | made) as arrays:
            for name, tensor in tensors.items():
                arrays[name][...] = tensor.numpy()
        cost["updates"] = observation.rounds * len(observation.clients)
