"""Facts that statements name by a path.

They are what the catalogue says, what a scale made of it, what it cost, and what the networks look like.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from leakbench.base.artefacts import open_tensors, read_facts, read_json
from leakbench.base.errors import NotMeasured

# The first word of a path to a file; other paths name what the catalogue says.
FILES = ("run", "cost", "network")
AGAIN = "delete it and run its rule again"
PATH = re.compile(r"\b(?:run|cost|network)\.[A-Za-z0-9_./-]+/[A-Za-z0-9_./-]+")


def split(path: str) -> tuple[str, list[str]]:
    """Return the file part and the keys of a path."""
    # An example of a path is run.attack.mnist/fcnn/fedsgd/none/invg.attack.parameters.lr. The file part holds
    # every slash and ends at the first point behind the last one. A path without a slash has no file part.
    folder, slash, name = path.rpartition("/")
    if not slash or not path.startswith(FILES):
        return "", path.split(".")
    last, *keys = name.split(".")
    return f"{folder}/{last}", keys


def fact_parts(texts: Iterable[str]) -> list[str]:
    """Return the file part of every path that texts (YAML, Python) mention, sorted, each once."""
    return sorted({split(found)[0] for text in texts for found in PATH.findall(text)})


def reader(catalogue: Mapping[str, Any], files: Mapping[str, str]) -> Callable[[str], Any]:
    def fact(path: str) -> Any:
        part, keys = split(path)
        value: Any = catalogue
        if part:
            file = Path(files.get(part, ""))
            if part not in files or not file.is_file():
                # attack.mnist/fcnn/fedsgd/none/invg becomes attack of mnist/fcnn/fedsgd/none/invg.
                job = " of ".join(part.partition(".")[2].split(".", 1))
                raise NotMeasured(f"{job} did not run at this scale")
            json = file.suffix == ".json"
            value = read_json(file, "a whole JSON file", AGAIN) if json else read_facts(file)
            if "absent" in value:
                raise NotMeasured(str(value["absent"]))
            if keys == ["tensors"]:
                return [list(tensor.shape) for tensor in open_tensors(file)[0].values()]
        for depth, key in enumerate(keys, 1):
            if not isinstance(value, Mapping) or value.get(key) is None:
                raise NotMeasured(f"fact {'.'.join(keys[:depth])} is not known")
            value = value[key]
        return value

    return fact
