"""The audit: what an update of somebody's own model gives away, and what would help (docs/audit.md)."""

import sys
from types import ModuleType
from typing import Any


class _Door(ModuleType):
    """This room, which is also the public function `leakbench.audit`."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        from leakbench.audit.audit import audit

        return audit(*given, **named)


sys.modules[__name__].__class__ = _Door
