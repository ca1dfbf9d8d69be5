"""Every sentence of docs/use/security.md is quoted, word for word, by a test that tries it."""

import ast
import functools
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]


def sentences() -> list[str]:
    lines = (ROOT / "docs" / "use" / "security.md").read_text().splitlines()
    return [line.removeprefix("* ") for line in lines if line.startswith("* ")]


@functools.cache
def quoted() -> set[str]:
    """The arguments of all `@pytest.mark.security(…)` in the tests."""
    found: set[str] = set()
    for file in (ROOT / "tests").rglob("*.py"):
        text = file.read_text()
        if "mark.security(" in text:
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Call(func=ast.Attribute(attr="security"), args=words):
                        texts = [word.value for word in words if isinstance(word, ast.Constant)]
                        found |= {text for text in texts if isinstance(text, str)}
    return found


@pytest.mark.parametrize("sentence", sentences())
def test_a_sentence_is_quoted_by_a_test(sentence: str) -> None:
    assert sentence in quoted()


def test_no_test_quotes_a_sentence_that_is_not_there() -> None:
    assert quoted() <= set(sentences())
