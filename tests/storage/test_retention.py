"""Old segments go by start offset, size and age; the log start never falls; readers keep what they hold."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION
from fixtures.logs.small_logs import BATCH_BYTES, DAY_MS, HOUR_MS, SmallLog, record
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage import checkpoint, files
from offsetfs.storage.checkpoint import LOG_STARTS, META_PROPERTIES, read_offsets
from offsetfs.storage.clock import HOLD_S, CautiousClock
from offsetfs.storage.directory import directory_checkpoints
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import OffsetOutOfRange
from offsetfs.storage.partition import retention
from offsetfs.storage.partition.retention import SIZE, START, TIME, expired_segments, sweep
from offsetfs.storage.segments.segment import Segment

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

NOW = 1_800_000_000_000
LONG_MAX = 2**63 - 1
Make = Callable[..., SmallLog]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def make(tmp_path: Path, clock: FakeClock) -> Iterator[Make]:
    made: list[SmallLog] = []

    def make_log(**settings: str) -> SmallLog:
        made.append(SmallLog(tmp_path / f"log-{len(made)}", clock, segment_ms=str(LONG_MAX), **settings))
        return made[-1]

    yield make_log
    for small in made:
        small.directory.close()


def run(small: SmallLog) -> list[retention.RemovedSegments]:
    removed, failures = sweep(small.directory, [PARTITION], small.clock.now_ms())
    assert failures == {}
    small.log.check()
    return removed


def three_days(small: SmallLog) -> None:
    """Three sealed segments of two records each, of three, two and one days ago, and an empty active one at 6."""
    for days in (3, 2, 1):
        small.segment(NOW - days * DAY_MS, NOW - days * DAY_MS + HOUR_MS)


# --- what is due ------------------------------------------------------------------------------------------------------

TWO = 2 * BATCH_BYTES

DUE = {
    "nothing by default within a week": ({}, 0, []),
    "by age, what is older than a day and a half": ({"retention.ms": str(36 * HOUR_MS)}, 0, [TIME, TIME]),
    "by age, to the millisecond": ({"retention.ms": str(2 * DAY_MS - HOUR_MS)}, 0, [TIME]),
    "by age, one millisecond less": ({"retention.ms": str(2 * DAY_MS - HOUR_MS - 1)}, 0, [TIME, TIME]),
    "all of it, but for the empty active one": ({"retention.ms": "0"}, 0, [TIME] * 3),
    "never": ({"retention.ms": "-1"}, 0, []),
    "by size, as long as the rest is not below the limit": ({"retention.bytes": str(TWO + 1)}, 0, [SIZE]),
    "by size, exactly": ({"retention.bytes": str(2 * TWO)}, 0, [SIZE]),
    "by size, one byte more": ({"retention.bytes": str(2 * TWO + 1)}, 0, []),
    "by size, of everything": ({"retention.bytes": "0"}, 0, [SIZE] * 3),
    "by size at the largest limit": ({"retention.bytes": str(LONG_MAX), "retention.ms": str(LONG_MAX)}, 0, []),
    "by start offset before size before age": (
        {"retention.bytes": str(TWO), "retention.ms": str(36 * HOUR_MS)},
        2,
        [START, SIZE],
    ),
    "by start offset, size and age in one": (
        {"retention.bytes": str(TWO), "retention.ms": "0"},
        2,
        [START, SIZE, TIME],
    ),
    "a start offset inside a segment keeps it": ({}, 3, [START]),
    "a compacted topic by its start offset alone": (
        {"cleanup.policy": "compact", "retention.ms": "0", "retention.bytes": "0"},
        0,
        [],
    ),
    "a compacted topic that deletes, too": ({"cleanup.policy": "compact,delete", "retention.ms": "0"}, 0, [TIME] * 3),
    "a policy of nothing": ({"cleanup.policy": "", "retention.ms": "0"}, 0, []),
}


@pytest.mark.long
@pytest.mark.parametrize(("settings", "start", "reasons"), DUE.values(), ids=DUE)
def test_what_is_due_is_decided_oldest_first(
    make: Make, settings: dict[str, str], start: int, reasons: list[str]
) -> None:
    small = make()
    three_days(small)
    small.log.raise_log_start(start)
    small.directory.configure(PARTITION.topic, {"segment.bytes": "1000000", **settings})
    expiry = expired_segments(small.log, NOW)
    assert list(expiry.reasons) == reasons
    assert [segment.base_offset for segment in expiry.segments] == [0, 2, 4][: len(reasons)]
    assert expiry.log_start_offset == max(start, [0, 2, 4, 6][len(reasons)])
    removed = run(small)
    assert [each.segments for each in removed] == ([len(reasons)] if reasons else [])
    assert small.bases == [0, 2, 4, 6][len(reasons) :]
    assert small.offsets() == list(range(expiry.log_start_offset, 6))
    assert run(small) == [], "a second pass finds nothing"


def test_an_empty_policy_keeps_all_but_what_is_deleted_by_hand(make: Make) -> None:
    small = make(cleanup_policy="", retention_ms="1", retention_bytes="1")
    three_days(small)
    assert run(small) == []
    small.log.delete_records(3)
    assert [removed.reasons for removed in run(small)] == [(START,)]


def test_a_compacted_topic_loses_what_lies_below_its_start_and_nothing_else(make: Make) -> None:
    small = make(cleanup_policy="compact,delete", retention_ms="-1")
    three_days(small)
    small.log.delete_records(4)
    small.directory.configure(PARTITION.topic, {"cleanup.policy": "compact", "retention.ms": "0"})
    (removed,) = run(small)
    assert (removed.segments, removed.reasons, small.bases) == (2, (START,), [4, 6])


def test_retention_by_size_keeps_at_least_the_limit(make: Make) -> None:
    """Fifteen records in three segments of five; what is left of them when the limit is ten records long."""
    small = make(retention_bytes=str(10 * BATCH_BYTES), retention_ms="-1")
    for _ in range(3):
        small.segment(*[NOW] * 5)
    run(small)
    assert (small.bases, small.log.log_start_offset) == ([5, 10, 15], 5)
    assert small.log.size_bytes == 10 * BATCH_BYTES


@pytest.mark.parametrize(("offset", "count"), [(1, 3), (6, 2), (15, 1)])
def test_after_records_are_deleted_the_segments_below_go(make: Make, offset: int, count: int) -> None:
    small = make(retention_ms="-1")
    for number in range(3):
        small.segment(*[NOW] * 5) if number < 2 else [small.log.append(record(NOW)) for _ in range(5)]
    small.log.delete_records(offset)
    run(small)
    if offset == 15:  # the active segment holds 10 to 14; no record of it is shown
        assert small.bases == [10] and small.offsets() == []
    else:
        assert len(small.bases) == count
    assert (small.log.log_start_offset, small.log.next_offset) == (offset, 15)


@pytest.mark.parametrize("count", [0, 1, 25])
def test_removing_segments_never_moves_the_end(make: Make, count: int) -> None:
    small = make(retention_ms="0", segment_bytes=str(5 * BATCH_BYTES))
    for _ in range(count):
        small.log.append(record(NOW - DAY_MS))
    run(small)
    assert (small.log.log_start_offset, small.log.next_offset, small.bases) == (count, count, [count])
    assert small.log.append(record(NOW)).base_offset == count


@pytest.mark.promise(
    "Retention deletes whole old segments, never the active one; the log start offset never "
    "decreases, not even after a power loss."
)
def test_an_expired_active_segment_is_rolled_and_then_goes(make: Make) -> None:
    small = make(retention_ms="1000")
    small.log.append(record(NOW - 1001))
    (removed,) = run(small)
    assert (removed.segments, removed.bytes, removed.reasons) == (1, BATCH_BYTES, (TIME,))
    assert (small.bases, small.log.log_start_offset) == ([1], 1)


def test_an_active_segment_with_one_record_that_is_young_enough_stays_whole(make: Make) -> None:
    small = make(retention_ms="1000")
    small.log.append(record(NOW - DAY_MS))
    small.log.append(record(NOW - 1000))
    assert run(small) == []
    assert (small.bases, small.offsets()) == ([0], [0, 1])


@pytest.mark.promise(
    "In a broker's directory, nothing is removed by age or size unless its metadata log, its "
    "`server.properties` or a local setting states the policy of the topic."
)
def test_nothing_is_removed_where_a_broker_alone_has_the_policy(make: Make) -> None:
    small = make()
    three_days(small)
    (small.path / META_PROPERTIES).write_text("version=1\ncluster.id=x\nnode.id=1\n")
    small.reopen()
    small.clock.advance(30 * DAY_MS)
    assert run(small) == []
    small.log.delete_records(2)
    assert [each.reasons for each in run(small)] == [(START,)], "what was given up goes all the same"
    small.directory.configure(PARTITION.topic, {"retention.ms": str(DAY_MS)})
    run(small)
    assert small.bases == [6]


# --- clocks and timestamps --------------------------------------------------------------------------------------------

TIMES = {
    "zero is 1970": (0, True),
    "one millisecond too old": (NOW - DAY_MS - 1, True),
    "old enough to stay": (NOW - DAY_MS, False),
    "now": (NOW, False),
    "an hour ahead": (NOW + HOUR_MS, False),
    "a year ahead": (NOW + 365 * DAY_MS, False),
    "the end of time": (LONG_MAX, False),
}


@pytest.mark.parametrize(("timestamp", "goes"), TIMES.values(), ids=TIMES)
def test_the_age_of_a_segment_is_that_of_its_latest_record(make: Make, timestamp: int, goes: bool) -> None:
    small = make(retention_ms=str(DAY_MS))
    small.segment(0, timestamp, 0)
    small.segment(0)
    run(small)
    assert small.bases == ([4] if goes else [0, 3, 4]), "what stays keeps all behind it"


@pytest.mark.parametrize(("age_ms", "goes"), [(DAY_MS + 1000, True), (DAY_MS - 1000, False)])
def test_where_no_record_has_a_time_the_file_has_one(make: Make, age_ms: int, goes: bool) -> None:
    small = make(retention_ms=str(DAY_MS))
    small.segment(-1, -1)
    changed_ns = (NOW - age_ms) * 1_000_000
    os.utime(small.log.snapshot().first.log_path, ns=(changed_ns, changed_ns))
    run(small)
    assert small.bases == ([2] if goes else [0, 2])


def test_a_segment_of_the_future_keeps_what_follows_until_the_start_passes(make: Make) -> None:
    small = make(retention_ms="0")
    small.segment(NOW + DAY_MS)
    small.segment(NOW - DAY_MS)
    assert run(small) == []
    small.log.delete_records(1)
    assert [each.segments for each in run(small)] == [2]


JUMPS = {
    "back an hour": -HOUR_MS,
    "back to 1970": -NOW,
    "back before 1970": -2 * NOW,
    "ahead a year": 365 * DAY_MS,
    "ahead to the end of time": LONG_MAX - NOW,
}


@pytest.mark.parametrize("jump_ms", JUMPS.values(), ids=JUMPS)
def test_a_clock_that_jumps_removes_nothing_at_once(make: Make, jump_ms: int) -> None:
    small = make(retention_ms=str(7 * DAY_MS))
    three_days(small)
    clock = small.directory.cautious_clock
    small.clock.jump_to(NOW + jump_ms)
    sweep(small.directory, [PARTITION], clock.now_ms())
    assert small.bases == [0, 2, 4, 6]
    small.clock.jump_to(NOW)
    clock.now_ms()
    small.clock.advance(8 * DAY_MS)
    sweep(small.directory, [PARTITION], clock.now_ms())
    assert small.bases == [6], "and a clock that was set right again is trusted"


@pytest.mark.promise("When the clock jumps ahead, nothing is removed for an hour, so that the clock can be corrected.")
def test_a_clock_that_stays_ahead_is_trusted_after_an_hour() -> None:
    clock = FakeClock(NOW)
    cautious = CautiousClock(clock)
    clock.jump_to(NOW + DAY_MS)
    assert (cautious.now_ms(), cautious.doubt_ms) == (NOW, DAY_MS)
    clock.advance(HOLD_S * 1000 - 1)
    assert cautious.now_ms() == NOW + HOLD_S * 1000 - 1, "until then time goes on from where it was"
    clock.advance(1)
    assert (cautious.now_ms(), cautious.doubt_ms) == (NOW + DAY_MS + HOLD_S * 1000, 0)


def test_elapsed_time_is_trusted_after_any_pause() -> None:
    clock = FakeClock(NOW)
    cautious = CautiousClock(clock)
    for ms in (1, DAY_MS, 400 * DAY_MS):
        clock.advance(ms)
        assert cautious.now_ms() == clock.now_ms()
    clock.advance(-DAY_MS)
    assert cautious.now_ms() == clock.now_ms(), "a clock that is set back as well"


# --- what it costs, what is trusted -----------------------------------------------------------------------------------


def test_to_see_that_a_segment_stays_costs_a_look_at_its_time_index(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = make(retention_ms=str(DAY_MS))
    small.segment(NOW, *[NOW - 9 * DAY_MS] * 50)
    log = small.reopen()

    def refuse(*_args: object, **_named: object) -> None:
        raise AssertionError("walks over the segment")

    monkeypatch.setattr(Segment, "headers", refuse)
    assert expired_segments(log, NOW).segments == ()


@pytest.mark.damages
def test_a_time_index_that_lost_its_end_removes_nothing_too_early(make: Make) -> None:
    small = make(retention_ms=str(DAY_MS), index_interval_bytes="0")
    small.segment(*[NOW - 9 * DAY_MS] * 3, NOW)
    path = Path(small.log.snapshot().first.path(".timeindex"))
    small.reopen()
    path.write_bytes(path.read_bytes()[:12])
    assert run(small) == []
    assert small.offsets() == [0, 1, 2, 3]


# --- the start never falls --------------------------------------------------------------------------------------------


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to the disk, in order."""
    done: list[str] = []

    def watch(name: str) -> None:
        real = getattr(files, name)

        def call(*args: str | bytes, **named: bool) -> object:
            last = str(args[1] if name == "rename" else args[0])
            done.append(f"{name} {os.path.basename(last)}")
            return real(*args, **named)

        monkeypatch.setattr(files, name, call)

    for name in ("rename", "replace_file", "sync_directory", "remove_file"):
        watch(name)
    return done


