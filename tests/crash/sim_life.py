"""A writer's life on a simulated disk: operations drawn one by one, and the promises that each of them makes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from fixtures.simulation.simsystem import System
from sim_model import ABSENT, Author, FakeClock, Promise, Promises, Timeline, kept_by_compaction

from offsetfs.storage import files
from offsetfs.storage.compaction import compaction
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import retention
from offsetfs.storage.partition.log import Log
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.settings.directory_config import DirectoryConfig
from offsetfs.storage.views.partition_view import PartitionView

PATH = "/logs"
ORDERS, PAYMENTS, STATE = TopicPartition("orders", 0), TopicPartition("payments", 3), TopicPartition("state", 0)
DIRECTORY_CONFIG = DirectoryConfig(num_recovery_threads_per_data_dir=1, log_cleaner_dedupe_buffer_size=1 << 20)


def settings(random: Random) -> dict[str, str]:
    """Return settings under which a short life sees rolls by size and by full index."""
    return {
        "segment.bytes": str(random.choice((1200, 2000, 4000, 9000))),
        "index.interval.bytes": str(random.choice((0, 100, 400))),
        "segment.index.bytes": str(random.choice((36, 60, 120, 1200))),
        "retention.ms": "-1",
        "file.delete.delay.ms": str(random.choice((0, 1000))),
        "min.cleanable.dirty.ratio": "0",
        "preallocate": random.choice(("false", "true")),
    }


class Life:
    """One life, from the opening of the directory to the end of its steps. `system` has the disk that it runs on."""

    def __init__(self, system: System, random: Random, promises: Promises, defaults: dict[str, str]) -> None:
        self.system = system
        self.random = random
        self.timeline = Timeline(promises)
        self.clock = FakeClock()
        self.author = Author(random, self.clock)
        self.defaults = defaults
        self.directory: LogDirectory | None = None
        self.damage: tuple[object, ...] = ()

    # --- what there is

    def promise(self, partition: TopicPartition) -> Promise:
        return self.timeline.now.get(partition, ABSENT)

    def put(self, partition: TopicPartition, **changes: Any) -> None:
        self.timeline.put(len(self.system.disk.history), partition, **changes)

    @property
    def partitions(self) -> list[TopicPartition]:
        return [partition for partition, promise in self.timeline.now.items() if promise.must_exist]

    def log(self, partition: TopicPartition) -> Log:
        assert self.directory is not None
        return self.directory.log(partition)

    # --- operations

    def open(self) -> None:
        """Open the directory; what is found there is what there is from then on (see `adopt`)."""
        files._reclaimers.clear()  # what a process that died had open is closed with it
        self.directory = LogDirectory.open(PATH, defaults=self.defaults, clock=self.clock, config=DIRECTORY_CONFIG)

    def close(self) -> None:
        """Close the directory in order: everything is on disk then."""
        assert self.directory is not None
        directory, self.directory = self.directory, None
        directory.close()
        for partition in self.partitions:
            if partition not in directory.failed:  # what is not recovered yet stays as it is
                self.put(partition, synced=self.promise(partition).end)

    def reopen(self) -> None:
        """Close and open."""
        self.close()
        self.open()
        for partition in self.partitions:
            assert self.log(partition).damage == (), "a directory that was closed in order is in order"

    def create(self, partition: TopicPartition, properties: dict[str, str]) -> None:
        """Make a partition. One of this name whose deletion had failed is certainly gone when that succeeds."""
        assert self.directory is not None
        self.put(partition, may_exist=True, synced=0, handed=0, start=0)
        self.directory.create_partition(partition, properties)
        self.timeline.replace(len(self.system.disk.history), partition, Promise(must_exist=True))

    def delete(self, partition: TopicPartition) -> None:
        assert self.directory is not None
        self.put(partition, must_exist=False)
        self.directory.delete_partition(partition)
        self.put(partition, may_exist=False)

    def append(self, partition: TopicPartition, *, records_max: int = 5) -> None:
        """Append a batch: it may be there while `append` is at work, in part or whole."""
        log, before = self.log(partition), self.promise(partition)
        limit = log.config.segment_bytes
        written = self.author.write(before.batches, log.next_offset, records_max=records_max, bytes_max=limit)
        self.put(partition, batches=(*before.batches, written))
        sealed = written.seal(self.random.choice(("none", "none", "none", "lz4", "zstd")))
        try:
            appended = log.append(sealed)
        except BaseException:
            self.put(partition, batches=before.batches, ghosts=(*before.ghosts, written))
            raise
        assert (appended.base_offset, appended.last_offset + 1) == (written.base_offset, written.next_offset)
        self.put(partition, handed=written.next_offset)

    def flush(self, partition: TopicPartition) -> None:
        log = self.log(partition)
        log.flush()
        assert log.recovery_point == log.next_offset
        if not log.read_only:  # a partition that could not be recovered yet is read only, and syncs nothing
            self.put(partition, synced=log.next_offset)

    def roll(self, partition: TopicPartition) -> None:
        self.log(partition).roll()

    def delete_records(self, partition: TopicPartition, offset: int) -> None:
        log, before = self.log(partition), self.promise(partition)
        self.put(partition, start_max=max(before.start_max, offset))
        start = log.delete_records(offset)
        assert start == log.log_start_offset >= max(before.start, offset)
        self.put(partition, start=start, synced=max(self.promise(partition).synced, start))

    def truncate(self, partition: TopicPartition, offset: int) -> None:
        """Cut the log where a batch begins; while that is at work it may end with any batch from there on."""
        log, before = self.log(partition), self.promise(partition)
        replaced = frozenset(range(before.start, offset)) - kept_by_compaction(before.batches, before.start).keys()
        self.put(
            partition,
            synced=min(before.synced, offset),
            handed=min(before.handed, offset),
            replaced=(before.replaced | replaced) if before.compacts else before.replaced,
        )
        log.truncate_to(offset)
        assert log.next_offset == offset
        kept = tuple(written for written in before.batches if written.next_offset <= offset)
        self.put(partition, batches=kept, ghosts=(), synced=offset, handed=offset)

    def retain(self) -> None:
        """Remove the older half of what there is, as retention by size would."""
        assert self.directory is not None
        before = {partition: self.promise(partition).start_max for partition in self.partitions}
        for partition in self.partitions:
            self.put(partition, start_max=self.log(partition).next_offset)
        _, failures = retention.sweep(self.directory, self.partitions, self.clock.now_ms())
        for failure in failures.values():
            raise failure
        for partition in self.partitions:
            start = self.log(partition).log_start_offset
            assert start >= self.promise(partition).start
            start_max = max(start, before[partition])
            self.put(partition, start=start, start_max=start_max, synced=max(self.promise(partition).synced, start))

    def compact(self, partition: TopicPartition) -> None:
        assert self.directory is not None
        log = self.log(partition)
        due = compaction.find_dirty_range(log, self.directory.cleaner_offset(partition), self.clock.now_ms())
        if due.cleanable_bytes:
            self.put(partition, compacts=True)
            done = compaction.clean(log, due, now_ms=self.clock.now_ms(), map_bytes=1 << 14)
            self.directory.set_cleaner_offset(partition, done.end_offset)

    def configure(self, partition: TopicPartition, changes: dict[str, str | None]) -> None:
        assert self.directory is not None
        self.directory.configure(partition.topic, changes)

    def checkpoint(self) -> None:
        assert self.directory is not None
        self.directory.checkpoint()

    def remove_due(self) -> None:
        assert self.directory is not None
        self.directory.deletions.run_due()

    def begin_epoch(self, partition: TopicPartition) -> None:
        """Begin another leader epoch, as a broker's door does; what is appended from now on carries it."""
        log = self.log(partition)
        with log.changing(), log.fail_on_error():
            log.epochs.assign(log.leader_epoch + 1, log.next_offset)

    def look(self, partition: TopicPartition) -> None:
        """Read a batch by its offset, and find a record by its time; assert that they are what was appended."""
        log, promise = self.log(partition), self.promise(partition)
        there = [written for written in promise.batches if written.base_offset >= log.log_start_offset]
        if promise.compacts or not there:
            return
        written = self.random.choice(there)
        batch = log.batch_at(written.base_offset)
        assert batch is not None and [(r.key, r.value, r.timestamp) for r in batch.records()] == list(written.rows)
        timestamp = written.rows[0][2]
        data = [w for w in there if w.marker is None]
        first = next((w.base_offset + i for w in data for i, r in enumerate(w.rows) if r[2] >= timestamp), None)
        view_of(log)
        found = log.find_timestamp(timestamp)
        assert first is None or (found is not None and found[0] <= first), f"time {timestamp}: {found}, not {first}"

    # --- by chance

    def step(self) -> None:
        """Do one thing that can be done now."""
        possible = [(do, weight) for do, weight, applies in _CHOICES if applies(self)]
        self.random.choices([do for do, _ in possible], [weight for _, weight in possible])[0](self)

    def any_partition(self) -> TopicPartition:
        return self.random.choice(self.partitions)


