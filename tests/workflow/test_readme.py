"""The commands that README.md and docs/ show: each can be planned, and none starts years of work."""

import itertools
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from nightly import daily
from project import ROOT, Project

# In a line of its own, indented, or between backticks. A comment or another command ends it.
COMMAND = re.compile(r"(?:^ {4}|`)(snakemake\b[^`#|&;\n]*)", re.MULTILINE)


def shown(file: Path) -> list[list[str]]:
    """Return the words of each command of a page, with its braces expanded.

    A command with a place for the reader to fill in is left out.
    """
    found = (
        text.strip() for text in COMMAND.findall(file.read_text()) if not re.search(r"[<>…]|\b[A-Z]\b", text)
    )
    scripts = [f"printf '%s\\n' {text}" for text in dict.fromkeys(found)]
    return [subprocess.check_output(["bash", "-c", script], text=True).splitlines() for script in scripts]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = [
    pytest.param(words, id=f"{page.stem}: {shlex.join(words)}") for page in PAGES for words in shown(page)
]

PARTS = 6


@pytest.mark.parametrize("words", COMMANDS)
def test_config_comes_last_since_it_takes_every_word_behind_it(words: list[str]) -> None:
    behind = words[words.index("--config") + 1 :] if "--config" in words else []
    assert all("=" in word for word in behind)


@pytest.mark.parametrize("words", COMMANDS)
def test_the_published_sizes_are_run_for_a_named_result_alone(words: list[str]) -> None:
    """All of them take 170,000 hours of a core."""
    assert "scale=paper" not in words or any(word.startswith("results/paper/") for word in words)


@pytest.mark.parametrize("part", daily(range(PARTS), [1]))
def test_every_command_of_the_readme_is_planned(part: int, everything: Project) -> None:
    """Commands that differ in their targets alone are planned as one, and a part of them by day."""

    def options(words: list[str]) -> list[str]:
        return [word for word in words if not word.startswith("results/")]

    everything.environment["HOME"] = str(everything.root)
    # What touches or cleans makes no plan.
    named = (
        words
        for page in ("README", "docs/catalogue", "docs/reproduce")
        for words in shown(ROOT / f"{page}.md")
    )
    planned = [words for words in named if not {"--touch", "--unlock", "--delete-temp-output"} & {*words}]
    kinds = [
        (command, [*alike]) for command, alike in itertools.groupby(sorted(planned, key=options), options)
    ]
    assert len(kinds) >= PARTS
    for command, alike in kinds[part::PARTS]:
        targets = [word for words in alike for word in words if word.startswith("results/")]
        place = command.index("--config") if "--config" in command else len(command)
        ran = everything.run(*command[:place], "-n", *targets, *command[place:])
        assert ran.rc == 0, f"{command}: {ran.text[-2000:]}"
