"""Tests of messages reach no compiled module: `scripts/test pure` leaves this folder out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

HERE = Path(__file__).parent
TESTS = HERE.parent


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, and those that its fixtures import."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found |= {node.module or ""}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    files = [TESTS / f"{name.replace('.', '/')}.py" for name in found if name.startswith("fixtures.")]
    return found.union(*map(imported, files))


def test_tests_of_messages_import_nothing_of_the_engine() -> None:
    """`offsetfs.kafka.protocol` imports nothing of it: a contract of import-linter."""
    modules = set[str]().union(*map(imported, HERE.glob("*.py")))
    ours = {name for name in modules if name.partition(".")[0] == "offsetfs"}
    assert "offsetfs.kafka.protocol" in ours and all(name.startswith("offsetfs.kafka.protocol") for name in ours)
