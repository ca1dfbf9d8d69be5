"""The table of known mistakes (`mutants.py`): each fits the code as it is, and its test exists."""

from pathlib import Path

import pytest
from mutants import MUTANTS, Mutant

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mistake_fits_the_code_and_its_test_is_there(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text()
    assert mutant.applied(source) != source
    compile(mutant.applied(source), mutant.file, "exec")  # a mistake that does not load proves nothing of its test
    file, _, test = mutant.test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text()


def test_mistakes_have_names_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
