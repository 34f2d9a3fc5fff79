"""The digest of a resolved spec."""

import hashlib
from typing import Any

from leakbench.artefacts import to_json


def digest(spec: dict[str, Any]) -> str:
    """Return the sha256 of a spec's one JSON text."""
    return hashlib.sha256(to_json(spec).encode()).hexdigest()
