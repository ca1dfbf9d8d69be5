"""The table of known mistakes: each fits the code as it is, and docs/evidence/mutants.md shows of each."""

from pathlib import Path

import pytest
from mutants import MUTANTS, Mutant

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence" / "mutants.md"


def line(mutant: Mutant) -> str:
    return f"| {mutant.name} | `{mutant.file}` | `{mutant.test.rpartition('::')[2]}` |"


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mistake_fits_the_code_and_its_test_is_there(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text()
    assert mutant.applied(source) != source
    compile(mutant.applied(source), mutant.file, "exec")  # a mistake that does not load proves nothing of its test
    file, _, test = mutant.test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text()


def test_the_page_has_every_mistake() -> None:
    lines = [text for text in PAGE.read_text().splitlines() if text.startswith("| ") and ".py` |" in text]
    assert lines == [line(mutant) for mutant in MUTANTS]


def test_mistakes_have_names_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
