"""The columns of rows are the same in Python and in C, and are used by name."""

import re
from pathlib import Path

import pytest

from offsetfs.storage.records.format import batch_row, record_row

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
ROWS = (ROOT / "storage" / "native" / "rows.pxd").read_text()
BARE_INDEX = re.compile(r"\brow\[\d|\[:, ?\d\]|\[\d? ?:: ?(8|12)\]|\brows\[\w+ \+ \d\]|\[\d? ?:: ?COLUMNS\]")
OTHER_ROWS = {"fs/groups/known_groups.py", "common/formatting.py", "storage/views/key_store.py"}
"""Rows of a table that is printed, and of SQLite."""


def columns_of(module: object) -> list[str]:
    """Return the names of the columns in order; other names of the module are aliases or counts."""
    numbered = {value: name for name, value in reversed(vars(module).items()) if isinstance(value, int)}
    return [numbered[number].lower() for number in range(vars(module)["COLUMNS"])]


@pytest.mark.parametrize(("struct", "module"), [("RecordRow", record_row), ("BatchRow", batch_row)])
def test_python_and_c_have_the_same_columns(struct: str, module: object) -> None:
    fields = re.search(rf"cdef struct {struct}:\n((?:    int64_t \w+\n)+)", ROWS)
    assert fields is not None
    assert re.findall(r"int64_t (\w+)", fields[1]) == columns_of(module)
    count = re.search(rf"{struct[:-3].upper()}_COLUMNS = (\d+)", ROWS)
    assert count is not None and int(count[1]) == vars(module)["COLUMNS"]


def test_columns_are_used_by_name() -> None:
    sources = [
        path
        for folder in ("storage", "pipeline", "fs", "kafka", "src/offsetfs")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".pyx", ".pxd"} and str(path.relative_to(ROOT)) not in OTHER_ROWS
    ]
    assert sources
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in sources
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if BARE_INDEX.search(line)
    ]
    assert found == []
