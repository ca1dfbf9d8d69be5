"""Each test that a page or a data file of the documentation names exists, and each row of these files is complete."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "docs" / "evidence"


def rows(name: str) -> list[list[str]]:
    """Return the fields of each row of a data file, without those of its header."""
    return [line.split("\t") for line in (EVIDENCE / name).read_text().splitlines()[1:]]


def named(page: Path) -> set[str]:
    text = page.read_text()
    if page.suffix == ".tsv":
        return set(re.findall(r"(?<![\w/])(test_\w+)(?!\w|\.py)", text))
    return set(re.findall(r"`(test_\w+)`", text))


def test_the_tests_that_the_documentation_names_exist() -> None:
    defined = {
        name
        for pattern in ("test_*.py", "*_contract.py")
        for file in (ROOT / "tests").rglob(pattern)
        for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", file.read_text(), re.MULTILINE)
    }
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.tsv"), *ROOT.glob("*.md")]
    missing = sorted(f"{page.name}: {name}" for page in pages for name in named(page) - defined)
    assert missing == []


def test_each_bug_has_a_date_a_description_a_finder_and_a_test() -> None:
    wrong = [
        row
        for row in rows("track-record.tsv")
        if len(row) != 4 or not all(row) or not re.fullmatch(r"\d{4}-\d\d-\d\d", row[0])
    ]
    assert wrong == []
    page = (EVIDENCE / "track-record.md").read_text()
    assert not re.search(r"^\| 20", page, re.MULTILINE), "rows belong into track-record.tsv"


def test_each_case_of_kafkas_tests_has_a_test_or_a_reason() -> None:
    cases = rows("kafka-tests.tsv")
    assert [row for row in cases if len(row) != 4 or not re.search(r"test_|^— ", row[3])] == []
