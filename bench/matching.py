"""Gradient matching: seconds per image-iteration and final PSNR, against breaching and a plain loop.

All sides have the same network, loss (cosine), optimiser (signed and boxed Adam with step decay) and number
of iterations. The project's attack takes all targets at once. breaching and the plain loop take the first
few targets (at most eight), one after another; both begin with the same first images, and the project's
attack draws its own. Every side may use all cores of the machine: the project's attack by one worker process
for each core, the others by torch's threads.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bench.ceiling import Ceiling, flop_of
from bench.measure import Row, Side, compare
from leakbench import attacks
from leakbench.base.artefacts import open_tensors, read_tensors, write_tensors
from leakbench.base.processes.workers import Crew
from leakbench.networks import victims
from leakbench.observations.observation import Observation

ROOT = Path(__file__).resolve().parents[1]
# The environment with breaching.
HOME = ROOT / ".bench"
SHAPE, CLASSES, LR, DEEP = (32, 32, 3), 10, 0.1, "resnet20-4"
WORK = {
    "lenet-dlg": {"parameters": {}, "targets": 64, "iterations": 200, "derivative": "exact"},
    # An attack takes thousands of iterations. Of a hundred iterations, the attack's one comparison with
    # autograd takes a few percent.
    DEEP: {"parameters": {}, "targets": 2, "iterations": 100, "derivative": "frozen"},
}


def photographs(count: int, small: bool = False) -> tuple[Tensor, Tensor]:
    """Return test images of CIFAR-10 [count, C, H, W] and their labels, or as many images of noise.

    count: the number of images.
    small: whether the images are noise, so that no data set need be there.
    """
    rng = np.random.default_rng(0)
    if small:
        images, labels = (
            rng.integers(0, 256, (count, *SHAPE), dtype=np.uint8),
            rng.integers(0, CLASSES, count),
        )
    else:
        arrays, _ = open_tensors(ROOT / "data" / "cifar10.safetensors")
        chosen = rng.choice(10_000, count, replace=False)
        images, labels = (np.array(arrays[f"test/{name}"])[chosen] for name in ("images", "labels"))
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255, torch.from_numpy(labels).long()


def setting(
    module: str, work: dict[str, Any], small: bool = False
) -> tuple[torch.nn.Module, dict[str, Tensor], Tensor]:
    """Return the victim, the tensors of its targets and the private images [targets, C, H, W].

    module: the victim's module.
    work: an entry of WORK.
    small: whether the images are noise.

    The tensors are the gradients `observed/<parameter>` [targets, *shape], `labels` [targets, 1] and the
    first images `start` [targets, 1, C, H, W].
    """
    images, classes = photographs(work["targets"], small)
    labels = classes[:, None]
    torch.manual_seed(0)
    model = victims.build(module, SHAPE, CLASSES, work["parameters"]).eval()
    tensors = {"labels": labels, "start": torch.randn(work["targets"], 1, *images.shape[1:])}
    names = [name for name, _ in model.named_parameters()]
    found = [
        torch.autograd.grad(cross_entropy(model(x[None]), y), list(model.parameters()))
        for x, y in zip(images, labels, strict=True)
    ]
    tensors |= {
        f"observed/{n}": torch.stack(values)
        for n, values in zip(names, zip(*found, strict=True), strict=True)
    }
    return model, tensors, images


def attacked(
    module: str, work: dict[str, Any], model: torch.nn.Module, tensors: dict[str, Tensor], workers: int
) -> Tensor:
    """Return the reconstructions [targets, C, H, W] of the project's own attack, all targets together.

    module: the victim's module.
    work: an entry of WORK, with a further key `device` where it is not the processor.
    model: the victim.
    tensors: the tensors of its targets, as `setting` returns them.
    workers: the number of worker processes on the processor; on another device there is one.
    """
    count, device = work["targets"], work.get("device", "cpu")
    observation = Observation(
        network={"module": module, "parameters": work["parameters"], "shape": list(SHAPE),
        "classes": CLASSES},
        weights={n: v.detach().numpy()[None].copy() for n, v in model.state_dict().items()},
        updates={n: tensors[f"observed/{n}"].numpy()[:, None] for n, _ in model.named_parameters()},
        origin=np.zeros(count, np.int64), clients=[1], kind="gradient", labelling="oracle",
        labels=[tensors["labels"].numpy()],
        work=Crew(workers=workers if device == "cpu" else 1, device=device),
    )  # fmt: skip
    # The attack draws its own first images from a fresh generator, with the distribution of `start` in
    # `setting`.
    entry = {
        "module": "gradient-matching",
        "objective": {"cosine": {}},
        "unknowns": {"dummies": {"boxed": True}},
        "optimiser": {"adam": {"lr": LR, "signed": True, "decay": True}},
        "parameters": {n: work[n] for n in ("iterations", "derivative")},
    }
    found = attacks.run(entry, observation, torch.Generator().manual_seed(1))
    return found.images[:, 0, 0]


def _plain(work: dict[str, Any], model: torch.nn.Module, tensors: dict[str, Tensor], targets: int) -> Tensor:
    """Return the reconstructions of a plain loop: one target after another, differentiated twice by autograd.

    work: an entry of WORK.
    model: the victim.
    tensors: the tensors of its targets, as `setting` returns them.
    targets: the number of targets, the first ones.
    """
    parameters = dict(model.named_parameters())
    found = []
    for target in range(targets):
        x = tensors["start"][target].clone().requires_grad_()
        adam = torch.optim.Adam([x], lr=LR)
        n = work["iterations"]
        decay = torch.optim.lr_scheduler.MultiStepLR(adam, [n * 3 // 8, n * 5 // 8, n * 7 // 8], 0.1)
        for _ in range(n):
            loss = cross_entropy(model(x), tensors["labels"][target])
            mine = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
            theirs = [tensors[f"observed/{name}"][target] for name in parameters]
            dot = sum(((g * o).sum() for g, o in zip(mine, theirs, strict=True)), torch.zeros(()))
            norms = [sum((t.square().sum() for t in each), torch.zeros(())).sqrt() for each in (mine, theirs)]
            (1 - dot / (norms[0] * norms[1])).backward(inputs=[x])
            assert x.grad is not None
            x.grad.sign_()
            adam.step()
            decay.step()
            adam.zero_grad()
            with torch.no_grad():
                x.clamp_(0, 1)
        found.append(x.detach()[0])
    return torch.stack(found)


def _python() -> Path:
    """Return the interpreter of an environment with breaching, which is made on first use.

    The environment uses the torch that is installed for the project.
    """
    home = HOME
    python = home / "bin" / "python"
    if not (home / ".complete").is_file():
        uv = str(ROOT / ".bootstrap" / "bin" / "uv")
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)], check=True)
        subprocess.run(
            [uv, "pip", "install", "--quiet", "--python", str(python), "--no-deps", "--require-hashes", "-r",
             str(ROOT / "bench" / "breaching.lock")],
            check=True,
        )  # fmt: skip
        ours = Path(np.__file__).resolve().parents[1]
        packages = next((home / "lib").glob("python*/site-packages"))
        (packages / "project.pth").write_text(f"{ours}\n{ROOT / 'src'}\n")
        (home / ".complete").touch()
    return python


def _breaching(
    module: str, work: dict[str, Any], model: torch.nn.Module, tensors: dict[str, Tensor], targets: int
) -> tuple[Tensor, float]:
    """Return breaching's reconstructions of the first `targets` targets, and the seconds that it took."""
    facts = {
        "module": module, "parameters": work["parameters"], "shape": list(SHAPE), "classes": CLASSES,
        "iterations": work["iterations"], "lr": LR,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        task, out = Path(folder) / "task.safetensors", Path(folder) / "out.safetensors"
        content = {name: value[:targets].numpy() for name, value in tensors.items()}
        content |= {f"model/{name}": value.detach().numpy() for name, value in model.state_dict().items()}
        write_tensors(task, content, facts)
        subprocess.run(
            [str(_python()), str(ROOT / "bench" / "breaching_worker.py"), str(task), str(out),
            str(torch.get_num_threads())], check=True, env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )  # fmt: skip
        found, made = read_tensors(out)
    return torch.from_numpy(found["images"])[:, 0], float(made["seconds"])


def psnr(found: Tensor, truth: Tensor) -> Tensor:
    """Return the PSNR of each reconstruction, in dB: [targets]."""
    return -10 * ((found.clamp(0, 1) - truth[: len(found)]) ** 2).flatten(1).mean(1).log10()


def _psnr(found: Tensor, truth: Tensor) -> str:
    low, middle, high = psnr(found, truth).quantile(torch.tensor([0.25, 0.5, 0.75])).tolist()
    return f"PSNR {middle:.1f} [{low:.1f}, {high:.1f}] dB"


def rows(ceiling: Ceiling, small: bool) -> Iterator[Row]:
    """Yield a row for each network and rival.

    ceiling: operations a second of all cores together, by kind of work.
    small: whether to take a tiny size, to see that the comparison works.
    """
    # Of the deep network a try takes a narrow one, and counts none of its operations.
    tiny: dict[str, Any] = {"targets": 1, "iterations": 1} if small else {}
    narrow: dict[str, Any] = {"parameters": {"width": 4}} if small else {}
    if small and not (HOME / ".complete").is_file():
        print("matching: breaching is left out, because its environment is not here (`make bench` makes it)")
    for module, whole in WORK.items():
        yield from _network(module, whole | tiny | (narrow if module == DEEP else {}), ceiling, small)


def _network(module: str, work: dict[str, Any], ceiling: Ceiling, small: bool) -> Iterator[Row]:
    model, tensors, truth = setting(module, work, small)
    few, iterations, cores = min(8, work["targets"]), work["iterations"], torch.get_num_threads()
    reached: dict[str, str] = {}

    def ours() -> None:
        reached["ours"] = _psnr(attacked(module, work, model, tensors, cores), truth)

    def plain() -> None:
        reached["plain loop"] = _psnr(_plain(work, model, tensors, few), truth)

    def breaching() -> float:
        found, seconds = _breaching(module, work, model, tensors, few)
        reached["breaching 0.1.2"] = _psnr(found, truth)
        return seconds

    def said() -> str:
        each = "; ".join(f"{name} {psnr}" for name, psnr in reached.items())
        return f"{work['targets']} targets ({few} for the others), batch 1, {iterations} iterations; {each}"

    flop = own = 0.0
    if not (small and module == DEEP):
        flop = flop_of(lambda n: _plain(work | {"iterations": n}, model, tensors, 1), 1, small)
        own = flop_of(
            lambda n: attacked(module, work | {"iterations": n}, model, tensors, 1), work["targets"], small
        )
    rivals = [
        Side("breaching 0.1.2", breaching, few * iterations, flop),
        Side("plain loop", plain, few * iterations, flop),
    ]
    yield from compare(
        f"matching {module}", said, "seconds per image-iteration",
        Side("ours", ours, work["targets"] * iterations, own),
        rivals if not small or (HOME / ".complete").is_file() else rivals[1:],
        ceiling["convolution"], small=small,
    )  # fmt: skip
