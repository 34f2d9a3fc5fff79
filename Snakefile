"""leakbench: fetch → train → capture → attack → score → report. `snakemake --cores N` runs the quick scale."""

import gc
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.27")

# The checkout. Results and data lie in the working directory, which another workflow may choose (docs/workflow.md).
ROOT = Path(workflow.current_basedir)
sys.path.insert(0, str(ROOT / "src"))

from leakbench.catalogue.run import checked
from leakbench.catalogue.workflow import Workflow
from leakbench.base.errors import UserError
from leakbench.base.processes.blinding import refuse_attacks

refuse_attacks()
# A plan's values live as long as the process, so Python's collector need not visit them (start.smk goes on with it).
gc.disable()
try:
    # The specs of all jobs are written before Snakemake has planned any, at their own paths.
    paths = workflow.modifier.path_modifier
    if paths.prefix or paths.modifies_prefixes:
        raise UserError(
            "module: prefix and replace_prefix are not supported (leave them out, and choose a working directory "
            "of its own instead; see docs/workflow.md)"
        )
    settings = checked(config)
    flow = Workflow(ROOT, settings.scale, settings.seed, Path.cwd(), settings.only)
    # Snakemake itself learns its targets only later, and reports a mistake in them in several lines.
    flow.check(sys.argv[1:])
except UserError as mistake:
    print(f"leakbench: {mistake}", file=sys.stderr)
    sys.exit(2)
R, LOGS, DEVICE = flow.results, flow.logs, settings.device


# Results that were found damaged and set aside (start.smk). Snakemake would not miss them where what follows is there.
LOST = []


# This rule is here instead of in an included file, because Snakemake ignores the default target of such a file.
rule all:
    input:
        f"{R}/report.html",
        lambda w: LOST,


for part in ("start", "report", "fetch", "train", "capture", "attack", "score"):

    include: f"workflow/rules/{part}.smk"
