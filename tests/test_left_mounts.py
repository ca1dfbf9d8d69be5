"""A test, or a run, that leaves a mount behind fails; the mount is taken away."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.mounts.left_mounts import mounts_below

pytestmark = pytest.mark.mount

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).with_name("conftest.py")

LEAVES_ONE = """
import subprocess, sys
import pytest
pytestmark = pytest.mark.unit

def mounted(place):
    for name in ("log", "mnt"):
        (place / name).mkdir()
    command = [sys.executable, "-m", "offsetfs", "mount", "-o", "create"]
    subprocess.run([*command, place / "log", place / "mnt"], check=True)

def test_leaves(tmp_path):
    mounted(tmp_path)

def test_after_it(tmp_path):
    pass
"""

LEAVES_ONE_IN_A_FOLDER_OF_THE_MODULE = LEAVES_ONE.replace(
    "tmp_path):\n    mounted(tmp_path)", "tmp_path_factory):\n    mounted(tmp_path_factory.mktemp('module'))"
)


@pytest.fixture
def inner(pytester: pytest.Pytester) -> pytest.Pytester:
    """An empty project with this project's conftest."""
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makeini(f"[pytest]\npythonpath = {CONFTEST.parent}\nmarkers =\n  unit: u\n")
    return pytester


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize(
    ("tests", "test"),
    [(LEAVES_ONE, "test_leaves"), (LEAVES_ONE_IN_A_FOLDER_OF_THE_MODULE, "test_after_it")],
    ids=["of the test", "of the module"],
)
def test_a_mount_that_is_left_fails_and_is_taken_away(
    inner: pytest.Pytester, tests: str, test: str, workers: str
) -> None:
    inner.makepyfile(tests)
    result = inner.runpytest_subprocess("-n", workers, "-v", "--basetemp", str(inner.path / "base"))
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines([f"*ERROR at teardown of {test}*", "left mounted, and detached now:", "*/mnt"])
    assert mounts_below(inner.path) == []


def test_the_table_of_mounts_is_read_with_its_escapes(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    line = "36 28 0:40 / {} rw - fuse.{} /log rw\n"
    table.write_text(
        line.format(f"{tmp_path}/a\\040b", "offsetfs")
        + line.format(f"{tmp_path}/c", "sshfs")
        + line.format("/d", "offsetfs")
    )
    assert mounts_below(tmp_path, table) == [f"{tmp_path}/a b"]
