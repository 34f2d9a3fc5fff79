"""train: fit a victim on the train split, or an attacker's generator on auxiliary pairs."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from leakbench import generators, victims
from leakbench.artefacts import open_tensors, write_tensors
from leakbench.parts import dotted
from leakbench.provenance import provenance, read_spec, recording
from leakbench.seeds import stream
from leakbench.training import fit
from leakbench.verbs.absence import absent, pass_on
from leakbench.victims.file import load_victim
from leakbench.victims.layers import dense_input, describe


def to_images(array: Any) -> Tensor:
    """Return uint8 [n, rows, columns, channels] as float [n, channels, rows, columns] in [0, 1]."""
    return torch.from_numpy(array.copy()).permute(0, 3, 1, 2).float().div_(255).contiguous()


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of images that `model` classifies rightly."""
    right = sum(
        int((model(x).argmax(1) == y).sum())
        for x, y in zip(images.split(1000), labels.split(1000), strict=True)
    )
    return right / len(labels)


def train_victim(spec: dict[str, Any], data: Path, out: Path, scratch: Path) -> dict[str, Any]:
    """Fit a victim; write epoch-<n>/<parameter> for each checkpoint. Returns the file's facts."""
    entry, image = spec["victim"], spec["dataset"]
    arrays, _ = open_tensors(data)
    training = entry["training"]
    seen = slice(training["images"] if training else 0)
    images = to_images(arrays["train/images"][seen])
    labels = torch.from_numpy(arrays["train/labels"][seen].copy())
    # Variants of one architecture start from the same weights, so that they differ in what varies and nothing else.
    torch.manual_seed(stream("initialise", image["name"], entry["module"], spec["seed"]))
    model = victims.build(entry["module"], tuple(image["shape"]), image["classes"], entry["parameters"])
    states = {0: {name: value.clone() for name, value in model.state_dict().items()}}
    if training:
        states = fit(
            model,
            images,
            labels,
            cross_entropy,
            training,
            stream("train", image["name"], spec["seed"]),
            scratch,
            "train",
        )
    measured = {}
    # An untrained network guesses, and to see that of ten thousand images can take longer than all attacks on it.
    if training and "test/images" in arrays:
        test, test_labels = to_images(arrays["test/images"]), torch.from_numpy(arrays["test/labels"].copy())
        for epoch, state in states.items():
            model.load_state_dict(state)
            measured[str(epoch)] = accuracy(model.eval(), test, test_labels)
    facts = {
        "network": {"module": entry["module"], "parameters": entry["parameters"], **image},
        "checkpoints": sorted(states),
        "training": training,
        "test_accuracy": measured,
        "layers": describe(model),
    }
    tensors = {
        f"epoch-{epoch}/{name}": v.numpy() for epoch, state in states.items() for name, v in state.items()
    }
    write_tensors(
        out,
        tensors,
        facts | provenance(spec, "leakbench.verbs.train", dotted("victims", entry["module"])),
    )
    return facts


def train_generator(
    spec: dict[str, Any], data: Path, victim: Path, out: Path, scratch: Path
) -> dict[str, Any]:
    """Fit a generator from the victim's dense-layer input back to the image, on auxiliary images only.

    Fidel trains on one-sample updates of each auxiliary image; their weight/bias ratio IS the dense layer's input, so
    the pairs are made by one forward pass. The last `validation` share of the auxiliary images is held out; if training
    is to see fewer images, the others are left alone.
    """
    entry, image = spec["generator"], spec["dataset"]
    auxiliary = entry["auxiliary"]
    arrays, _ = open_tensors(data)
    own = arrays[f"{auxiliary['split']}/images"][auxiliary["start"] : auxiliary["stop"]]
    cap = entry["training"]["images"]
    images = to_images(own if cap is None else own[: round(cap / (1 - entry["validation"]))])
    model, _ = load_victim(victim)
    features = torch.cat([dense_input(model, part) for part in images.split(500)])
    shape = (features.shape[1], features.shape[2], features.shape[3])
    seed = stream("generator", image["name"], spec["seed"])
    torch.manual_seed(seed)
    network = generators.build(entry["module"], shape, tuple(image["shape"]), entry["parameters"])
    count = len(images) - round(len(images) * entry["validation"])
    features = features.contiguous(memory_format=torch.channels_last)
    states = fit(
        network,
        features[:count],
        images[:count],
        mse_loss,
        entry["training"],
        seed,
        scratch,
        "train generator",
    )
    state = states[max(states)]
    network.load_state_dict(state)
    with torch.no_grad():
        held = [
            mse_loss(network(f), x, reduction="sum").item()
            for f, x in zip(features[count:].split(250), images[count:].split(250), strict=True)
        ]
    facts = {
        "module": entry["module"],
        "parameters": entry["parameters"],
        "features": list(shape),
        "auxiliary": auxiliary,
        "training": entry["training"],
        "validation_mse": sum(held) / max(1, images[count:].numel()),
        "layers": describe(network),
    }
    tensors = {name: value.numpy() for name, value in state.items()}
    write_tensors(
        out,
        tensors,
        facts | provenance(spec, "leakbench.verbs.train", dotted("generators", entry["module"])),
    )
    return facts


def train(spec: Path, data: Path, out: Path, victim: Path | None, record: Path | None, scratch: Path) -> None:
    """Run the job that `spec` describes; with a `generator` in it, `victim` is the network the generator serves."""
    with recording(record, "train") as cost:
        reason = absent([data] if victim is None else [data, victim])
        if reason:
            return pass_on(reason, [out])
        value = read_spec(spec)
        room, part = (
            ("generators", value["generator"]) if "generator" in value else ("victims", value["victim"])
        )
        stamp = provenance(value, "leakbench.verbs.train", dotted(room, part["module"]))
        resume = scratch / f"{stamp['spec'][:16]}-{stamp['code'][:16]}.safetensors"
        if "generator" in value:
            assert victim is not None
            facts = train_generator(value, data, victim, out, resume)
            cost["validation_mse"] = facts["validation_mse"]
        else:
            facts = train_victim(value, data, out, resume)
            cost["test_accuracy"] = facts["test_accuracy"]