def test_the_new_start_is_on_disk_before_any_file_goes(make: Make, reported: list[str]) -> None:
    small = make(retention_ms=str(36 * HOUR_MS))
    three_days(small)
    small.log.flush()
    del reported[:]
    run(small)
    renamed = [place for place, call in enumerate(reported) if call.endswith(".deleted")]
    assert f"replace_file {LOG_STARTS}" in reported[: min(renamed)]
    assert reported[max(renamed) + 1 :] == [f"sync_directory {PARTITION}"]
    assert read_offsets(str(small.path / LOG_STARTS)) == {PARTITION: 4}


def test_one_write_of_the_checkpoint_serves_all_partitions(
    tmp_path: Path, clock: FakeClock, reported: list[str]
) -> None:
    directory = LogDirectory.open(str(tmp_path), clock=clock)
    partitions = [type(PARTITION)("orders", number) for number in range(5)]
    for partition in partitions:
        log = directory.create_partition(partition, {"retention.ms": "0"})
        log.append(record(NOW - 1))
        log.roll()
        log.flush()
    directory.checkpoint()
    del reported[:]
    removed, failures = sweep(directory, partitions, NOW)
    assert (len(removed), failures) == (5, {})
    assert reported.count(f"replace_file {LOG_STARTS}") == 1
    directory.close()


