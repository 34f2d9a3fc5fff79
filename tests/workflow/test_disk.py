"""A full disk and a folder that may not be written: one line each, and nothing half-written is left."""

import subprocess
from pathlib import Path

import pytest
from project import Project, Ran, tiny_project

MEND = "then run the same command again)"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    apart = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False)
    if apart.returncode:
        pytest.skip("file systems of a test's own need user namespaces, which this machine does not allow")
    return tiny_project(tmp_path)


def on_its_own(project: Project, options: str, command: str) -> Ran:
    """Run a command where results/ is a small file system of its own, in memory."""
    project.path("results").mkdir(exist_ok=True)
    mounted = f"mount -t tmpfs -o {options} none results && {command}"
    return project.run("unshare", "-rm", "sh", "-c", mounted)


def test_a_full_disk_ends_the_run_with_one_line_and_no_half_written_file(project: Project) -> None:
    ran = on_its_own(
        project,
        "size=1m",
        "{ python -m snakemake --cores 2; echo rc $?; find results -name '*.part'; df --output=avail "
        "results; }",
    )
    assert "rc 1" in ran.stdout
    assert f"no space left on device (free some space, {MEND}" in ran.text
    assert "Traceback" not in ran.text
    assert ".part" not in ran.stdout


def test_a_folder_that_may_not_be_written_is_said_before_any_job(project: Project) -> None:
    ran = on_its_own(project, "ro", "python -m snakemake --cores 2")
    assert ran.rc == 2
    assert f"read-only file system (make the folder writable, {MEND}" in ran.text
    assert [line for line in ran.text.splitlines() if "leakbench" in line] == ran.text.splitlines()[-1:]
    assert "Traceback" not in ran.text
