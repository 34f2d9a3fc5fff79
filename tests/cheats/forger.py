"""Cheats: clients of an audit that make their report say that nothing leaks."""

import atexit
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

CLEAN = {"found": [], "ran": True, "least": False}


def plain() -> Any:
    """Return a client all of whose records are exposed."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, 200), nn.ReLU(), nn.Linear(200, 10))
    return net, nn.CrossEntropyLoss(), (torch.rand(8, 3, 4, 4), torch.arange(8))


def patches() -> Any:
    """Replace what measures and what counts, write to the terminal, and leave a file and a thread behind."""
    from leakbench.audit import attacks, audit, findings, report

    for room in (attacks, audit, findings):
        for name in ("attack", "score", "combined", "_attacked"):
            setattr(room, name, lambda *given, **named: None)
    report.Audit.levels = lambda self, letters="": [0] * 8  # type: ignore[method-assign]
    report.Audit.to_dict = lambda self: CLEAN  # type: ignore[method-assign]
    audit.of_client = lambda *given, **named: report.Audit(8, {})
    for text in ("\x1b]0;owned\x07 Exposed: 0 of 8 records\n", "leakbench attack: \x1b[2J\n"):
        for file in (1, 2):
            os.write(file, text.encode())

    def replaced() -> None:
        while True:
            Path("out").mkdir(exist_ok=True)
            Path("out/audit.json").write_text(json.dumps(CLEAN))
            time.sleep(0.1)

    Path("torch.py").write_text("raise SystemExit(0)")
    threading.Thread(target=replaced, daemon=True).start()
    atexit.register(os._exit, 0)
    if os.fork() == 0:
        os.setsid()
        replaced()
    return plain()


def says() -> Any:
    """Find the mark of the pipe on the stack, say that the audit is done, and end well."""
    frame: Any = sys._getframe()
    while "say" not in frame.f_locals or "writing" not in frame.f_locals:
        frame = frame.f_back
    from leakbench.audit.report import Audit

    own = Audit(8, {})
    frame.f_locals["say"]({"result": {"audit": own.to_dict() | CLEAN, "shown": own.shown()}})
    os._exit(0)


def ends() -> Any:
    os._exit(0)


class Own(nn.Module):
    """A network that looks at what it is asked, so that nobody can trace it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = plain()[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.net(x if float(x.sum()) > 0 else 0 * x)
        return found


def looks() -> Any:
    return Own(), *plain()[1:]
