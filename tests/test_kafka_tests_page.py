"""docs/evidence/kafka-tests.md names tests; each of them exists, and each case has a test or a reason."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "evidence" / "kafka-tests.md").read_text()
ROWS = re.findall(r"^\| (?!case )(.+) \| (.+) \|$", PAGE, re.MULTILINE)
NAMES = sorted(set(re.findall(r"`(test_\w+)`", PAGE)))


def defined() -> set[str]:
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return set(re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))


def test_every_test_that_the_page_names_exists() -> None:
    assert len(NAMES) > 100
    assert sorted(set(NAMES) - defined()) == []


def test_every_case_on_the_page_has_a_test_or_a_reason() -> None:
    assert len(ROWS) > 100
    assert [case for case, here in ROWS if "`test_" not in here and not here.startswith("— ")] == []
