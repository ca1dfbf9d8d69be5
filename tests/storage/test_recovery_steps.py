"""A crash at each step of a recovery: the next one comes to the same, and nothing of what was cut is lost.

The directory is copied before every call that changes the disk, as a SIGKILL there would leave it. Power cuts, where
calls reach the disk in no order, are tests/crash's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, plant, sealed

from offsetfs.storage import files
from offsetfs.storage.checkpoint import LEADER_EPOCHS, read_epochs
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT
from offsetfs.storage.records.format.batch import build

pytestmark = pytest.mark.unit

FAR = 2**31


def control(producer_id: int, offset: int) -> bytes:
    record = (b"\0\0" + ABORT.to_bytes(2, "big"), bytes(6), (), 1000)
    fields: dict[str, Any] = {"transactional": True, "control": True, "producer_id": producer_id, "producer_epoch": 0}
    return bytes(build([record], base_offset=offset, **fields))


def data(producer_id: int, offset: int) -> bytes:
    fields = {"transactional": True, "producer_id": producer_id, "producer_epoch": 0, "base_sequence": offset}
    return batch(offset, b"of %d" % producer_id, **fields)


def flipped(content: bytes) -> bytes:
    return content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]


@dataclass(frozen=True)
class Crash:
    """What a crash left; `recovery_point` is known from a checkpoint."""

    name: str
    segments: Mapping[int, list[bytes]]
    recovery_point: int = 0
    besides: Mapping[str, bytes] | None = None


CRASHES = [
    Crash("a torn end", {0: [batch(0, b"a"), batch(1, b"b"), batch(2, b"torn")[:-5]]}),
    Crash("zeros behind the end", {0: [batch(0, b"a"), bytes(5000)]}),
    Crash(
        "damage before the last segments",
        {0: [batch(0, b"a"), flipped(batch(1, b"b")), batch(2, b"c")], 3: [batch(3, b"d")], 4: [batch(4, b"e")]},
        besides={"3.snapshot": b"", "4.index": b"\0\0\0\1\0\0\0\2", "1.index": b""},
    ),
    Crash("a hole between segments", {0: [batch(0, b"a")], 3: [batch(3, b"d")], 4: [batch(4, b"e")]}),
    Crash(
        "damage below the recovery point, and beyond",
        {0: [batch(0, b"a"), flipped(batch(1, b"b")), batch(2, b"c"), batch(3, b"torn")[:-1]]},
        recovery_point=3,
    ),
    Crash(
        "too many offsets",
        {0: [batch(0, b"a"), batch(7, b"b"), batch(FAR, b"c"), batch(FAR + 8, b"d")], FAR + 9: [batch(FAR + 9, b"e")]},
        recovery_point=FAR + 9,
    ),
    Crash(
        "too many offsets, and a gap where it is split",
        {0: [batch(0, b"a"), batch(FAR, b"c"), batch(FAR + 8, b"d")], FAR + 20: [batch(FAR + 20, b"e")]},
    ),
    Crash(
        "a swap of one for two, cut short",
        {0: [batch(0, b"old"), batch(1, b"b")], 2: [batch(2, b"old")], 3: [batch(3, b"c"), b"torn"]},
        besides={"0.log.swap": batch(1, b"b") + batch(2, b"new"), "0.index.swap": b"", "9.log.deleted": b"x"},
    ),
    Crash(
        "transactions",
        {0: [data(1, 0), data(2, 1), control(1, 2)], 3: [data(1, 3), control(2, 4), data(2, 5), b"torn"]},
        besides={"0.txnindex": b"junk"},
    ),
    Crash("leader epochs", {0: [batch(0, b"a", leader_epoch=3), batch(1, b"b", leader_epoch=5), b"torn"]}),
]  # fmt: skip


def planted(path: Path, crash: Crash) -> None:
    point = crash.recovery_point or None
    partition = plant(path, crash.segments, is_clean=False, recovery_point=point)
    for name, content in (crash.besides or {}).items():
        number, _, suffix = name.partition(".")
        (partition / f"{int(number):020d}.{suffix}").write_bytes(content)


def content(log: Log) -> list[tuple[int, list[bytes | None]]]:
    found = [each for s in log.snapshot() for each in s.batches(on_damage=lambda error, position: None)]
    return [(each.base_offset, [record.value for record in each.records()]) for each in found]


def outcome(path: Path) -> dict[str, object]:
    """Recover the directory, and return everything that must come out alike."""
    directory = LogDirectory.open(str(path))
    log = directory.log(PARTITION)
    partition = path / str(PARTITION)
    found = {
        "content": content(log),
        "bounds": (log.log_start_offset, log.next_offset),
        "segments": [segment.base_offset for segment in log.snapshot()],
        "aborted": log.aborted(0, log.next_offset),
        "stable": log.last_stable_offset(),
        "producers": log.producers(),
    }
    directory.close()
    kept = list(partition.glob("*.cut-*"))
    return {
        **found,
        "epochs": read_epochs(str(partition / LEADER_EPOCHS)),
        "indexes": {each.name: each.read_bytes() for each in partition.glob("*index")},
        "snapshots": {each.name: each.read_bytes() for each in partition.glob("*.snapshot")},
        "kept": sorted(each.read_bytes() for each in kept),
        "other names": {each.name for each in partition.iterdir()} - {each.name for each in kept},
    }


@pytest.fixture
def before_each_change(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something called before every call that changes the disk."""

    def install(note: Callable[[], None]) -> None:
        def noting(call: Callable[..., object]) -> Callable[..., object]:
            def instead(*arguments: Any, **keywords: Any) -> object:
                note()
                return call(*arguments, **keywords)

            return instead

        for name in ("write", "truncate", "sync"):
            monkeypatch.setattr(files.File, name, noting(getattr(files.File, name)))
        for name in ("rename", "remove_file", "sync_directory", "replace_file", "set_modified"):
            monkeypatch.setattr(files, name, noting(getattr(files, name)))

    return install


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.promise("An interrupted recovery is repeated, and loses nothing that the first attempt kept.")
@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: crash.name)
def test_a_recovery_that_is_cut_short_at_any_step_comes_to_the_same(
    crash: Crash, tmp_path: Path, before_each_change: Callable[[Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    whole = tmp_path / "whole"
    planted(whole, crash)
    shutil.copytree(whole, tmp_path / "expected")
    expected = outcome(tmp_path / "expected")
    copies: list[Path] = []

    def copy() -> None:
        copies.append(tmp_path / f"{len(copies)}")
        shutil.copytree(whole, copies[-1])

    before_each_change(copy)
    directory = LogDirectory.open(str(whole))
    directory.log(PARTITION)
    directory._lock.release()
    monkeypatch.undo()
    assert len(copies) > 5
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # hundreds of directories, and none of them loses power
    for place, path in enumerate([*copies, whole]):
        assert outcome(path) == expected, f"cut short before change {place}"


@pytest.mark.damages
@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: crash.name)
def test_a_recovered_log_is_written_on_and_read(crash: Crash, tmp_path: Path) -> None:
    planted(tmp_path, crash)
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    before = content(log)
    base = log.append(sealed(b"later")).base_offset
    assert base == log.next_offset - 1 >= crash.recovery_point
    directory.close()
    directory = LogDirectory.open(str(tmp_path))
    assert content(directory.log(PARTITION)) == [*before, (base, [b"later"])]
    directory.close()


def test_two_losses_at_one_place_are_kept_side_by_side(tmp_path: Path) -> None:
    partition = plant(tmp_path, {0: [batch(0, b"a"), b"first loss"]}, is_clean=False)
    log = partition / f"{0:020d}.log"
    for loss in (b"first loss", b"second", b"third, which is longer"):
        log.write_bytes(batch(0, b"a") + loss)
        (tmp_path / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (tmp_path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        LogDirectory.open(str(tmp_path)).close()
    kept = {each.name: each.read_bytes() for each in partition.glob("*.cut-*")}
    size = len(batch(0, b"a"))
    assert kept == {
        f"{0:020d}.cut-{size}": b"first loss",
        f"{0:020d}.cut-{size}-2": b"second",
        f"{0:020d}.cut-{size}-3": b"third, which is longer",
    }
