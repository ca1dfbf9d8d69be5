"""Every promise of docs/use/promises.md is quoted, word for word, by a test that holds it."""

import ast
import functools
from collections.abc import Iterable
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]


def promises() -> list[str]:
    lines = (ROOT / "docs" / "use" / "promises.md").read_text().splitlines()
    return [line.removeprefix("* ") for line in lines if line.startswith("* ")]


@functools.cache
def quoted() -> set[str]:
    """The arguments of all `@pytest.mark.promise(…)` in the tests, and the promises of all rows in tests/crash."""
    found: set[str] = set()
    for file in (ROOT / "tests").rglob("*.py"):
        text = file.read_text()
        if ".promise(" not in text and "promises=" not in text:
            continue  # parsing all of them takes a second
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(attr="promise"), args=words):
                    found |= _texts(words)
                case ast.Call(func=ast.Name(id="Row"), keywords=given):
                    promises = [each.value for each in given if each.arg == "promises"]
                    found |= _texts(word for each in promises for word in ast.walk(each))
    return found


def _texts(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.long
@pytest.mark.parametrize("promise", promises())
def test_a_promise_is_quoted_by_a_test(promise: str) -> None:
    assert promise in quoted()


def test_no_test_quotes_a_promise_that_is_not_made() -> None:
    assert quoted() <= set(promises())
