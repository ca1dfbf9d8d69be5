"""Every promise of docs/promises.md is quoted, word for word, by a test that holds it."""

import ast
import functools
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]


def promises() -> list[str]:
    lines = (ROOT / "docs" / "promises.md").read_text().splitlines()
    return [line.removeprefix("* ") for line in lines if line.startswith("* ")]


@functools.cache
def quoted() -> set[str]:
    """The arguments of all `@pytest.mark.promise(…)` in the tests."""
    found = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "promise":
                found |= {word.value for word in node.args if isinstance(word, ast.Constant)}
    return found


@pytest.mark.parametrize("promise", promises())
def test_a_promise_is_quoted_by_a_test(promise: str) -> None:
    assert promise in quoted()


def test_no_test_quotes_a_promise_that_is_not_made() -> None:
    assert quoted() <= set(promises())
