"""Each test that a page of the documentation names exists."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]


def test_the_tests_that_the_pages_name_exist() -> None:
    defined = {
        name
        for pattern in ("test_*.py", "*_contract.py")
        for file in (ROOT / "tests").rglob(pattern)
        for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", file.read_text(), re.MULTILINE)
    }
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    named = {(page.name, name) for page in pages for name in re.findall(r"`(test_\w+)`", page.read_text())}
    missing = sorted(f"{page}: {name}" for page, name in named if name not in defined)
    assert len(named) > 500 and missing == []
