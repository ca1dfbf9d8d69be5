"""Swaps whose renames meet a full disk are undone, and a crash at any moment leaves the old or the new segments."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from random import Random

import pytest
from fixtures.simulation.simdisk import SimDisk
from fixtures.simulation.simsystem import System, simulated
from fixtures.simulation.simulated_log import NOW_MS, ORDERS, append, compact, disk_with_directory, opened, shown

from offsetfs.storage import files
from offsetfs.storage.compaction import segment_writer
from offsetfs.storage.errors import LogFailed
from offsetfs.storage.partition.log import Log

pytestmark = pytest.mark.unit

PARTITION = "/logs/orders-0"
OLD = {number: (b"ab"[number % 2 : number % 2 + 1], b"%d" % number) for number in range(8)} | {8: (b"c", b"")}
NEW = {6: (b"a", b"6"), 7: (b"b", b"7"), 8: (b"c", b"")}
CUTS = [("none", 0), ("all", 0), *(("each", seed) for seed in range(4)), *(("until", seed) for seed in range(2))]


class FullDisk:
    """Lets renames in the partition fail, number `first` or all from it on. Keeps the disk as it was before."""

    def __init__(self, system: System, first: int, *, error: int = errno.ENOSPC, lasts: bool = False) -> None:
        self.system, self.first, self.error, self.lasts = system, first, error, lasts
        self.renames = 0
        self.before: SimDisk | None = None

    def __call__(self, kind: str, path: str) -> str | None:
        if kind == "rename" and path.startswith(PARTITION):
            self.renames += 1
            if self.renames == self.first or (self.lasts and self.renames > self.first):
                if self.before is None:
                    self.before = self.system.disk.clone()
                    self.system.disk.history.clear()
                raise OSError(self.error, os.strerror(self.error), path)
        return None


@pytest.fixture
def system() -> Iterator[System]:
    with simulated(disk_with_directory()) as system:
        log = opened().create_partition(ORDERS, {"cleanup.policy": "compact"})
        for number in range(0, 8, 2):
            append(log, OLD[number], OLD[number + 1])
            log.roll()
        append(log, OLD[8])
        log.flush()
        yield system


@pytest.fixture(params=["one segment", "several segments"])
def shape(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Four old segments become one, or several: the old bases 0, 2, 4, 6, the new ones 0 and 7."""
    if request.param == "several segments":
        monkeypatch.setattr(segment_writer, "RELATIVE_OFFSET_MAX", 6)
    return str(request.param)


def lives(system: System, *, error: int = errno.ENOSPC, lasts: bool = False) -> Iterator[tuple[FullDisk, Log, OSError]]:
    """Yield one compaction for each rename that fails: the log after it, and its error."""
    whole = system.disk
    for number in itertools.count(1):
        system.disk = whole.clone()
        directory = opened()
        log = directory.log(ORDERS)
        fault = system.fault = FullDisk(system, number, error=error, lasts=lasts)
        try:
            compact(directory)
        except OSError as failure:
            system.fault = lambda _kind, _path: None
            yield fault, log, failure
        else:
            assert number > 15, "no swap has fewer renames"
            assert fault.before is None, f"rename {number} failed, and no error was raised"
            system.fault = lambda _kind, _path: None
            return


def leftover_files(system: System) -> list[str]:
    return [name for name in system.disk.tree("logs") if name.endswith((".swap", ".cleaned"))]


@pytest.mark.long
@pytest.mark.usefixtures("shape")
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_a_log_stays_usable_when_any_rename_of_a_swap_meets_a_full_disk(system: System, error: int) -> None:
    for fault, log, failure in lives(system, error=error):
        assert failure.errno == error and log.failure is None, f"rename {fault.first}"
        assert shown(log) == OLD and leftover_files(system) == []
        append(log, (b"d", b"later"))
        log.flush()
        log.check()
        directory = opened()
        assert directory.log(ORDERS).damage == ()
        compact(directory)
        assert shown(directory.log(ORDERS)) == NEW | {9: (b"d", b"later")}, "compaction is tried again"


@pytest.mark.long
@pytest.mark.promise(
    "The latest value of each key is readable at every moment of a compaction, and after a crash at any moment."
)
def test_a_crash_at_any_step_of_the_undo_shows_the_old_segments_or_the_new_ones(system: System, shape: str) -> None:
    seen = set()
    checked = set[frozenset[tuple[str, bytes]]]()
    for fault, _, _ in lives(system):
        seen |= results_of_crashes(system, fault, checked)
    assert seen == {len(OLD), len(NEW)} and len(checked) > 100, shape


@pytest.mark.long
@pytest.mark.usefixtures("shape")
def test_a_log_whose_undo_fails_accepts_no_writes_until_it_is_recovered(system: System) -> None:
    failed, checked = 0, set[frozenset[tuple[str, bytes]]]()
    for fault, log, failure in lives(system, lasts=True):
        assert failure.errno == errno.ENOSPC
        assert (log.failure is None) == (not leftover_files(system)), f"renames from {fault.first} on"
        if log.failure is not None:
            failed += 1
            with pytest.raises(LogFailed):
                append(log, (b"d", b"later"))
        results_of_crashes(system, fault, checked)
    assert failed > 10


@pytest.mark.usefixtures("shape")
def test_a_rename_that_fails_with_another_error_is_not_undone(system: System) -> None:
    results = {log.failure is None for _, log, _ in lives(system, error=errno.EIO)}
    assert results == {True, False}, "the first renames change nothing old"


def test_readers_of_the_old_segments_read_on_after_an_undo(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    renames, real = list[str](), files.rename

    def rename(source: str, target: str) -> None:
        renames.append(os.path.basename(target).partition(".")[2])
        if renames[-1] == "index" and renames.count("index") == 1:
            raise OSError(errno.ENOSPC, "no space left")
        real(source, target)

    monkeypatch.setattr(files, "rename", rename)
    directory = opened()
    log = directory.log(ORDERS)
    held = list(log.snapshot())
    with pytest.raises(OSError, match="no space left"):
        compact(directory)
    assert renames.count("log") == 1 + 4, "the new one was in place, and the four old ones are again"
    assert list(log.snapshot()) == held
    directory._pool.clear()
    assert shown(log) == OLD
    assert [log.find_timestamp(NOW_MS), log.batch_at(7).base_offset] == [(0, NOW_MS), 7]  # type: ignore[union-attr]


def results_of_crashes(system: System, fault: FullDisk, checked: set[frozenset[tuple[str, bytes]]]) -> set[int]:
    """Crash at each change since the fault, in several ways; return how many records were left.

    Different crashes leave the same files: those in `checked` are not opened again.
    """
    after, seen = system.disk, set()
    assert fault.before is not None
    state = fault.before
    for number, change in enumerate([None, *after.history]):
        if change is not None:
            state.apply(change)
        for kind, seed in CUTS:
            system.disk = (
                state.clone() if kind == "all" else state.crash(Random(f"{fault.first} {number} {seed}"), kind)
            )
            left = frozenset(system.disk.tree("logs").items())
            if left in checked:
                continue
            checked.add(left)
            log = opened().log(ORDERS)
            log.check()
            found = shown(log)
            where = f"rename {fault.first} failed; crash at change {number}, {kind} {seed}"
            assert found in (OLD, NEW) and log.damage == (), where
            assert not any(name.endswith(".swap") for name in leftover_files(system)), where
            seen.add(len(found))
    system.disk = after
    return seen
