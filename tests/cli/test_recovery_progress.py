"""The progress reports of a recovery that takes long."""

from __future__ import annotations

import json
import sys

import pytest

from offsetfs.cli.exit_codes import Failure
from offsetfs.cli.mounts import detach
from offsetfs.cli.terminal.progress import RecoveryReporter, described
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.recovery.recover_all import RecoveryProgress

pytestmark = pytest.mark.unit


def progress(done: int, total: int, partitions: int = 2) -> RecoveryProgress:
    return RecoveryProgress(done, total, partitions, 9, TopicPartition("orders", 3))


LINES = [
    (0, 5_000_000_000, 3.0, "recovering orders-3, 2 of 9 partitions done"),
    (2_500_000_000, 10_000_000_000, 5.0, "…, 2.5 GB of 10 GB, about 15 s left"),
    (25_000_000, 100_000_000, 100.0, "…, 25 MB of 100 MB, about 5 min left"),
    (1_000, 4_000, 3.0, "…, 1 kB of 4 kB, about 9 s left"),
    (0, 0, 3.0, "recovering orders-3, 2 of 9 partitions done"),
    (400, 400, 3.0, "recovering orders-3, 2 of 9 partitions done"),
]


@pytest.mark.parametrize(("done", "total", "seconds", "line"), LINES)
def test_a_line_states_how_far_it_is_and_how_long_it_will_take(
    done: int, total: int, seconds: float, line: str
) -> None:
    assert described(progress(done, total), seconds) == line.replace("…", "recovering orders-3, 2 of 9 partitions done")


def test_nothing_is_reported_in_the_first_two_seconds_and_then_every_so_often() -> None:
    clock, said = [100.0], list[str]()
    reporter = RecoveryReporter(said.append, every_seconds=0.5, now=lambda: clock[0])
    moments = []
    for step in range(50):
        clock[0] = 100 + step / 10
        before = len(said)
        reporter(progress(step + 1, 100))
        moments += [step] * (len(said) - before)
    assert moments == [20, 25, 30, 35, 40, 45]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_on_a_terminal_one_line_is_written_over_and_gone_at_the_end(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    words = (["progress", "half", 0], ["progress", "more", 0], ["warning", "orders-0: read only", 0])
    lines = iter([json.dumps(word) + "\n" for word in words])
    ready, failed = json.dumps(["ready", "", 0]), json.dumps(["failed", "no", 3])
    warnings: list[str] = []
    assert detach._wait(lambda: next(lines, ready), warnings.append) == 0
    assert warnings == ["orders-0: read only"]
    cleared = "\r\x1b[K"
    assert capsys.readouterr().err == (f"{cleared}half{cleared}more{cleared}{cleared}" if is_terminal else "")
    with pytest.raises(Failure):
        detach._wait(lambda: failed, warnings.append)
    assert capsys.readouterr().err == ""
