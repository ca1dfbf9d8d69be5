"""docs/glossary.md defines each term once."""

import re
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).parents[1] / "docs" / "glossary.md").read_text()


def test_each_term_is_defined_once() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", PAGE, re.MULTILINE)
    terms = Counter(term for names, _ in rows if names != "term" for term in names.split(", "))
    assert [term for term, count in terms.items() if count > 1] == []
    assert len(terms) > 50
