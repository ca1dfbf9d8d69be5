"""Extreme input: times at the ends of their range, settings at theirs, wrong checkpoints.

Nothing panics, nothing loops, nothing is lost: what was appended is read, also after a clean end and after a death.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, sealed, values_of
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage.checkpoint import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS, write_offsets
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import OffsetOutOfRange, RecordTooLarge
from offsetfs.storage.maintenance.background_tasks import BackgroundTasks, TaskResult
from offsetfs.storage.names import OFFSET_MAX
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

pytestmark = pytest.mark.unit

NEVER = 2**63 - 1
COUNT = 12


def value(number: int) -> bytes:
    return b"value %d" % number


def opened(path: Path, clock: FakeClock | None = None) -> tuple[LogDirectory, Log]:
    directory = LogDirectory.open(os.fspath(path), clock=clock or FakeClock())
    return directory, directory.log(PARTITION)


def left_by_a_death(path: Path, directory: LogDirectory) -> Path:
    """Return a copy of the directory as the files are now; `directory` is let go."""
    copy = path.with_name(f"{path.name}-left")
    shutil.copytree(path, copy)
    directory._lock.release()
    return copy


def run_background_tasks(directory: LogDirectory) -> None:
    failed: list[TaskResult] = []
    BackgroundTasks(directory, lambda done: failed.append(done) if done.error else None).run_all(now=True)
    assert failed == []


# --- times -----------------------------------------------------------------------------------------------------------

TIMES = {
    "none": [-1] * COUNT,
    "the first": [0] * COUNT,
    "the last": [NEVER] * COUNT,
    "from end to end": [0, NEVER, -1, 1, NEVER - 1, 0, -1, NEVER, 5, 5, 0, NEVER],
    "falling": [NEVER >> number for number in range(COUNT)],
}


@pytest.mark.long
@pytest.mark.parametrize(
    "settings", [{}, {"segment.ms": "1"}, {"segment.ms": str(NEVER)}], ids=["a week", "1", "never"]
)
@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_records_of_any_time_are_kept_and_found(
    tmp_path: Path, times: Sequence[int], settings: Mapping[str, str]
) -> None:
    path = tmp_path / "log"
    path.mkdir()
    directory = LogDirectory.open(os.fspath(path), clock=FakeClock())
    settings = {**settings, "segment.bytes": "400", "index.interval.bytes": "0", "retention.ms": "-1"}
    log = directory.create_partition(PARTITION, settings)
    for number, time in enumerate(times):
        log.append(sealed(value(number), time))
        log.check()
    check_times(log, times)
    run_background_tasks(directory)
    left = left_by_a_death(path, directory)
    for again in (left, left):  # recovered, and opened once more after a clean end
        directory, log = opened(again)
        check_times(log, times)
        directory.close()


def check_times(log: Log, times: Sequence[int]) -> None:
    assert values_of(log) == [value(number) for number in range(COUNT)]
    for time in {*times, 0, 1, NEVER - 1}:
        if time >= 0:
            expected = next(((offset, each) for offset, each in enumerate(times) if each >= time), None)
            assert log.find_timestamp(time) == expected
    largest = max(times)
    assert log.max_timestamp() == (None if largest < 0 else (times.index(largest), largest))


# --- the clock -------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("ms", [0, 1, -5, 1_000, NEVER], ids=str)
@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete"])
def test_whatever_the_time_of_day_what_is_appended_is_there(tmp_path: Path, ms: int, policy: str) -> None:
    clock = FakeClock(1_800_000_000_000)
    directory = LogDirectory.open(os.fspath(tmp_path), clock=clock)
    settings = {"cleanup.policy": policy, "segment.bytes": "300", "message.timestamp.type": "LogAppendTime"}
    log = directory.create_partition(PARTITION, settings)
    for number in range(COUNT):
        if number == COUNT // 2:
            clock.jump_to(ms)
        if ms < 0 <= number - COUNT // 2:
            break  # no clock shows a time before 1970: the mount never gives one
        log.append(sealed(value(number)))
        log.check()
    run_background_tasks(directory)
    clock.jump_to(1_800_000_000_000)
    assert values_of(log)[-1:] or policy != "delete"
    directory.close()


# --- settings --------------------------------------------------------------------------------------------------------

SETTINGS: list[dict[str, str]] = [
    {"segment.bytes": "14"},
    {"segment.bytes": str(2**31 - 1)},
    {"segment.index.bytes": "4"},
    {"segment.index.bytes": "12", "index.interval.bytes": "0"},
    {"index.interval.bytes": str(2**31 - 1)},
    {"segment.ms": "1", "segment.jitter.ms": str(NEVER)},
    {"segment.ms": str(NEVER), "segment.jitter.ms": str(NEVER)},
    {"flush.messages": "1", "flush.ms": "0"},
    {"retention.ms": str(NEVER), "retention.bytes": str(NEVER)},
    {"delete.retention.ms": str(NEVER), "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"},
    {"max.compaction.lag.ms": "1", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"},
    {"min.compaction.lag.ms": str(NEVER), "cleanup.policy": "compact"},
    {"file.delete.delay.ms": "0"},
    {"max.message.bytes": str(2**31 - 1)},
]


@pytest.mark.long
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda each: " ".join(f"{k}={v}" for k, v in each.items()))
def test_a_log_lives_with_settings_at_their_limits(tmp_path: Path, settings: dict[str, str]) -> None:
    path = tmp_path / "log"
    path.mkdir()
    directory = LogDirectory.open(os.fspath(path), clock=FakeClock())
    log = directory.create_partition(PARTITION, settings)
    taken = 0
    for number in range(COUNT):
        try:
            log.append(keyed(number))
        except RecordTooLarge:
            assert settings.get("segment.bytes") == "14"
            break
        taken += 1
        log.check()
    expected = [value(number) for number in range(taken)]
    assert values_of(log) == expected
    run_background_tasks(directory)
    left = left_by_a_death(path, directory)
    for again in (left, left):
        directory, log = opened(again)
        assert values_of(log) == expected and log.next_offset == taken
        directory.close()


def keyed(number: int) -> SealedBatch:
    built = build([(b"key-%d" % number, value(number), (), 1_799_999_999_000 + number)])
    return SealedBatch(memoryview(built), 1, len(value(number)) + 1, Timestamp(1_799_999_999_000 + number), len(built))


def test_a_topic_that_takes_no_message_at_all_reports_it(tmp_path: Path) -> None:
    directory = LogDirectory.open(os.fspath(tmp_path))
    log = directory.create_partition(PARTITION, {"max.message.bytes": "0"})
    with pytest.raises(RecordTooLarge):
        log.append(sealed())
    directory.close()


@pytest.mark.long
@pytest.mark.parametrize("settings", [{"retention.bytes": "0"}, {"retention.ms": "0"}], ids=str)
def test_a_topic_that_keeps_nothing_goes_on_all_the_same(tmp_path: Path, settings: dict[str, str]) -> None:
    clock = FakeClock()
    directory = LogDirectory.open(os.fspath(tmp_path), clock=clock)
    log = directory.create_partition(PARTITION, settings)
    for number in range(COUNT):
        assert log.append(sealed(value(number), clock.ms)).base_offset == number
        clock.advance(10_000)
        run_background_tasks(directory)
        log.check()
    assert (log.log_start_offset, log.next_offset, values_of(log)) == (COUNT, COUNT, [])
    directory.close()
    directory, log = opened(tmp_path)
    assert (log.log_start_offset, log.next_offset) == (COUNT, COUNT)
    directory.close()


# --- checkpoints -----------------------------------------------------------------------------------------------------

LIES = [1, COUNT - 1, COUNT + 1, 2**31, 2**62, OFFSET_MAX - 1, OFFSET_MAX]


@pytest.mark.long
@pytest.mark.parametrize("lie", LIES, ids=str)
@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS])
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
def test_a_checkpoint_that_lies_loses_nothing_and_ends_nothing(
    tmp_path: Path, name: str, lie: int, is_clean: bool
) -> None:
    directory = LogDirectory.open(os.fspath(tmp_path))
    log = directory.create_partition(PARTITION, {"segment.bytes": "300", "cleanup.policy": "compact,delete"})
    for number in range(COUNT):
        log.append(keyed(number))
    directory.close()
    before = {file.name: file.read_bytes() for file in (tmp_path / str(PARTITION)).glob("*.log")}
    write_offsets(os.fspath(tmp_path / name), {PARTITION: lie})
    if not is_clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    directory, log = opened(tmp_path)
    after = {file.name: file.read_bytes() for file in (tmp_path / str(PARTITION)).glob("*.log")}
    assert before.items() <= after.items()
    assert values_of(log) == [value(number) for number in range(COUNT)]
    try:
        appended = log.append(keyed(COUNT))
        assert appended.base_offset >= COUNT
        assert values_of(log)[-1] == value(COUNT)
        log.check()
    except OffsetOutOfRange:
        assert lie == OFFSET_MAX, "no offset is left"
    run_background_tasks(directory)
    directory.close()
    opened(tmp_path)[0].close()
