"""The long run of the fault program: what a finding leaves behind, and that a row which lacks a tool does not pass."""

from pathlib import Path

import pytest
import soak
from fault_program import Row, rows

pytestmark = pytest.mark.crash


def finds(seed: int, scratch: Path) -> int:
    (scratch / "left").write_text("here")
    assert seed != 7, "seven"
    return 3


ROW = Row(99, "finds", "nothing but seven", finds, seeds_in_ci=range(1), goal=1)


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(soak, "KEPT", tmp_path)
    return tmp_path


def test_a_round_without_a_finding_leaves_nothing(kept: Path) -> None:
    assert soak.play(ROW, 1) == (3, "")
    assert list(kept.iterdir()) == []


def test_a_finding_keeps_its_directory_and_states_how_to_see_it_again(kept: Path) -> None:
    states, finding = soak.play(ROW, 7)
    assert states == 0 and "AssertionError: seven" in finding
    assert (kept / "finds-7" / "left").read_text() == "here"
    assert (kept / "finds-7" / "finding.txt").read_text().startswith("scripts/soak --replay finds 7\n")


@pytest.mark.parametrize(("seed", "status"), [(1, 0), (7, 1)])
def test_a_replay_ends_as_the_round_did(seed: int, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.replay(ROW, seed) == status
    assert ("seven" if status else "3 states, nothing found") in capsys.readouterr().out


def test_a_row_that_lacks_a_tool_is_a_finding() -> None:
    row = Row(99, "lacks", "no tool", finds, range(1), goal=1, needs=("no-such-command",))
    tally = soak.run_row(row, seconds=0, jobs=1)
    assert tally.findings == ["lacks needs what this machine lacks: no-such-command"] and tally.rounds == 0
    assert soak.replay(row, 1) == 1


def test_rows_run_beside_each_other_with_seeds_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    row = rows("failed_fsync")["failed_fsync"]
    tally = soak.run_row(row, seconds=8, jobs=2, first=0)
    assert tally.findings == [] and tally.rounds >= 2 and tally.states > 0
    assert "failed_fsync" in capsys.readouterr().out


def test_the_round_in_progress_when_the_time_is_up_counts() -> None:
    row = rows("failed_fsync")["failed_fsync"]
    tally = soak.run_row(row, seconds=0, jobs=1, first=0)
    assert tally.findings == [] and tally.rounds == 1 and tally.states > 0
