"""Named streams of randomness: each verb has its own, so an attack's draws never depend on the capture's."""

import hashlib


def stream(*names: str | int) -> int:
    """Return a 63-bit seed that the given names determine."""
    return int.from_bytes(hashlib.sha256("\0".join(map(str, names)).encode()).digest()[:8], "big") >> 1
