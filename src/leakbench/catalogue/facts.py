"""The facts that papers/ refer to: what the catalogue says, and which files of a run hold the other facts."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from leakbench.base.parts import SECTIONS
from leakbench.catalogue.cell import Spec
from leakbench.catalogue.load import load_kind
from leakbench.papers.facts import named

# Where the file of a fact lies: first word of the fact's path → folder below results/<run>, and suffix.
FACTS = {"run": ("specs/", "json"), "cost": ("records/", "json"), "network": ("", "safetensors")}
NETWORKS = {"victims": "train", "generators": "generator"}


def described(config: Path) -> Spec:
    """Return what the catalogue says of attacks, defences and so on at full size, by kind and name.

    An entry that says nothing is left out.

    config: the folder of the catalogue.
    """

    def each(kind: str, value: Callable[[Any], Any]) -> Spec:
        found = {name: value(entry) for name, entry in load_kind(config, kind).items()}
        return {name: each for name, each in found.items() if each is not None}

    return {
        "attacks": each(
            "attacks",
            lambda it: {
                **it.parameters,
                **{name: getattr(it, name) for name in (*SECTIONS, "labels", "generator")},
            },
        ),
        "defences": each("defences", lambda it: it.parameters),
        "federations": each("federations", lambda it: {"lr": it.local.lr, "rounds": it.rounds}),
        "networks": each("victims", lambda it: {"module": it.module, "parameters": it.parameters}),
        "images": each("datasets", lambda it: sum(it.counts.values())),
        "splits": each("datasets", lambda it: it.counts if it.labels == "words" else None),
        "settled": each("victims", lambda it: it.training and it.training.settled),
    }


def fact_files(run: str, specs: Iterable[str], papers: Path) -> dict[str, str]:
    """Return file part of a fact's path → the file of a run that holds the fact, for all facts of papers/.

    The facts of a job do not depend on its seed, so the file of the smallest seed is taken.

    run: the name of the run's folder below results/.
    specs: the names of the run's specs.
    papers: the folder papers/.
    """
    texts = [path.read_text() for kind in ("*.yaml", "*.py") for path in sorted(papers.glob(f"*/{kind}"))]
    seeds: dict[str, int] = {}
    for stem, _, seed in (name.rpartition("/") for name in specs):
        if seed.isdigit():
            seeds[stem] = min(int(seed), seeds.get(stem, int(seed)))
    found = {}
    for part in named(texts):
        first, _, stem = part.partition(".")
        kind, _, rest = stem.partition("/" if first == "network" else ".")
        own = f"{NETWORKS.get(kind, kind)}/{rest}"
        if own in seeds:
            folder, suffix = FACTS[first]
            found[part] = f"results/{run}/{folder}{kind}/{rest}/{seeds[own]}.{suffix}"
    return found
