"""train: fit a victim, an attacker's generator, or the models of a training study."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from leakbench.base.artefacts import Facts, open_tensors, write_table, write_tensors
from leakbench.base.errors import UserError
from leakbench.base.missing import absent, lacking, pass_on, unless_unfit
from leakbench.base.parts import part
from leakbench.base.pixels import pixels
from leakbench.base.processes.gpu_lease import leased
from leakbench.base.provenance import provenance, recording, resuming
from leakbench.base.seeds import stream
from leakbench.federation.training import fit
from leakbench.networks import generators, victims
from leakbench.networks.layers import Normalise, dense_input, describe, thawed
from leakbench.networks.victims.file import load_victim
from leakbench.networks.victims.published import Published

if TYPE_CHECKING:
    from leakbench.catalogue import jobs as specs


def to_images(array: np.ndarray) -> Tensor:
    """Return uint8 [n, rows, columns, channels] as float [n, channels, rows, columns] in [0, 1]."""
    # The memory is by rows of pixels, as data sets hold them. With one channel the strides choose the
    # convolution, and that decides the last bits of what is trained.
    by_rows = pixels(array).transpose(0, 2, 3, 1).copy()
    return torch.from_numpy(by_rows).permute(0, 3, 1, 2).contiguous()


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of labels [n], or of sentences [n, length], that `model` finds likeliest."""
    pairs = zip(images.split(1000), labels.split(1000), strict=True)
    return sum(int((model(x).argmax(1) == y).sum()) for x, y in pairs) / labels.numel()


