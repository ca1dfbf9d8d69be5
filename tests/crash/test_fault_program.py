"""Every row of the fault program, played with the seeds of CI; `scripts/soak` plays them for longer."""

import shutil
from pathlib import Path

import pytest
from fault_program import FOLDER, Row, rows

pytestmark = pytest.mark.crash

PLAYED = {name: row for name, row in rows().items() if row.seeds_in_ci}


@pytest.mark.parametrize("row", PLAYED.values(), ids=list(PLAYED))
def test_the_fault_breaks_no_promise(row: Row, tmp_path: Path) -> None:
    assert row.missing() == [], f"row {row.name} needs what this machine lacks"
    states = 0
    for seed in row.seeds_in_ci:
        scratch = tmp_path / str(seed)
        scratch.mkdir()
        try:
            states += row.play(seed, scratch)
        except Exception as error:
            error.add_note(f"seed {seed} of row {row.name}; to see it again: {row.replay_command(seed)}")
            raise
        shutil.rmtree(scratch)
    assert states > 0, "a row that checks nothing finds nothing"


def test_rows_are_named_after_their_modules() -> None:
    assert {f"row_{name}" for name in rows()} == {file.stem for file in FOLDER.glob("row_*.py")}
