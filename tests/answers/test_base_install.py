"""Commands that answer questions without the packages of extras: an answer, or one line with the command to type."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import offsetfs

pytestmark = [pytest.mark.unit, pytest.mark.long]

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyarrow", "numpy", "pandas", "duckdb", "pyfuse3"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs")
    with offsetfs.open(path, "a") as directory:
        directory.create("orders")[0].extend(offsetfs.NewRecord(b"value %d" % number, b"k") for number in range(10))
    return path


def called(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(BLOCKED)
    paths = os.pathsep.join([os.fspath(folder), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "offsetfs", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})


@pytest.mark.parametrize(
    "words",
    [
        ("find", "{logs}", "--text", "value 7"),
        ("find", "{logs}", "--regex", "VALUE [78]", "-i", "--count"),
        ("diff", "{logs}", "{logs}"),
        ("diff", "{logs}", "{logs}", "--by", "key"),
        ("doctor", "{logs}"),
        ("groups", "{logs}"),
    ],
    ids=" ".join,
)
def test_an_answer_needs_no_extra(words: tuple[str, ...], logs: Path, tmp_path: Path) -> None:
    done = called(tmp_path, *(word.format(logs=logs) for word in words))
    assert (done.returncode, done.stderr) == (0, "") and done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("find", "{logs}", "--where", "true"),
        ("find", "{logs}", "orders", "--decoded"),
        ("stats", "{logs}"),
        ("stats", "{logs}", "--values"),
    ],
    ids=" ".join,
)
def test_a_missing_extra_is_one_line_with_the_command(words: tuple[str, ...], logs: Path, tmp_path: Path) -> None:
    done = called(tmp_path, *(word.format(logs=logs) for word in words))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and " needs " in done.stderr and "install" in done.stderr
