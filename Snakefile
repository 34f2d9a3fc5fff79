"""leakbench: fetch → train → capture → attack → score → report. `snakemake --cores N` runs the quick scale."""

import sys
from pathlib import Path

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT / "src"))

from leakbench.catalogue.shift import checked
from leakbench.catalogue.workflow import Workflow
from leakbench.errors import UserError

# `--config scale=S seed=K`, behind all targets, adds K to every seed and writes to results/S-seedK/.
SCALE = config.get("scale", "quick")
try:
    flow = Workflow(ROOT, SCALE, checked(config.get("seed")))
except UserError as mistake:
    print(f"leakbench: {mistake}", file=sys.stderr)
    sys.exit(2)
R, LOGS = flow.results, flow.logs


# For --sdm apptainer; built by `apptainer build leakbench.sif workflow/leakbench.def`.
container: "leakbench.sif"


wildcard_constraints:
    **flow.constraints,


# Here and not in an included file, whose default target Snakemake passes over.
rule all:
    input:
        f"{R}/report.html",


for part in ("start", "report", "fetch", "train", "capture", "attack", "score"):

    include: f"workflow/rules/{part}.smk"
