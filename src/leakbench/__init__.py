"""leakbench: how much of a client's private data can a server read back out of its updates?"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakbench.auditing.audit import audit as audit

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """Return a public function; its libraries are loaded when it is first asked for."""
    if name == "audit":
        from leakbench.auditing.audit import audit

        return audit
    raise AttributeError(f"module 'leakbench' has no attribute {name!r}")
