"""Synthetic tables and exhibits in the shape that the `table` verb writes."""

import itertools

import numpy as np
import pandas as pd

SIZES = (1, 2, 5, 10, 20, 30, 50, 100, 200)
KNOWS = {
    "threat model": "honest-but-curious server", "shared": "model update of each client, each round",
    "labels": "unknown", "batch size": "known", "defence": "none",
}  # fmt: skip


def curves(
    victims: list[str], epochs: tuple[int, ...] = (30,), federations: tuple[str, ...] = ("fidel-reveal",)
) -> pd.DataFrame:
    """Rows of a Fig. 13-like table: more for relu, less for saturating activations, nothing for the null."""
    rows = []
    for victim, federation, epoch, (client, k), baseline in itertools.product(
        victims, federations, epochs, enumerate(SIZES), ("", "random-gradient")
    ):
        if baseline and epoch != epochs[0]:
            continue
        strength = (20 if "relu" in victim else 3) * (1.3 if "dropout" in victim else 1) * (1 + epoch) / 31
        mean = 0.0 if baseline else strength * (k / 30) * np.exp(1 - k / 30) if k > 1 else strength / 30
        mean = min(mean, k)
        shared = {
            "dataset": "mnist", "victim": victim, "federation": federation, "defence": "none", "attack": "fidel",
            "checkpoint": epoch, "client": client, "local_samples": k, "baseline": baseline, "convention": "standard",
            "failure_rate": 0.0, "unit": "update", "seeds": "0", "scale": "quick",
        }  # fmt: skip
        for metric, value in (("revealed", mean), ("revealed_fraction", mean / k), ("pearson", 0.5)):
            spread = 0.08 * value
            rows.append(
                shared | {
                    "metric": metric, "mean": value, "median": value, "q25": value, "q75": value,
                    "ci_low": value - spread, "ci_high": value + spread, "n": 20 if baseline else 200,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def picture(rng: np.random.Generator, count: int, channels: int, side: int) -> np.ndarray:
    """Smooth blobs [count, C, side, side] in [0, 1]."""
    y, x = np.mgrid[0:side, 0:side] / side
    centre = rng.uniform(0.2, 0.8, (count, channels, 2, 1, 1))
    return np.exp(-(((x - centre[:, :, 0]) ** 2 + (y - centre[:, :, 1]) ** 2) / 0.03)).astype(np.float32)


def panel(
    number: int, dataset: str, k: int, m: int, rule: str, target: str = "images", dead: tuple[int, ...] = ()
) -> tuple[dict, dict]:
    """One exhibit panel: guesses that drift from their sample as their index grows, some dead."""
    rng = np.random.default_rng(number)
    channels, side = (1, 28) if dataset == "mnist" else (3, 32)
    truth = picture(rng, k, channels, side)
    sample = np.arange(m) % k
    guess = truth[sample] + 0.03 * np.arange(m)[:, None, None, None] * rng.normal(
        size=(m, channels, side, side)
    ).astype(np.float32)
    if target == "features":
        sample = np.zeros(m, np.int64) + k // 2
        guess = picture(rng, m, 1, 13) * 3 - 1
    usable = ~np.isin(np.arange(m), dead)
    guess[~usable] = 0
    about = {
        "dataset": dataset, "victim": "fcnn-relu", "federation": "fidel-demo", "attack": "fidel", "checkpoint": 30,
        "local_samples": k, "rule": rule, "target": target, "metric": "pearson", "knows": KNOWS,
    } | ({"neuron": 7} if target == "features" else {})  # fmt: skip
    score = np.where(usable, 1 - 0.002 * np.arange(m), 0).astype(np.float32)
    tensors = {
        "truth": truth, "guess": guess.astype(np.float32), "usable": usable,
        "sample": np.where(usable, sample, -1).astype(np.int64), "score": score,
    }  # fmt: skip
    return about, {f"{number}/{name}": value for name, value in tensors.items()}


def quality(
    attacks: list[str], baselines: tuple[str, ...] = ("", "random-gradient"), federation: str = "agic-gradient",
    local_samples: int = 1,
) -> pd.DataFrame:  # fmt: skip
    """Rows of a table about the quality of CIFAR-10 images: every attack alike, the null worse."""
    rows = []
    for attack, baseline in itertools.product(attacks, baselines):
        for metric, value in (("psnr", 20.0), ("ssim", 0.7), ("lpips_alex", 0.03)):
            mean = value / 2 if baseline == "random-gradient" else value
            rows.append({
                "dataset": "cifar10", "victim": "resnet20-4", "federation": federation, "defence": "none",
                "attack": attack, "checkpoint": 0, "client": 0, "local_samples": local_samples, "baseline": baseline,
                "metric": metric, "convention": "standard", "mean": mean, "median": mean, "q25": mean, "q75": mean,
                "ci_low": mean * 0.95, "ci_high": mean * 1.05, "n": 100, "failure_rate": 0.0, "unit": "image",
                "seeds": "0", "scale": "quick", "iterations": 10000,
            })  # fmt: skip
    return pd.DataFrame(rows)


def single(dataset: str, metric: str, mean: float, **more: object) -> dict[str, object]:
    """One row of a table about single images that GRNN attacked."""
    return {
        "dataset": dataset, "victim": "lenet-dlg", "federation": "grnn", "defence": "none", "attack": "grnn",
        "checkpoint": 0, "client": 0, "local_samples": 1, "baseline": "", "iterations": 1000, "metric": metric,
        "convention": "standard", "mean": mean, "std": 1.0, "median": mean, "q25": mean, "q75": mean,
        "ci_low": mean - 0.1, "ci_high": mean + 0.1, "n": 10, "failure_rate": 0.0, "unit": "image", "seeds": "0",
        "scale": "quick",
    } | more  # fmt: skip


def decibels(datasets: list[str]) -> pd.DataFrame:
    """Rows of three conventions of PSNR: each attack, state and null has a true PSNR of its own."""
    true = {"": 30.0, "unrelated-image": 9.0, "random-noise": 8.0, "dataset-mean": 12.0}
    out = []
    for dataset, state, attack, baseline in itertools.product(
        datasets, ("", "-converged"), ("dlg", "grnn"), true
    ):
        psnr = true[baseline] - (0 if baseline else 10 * bool(state) + 3 * (attack == "dlg"))
        values = {"psnr": psnr, "psnr_of_rmse": (psnr + 48.13) / 2, "psnr_uint8_wrap": max(27.9, psnr)}
        out += [
            single(dataset, metric, value, victim=f"lenet-dlg{state}", attack=attack, baseline=baseline)
            for metric, value in values.items()
        ]
    return pd.DataFrame(out)


def successes(datasets: list[str]) -> pd.DataFrame:
    """Rows of success rates: they fall with the threshold, DLG's and those of large batches sooner."""
    out = []
    for dataset, size, attack, baseline, step in itertools.product(
        datasets, (1, 4), ("dlg", "grnn"), ("", "random-noise"), range(21)
    ):
        reach = 0.1 if baseline else (0.8 if attack == "grnn" else 0.4) / size**0.25
        for metric in ("success_mse", "success_psnr", "success_ssim"):
            rate = max(0.0, 1 - step / 20 / reach)
            more = {"local_samples": size, "attack": attack, "baseline": baseline, "threshold": step / 20}
            out.append(single(dataset, metric, 1 - rate if metric == "success_mse" else rate, **more))
    return pd.DataFrame(out)


def errors(defences: list[str], sizes: tuple[int, ...] = (1,)) -> pd.DataFrame:
    """Rows of errors on the way: they fall by half with each of three looks, more slowly under noise."""
    out = []
    for number, (defence, size, attack) in enumerate(itertools.product(defences, sizes, ("dlg", "grnn"))):
        for look, metric in itertools.product((1, 2, 3), ("mse", "gradient_mse")):
            more = {
                "defence": defence,
                "local_samples": size,
                "attack": attack,
                "federation": f"grnn-batch{size}",
            }
            more |= {"iterations": 100 * look, "baseline": "" if look == 3 else "snapshot"}
            out.append(single("mnist-32", metric, 0.3 + (number + 1) * 0.5**look, **more))
    return pd.DataFrame(out)


def prices(defences: list[str]) -> pd.DataFrame:
    """Rows of a table about what defences cost: accuracy after each of three rounds, bytes and inferred labels."""
    rows = []
    for number, defence in enumerate(defences):
        final = 0.9 - 0.1 * number
        lines = [("accuracy", "", final, 3), ("accuracy", "snapshot", final / 3, 1)]
        lines += [("accuracy", "snapshot", final * 2 / 3, 2), ("update_bytes", "", 1000 * (number + 1), None)]
        lines += [("revealed_fraction", "", 0.6, None), ("revealed_fraction", "random-gradient", 0.2, None)]
        for metric, baseline, mean, after in lines:
            rows.append({
                "dataset": "mnist", "victim": "v", "federation": "f", "defence": defence, "attack": "labels",
                "client": None if after else 0, "baseline": baseline, "metric": metric, "mean": mean,
                "ci_low": mean * 0.95, "ci_high": mean * 1.05, "n": 3, "unit": "model" if after else "image",
                "round": after,
            })  # fmt: skip
    return pd.DataFrame(rows)


def identified_faces(datasets: tuple[str, ...] = ("orl-32",), classes: int = 40) -> pd.DataFrame:
    """Rows of a table on whom classifiers see: GRNN above DLG, worse in batches, held-out images below trained ones."""
    rows = []
    cells = [("dlg", ""), ("grnn", ""), ("dlg", "-held-out"), ("grnn", "-held-out"), ("grnn", "-batch4")]
    for dataset, (attack, kind), count, judge in itertools.product(
        datasets, cells, (1, 3, 5), ("resnet18", "densenet121")
    ):
        best = (0.9 if kind == "-held-out" else 1.0) - 0.05 * (judge == "resnet18")
        own = (0.3 if attack == "dlg" else 0.6) * (0.4 if kind == "-batch4" else 1) * (0.6 + 0.08 * count)
        for baseline, mean in (("", own), ("original", best), ("random-gradient", count / classes)):
            rows.append({
                "dataset": dataset, "victim": "lenet-dlg", "federation": f"grnn-faces{kind}", "defence": "none",
                "attack": attack, "checkpoint": 0, "client": 0, "local_samples": 4 if kind == "-batch4" else 1,
                "baseline": baseline, "metric": f"top{count}_{judge}", "convention": "standard", "mean": mean,
                "median": mean, "q25": mean, "q75": mean, "ci_low": 0.8 * mean, "ci_high": min(1.2 * mean, 1), "n": 80,
                "failure_rate": 0.0, "unit": "image", "seeds": "0", "scale": "quick", "iterations": 600,
            })  # fmt: skip
    return pd.DataFrame(rows)


def crossed(attacks: list[str], defences: list[str], victims: list[str]) -> pd.DataFrame:
    """Rows of a matrix of attacks and defences; the r of each is 0.1 per place of its attack, less 0.01 per defence."""
    return pd.DataFrame(
        single("mnist-32", "pearson", 0.1 * i - 0.01 * j, attack=attack, defence=defence, victim=victim)
        for victim in victims
        for i, attack in enumerate(attacks)
        for j, defence in enumerate(defences)
    )


def trainings() -> pd.DataFrame:
    """Training studies of two data sets with and without a lock, over three rounds."""
    rows = []
    for dataset, victim in (("mnist-32", "lenet-dlg-running-norm"), ("cifar10", "resnet20")):
        for defence, key, client in (
            ("none", "", None),
            ("key-lock", "own", None),
            ("key-lock", "own", 1),
            ("key-lock", "random", None),
        ):
            same = {
                "dataset": dataset,
                "victim": victim,
                "training": "sgd-federated",
                "defence": defence,
                "key": key,
                "client": client,
            }
            same |= {"rounds": 3, "images": 100, "n": 2, "std": 0.0, "unit": "run"}
            for turn in (1, 2, 3):
                for metric in ("accuracy", "test_loss"):
                    own = {"metric": metric, "round": turn, "baseline": "snapshot", "convention": "standard"}
                    rows.append(same | own | {"mean": turn / 4, "ci_low": turn / 5, "ci_high": turn / 3})
            final = {"metric": "accuracy", "baseline": "", "convention": "published"}
            rows.append(same | final | {"mean": 0.75, "ci_low": 0.7, "ci_high": 0.8})
    return pd.DataFrame(rows)


def weighted(names: tuple[str, ...] = ("gaussians-code", "gaussians-poisoned-fedavg")) -> pd.DataFrame:
    """Training studies in the plane: accuracy and the weights of three clients over four rounds."""
    rows = []
    for name, turn in itertools.product(names, (1, 2, 3, 4)):
        same = {
            "dataset": "gaussians", "victim": "perceptron", "training": name, "defence": "none", "key": "", "round": turn,
            "baseline": "snapshot", "convention": "standard", "rounds": 4, "images": 100, "n": 1,
        }  # fmt: skip
        found = {None: ("accuracy", 0.8 + turn / 50)} | {
            client: ("weight", (client + turn) / 15) for client in range(3)
        }
        for client, (metric, value) in found.items():
            spread = {"mean": value, "ci_low": value, "ci_high": value}
            rows.append(same | {"client": client, "metric": metric} | spread)
        last = {"client": None, "metric": "accuracy", "mean": 0.88, "ci_low": 0.88, "ci_high": 0.88}
        rows += [same | last | {"baseline": "", "round": None}] if turn == 4 else []
    return pd.DataFrame(rows)


def plane(
    names: tuple[str, ...] = ("gaussians-centralised", "gaussians-code"),
) -> tuple[dict[str, np.ndarray], list[dict]]:
    """Boundaries of two trainings: tensors and what they are. Centralised training has one client."""
    rng, tensors, about = np.random.default_rng(0), {}, []
    for place, name in enumerate(names):
        tensors[f"{place}/surface"] = np.linspace(0, 1, 49, dtype=np.float32).reshape(7, 7)
        clients = 1 if name.endswith("centralised") else 2
        for group in (*range(clients), "test"):
            points = rng.normal(size=(20, 3)).astype(np.float32)
            points[:, 2] = np.arange(20) % 2
            tensors[f"{place}/points/{group}"] = points
        about.append(
            {"dataset": "gaussians", "victim": "perceptron", "training": name, "defence": "none", "seed": 0}
            | {
                "extent": [-3, 3, -3, 3],
                "round": 4,
                "clients": clients,
                "apart": place / 10,
                "accuracy": 0.88,
            }
        )
    return tensors, about


def readings() -> pd.DataFrame:
    """Training studies that read words of three sets over three rounds, ever better, trained in two ways."""
    rows = []
    for (way, training), tested, turn in itertools.product(
        enumerate(("text-800", "text-fedavg-1e800b")), ("words-plain", "svt", "iiit5k"), (1, 2, 3)
    ):
        mean = 0.2 * turn + 0.1 * way
        rows.append({
            "dataset": "words-plain", "victim": "crnn", "training": training, "defence": "none", "key": "", "client": None,
            "tested": tested, "baseline": "snapshot", "round": turn, "metric": "accuracy", "convention": "standard",
            "mean": mean, "ci_low": mean, "ci_high": mean, "n": 1, "rounds": 3, "images": 100, "unit": "run",
        })  # fmt: skip
    final = {"baseline": "", "convention": "published", "round": None}
    return pd.DataFrame(rows + [row | final for row in rows if row["round"] == 3])


def examples() -> tuple[dict[str, np.ndarray], list[dict]]:
    """Two words of each of two test sets and what two networks read in their place: pictures and what they are."""
    tensors = {f"words/{tested}": np.full((2, 32, 100), 90, np.uint8) for tested in ("words-plain", "svt")}
    about = [
        {
            "dataset": "words-plain", "victim": "crnn", "training": training, "defence": "none", "seed": 0, "round": 3,
            "tested": tested, "words": ["HOTEL", "BANK"], "read": read,
        }
        for training, read in (("text-800", ["HOTEL", "BANE"]), ("text-fedboosting-1e800b", ["", "BANK"]))
        for tested in ("words-plain", "svt")
    ]  # fmt: skip
    return tensors, about