@pytest.mark.parametrize("in_order", [True, False], ids=["closed", "killed"])
def test_the_start_is_the_same_after_the_log_is_opened_anew(make: Make, in_order: bool) -> None:
    small = make(retention_ms=str(36 * HOUR_MS))
    three_days(small)
    run(small)
    log = small.reopen(in_order=in_order)
    assert (log.log_start_offset, log.next_offset, small.bases, small.offsets()) == (4, 6, [4, 6], [4, 5])


@pytest.mark.promise(
    "Retention deletes whole old segments, never the active one; the log start offset never "
    "decreases, not even after a power loss."
)
def test_files_that_come_back_after_a_power_cut_are_not_shown_and_go_again(make: Make) -> None:
    """The renames were not on disk when the power went: every file has its old name again."""
    small = make(retention_ms=str(36 * HOUR_MS))
    three_days(small)
    run(small)
    for name in small.names(".deleted"):
        os.rename(f"{small.log.path}/{name}", f"{small.log.path}/{name.removesuffix('.deleted')}")
    log = small.reopen(in_order=False)
    assert (log.log_start_offset, small.bases[0]) == (4, 0)
    with pytest.raises(OffsetOutOfRange):
        log.batch_at(3)
    assert [each.segments for each in run(small)] == [2]
    assert (log.log_start_offset, small.offsets()) == (4, [4, 5])


