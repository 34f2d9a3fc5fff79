"""The parser of the command line: each verb, its arguments, and one-line answers to mistakes in them."""

import argparse
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from leakbench import __version__
from leakbench.base.errors import UserError

_ABOUT = "The command line: one subcommand for each verb, the same that the workflow's rules call."
# The arguments that `capture` takes only where it plays the federation itself.
PLAYED = ("data", "victim", "oracle", "truth")
# What a user of `audit` declares about the federation.
_DECLARED = {
    "clients": "clients of the federation",
    "rounds": "rounds that a client takes part in",
    "prior": "the probability of an attack, from 0 to 1",
}


class _Parser(argparse.ArgumentParser):
    """Answer a mistake in one line, and suggest the nearest name for an unknown verb or option."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown verbs and options before argparse complains about missing ones."""
        words = list(sys.argv[1:] if args is None else args)
        verbs = next((action.choices for action in self._actions if action.dest == "verb"), None)
        for word in words:
            if verbs is not None and not word.startswith("-"):
                self._refuse_unless("verb", word, verbs)
                break
            if word == "--":
                break
            if word.startswith("--"):
                self._refuse_unless("option", word.partition("=")[0], self._option_string_actions)
        found, left = super().parse_known_args(words, namespace)
        if left:
            self.error(f"{left[0]!r} is one word too many")
        return found, left

    def _refuse_unless(self, kind: str, word: str, known: Any) -> None:
        if word not in known:
            from leakbench.base.yamls import suggest

            self._refuse(f"no {kind} '{word}' ({suggest(word, known)})")

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        self._refuse(f"{message} (see {self.prog} --help)")

    def _refuse(self, line: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {UserError(line)}\n")


def _positive(text: str) -> int:
    """Return the whole number above 0 that a command's argument states."""
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _seed(text: str) -> int:
    """Return the whole number of at least 0 that a command's argument states."""
    if not re.fullmatch("[0-9]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 0")
    return int(text)


def _device(text: str) -> str:
    """Return the name of the device that a command's argument states."""
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither cpu nor cuda[:number]")
    return text


@cache
def parser() -> argparse.ArgumentParser:
    """Return the parser of every verb and its arguments, which is made once in a process."""
    whole = _Parser(prog="leakbench", description=_ABOUT, allow_abbrev=False)
    whole.add_argument("--version", action="version", version=f"leakbench {__version__}")
    commands = whole.add_subparsers(dest="verb", required=True, metavar="VERB")

    def command(
        name: str, text: str, *required: str, optional: Sequence[str] = (), lists: Sequence[str] = ()
    ) -> _Parser:
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        for flag in required:
            sub.add_argument(f"--{flag}", type=Path, required=True, nargs="*" if flag in lists else None)
        for flag in optional:
            sub.add_argument(f"--{flag}", type=Path, nargs="*" if flag in lists else None)
        return sub

    command("fetch", "get one data set and pin its bytes", "spec", "out", optional=["digest"])
    train = command(
        "train", "fit a victim, an attacker's generator, or the models of a training study", "spec", "data",
        "out", optional=["victim", "record"],
    )  # fmt: skip
    train.add_argument(
        "--further", type=Path, nargs="*", help="a study's other data sets, in the order of the spec"
    )
    capture = command(
        "capture", "play the federation and store every update, or take those of a Flower app", "spec", "out",
        optional=[*PLAYED, "record"],
    )  # fmt: skip
    capture.add_argument(
        "--from-flower",
        type=Path,
        metavar="FOLDER",
        help="the rounds that leakbench.record kept; takes only --spec (network, local) and --out",
    )
    attack = command(
        "attack",
        "reconstruct from an observation alone",
        "capture",
        "spec",
        "out",
        optional=["generator", "labels", "record"],
    )
    attack.add_argument(
        "--workers",
        type=_positive,
        default=1,
        help="processes that share the trials (default: 1; the result is the same)",
    )
    for verb, what in ((train, " of a study"), (attack, "")):
        verb.add_argument(
            "--device", type=_device, default="cpu", help=f"cpu or cuda[:number]{what} (default: cpu)"
        )
    command(
        "score", "match guesses with the truth and measure them", "guesses", "truth", "data", "victim",
        "spec", "out",
        optional=["attack-records", "backbones", "judges", "record"],
        lists=["guesses", "attack-records", "judges"],
    )  # fmt: skip
    files = ("costs", "guesses", "truths", "victims", "data")
    command(
        "table", "summarise an experiment's scores", "scores", "spec", "out", "exhibit", "trials",
        optional=files, lists=["scores", *files],
    )  # fmt: skip
    command(
        "figure", "run an experiment's notebook",
        "notebook", "table", "trials", "exhibit", "spec", "papers", "out", "executed",
        optional=["paper", "recorded"], lists=["paper", "recorded"],
    )  # fmt: skip
    scorecard = command(
        "scorecard", "put every published number beside the measured one",
        "tables", "trials", "exhibits", "data", "recorded", "papers", "spec", "out", "seeds",
        optional=["seeded"], lists=["tables", "trials", "exhibits", "data", "recorded", "seeded"],
    )  # fmt: skip
    scorecard.add_argument(
        "--device", type=_device, default="cpu",
        help="cpu or cuda[:number], on which the run computed attacks (default: cpu)",
    )  # fmt: skip
    verify = command(
        "verify", "compare a finished tree's numbers with those recorded", optional=["tables", "out", "twin"],
        lists=["tables"],
    )  # fmt: skip
    verify.add_argument(
        "--record", metavar="DEVICE",
        help="keep this tree's numbers as those of DEVICE, in words (with --twin, a second checkout, "
        "say whether it has the same bytes)",
    )  # fmt: skip
    command(
        "report", "write the report, one page",
        "scorecard", "seeds", "verified", "tables", "exhibits", "figures", "specs", "papers", "catalogue",
        "out",
        optional=["recorded"], lists=["tables", "exhibits", "figures", "specs", "recorded"],
    )  # fmt: skip
    compare = command("compare", "count the verdicts that differ between scorecards", optional=["out"])
    compare.add_argument("old", type=Path, help="the old scorecard.csv")
    compare.add_argument(
        "new", type=Path, nargs="+", help="the new one, or several, such as those of other seeds"
    )
    command("check", "compare recorded files with their digests in dvc.lock")
    record = command("record", "keep an experiment's finished table below reference/")
    record.add_argument("experiment", nargs="?", help="its name (leave it out with --headlines)")
    record.add_argument("--scale", required=True, help="the scale that it ran at")
    record.add_argument("--device", help="what it ran on, in words (default: this machine)")
    record.add_argument(
        "--headlines",
        action="store_true",
        help="every experiment of a headline finding that has no valid record",
    )
    record.add_argument("--targets", action="store_true", help="only print the tables to make first")
    recheck = command("recheck", "measure a sampled cell of recorded experiments again, and compare")
    recheck.add_argument("--scale", required=True, help="the scale that was recorded")
    recheck.add_argument("--only", nargs="+", action="extend", help="check only these experiments")
    recheck.add_argument("--targets", action="store_true", help="only print the files to make first")
    recheck.add_argument(
        "--equivalent",
        action="store_true",
        help="show that today's numerics give the same as the recorded ones",
    )
    enter = command("enter", "run the agreed attacks on your own defence and write its entry")
    enter.add_argument(
        "file", type=Path, nargs="?", help="FILE.py, the defence (without it only the leaderboard is written)"
    )
    enter.add_argument("--scale", default="standard", help="how long attacks run (default: standard)")
    enter.add_argument("--attacker", type=Path, metavar="FILE.py", help="the adaptive attacker")
    enter.add_argument("--check", action="store_true", help="FILE is an entry: run its defence again")
    enter.add_argument(
        "--recorded", action="store_true", help="enter leakbench's own defences from the recorded table"
    )
    enter.add_argument("--cores", type=_positive, default=1, help="cores to use (default: 1)")
    audit = command("audit", "say what the updates of your own model give away, and what would help")
    audit.add_argument(
        "target",
        nargs="?",
        help="FILE.py:NAME, a function that returns (model, loss, batch) or trains; a folder that "
        "leakbench.observations.flower.record kept; or a capture.safetensors",
    )
    audit.add_argument("--demo", action="store_true", help="audit a small network on bundled pictures")
    audit.add_argument("--out", type=Path, default=Path("audit"), help="the report's folder (default: audit)")
    audit.add_argument(
        "--batch",
        type=_positive,
        help="how many records, from the start of the batch, are the client's (default: all; demo: 32)",
    )
    audit.add_argument(
        "--local-steps",
        type=_positive,
        help="local steps of the client; with 1 it sends a gradient (default: 5; demo: 1)",
    )
    audit.add_argument("--lr", type=float, default=0.01, help="the clients' learning rate (default: 0.01)")
    audit.add_argument(
        "--budget", help="wall time of the attacks, such as 90s or 2m (default: 2m, and 30s for the demo)"
    )
    audit.add_argument(
        "--memory", default="4g", help="memory that your code and the attacks may use together (default: 4g)"
    )
    audit.add_argument("--show", action="store_true", help="show private records in the report")
    audit.add_argument("--model", metavar="FILE.py:NAME", help="the network, for recorded rounds")
    audit.add_argument(
        "--repeats", action="store_true", help="clients hold the same records in every recorded round"
    )
    audit.add_argument(
        "--defence", metavar="FILE.py:NAME", help="your own defence, a function from an update to an update"
    )
    audit.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with 1 if this condition holds, such as 'exposed > 0 at A..D' (may be repeated)",
    )
    for name, what in _DECLARED.items():
        audit.add_argument(
            f"--{name}", type=float, help=f"what you state, for the expected number of exposures: {what}"
        )
    new = command("new", "write the files of a new part, which work without changes")
    new.add_argument("kind", help="attack, defence, objective, optimiser, dataset or victim")
    new.add_argument("name", help="the part's name, small letters, digits and hyphens")
    plan = command("plan", "check the whole catalogue, write the specs and count the jobs")
    plan.add_argument(
        "--headlines", action="store_true", help="only the experiments that headline findings rest on"
    )
    command("manual", "write config/README.md and the editors' schemas from the models of the catalogue")
    for sub in commands.choices.values():
        sub.add_argument("--root", type=Path, default=Path(), help="the checkout (default: here)")
        sub.add_argument(
            "--threads",
            type=_positive,
            default=1,
            help="threads of one job (default: 1; the last bits of a result depend on it)",
        )
    for sub in (plan, verify):
        sub.add_argument(
            "--scale", default="quick", help="the scale, a file of config/scales (default: quick)"
        )
    for sub in (plan, verify, record):
        sub.add_argument(
            "--seed",
            type=_seed,
            help="the number by which every seed of the run is raised (default: the experiments' own seeds)",
        )
    return whole