def view_of(log: Log) -> bytes:
    """Return what `values` shows of a log. Where the log may be written, maps of its segments are kept beside them."""
    view = PartitionView(log, FilePool(8), lambda error: None)
    assert view.refresh()
    shown, byte = b"", 0
    while (located := view.locate(byte)) is not None:
        shown += bytes(view.read(located))[byte - located.start :]
        byte = located.end
    return shown


def _create(life: Life) -> None:
    missing = [each for each in (ORDERS, PAYMENTS, STATE) if each not in life.partitions]
    partition = life.random.choice(missing)
    life.create(partition, {"cleanup.policy": "compact"} if partition == STATE else {})


def _append(life: Life) -> None:
    partition = life.any_partition()
    for _ in range(life.random.choice((1, 1, 2, 4))):
        life.append(partition, records_max=life.random.choice((1, 3, 8)))


def _delete_records(life: Life) -> None:
    partition = life.random.choice([p for p in life.partitions if life.log(p).config.is_deleted])
    log = life.log(partition)
    life.delete_records(partition, life.random.randint(log.log_start_offset, log.next_offset))


def _truncate(life: Life) -> None:
    partition = life.random.choice([p for p in life.partitions if not life.log(p).config.is_compacted])
    log = life.log(partition)
    begins = [written.base_offset for written in life.promise(partition).batches]
    life.truncate(partition, life.random.choice([*(o for o in begins if o >= log.log_start_offset), log.next_offset]))


