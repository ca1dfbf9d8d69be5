"""Every sentence of docs/use/semantics.md is tried by a test, and what is tried is on the page."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


def sentences() -> list[str]:
    """The bullets of the page; one may go on in the next line, indented."""
    found: list[str] = []
    is_bullet = False
    for line in (ROOT / "docs" / "use" / "semantics.md").read_text().splitlines():
        if line.startswith("* "):
            found.append(line.removeprefix("* "))
        elif is_bullet and line.startswith("  "):
            found[-1] += f" {line.strip()}"
        is_bullet = line.startswith("* ") or (is_bullet and line.startswith("  "))
    return found


@functools.cache
def tried() -> set[str]:
    """The sentences of all `Said(…)` and `@pytest.mark.semantics(…)` beside this file."""
    found = set()
    for file in Path(__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="Said"), args=[ast.Constant(value=str(sentence)), *_]):
                    found.add(sentence)
                case ast.Call(func=ast.Attribute(attr="semantics"), args=words):
                    found |= {str(word.value) for word in words if isinstance(word, ast.Constant)}
    return found


@pytest.mark.long
@pytest.mark.parametrize("sentence", sentences())
def test_a_sentence_is_tried(sentence: str) -> None:
    assert sentence in tried()


def test_nothing_is_tried_that_the_page_does_not_say() -> None:
    assert tried() - set(sentences()) == set()
