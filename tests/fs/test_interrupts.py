"""Whether a blocked reader has a signal to take, read from a /proc that the test makes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsetfs.fs.requests import interrupts
from offsetfs.fs.requests.interrupts import ReaderState, check_reader

pytestmark = pytest.mark.unit

SIGINT, SIGKILL = 1 << 1, 1 << 8
HERE, ELSEWHERE = "request_wait_answer", "do_wait"

Process = Callable[..., None]


@pytest.fixture
def process(tmp_path: Path) -> Process:
    def make(
        pid: int,
        *,
        at: str = HERE,
        state: str | None = None,
        own: int = 0,
        shared: int = 0,
        blocked: int = 0,
        ignored: int = 0,
        children: str = "",
        thread_of: int | None = None,
    ) -> None:
        for path in (tmp_path / str(pid), tmp_path / str(thread_of or pid) / "task" / str(pid)):
            path.mkdir(parents=True, exist_ok=True)
            (path / "wchan").write_text(at)
            letter = state or ("D" if own | shared else "S")
            (path / "stat").write_text(f"{pid} (a) b) {letter} 1 2 3")
            (path / "children").write_text(children)
            (path / "status").write_text(
                f"Name:\tcat\nSigQ:\t1/2\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n"
                f"SigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t0\n"
            )

    return make


CASES: dict[str, tuple[dict[str, Any], ReaderState]] = {
    "no signal": ({}, ReaderState.WAITS),
    "a signal for the process": ({"shared": SIGINT}, ReaderState.INTERRUPTED),
    "a signal for the thread": ({"own": SIGKILL}, ReaderState.INTERRUPTED),
    "a blocked signal": ({"shared": SIGINT, "blocked": SIGINT}, ReaderState.WAITS),
    "an ignored signal": ({"shared": SIGINT, "ignored": SIGINT}, ReaderState.WAITS),
    "one of two is ignored": ({"shared": SIGINT | SIGKILL, "ignored": SIGINT}, ReaderState.INTERRUPTED),
    "a signal that it may have taken": ({"state": "D"}, ReaderState.WAITS),
    "the kernel does not tell where it stands": ({"at": "0", "shared": SIGINT}, ReaderState.INTERRUPTED),
    "a zombie": ({"state": "Z", "at": "0"}, ReaderState.NOTHING),
    "it does something else": ({"at": ELSEWHERE, "shared": SIGINT}, ReaderState.NOTHING),
}


@pytest.mark.parametrize("name", CASES)
def test_the_state_of_the_process_that_opened_the_file_is_read(process: Process, tmp_path: Path, name: str) -> None:
    attributes, expected = CASES[name]
    process(7, **attributes)
    assert check_reader(7, str(tmp_path)) is expected


def test_a_child_that_reads_is_found(process: Process, tmp_path: Path) -> None:
    process(7, at=ELSEWHERE, children="8 9")
    process(8, at=ELSEWHERE, children="10")
    process(9, at=ELSEWHERE)
    process(10)
    assert check_reader(7, str(tmp_path)) is ReaderState.WAITS
    process(10, own=SIGKILL)
    assert check_reader(7, str(tmp_path)) is ReaderState.INTERRUPTED


def test_another_thread_that_reads_is_found(process: Process, tmp_path: Path) -> None:
    process(7, at=ELSEWHERE)
    process(8, own=SIGKILL, thread_of=7)
    assert check_reader(7, str(tmp_path)) is ReaderState.INTERRUPTED


@pytest.mark.parametrize("pid", [0, -1, 7])
def test_a_process_that_does_not_exist_is_not_found(tmp_path: Path, pid: int) -> None:
    assert check_reader(pid, str(tmp_path)) is ReaderState.NOTHING


def test_a_family_is_looked_at_to_a_bound(process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_FAMILY_MAX", 4)
    process(1000, at=ELSEWHERE, children=" ".join(map(str, range(1, 10))))
    for child in range(1, 10):
        process(child, at=ELSEWHERE)
    process(9, own=SIGKILL)
    assert check_reader(1000, str(tmp_path)) is ReaderState.NOTHING