def _compact(life: Life) -> None:
    life.compact(life.random.choice([p for p in life.partitions if life.log(p).config.is_compacted]))


def _retain(life: Life) -> None:
    partition = life.any_partition()
    changes: dict[str, str | None] = {"retention.bytes": str(life.random.choice((-1, 0, 1000, 3000)))}
    life.configure(partition, changes)
    life.retain()


def _switch_policy(life: Life) -> None:
    partition = life.any_partition()
    policy = life.random.choice(("delete", "compact", "compact,delete"))
    life.configure(partition, {"cleanup.policy": policy})


def _wait(life: Life) -> None:
    life.clock.ms += life.random.choice((1, 500, 2000))
    life.remove_due()


def _has_partition(life: Life) -> bool:
    return bool(life.partitions)


_CHOICES: tuple[tuple[Callable[[Life], None], int, Callable[[Life], bool]], ...] = (
    (_create, 3, lambda life: len(life.partitions) < 3),
    (_append, 30, _has_partition),
    (lambda life: life.flush(life.any_partition()), 10, _has_partition),
    (lambda life: life.roll(life.any_partition()), 5, _has_partition),
    (_delete_records, 5, lambda life: any(life.log(p).config.is_deleted for p in life.partitions)),
    (_truncate, 3, lambda life: any(not life.log(p).config.is_compacted for p in life.partitions)),
    (_retain, 5, _has_partition),
    (_compact, 6, lambda life: any(life.log(p).config.is_compacted for p in life.partitions)),
    (_switch_policy, 2, _has_partition),
    (lambda life: life.look(life.any_partition()), 4, _has_partition),
    (lambda life: life.begin_epoch(life.any_partition()), 3, _has_partition),
    (lambda life: life.checkpoint(), 5, _has_partition),
    (lambda life: life.reopen(), 5, lambda life: True),
    (lambda life: life.delete(life.any_partition()), 1, _has_partition),
    (_wait, 4, lambda life: True),
)
