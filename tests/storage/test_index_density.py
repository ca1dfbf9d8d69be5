"""Indexes have an entry every `index.interval.bytes`, however often a log was opened; verify finds sparse ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fixtures.logs.small_logs import SmallLog, record
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage import LogDirectory
from offsetfs.storage.verify.finding import Finding
from offsetfs.storage.verify.repair import carry_out_repair, plan_repair
from offsetfs.storage.verify.verify import Verification

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

NOW = 1_800_000_000_000
Between = Callable[[SmallLog], object]


def appended(small: SmallLog, number: int) -> None:
    small.log.append(record(NOW + number))


def mirrored(small: SmallLog, number: int) -> None:
    batch = bytearray(record(NOW + number).data)
    batch[:8] = number.to_bytes(8, "big")
    small.log.append_replicated(bytes(batch))


def entries(
    path: Path, add: Callable[[SmallLog, int], None], between: Between
) -> tuple[Sequence[object], Sequence[object]]:
    small = SmallLog(path, FakeClock(NOW), index_interval_bytes="500")
    for number in range(25):
        add(small, number)
        between(small)
    files = small.log.snapshot().active.open_files()
    found = list(files.index.entries()), list(files.time_index.entries())
    small.directory.close()
    return found


BETWEEN: dict[str, Between] = {
    "closed": lambda small: small.reopen(),
    "killed": lambda small: small.reopen(in_order=False),
    "at the limit of descriptors": lambda small: small.log.rest(),
}


@pytest.mark.parametrize("add", [appended, mirrored])
def test_the_indexes_do_not_depend_on_how_often_a_log_is_opened(
    tmp_path: Path, add: Callable[[SmallLog, int], None]
) -> None:
    wanted = entries(tmp_path / "once", add, lambda small: None)
    assert len(wanted[0]) == 4 and len(wanted[1]) > 3
    for number, (name, between) in enumerate(BETWEEN.items()):
        assert entries(tmp_path / f"{number}", add, between)[0] == wanted[0], name


def findings(path: Path) -> list[Finding]:
    found: list[Finding] = []
    Verification(str(path), report=found.append).run()
    return found


def test_an_index_that_is_far_too_sparse_is_a_notice_and_repaired(tmp_path: Path) -> None:
    path = tmp_path / "log"
    small = SmallLog(path, FakeClock(NOW), index_interval_bytes=str(1 << 26))
    for number in range(40):
        small.log.append(record(NOW + number, b"x" * (64 << 10)))
    small.directory.close()
    assert findings(path) == [], "its setting says so"
    with contextlib.closing(LogDirectory.open(str(path))) as directory:
        directory.configure("orders", {"index.interval.bytes": None})
    ((kind, severity),) = {(each.kind, each.severity) for each in findings(path)}
    assert (kind, severity) == ("index-sparse", "notice")
    assert carry_out_repair(plan_repair(str(path))).indexes == 1
    assert findings(path) == []