def test_a_checkpoint_that_cannot_be_written_keeps_everything(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    small = make(retention_ms="0")
    three_days(small)

    def fail(*_args: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(checkpoint, "write_offsets", fail)
    with pytest.raises(OSError, match="broken"):
        sweep(small.directory, [PARTITION], NOW)
    assert (small.bases, small.log.log_start_offset, small.offsets()) == ([0, 2, 4, 6], 0, [0, 1, 2, 3, 4, 5])
    monkeypatch.undo()
    assert [each.segments for each in run(small)] == [3]


def test_on_a_full_disk_one_segment_makes_space_for_the_checkpoint(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    small = make(retention_ms="0")
    three_days(small)
    small.log.flush()
    real, seen = files.replace_file, []

    def full_until_something_goes(path: str, data: bytes, **named: bool) -> None:
        if path.endswith(LOG_STARTS) and "00000000000000000000.log" in os.listdir(small.log.path):
            seen.append(small.log.log_start_offset)
            raise OSError(errno.ENOSPC, "full")
        real(path, data, **named)

    monkeypatch.setattr(files, "replace_file", full_until_something_goes)
    (removed,) = run(small)
    assert (removed.log_start_offset, seen, small.bases) == (6, [0], [6])
    assert "00000000000000000000.log.deleted" not in os.listdir(small.log.path), "unlinked at once"
    assert small.log.failure is None


def test_a_failed_sync_of_the_removal_ends_writing_to_the_log(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    small = make(retention_ms="0")
    three_days(small)
    small.log.flush()
    real = files.sync_directory

    def fail(path: str) -> None:
        if path == small.log.path and small.names(".deleted"):
            raise OSError(errno.EIO, "broken")
        real(path)

    monkeypatch.setattr(files, "sync_directory", fail)
    removed, failures = sweep(small.directory, [PARTITION], NOW)
    assert (removed, [str(error) for error in failures.values()]) == ([], ["[Errno 5] broken"])
    assert small.log.failure is not None
    monkeypatch.undo()
    small.reopen(in_order=False)
    assert (small.log.log_start_offset, small.log.next_offset) == (6, 6)


# --- readers ----------------------------------------------------------------------------------------------------------


def test_an_open_segment_is_readable_until_its_files_are_unlinked(make: Make, clock: FakeClock) -> None:
    small = make(retention_ms="0", file_delete_delay_ms="60000")
    three_days(small)
    small.reopen()
    held = small.log.snapshot()
    opened, unopened = list(held)[:2]
    assert opened.find(0) is not None
    run(small)
    assert small.bases == [6] and len(small.names(".log.deleted")) == 3
    found = [batch.base_offset for segment in held for batch in segment.batches()]
    assert found == [0, 1, 2, 3, 4, 5], "whether it was open or not"
    small.directory._pool.clear()
    clock.advance(59_999)
    small.directory.deletions.run_due()
    assert [batch.base_offset for batch in unopened.batches()] == [2, 3]
    small.directory._pool.clear()
    clock.advance(1)
    small.directory.deletions.run_due()
    assert small.names(".deleted") == []
    with pytest.raises(OSError, match="removed or replaced") as caught:
        unopened.find(2)
    assert caught.value.errno == errno.ESTALE


def test_everything_of_a_segment_goes_with_it(make: Make) -> None:
    small = make(retention_ms="0")
    three_days(small)
    base = "00000000000000000002"
    for suffix in (".txnindex", ".records-map", ".values-map"):
        (small.path / str(PARTITION) / (base + suffix)).touch()
    run(small)
    expected = [".index", ".log", ".records-map", ".snapshot", ".timeindex", ".txnindex", ".values-map"]
    assert small.names(".deleted") == [f"{b:020d}{s}.deleted" for b in (0, 2, 4) for s in expected if _there(b, s)]
    small.directory.deletions.run_all()
    assert small.names(".deleted") == []


def _there(base: int, suffix: str) -> bool:
    """Whether `three_days` and the test make the file: a snapshot at each roll, and three files by hand."""
    return base > 0 if suffix == ".snapshot" else base == 2 or suffix in (".index", ".log", ".timeindex")


def test_an_index_that_a_reader_needs_of_a_removed_segment_is_not_written(make: Make) -> None:
    small = make(retention_ms="0")
    three_days(small)
    small.reopen()
    held = small.log.snapshot().first
    run(small)
    small.directory._pool.clear()
    os.unlink(held.path(".index"))
    assert held.find(1) is not None
    assert [name for name in os.listdir(small.log.path) if name.startswith(f"{0:020d}.index")] == []


def test_what_waits_for_its_removal_goes_when_the_directory_is_closed(make: Make) -> None:
    small = make(retention_ms="0")
    three_days(small)
    run(small)
    small.directory.close()
    assert small.names(".deleted") == []


def test_a_reader_follows_what_retention_takes(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsetfs.storage.partition.follower.LOOK_INTERVAL_S", 0.0)
    monkeypatch.setattr(directory_checkpoints, "LOG_START_CHECK_S", 0.0)
    small = make(retention_ms=str(36 * HOUR_MS))
    three_days(small)
    reader = LogDirectory.open(str(small.path), read_only=True).log(PARTITION)
    assert reader.log_start_offset == 0
    run(small)
    before = {path: path.stat().st_mtime_ns for path in small.path.rglob("*")}
    reader.refresh()
    assert (reader.log_start_offset, [s.base_offset for s in reader.snapshot()]) == (4, [4, 6])
    assert {path: path.stat().st_mtime_ns for path in small.path.rglob("*")} == before, "it writes nothing"


def test_a_log_that_is_lent_to_a_pass_is_closed_after_it(make: Make) -> None:
    small = make(retention_ms="0")
    three_days(small)
    small.reopen()
    small.directory.close()
    directory = LogDirectory.open(str(small.path), clock=small.clock)
    with directory.borrowed(PARTITION):
        removed, _ = sweep(directory, [PARTITION], NOW)
    assert [each.segments for each in removed] == [3] and directory.opened(PARTITION) is None
    assert directory.log(PARTITION).log_start_offset == 6
    directory.close()


# --- Kafka's own cases ------------------------------------------------------------------------------------------------


def test_a_log_that_aged_out_is_one_segment_of_four_files(make: Make, clock: FakeClock) -> None:
    small = make(retention_ms=str(DAY_MS), segment_bytes=str(10 * BATCH_BYTES))
    for _ in range(200):
        small.log.append(record(clock.now_ms()))
    assert len(small.bases) == 20
    clock.advance(DAY_MS + 1)
    run(small)
    small.directory.deletions.run_all()
    assert small.bases == [200] and small.offsets() == []
    files_of_it = [f"{200:020d}{suffix}" for suffix in (".index", ".log", ".snapshot", ".timeindex")]
    assert sorted(os.listdir(small.log.path)) == [*files_of_it, "leader-epoch-checkpoint", "partition.metadata"]
    with pytest.raises(OffsetOutOfRange):
        small.log.batch_at(0)
    assert small.log.append(record(clock.now_ms())).base_offset == 200


def test_a_log_that_grew_too_large_keeps_six_segments(make: Make) -> None:
    small = make(retention_ms="-1", segment_bytes=str(10 * BATCH_BYTES), retention_bytes=str(50 * BATCH_BYTES + 10))
    for _ in range(200):
        small.log.append(record(NOW))
    assert len(small.bases) == 20
    run(small)
    assert len(small.bases) == 6, "five would be less than what is to be kept"
    assert small.log.log_start_offset == 140


def test_a_compacted_log_is_removed_by_age_only_where_its_policy_is_delete(make: Make, clock: FakeClock) -> None:
    for policy, left in (("compact", 3), ("compact,delete", 1)):
        small = make(cleanup_policy=policy, retention_ms="1")
        for number in range(2):
            small.log.append(record(NOW - DAY_MS, key=b"%d" % number))
            small.log.roll()
        run(small)
        assert len(small.bases) == left


def test_the_ends_of_a_log_are_reported_after_records_were_deleted(make: Make) -> None:
    small = make(retention_ms="-1")
    for timestamp in (30, 10, 20):
        small.segment(timestamp)
    assert [small.log.list_offset(mark) for mark in (-1, -2, -3)] == [(3, -1), (0, -1), (0, 30)]
    small.log.delete_records(1)
    assert [small.log.list_offset(mark) for mark in (-1, -2, -3)] == [(3, -1), (1, -1), (2, 20)]
    assert small.log.list_offset(5) == (1, 10)
    run(small)
    assert [small.log.list_offset(mark) for mark in (-1, -2, -3, 15)] == [(3, -1), (1, -1), (2, 20), (2, 20)]
