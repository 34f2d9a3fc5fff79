"""The files of an audit."""

import json
from pathlib import Path
from typing import Any

from leakbench.artefacts import write_text
from leakbench.auditing.page import page
from leakbench.auditing.sarif import sarif


def write(folder: Path, audit: dict[str, Any], pictures: list[dict[str, Any]]) -> Path:
    """Write report.html, audit.json and audit.sarif to `folder`; return the report's path.

    audit: `Audit.to_dict()`.
    """
    write_text(folder / "audit.json", json.dumps(audit, indent=1) + "\n")
    write_text(folder / "audit.sarif", json.dumps(sarif(audit), indent=1) + "\n")
    write_text(folder / "report.html", page(audit, pictures))
    return folder / "report.html"