@torch.no_grad()
def mean_loss(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the mean cross-entropy of each next token; see `accuracy` for the arguments."""
    pairs = zip(images.split(1000), labels.split(1000), strict=True)
    return sum(float(cross_entropy(model(x), y, reduction="sum")) for x, y in pairs) / labels.numel()


def train_victim(
    spec: "specs.VictimSpec", data: Path, out: Path, scratch: Path, weights: Sequence[Path] = ()
) -> Facts:
    """Fit a victim on the train split, write epoch-<n>/<parameter> for each checkpoint, return the facts."""
    # weights: the file of weights that it starts from, if its entry names one.
    entry, image, plain = spec.victim, spec.dataset, spec.plain()
    arrays, _ = open_tensors(data)
    training = plain["victim"]["training"]
    # Variants of one architecture start from the same weights, so they differ only in what varies.
    torch.manual_seed(stream("initialise", image.name, entry.module, spec.seed))
    model = victims.build(entry.module, image.shape, image.classes, entry.parameters)
    if entry.weights:
        if not weights or not isinstance(model, Published):
            raise UserError(
                f"victim: weights: {entry.weights} need GPT-2 or BERT, and --further with their file (add it)"
            )
        tensors, facts = open_tensors(weights[0])
        model.adopt(tensors, f"{weights[0]}: {facts['source']}")
    for layer in model.modules():
        if isinstance(layer, Normalise) and layer.measured:
            layer.measure(to_images(arrays["train/images"]))
    states = {0: {name: value.clone() for name, value in model.state_dict().items()}}
    if training:
        seen = slice(training["images"])
        with thawed(model):
            images, seed = to_images(arrays["train/images"][seen]), stream("train", image.name, spec.seed)
            labels = torch.from_numpy(arrays["train/labels"][seen].copy())
            states = fit(model, images, labels, cross_entropy, training, seed, scratch, "train")
    measured, losses = {}, {}
    # An untrained network guesses, and to measure that on ten thousand images can take longer than all
    # attacks on it.
    if training and "test/images" in arrays:
        test, test_labels = to_images(arrays["test/images"]), torch.from_numpy(arrays["test/labels"].copy())
        for epoch, state in states.items():
            model.load_state_dict(state)
            measured[str(epoch)] = accuracy(model.eval(), test, test_labels)
            if test_labels.dim() == 2:
                losses[str(epoch)] = mean_loss(model, test, test_labels)
    network = {"module": entry.module, "parameters": entry.parameters, **plain["dataset"]}
    facts = {"network": network, "checkpoints": sorted(states), "training": training}
    facts |= {"test_accuracy": measured, "layers": describe(model)}
    facts |= {"test_loss": losses} if losses else {}
    named = ((epoch, name, value) for epoch, state in states.items() for name, value in state.items())
    tensors = {f"epoch-{epoch}/{name}": value.numpy() for epoch, name, value in named}
    write_tensors(out, tensors, facts | provenance(plain, "leakbench.jobs.train"))
    return facts


def train_generator(
    spec: "specs.GeneratorSpec", data: Path, victim: Path | None, out: Path, scratch: Path
) -> Facts:
    """Fit a generator on auxiliary images only, or take its published weights; write the weights."""
    # A generator that reads features goes from the input of the victim's dense layer back to the image. Fidel
    # trains on one-sample updates of each auxiliary image. Their weight/bias ratio IS the dense layer's
    # input, so one forward pass makes the pairs. A generator that reads a latent and a class has a `learner`
    # (`generators.cvae`). A generator that reads nothing keeps the images themselves. The last `validation`
    # share of the auxiliary images is held out. If training is to see fewer images, the others are left
    # unused.
    entry, image, plain = spec.generator, spec.dataset, spec.plain()
    training, seed = plain["generator"]["training"], stream("generator", image.name, spec.seed)
    arrays, _ = open_tensors(data)

    def built(*inputs: int) -> Any:
        torch.manual_seed(seed)
        return generators.build(entry.module, inputs, image.shape, entry.parameters)

    inputs: tuple[int, ...] = (image.classes,)
    measured: dict[str, float] = {}
    if entry.weights:
        network = built(*inputs)
        try:
            network.load_state_dict({name: torch.from_numpy(v.copy()) for name, v in arrays.items()})
        except RuntimeError as problem:
            what = " ".join(str(problem).split())[:200]
            mend = "fetch the right ones"
            raise UserError(f"{data}: not this generator's weights: {what} ({mend})") from problem
    elif entry.reads == "nothing":
        network = built(*inputs)
        network.keep(*_auxiliary(entry, arrays)[:2])
    else:
        images, labels, count = _auxiliary(entry, arrays)
        if entry.reads == "features":
            assert victim is not None
            model, _ = load_victim(victim)
            read = torch.cat([dense_input(model, part) for part in images.split(500)])
            read, inputs = read.contiguous(memory_format=torch.channels_last), tuple(read.shape[1:])
            network = learner = built(*inputs)
            aim, loss = images, mse_loss

            def errors(x: Tensor, y: Tensor) -> Tensor:
                return (network(x) - y).square()
        else:
            network = built(*inputs)
            learner = network.learner()
            read, aim, loss, errors = images, labels, learner.loss, learner.errors
        fit(learner, read[:count], aim[:count], loss, training, seed, scratch, "train generator")
        with torch.no_grad():
            pairs = zip(read[count:].split(250), aim[count:].split(250), strict=True)
            held = sum(errors(x, y).sum().item() for x, y in pairs)
        measured["validation_mse"] = held / max(1, images[count:].numel())
    facts: Facts = {"module": entry.module, "parameters": entry.parameters, "features": list(inputs)}
    facts |= {"auxiliary": plain["generator"]["auxiliary"], "training": training}
    facts |= {"layers": describe(network)} | measured
    tensors = {name: value.numpy() for name, value in network.state_dict().items()}
    write_tensors(out, tensors, facts | provenance(plain, "leakbench.jobs.train"))
    return facts


def _auxiliary(entry: "specs.TrainedGenerator", arrays: Any) -> tuple[Tensor, Tensor, int]:
    """Return an attacker's own images and labels, and the number of them that are not held out."""
    auxiliary, cap = entry.auxiliary, entry.training.images if entry.training else None
    assert auxiliary is not None
    wanted = auxiliary.stop
    if cap is not None:
        wanted = min(wanted, auxiliary.start + round(cap / (1 - entry.validation)))
    every = (arrays[f"{auxiliary.split}/{kind}"] for kind in ("images", "labels"))
    images, labels = (each[auxiliary.start : wanted] for each in every)
    count = len(images) - round(len(images) * entry.validation)
    return to_images(images), torch.from_numpy(labels.copy()), count


def _refuse_private(auxiliary: "specs.OwnImages", data: Path, private: Path) -> None:
    """Raise UserError where auxiliary images are those of the attacked set under another set's name."""
    attacked = open_tensors(private)[0].items()
    own = {image.tobytes() for name, images in attacked if name.endswith("/images") for image in images}
    images = open_tensors(data)[0][f"{auxiliary.split}/images"][auxiliary.start : auxiliary.stop]
    if count := sum(image.tobytes() in own for image in images):
        raise UserError(
            f"generator: auxiliary: {count} of {len(images)} images of {auxiliary.dataset} are images of "
            f"{private.stem}, which is attacked (give that set's own name, and a range that is not private)"
        )


def _lacking(spec: "specs.TrainSpec", data: Path, further: Sequence[Path]) -> str | None:
    """Return why the data sets of a job lack the images that it trains on, or tests a study on, or None."""
    if spec.kind == "study":
        reasons = [lacking(data, "train", "test"), *(lacking(path, "train") for path in further)]
        return next((why for why in reasons if why), None)
    if spec.kind == "generator":
        auxiliary = spec.generator.auxiliary
        return lacking(data, auxiliary.split) if auxiliary else None
    return lacking(data, "train") if spec.victim.training else None


def train_study(
    spec: "specs.StudySpec", data: Path, further: Sequence[Path], out: Path, scratch: Path, device: str
) -> float:
    """Train and measure as a regime says; write the rows, and return the seconds of a round."""
    # The module is found by its name, so that no victim depends on how studies train.
    plain = spec.plain()
    made = provenance(plain, "leakbench.jobs.train", device=device)
    resume = scratch / f"{resuming(made, out, data, *further)}.safetensors"
    with leased(device) as leasehold:
        rows, facts, seconds = part("training", "study")(plain, data, resume, leasehold, further=further)
    write_table(out, rows.assign(**dict(sorted(spec.study)), seed=spec.seed), facts | made)
    return float(seconds)


def train(
    spec: "specs.TrainSpec", data: Path, out: Path, victim: Path | None, record: Path | None, scratch: Path,
    device: str = "cpu", further: Sequence[Path] | None = None,
) -> None:  # fmt: skip
    """Run the job that `spec` describes.

    spec: the spec of the job.
    data: the data set.
    out: the file that the job writes.
    victim: the network that a generator serves, for a job with a `generator`.
    record: the file that gets what the job cost.
    scratch: the folder from which a killed run resumes.
    device: where a training study trains. Victims and generators train on the processor.
    further: for a study its data sets in addition to `data`, those to train on and those to test on, in the
    order of its spec. For a generator, the set that it is to attack, if it is trained on another one. For a
    victim the weights that it starts from, if its entry names some.
    """
    with recording(record, "train") as cost, unless_unfit("train", [out]):
        # Data sets to test on may be absent; a study uses those that are there.
        needed = list(further or [])[: len(spec.training.beside) if spec.kind == "study" else None]
        needed = [] if spec.kind == "generator" else needed
        reason = absent([data, *needed] if victim is None else [data, victim])
        reason = reason or _lacking(spec, data, needed)
        if reason:
            return pass_on(reason, [out])
        if spec.kind == "study":
            cost["seconds_per_round"] = train_study(spec, data, further or [], out, scratch, device)
            return None
        made = provenance(spec.plain(), "leakbench.jobs.train")
        resume = scratch / f"{resuming(made, out, data, victim)}.safetensors"
        if spec.kind == "generator":
            if spec.generator.auxiliary:
                for private in further or []:
                    _refuse_private(spec.generator.auxiliary, data, private)
            facts = train_generator(spec, data, victim, out, resume)
            cost |= {name: facts[name] for name in ("validation_mse",) if name in facts}
        else:
            facts = train_victim(spec, data, out, resume, needed)
            cost |= {name: facts[name] for name in ("test_accuracy", "test_loss") if name in facts}
