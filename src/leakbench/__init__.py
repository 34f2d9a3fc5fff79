"""leakbench: how much of a client's private data can a server read back out of its updates?"""

import leakbench.base.moved  # noqa: F401
from leakbench.base.door import door

__version__ = "0.2.0"

# Public function or class → its module. No module is imported before one of its names is used.
PUBLIC = {
    "audit": "leakbench.audit.audit",
    "record": "leakbench.observations.flower",
    "attack": "leakbench.jobs.python",
    "matched": "leakbench.jobs.python",
    "observe": "leakbench.jobs.python",
    "measure": "leakbench.jobs.python",
    "known": "leakbench.jobs.python",
    "Observation": "leakbench.observations.observation",
    "Reconstruction": "leakbench.observations.reconstruction",
    "UserError": "leakbench.base.errors",
    "Unfit": "leakbench.base.errors",
}

__getattr__, __dir__ = door(__name__, PUBLIC)
