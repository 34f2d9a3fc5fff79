"""A full disk and a folder that may not be written: one line each, and nothing half-written is left."""

import subprocess

import pytest
from project import Project, Ran, tiny_project

VICTIM, MEND = "results/quick/victims/tiny/tiny/0.safetensors", "then run the same command again)"


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    apart = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False)
    if apart.returncode:
        pytest.skip("file systems of a test's own need user namespaces, which this machine does not allow")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return tiny_project(tmp_path_factory.mktemp("disk"))


def on_its_own(project: Project, options: str, command: str, folder: str = "results") -> Ran:
    """Run a command where a folder is a small file system of its own, in memory."""
    project.path(folder).mkdir(exist_ok=True)
    mounted = f"mount -t tmpfs -o {options} none {folder} && {command}"
    return project.run("unshare", "-rm", "sh", "-c", mounted)


def test_a_full_disk_ends_the_run_with_one_line_and_no_half_written_file(project: Project) -> None:
    ran = on_its_own(
        project,
        "size=400k",
        f"{{ python -m snakemake --cores 2 {VICTIM}; echo rc $?; find results -name '*.part'; }}",
    )
    assert "rc 1" in ran.stdout
    assert f"no space left on device (free some space, {MEND}" in ran.text
    assert "Traceback" not in ran.text
    assert ".part" not in ran.stdout


@pytest.mark.parametrize(
    ("folder", "told"),
    [
        pytest.param("results", "read-only file system", marks=pytest.mark.nightly),
        ("scratch", "scratch: may not be written"),
        pytest.param("logs", "logs: may not be written", marks=pytest.mark.nightly),
    ],
)
def test_a_folder_that_may_not_be_written_is_said_before_any_job(
    folder: str, told: str, project: Project
) -> None:
    ran = on_its_own(project, "ro", "python -m snakemake --cores 2", folder)
    assert ran.rc == 2
    assert f"{told} (make the folder writable, {MEND}" in ran.text
    assert [line for line in ran.text.splitlines() if "leakbench" in line] == ran.text.splitlines()[-1:]
    assert "Traceback" not in ran.text


def test_a_verb_whose_scratch_may_not_be_written_is_one_line(copied: Project) -> None:
    command = copied.logged("attack", "/fidel/").split(" 2> ")[0]
    ran = on_its_own(copied, "ro", command, "scratch")
    assert ran.rc == 2
    (line,) = ran.stderr.splitlines()
    assert line.startswith("leakbench attack: ")
    assert line.endswith(f"read-only file system (make the folder writable, {MEND}")
