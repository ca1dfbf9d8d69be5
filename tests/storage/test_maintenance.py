"""Background tasks of a directory: each when due, no more logs opened than needed; one failure keeps nothing else."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.simulation.fake_clock import FakeClock
from fixtures.spies import spy

from offsetfs.storage.checkpoint import CLEANER_OFFSETS, META_PROPERTIES, RECOVERY_POINTS, read_offsets
from offsetfs.storage.compaction import compaction
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptBatch
from offsetfs.storage.maintenance import retention_pass
from offsetfs.storage.maintenance.background_tasks import NEVER, BackgroundTasks, TaskQueue, TaskResult
from offsetfs.storage.maintenance.cleaner import PartitionClaims
from offsetfs.storage.maintenance.maintenance_plan import PlannedTask, plan_maintenance
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import retention
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.settings.directory_config import DirectoryConfig
from offsetfs.storage.settings.topic_settings import TopicSettings

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
ORDERS, USERS = TopicPartition("orders", 0), TopicPartition("users", 0)


class World:
    """A log directory, its background tasks, and what they reported."""

    def __init__(self, path: Path, clock: FakeClock, **config: str) -> None:
        self.path = path
        self.clock = clock
        self._config = DirectoryConfig.from_properties({name.replace("_", "."): text for name, text in config.items()})
        self.done: list[TaskResult] = []
        self.open()

    def open(self) -> None:
        self.directory = LogDirectory.open(str(self.path), clock=self.clock, config=self._config)
        self.tasks = BackgroundTasks(self.directory, self.done.append)

    def reopen(self) -> None:
        """Close everything, so that no log is open."""
        self.directory.close()
        self.open()

    def partition(self, partition: TopicPartition, **settings: str) -> Log:
        return self.directory.create_partition(partition, {n.replace("_", "."): text for n, text in settings.items()})

    def fill(self, log: Log, *keys: bytes, age_ms: int = 0) -> None:
        """Append a record for each key, a batch each."""
        for key in keys:
            builder = BatchBuilder(1 << 16)
            assert builder.append(key, b"value of " + key, (), self.clock.ms - age_ms)
            log.append(builder.seal())

    def segment(self, log: Log, *keys: bytes, age_ms: int = 0) -> None:
        """Append records and roll, so that they are a sealed segment."""
        self.fill(log, *keys, age_ms=age_ms)
        log.roll()

    def pass_time(self, ms: int) -> list[str]:
        self.clock.advance(ms)
        return self.tasks.run_due()

    def opened(self) -> list[TopicPartition]:
        return [p for p in self.directory.partitions() if self.directory.opened(p) is not None]

    def errors(self) -> list[tuple[str, TopicPartition | None, str]]:
        return [(done.task, done.partition, str(done.error)) for done in self.done if done.error is not None]


Make = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path, clock: FakeClock) -> Iterator[Make]:
    made: list[World] = []

    def world(**config: str) -> World:
        made.append(World(tmp_path, clock, **config))
        return made[-1]

    yield world
    for each in made:
        each.directory.close()


def keys_of(log: Log) -> list[bytes | None]:
    return [record.key for segment in log.snapshot() for batch in segment.batches() for record in batch.records()]


# --- when ------------------------------------------------------------------------------------------------------------


def test_background_tasks_run_at_kafkas_intervals(make: Make) -> None:
    chores, syncs, cleaner = make().tasks.queues
    assert (chores.next_due() - 1000, syncs.next_due(), cleaner.next_due() - 1000) == (30, NEVER, 15)


def test_each_background_task_runs_again_after_its_own_interval(make: Make) -> None:
    world = make()
    assert world.pass_time(30 * SECOND) == ["retention", "checkpoint", "producers", "compaction"]
    came: dict[str, list[int]] = {}
    for second in range(31, 1000):
        for name in world.pass_time(SECOND):
            came.setdefault(name, []).append(second)
    assert came["checkpoint"][:3] == [90, 150, 210]
    assert came["retention"][:3] == [330, 630, 930]
    assert came["producers"] == [630]
    assert came["compaction"][:3] == [45, 60, 75]
    assert "flush" not in came and "removal" not in came


def test_intervals_are_those_of_the_directory(make: Make) -> None:
    world = make(log_initial_task_delay_ms="1000", log_retention_check_interval_ms="5000", log_cleaner_enable="false")
    assert [queue.name for queue in world.tasks.queues] == ["chores", "syncs"]
    assert world.tasks.next_due() == 1001
    assert world.pass_time(SECOND) == ["retention", "checkpoint", "producers"]
    assert world.tasks.next_due() == 1006


def test_each_cleaner_thread_has_a_queue(make: Make) -> None:
    assert [queue.name for queue in make(log_cleaner_threads="3").tasks.queues] == [
        "chores",
        "syncs",
        "cleaner 0",
        "cleaner 1",
        "cleaner 2",
    ]


def test_what_waits_for_its_removal_goes_when_its_time_is_over(make: Make) -> None:
    world = make()
    log = world.partition(ORDERS, file_delete_delay_ms="7000")
    world.segment(log, b"a")
    log.delete_records(1)
    world.clock.advance(30 * SECOND)
    world.tasks.run_due()
    [deleted] = [name for name in os.listdir(world.path / "orders-0") if name.endswith(".log.deleted")]
    assert world.tasks.queues[0].next_due() == world.clock.seconds + 7
    assert world.pass_time(6 * SECOND) == [] and deleted in os.listdir(world.path / "orders-0")
    assert "removal" in world.pass_time(SECOND)
    assert deleted not in os.listdir(world.path / "orders-0")


def test_a_queue_without_tasks_is_never_due(clock: FakeClock) -> None:
    queue = TaskQueue("chores", clock, lambda name, error: None)
    assert queue.next_due() == NEVER == math.inf and queue.run_due() == []


def test_a_task_that_fails_comes_again_at_its_time_and_keeps_no_other(clock: FakeClock) -> None:
    said, ran = [], []
    queue = TaskQueue("chores", clock, lambda name, error: said.append((name, str(error))))

    def broken() -> None:
        raise RuntimeError("out of order")

    queue.every("broken", broken, 10, first_s=5)
    queue.every("sound", lambda: ran.append(clock.seconds), 10, first_s=5)
    for _ in range(3):
        clock.advance(queue.next_due() * 1000 - clock.seconds * 1000)
        queue.run_due()
    assert said == [("broken", "out of order")] * 3 and ran == [1005, 1015, 1025]


def test_a_task_that_is_wanted_at_once_again_rests_first(clock: FakeClock) -> None:
    queue = TaskQueue("chores", clock, lambda name, error: None)
    queue.when("eager", lambda: None, lambda: clock.seconds, rest_s=1)
    assert queue.run_due() == ["eager"]
    assert queue.run_due() == [] and queue.next_due() == clock.seconds + 1


# --- retention -------------------------------------------------------------------------------------------------------


def test_retention_removes_what_is_due_and_states_what(make: Make) -> None:
    world = make()
    log = world.partition(ORDERS, retention_ms=str(HOUR))
    world.segment(log, b"a", b"b", age_ms=2 * HOUR)
    size = log.snapshot().first.size
    world.segment(log, b"c")
    world.pass_time(30 * SECOND)
    assert log.log_start_offset == 2
    assert world.done == [
        TaskResult("retention", ORDERS, segments_removed=1, bytes_freed=size, because=("time",)),
    ]


@pytest.mark.damages
def test_a_log_that_does_not_open_keeps_no_other_from_retention(make: Make) -> None:
    world = make()
    for partition in (ORDERS, USERS):
        world.segment(world.partition(partition, retention_ms=str(HOUR)), b"a", age_ms=2 * HOUR)
    world.reopen()
    planted = world.path / "orders-0" / f"{0:020d}.log"
    planted.unlink()
    planted.mkdir()
    world.pass_time(30 * SECOND)
    assert [(task, partition) for task, partition, _ in world.errors()] == [("retention", ORDERS)]
    assert (world.path / "users-0" / f"{0:020d}.log.deleted").exists()


def test_a_pass_over_many_partitions_opens_a_batch_at_a_time_and_closes_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_pass, "BATCH", 8)
    world = make()
    count = 20
    for number in range(count):
        log = world.partition(TopicPartition("many", number), retention_ms=str(HOUR))
        world.segment(log, b"a", age_ms=2 * HOUR)
    world.reopen()
    most, sweep = [], retention.sweep

    def watched(*arguments: Any) -> Any:
        most.append(len(world.opened()))
        return sweep(*arguments)

    monkeypatch.setattr(retention, "sweep", watched)
    world.pass_time(30 * SECOND)
    assert most == [8, 8, 4]
    assert world.opened() == []
    assert sum(done.segments_removed for done in world.done) == count
    world.directory.checkpoint()
    points = read_offsets(str(world.path / RECOVERY_POINTS))
    assert {points[TopicPartition("many", number)] for number in range(count)} == {1}


@pytest.mark.parametrize(
    ("settings", "age_ms"),
    [
        ({"retention_ms": "-1"}, 1000 * HOUR),
        ({"retention_ms": str(HOUR)}, 0),
        ({"retention_ms": "-1", "retention_bytes": "1000000"}, 1000 * HOUR),
        ({"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "1.0"}, 0),
    ],
    ids=["for ever", "young", "small", "compacted and clean enough"],
)
def test_a_log_of_which_nothing_can_go_is_not_opened(
    make: Make, settings: dict[str, str], age_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make()
    world.segment(world.partition(ORDERS, **settings), b"a", b"b", age_ms=age_ms)
    world.reopen()
    monkeypatch.setattr(world.directory, "_open_log", lambda partition: pytest.fail("opened"))
    for _ in range(100):
        world.pass_time(15 * SECOND)
    assert world.done == []


@pytest.mark.parametrize("task", ["retention", "compaction"])
def test_an_unexpected_error_in_one_partition_stops_no_other_partition(
    make: Make, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    world = make()
    policy: dict[str, Any] = {"cleanup_policy": "compact"} if task == "compaction" else {"retention_ms": str(HOUR)}
    partitions = [TopicPartition("many", number) for number in range(3)]
    for partition in partitions:
        world.segment(world.partition(partition, **(policy if partition.partition == 0 else {})), b"a", age_ms=2 * HOUR)
    decide, look = retention.expired_segments, compaction.find_dirty_range

    def broken(of: Callable[..., object]) -> Callable[..., object]:
        def maybe(log: Log, *arguments: Any, **more: Any) -> Any:
            if log.partition == partitions[1]:
                raise ValueError("of our own making")
            return of(log, *arguments, **more)

        return maybe

    if task == "retention":
        monkeypatch.setattr(retention, "expired_segments", broken(decide))
    else:
        monkeypatch.setattr("offsetfs.storage.maintenance.cleaner.find_dirty_range", broken(look))
    world.pass_time(30 * SECOND)
    assert world.errors() == [(task, partitions[1], "of our own making")]
    assert sorted(done.partition.partition for done in world.done if done.partition and not done.error) == [0, 2]


def test_a_segment_that_only_its_last_record_keeps_is_asked_for_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make(log_cleaner_enable="false")
    log = world.partition(ORDERS, retention_ms=str(HOUR), segment_ms=str(1000 * HOUR))
    world.fill(log, b"a", age_ms=2 * HOUR)
    world.segment(log, b"b")
    world.reopen()
    opened, open_log = list[object](), world.directory._open_log
    monkeypatch.setattr(world.directory, "_open_log", spy(opened, lambda p: p, open_log))
    for _ in range(11):
        world.pass_time(5 * MINUTE)
    assert opened == [ORDERS] and world.done == []
    world.pass_time(10 * MINUTE)
    assert [(done.task, done.segments_removed) for done in world.done] == [("retention", 1)]


def test_what_a_start_offset_gave_up_goes_though_nothing_expires(make: Make) -> None:
    world = make()
    log = world.partition(ORDERS, retention_ms="-1")
    for key in (b"a", b"b", b"c"):
        world.segment(log, key)
    log.delete_records(2)
    world.reopen()
    world.pass_time(30 * SECOND)
    assert [(done.segments_removed, done.because) for done in world.done] == [(2, ("start",))]


def test_in_a_brokers_directory_nothing_is_removed_whose_settings_are_not_known(make: Make) -> None:
    world = make()
    world.segment(world.partition(ORDERS), b"a", age_ms=10_000 * HOUR)
    (world.path / META_PROPERTIES).write_text("version=1\ncluster.id=x\nnode.id=1\n")
    world.reopen()
    world.pass_time(30 * SECOND)
    assert world.done == [] and world.directory.log(ORDERS).log_start_offset == 0


# --- compaction ------------------------------------------------------------------------------------------------------


def compacted(world: World, partition: TopicPartition = USERS, **settings: str) -> Log:
    return world.partition(partition, **{"cleanup_policy": "compact", **settings})


def test_what_is_dirty_is_compacted_and_the_checkpoint_states_how_far(make: Make) -> None:
    world = make()
    log = compacted(world)
    world.segment(log, b"a", b"b", b"a")
    world.segment(log, b"a", b"c")
    world.pass_time(15 * SECOND)
    assert keys_of(log) == [b"b", b"a", b"c"]
    assert read_offsets(str(world.path / CLEANER_OFFSETS)) == {USERS: 5}
    [done] = world.done
    assert (done.task, done.partition, done.records_before, done.records_after) == ("compaction", USERS, 5, 3)
    assert done.bytes_freed > 0 and done.because == ("ratio",)
    assert "compaction" in world.pass_time(15 * SECOND) and len(world.done) == 1


def test_the_dirtiest_goes_first(make: Make) -> None:
    world = make()
    some, more = TopicPartition("some", 0), TopicPartition("more", 0)
    for partition in (some, more):
        world.segment(compacted(world, partition), b"a", b"a")
    world.pass_time(15 * SECOND)
    world.done.clear()
    world.segment(world.directory.log(some), *(b"%d" % n for n in range(3)))
    world.segment(world.directory.log(more), *(b"%d" % n for n in range(30)))
    world.pass_time(15 * SECOND)
    assert [done.partition for done in world.done] == [more, some]


def test_a_closed_log_is_compacted_and_closed_again(make: Make) -> None:
    world = make()
    world.segment(compacted(world), b"a", b"a")
    world.reopen()
    world.pass_time(15 * SECOND)
    assert [done.records_after for done in world.done] == [1] and world.opened() == []


@pytest.mark.damages
def test_damage_stops_the_compaction_of_one_partition_until_it_changes(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make()
    sound, damaged = TopicPartition("sound", 0), TopicPartition("damaged", 0)
    for partition in (sound, damaged):
        world.segment(compacted(world, partition), b"a", b"a")
    path = world.path / "damaged-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    for _ in range(10):
        world.pass_time(15 * SECOND)
    assert [(task, partition) for task, partition, _ in world.errors()] == [("compaction", damaged)]
    assert isinstance(world.done[0].error or world.done[1].error, CorruptBatch)
    assert [done.partition for done in world.done if done.error is None] == [sound]


def test_what_there_was_no_space_for_is_tried_again_later(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make()
    log = compacted(world)
    world.segment(log, b"a", b"a")
    tries = []

    def full(*arguments: Any, **more: Any) -> None:
        tries.append(world.clock.seconds)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("offsetfs.storage.maintenance.cleaner.clean", full)
        for _ in range(30):
            world.pass_time(15 * SECOND)
    assert len(tries) == 2 and len(world.errors()) == 2
    world.pass_time(5 * MINUTE)
    assert keys_of(log) == [b"a"]


def test_a_full_map_takes_several_rounds_in_one_pass(make: Make) -> None:
    world = make(log_cleaner_dedupe_buffer_size="240")
    log = compacted(world, min_cleanable_dirty_ratio="0.0")
    for _ in range(3):
        world.segment(log, *(b"%d" % number for number in range(20)))
    world.pass_time(15 * SECOND)
    assert len(world.done) > 2
    assert sorted(key or b"" for key in keys_of(log)) == sorted(b"%d" % number for number in range(20))


def test_a_topic_with_a_maximum_lag_is_rolled_without_appends(make: Make) -> None:
    world = make()
    log = compacted(world, max_compaction_lag_ms=str(10 * MINUTE), min_cleanable_dirty_ratio="1.0")
    world.fill(log, b"a", b"a")
    for _ in range(38):
        world.pass_time(15 * SECOND)
    assert world.done == [] and len(log.snapshot()) == 1
    for _ in range(6):
        world.pass_time(15 * SECOND)
    assert keys_of(log) == [b"a"] and [done.because for done in world.done] == [("lag",)]


def test_a_compacted_topic_that_also_deletes_is_retained_by_the_cleaner(make: Make) -> None:
    world = make(log_retention_check_interval_ms=str(1000 * HOUR), log_initial_task_delay_ms=str(1000 * HOUR))
    policy: dict[str, Any] = {
        "cleanup_policy": "compact,delete",
        "retention_ms": str(HOUR),
        "min_cleanable_dirty_ratio": "1.0",
    }
    log = compacted(world, **policy)
    world.segment(log, b"a", age_ms=2 * HOUR)
    world.segment(log, b"b")
    world.pass_time(15 * SECOND)
    assert [done.task for done in world.done] == ["retention"] and log.log_start_offset == 1


def test_settings_that_change_are_seen_at_the_next_pass(make: Make) -> None:
    world = make()
    log = world.partition(USERS)
    world.segment(log, b"a", b"a")
    world.pass_time(30 * SECOND)
    assert world.done == []
    TopicSettings(str(world.path)).change("users", {"cleanup.policy": "compact"})  # as another process does
    world.pass_time(15 * SECOND)
    assert [done.task for done in world.done] == ["compaction"]


def test_cancelling_ends_a_compaction_and_begins_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make()
    log = compacted(world)
    world.segment(log, b"a", b"a")
    clean = compaction.clean

    def cancelled_meanwhile(*arguments: Any, **more: Any) -> object:
        world.tasks.cancel()
        return clean(*arguments, **more)

    monkeypatch.setattr("offsetfs.storage.maintenance.cleaner.clean", cancelled_meanwhile)
    world.pass_time(15 * SECOND)
    world.pass_time(15 * SECOND)
    assert world.done == [] and keys_of(log) == [b"a", b"a"]
    assert not [name for name in os.listdir(world.path / "users-0") if name.endswith((".cleaned", ".swap"))]


def test_two_background_tasks_never_take_the_same_partition() -> None:
    claims = PartitionClaims()
    with claims.claimed(USERS) as first, claims.claimed(USERS) as second, claims.claimed(ORDERS) as other:
        assert (first, second, other) == (True, False, True)
    with claims.claimed(USERS) as again:
        assert again


# --- the rest --------------------------------------------------------------------------------------------------------


def test_recovery_points_are_written_every_minute(make: Make) -> None:
    world = make()
    log = world.partition(ORDERS)
    world.fill(log, b"a")
    log.flush()
    world.pass_time(30 * SECOND)
    assert read_offsets(str(world.path / RECOVERY_POINTS)) == {ORDERS: 1}


def test_a_directory_in_which_nothing_happens_is_not_written_to(make: Make) -> None:
    world = make()
    world.fill(world.partition(ORDERS), b"a")
    world.pass_time(30 * SECOND)
    before = {path: path.stat().st_mtime_ns for path in world.path.rglob("*")}
    for _ in range(60):
        world.pass_time(MINUTE)
    assert {path: path.stat().st_mtime_ns for path in world.path.rglob("*")} == before


def test_a_borrowed_log_stays_open_for_later_borrowers(make: Make) -> None:
    world = make()
    world.partition(ORDERS)
    world.reopen()
    with world.directory.borrowed(ORDERS) as log:
        assert world.directory.log(ORDERS) is log
    assert world.opened() == [], "the thread that borrowed it is no other user"
    with world.directory.borrowed(ORDERS) as log:
        world.directory._borrowed[ORDERS] = -1  # as if another thread had borrowed it
        assert world.directory.log(ORDERS) is log
    assert world.opened() == [ORDERS]


# --- syncs of sealed segments ---------------------------------------------------------------------------------------


def test_sealed_segments_are_synced_soon_and_the_recovery_point_follows(make: Make) -> None:
    world = make()
    log, other = world.partition(ORDERS), world.partition(USERS)
    for key in (b"a", b"b", b"c"):
        world.segment(log, key)
    world.fill(log, b"d")
    world.fill(other, b"a")
    assert (log.recovery_point, log.next_offset) == (0, 4)
    assert world.pass_time(0) == ["sync"]
    assert (log.recovery_point, other.recovery_point) == (3, 0), "the active segments wait for their flush"
    world.directory.checkpoint()
    assert read_offsets(str(world.path / RECOVERY_POINTS))[ORDERS] == 3
    assert world.pass_time(0) == []


def test_a_segment_that_an_append_seals_is_synced(make: Make) -> None:
    world = make()
    log = world.partition(ORDERS, segment_bytes="200")
    for _ in range(3):
        world.fill(log, b"key")
    world.pass_time(0)
    assert log.recovery_point == log.state.segments.active.base_offset > 0


def failed_sync(_segment: Segment) -> None:
    raise OSError(errno.EIO, "no")


def test_a_failed_sync_of_a_sealed_segment_ends_writing_to_its_log(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make()
    log, other = world.partition(ORDERS), world.partition(USERS)
    world.segment(log, b"a")
    with monkeypatch.context() as failing:
        failing.setattr(Segment, "sync", failed_sync)
        world.pass_time(0)
    world.segment(other, b"a")
    world.pass_time(0)
    assert world.errors() == [("sync", ORDERS, "[Errno 5] no")]
    assert log.failure is not None and (log.recovery_point, other.recovery_point) == (0, 1)
    with pytest.raises(OSError, match="no"):
        world.directory.close()


def test_a_partition_that_is_deleted_after_a_roll_is_no_failure(make: Make) -> None:
    world = make()
    log = world.partition(ORDERS)
    world.segment(log, b"a")
    world.directory.delete_partition(ORDERS)
    world.pass_time(0)
    assert world.errors() == []


# --- all at once -----------------------------------------------------------------------------------------------------


def test_all_background_tasks_can_run_once_before_they_are_due(make: Make) -> None:
    world = make()
    world.segment(world.partition(ORDERS, retention_ms=str(HOUR)), b"a", age_ms=2 * HOUR)
    world.segment(compacted(world), b"a", b"a")
    world.tasks.run_all()
    assert [(done.task, done.partition) for done in world.done] == [("compaction", USERS), ("retention", ORDERS)]


def test_now_waits_for_no_ratio_no_roll_and_no_delay(make: Make) -> None:
    world = make()
    log = compacted(world, min_cleanable_dirty_ratio="1.0")
    world.segment(log, b"a", b"b")
    world.fill(log, b"a")
    world.tasks.run_all()
    assert world.done == []
    world.tasks.run_all(now=True)
    assert keys_of(log) == [b"b", b"a"]
    assert not [name for name in os.listdir(world.path / "users-0") if name.endswith(".deleted")]


def test_only_the_partitions_that_are_named_are_taken(make: Make) -> None:
    world = make()
    for partition in (ORDERS, USERS):
        world.segment(world.partition(partition, retention_ms=str(HOUR)), b"a", age_ms=2 * HOUR)
    world.tasks.run_all([USERS])
    assert [done.partition for done in world.done] == [USERS]


def test_the_plan_is_what_is_done_then_and_changes_nothing(make: Make) -> None:
    world = make()
    world.segment(world.partition(ORDERS, retention_ms=str(HOUR)), b"a", age_ms=2 * HOUR)
    log = compacted(world)
    world.segment(log, b"a", b"a")
    size = log.snapshot().first.size
    world.reopen()
    before = sorted((str(p), p.stat().st_mtime_ns) for p in world.path.rglob("*"))
    readers = LogDirectory.open(str(world.path), read_only=True, clock=world.clock)
    planned = list(plan_maintenance(readers, readers.partitions()))
    readers.close()
    assert sorted((str(p), p.stat().st_mtime_ns) for p in world.path.rglob("*")) == before
    assert [(each.task, each.name, each.segments) for each in planned] == [
        ("retention", "orders-0", 1),
        ("compaction", "users-0", 1),
    ]
    assert planned[1] == PlannedTask("compaction", "users-0", 1, size, ("100% dirty",))
