"""docs/evidence/conformance.tsv is true: every call of its rows is made on every path of its columns, for writing and
read only.

The page docs/evidence/conformance.md has the paths of each column. What is called is in `system_calls`,
which must name the same calls as the data file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from fixtures.mounts.left_mounts import unmount
from fixtures.mounts.system_calls import CALLS, outcome

pytestmark = pytest.mark.mount

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "docs" / "evidence"
PAGE = (EVIDENCE / "conformance.md").read_text()
HEADER, *ROWS = [line.split("\t") for line in (EVIDENCE / "conformance.tsv").read_text().splitlines()]
TOPIC = "keyed"
"""What the golden log has for the `orders` of the page."""

DAMAGED = "codec-none-0"
"""A partition of another topic, because the files of the whole topic end at damage."""

MODES = {"rw": "delete-records", "ro": "ro"}


COLUMNS = {
    name: re.findall(r"`([^`]+)`", paths) for name, paths in re.findall(r"^\| \*\*(.+)\*\* \| (.+) \|$", PAGE, re.M)
}
TABLE = {row[0]: dict(zip(HEADER[1:], row[1:], strict=True)) for row in ROWS}
PATHS = [(path, column) for column, paths in COLUMNS.items() for path in paths]


@contextmanager
def mounted(log: Path, point: Path, options: str) -> Iterator[Path]:
    point.mkdir()
    command = [sys.executable, "-m", "offsetfs"]
    subprocess.run([*command, "mount", log, point, "-o", options], check=True)
    try:
        yield point
    finally:
        unmount(point)


@pytest.fixture(scope="module")
def trees(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """The golden log mounted in both modes. Each mount has met damage, so that there is something in its errors."""
    scratch = tmp_path_factory.mktemp("conformance")
    with ExitStack() as stack:
        trees = {}
        for mode, options in MODES.items():
            log = Path(shutil.copytree(golden, scratch / f"log-{mode}"))
            with open(log / f"{DAMAGED}/00000000000000000000.log", "r+b") as segment:
                segment.seek(70)
                segment.write(b"\xff\xfe")
            tree = trees[mode] = stack.enter_context(mounted(log, scratch / mode, options))
            assert outcome(lambda path: str(path.stat()), tree / f"{DAMAGED}/0") == "EBADMSG"
        yield trees


def expected(cell: str, mode: str) -> str:
    for_writing, _, read_only = cell.partition(" / ")
    return read_only if read_only and mode == "ro" else for_writing


def is_as_said(found: str, said: str) -> bool:
    """Whether the outcome is that of the table; for others than root the mode of a file may have been asked first."""
    return found == said or (os.geteuid() != 0 and found in ("EACCES", "EPERM", "no"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("path", "column"), PATHS, ids=[path for path, _ in PATHS])
def test_every_call_answers_what_the_page_states(trees: dict[str, Path], path: str, column: str, mode: str) -> None:
    place = trees[mode] / path.replace("orders", TOPIC).lstrip("/")
    wrong = {}
    for name, call in CALLS.items():
        said, found = expected(TABLE[name][column], mode), outcome(call, place)
        if not is_as_said(found, said):
            wrong[name] = f"{found}, and not {said}"
    assert wrong == {}


def test_the_page_has_every_call_and_every_column() -> None:
    assert list(TABLE) == list(CALLS)
    assert HEADER[1:] == list(COLUMNS)


def test_nothing_that_was_refused_was_done(trees: dict[str, Path], golden: Path) -> None:
    """After all those calls the records, the names and the files below are what they were."""
    for mode, tree in trees.items():
        values = b"".join((tree / f"{TOPIC}-0" / str(offset)).read_bytes() + b"\n" for offset in range(93))
        assert (tree / f"{TOPIC}-0/values").read_bytes().startswith(values), mode
        assert (tree / f"{TOPIC}-0/start").read_text() == "0\n", mode
        names = sorted(path.name for path in golden.iterdir() if path.is_dir())
        assert sorted(name for name in os.listdir(tree) if name[-1].isdigit()) == names, mode
