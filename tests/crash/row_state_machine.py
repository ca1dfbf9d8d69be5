"""Row 13: any sequence of operations on a log directory, held against lists (`log_model`).

Hypothesis draws what happens: appends of every kind, flush, roll, look-ups, retention, deletion of records,
truncation, compaction, other settings, checkpoints, clocks that jump, deletion of partitions, a clean end or a death,
and what is read afterwards. After each step every record of every partition is read (P4 to P7) and `check` holds.

A death is a copy of the directory as the files are then: what a SIGKILL leaves (power loss is another row).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from fault_program import Row
from fixtures.logs.planted_logs import marker
from fixtures.simulation.fake_clock import FakeClock
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from log_model import Fields, LogModel, present, sealed

from offsetfs.storage.compaction.compaction import clean, find_dirty_range
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import PolicyViolation, RecordTooLarge
from offsetfs.storage.maintenance.background_tasks import BackgroundTasks
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import retention
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.compression.compression import CODECS
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.views.partition_view import PartitionView

EXAMPLES_A_ROUND = 10
STEPS_MAX = 100
PARTITIONS = [TopicPartition(topic, number) for topic in ("kept", "latest") for number in (0, 1)]
DEFAULTS = {"segment.bytes": "2000", "index.interval.bytes": "200", "segment.ms": "100000", "retention.ms": "500000"}
MEMORY = "/dev/shm"

_NEVER = 2**63 - 1
_SETTINGS: list[dict[str, str | None]] = [
    {"segment.bytes": "700"},
    {"segment.bytes": None},
    {"segment.ms": "1"},
    {"segment.ms": str(_NEVER)},
    {"segment.index.bytes": "36"},
    {"index.interval.bytes": "0"},
    {"index.interval.bytes": "2147483647"},
    {"retention.bytes": "3000"},
    {"retention.bytes": "0"},
    {"retention.bytes": "-1", "retention.ms": "-1"},
    {"retention.ms": "0"},
    {"retention.ms": "1000"},
    {"cleanup.policy": "delete"},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact,delete"},
    {"delete.retention.ms": "0"},
    {"min.compaction.lag.ms": "1000"},
    {"message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.type": "CreateTime"},
    {"max.message.bytes": "300"},
    {"max.message.bytes": None},
    {"file.delete.delay.ms": "0"},
]

partitions = st.sampled_from(PARTITIONS)
keys = st.sampled_from([b"a", b"b", b"c", b"d", b""])
values = st.one_of(st.none(), st.binary(max_size=8), st.integers(0, 600).map(lambda size: b"v" * size))
headers = st.lists(st.tuples(st.sampled_from(["h", "", "ä"]), st.one_of(st.none(), st.binary(max_size=3))), max_size=2)
times = st.one_of(
    st.integers(-2000, 2000).map(lambda ms: ("now", ms)),
    st.sampled_from([-1, 0, 1, _NEVER]).map(lambda ms: ("at", ms)),
)
rows = st.lists(st.tuples(st.one_of(keys, keys, st.none()), values, headers.map(tuple), times), min_size=1, max_size=6)
fractions = st.floats(0, 1)
rarely = st.integers(0, 5).map(lambda number: number == 3)
some = st.integers(0, len(PARTITIONS) - 1)
"""Which of the partitions that there are; the machine counts round."""


class Machine(RuleBasedStateMachine):
    """The engine on the left, lists on the right."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.has_expired = False
        self.clock = FakeClock()
        self.home = tempfile.mkdtemp(prefix="offsetfs-machine-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        self.lives = 0
        self.path = os.path.join(self.home, "0")
        os.mkdir(self.path)
        self.models: dict[TopicPartition, LogModel] = {}
        self.sequences: dict[tuple[TopicPartition, int], int] = {}
        self.directory = self._open()

    def _open(self, *, read_only: bool = False) -> LogDirectory:
        return LogDirectory.open(self.path, defaults=DEFAULTS, clock=self.clock, read_only=read_only)

    def teardown(self) -> None:
        self.directory.close()
        shutil.rmtree(self.home)

    def _one(self, which: int) -> tuple[TopicPartition, Log, LogModel]:
        partition = sorted(self.models)[which % len(self.models)]
        return partition, self.directory.log(partition), self.models[partition]

    # --- partitions --------------------------------------------------------------------------------------------------

    @initialize(draw=st.integers(0, 1000))
    def begin(self, draw: int) -> None:
        for number, partition in enumerate(PARTITIONS[::2]):
            self.create(partition)
            self.append_many(number, draw, 20)

    @rule(partition=partitions)
    def create(self, partition: TopicPartition) -> None:
        if partition not in self.models:
            policy = "compact" if partition.topic == "latest" else "delete"
            self.directory.create_partition(partition, {"cleanup.policy": policy})
            self.models[partition] = LogModel()

    @rule(which=some, wanted=rarely)
    def delete(self, which: int, wanted: bool) -> None:
        if wanted and len(self.models) > 2:
            partition, _, _ = self._one(which)
            self.directory.delete_partition(partition)
            del self.models[partition]
            self.sequences = {key: count for key, count in self.sequences.items() if key[0] != partition}

    @rule(topic=st.sampled_from(["kept", "latest"]), changes=st.sampled_from(_SETTINGS))
    def configure(self, topic: str, changes: dict[str, str | None]) -> None:
        self.directory.configure(topic, changes)

    # --- appends -----------------------------------------------------------------------------------------------------

    @rule(which=some, drawn=rows, codec=st.sampled_from(CODECS))
    def append(self, which: int, drawn: list[Any], codec: str) -> None:
        self._append(which, self._rows(drawn), codec)

    @rule(which=some, draw=st.integers(0, 1000), count=st.integers(1, 30))
    def append_many(self, which: int, draw: int, count: int) -> None:
        """Batches drawn by `draw`: some of them by a producer, or in a transaction."""
        rng = Random(draw)
        for _ in range(count):
            rows = [self._random_row(rng) for _ in range(rng.randrange(1, 5))]
            producer_id = rng.choice([-1, -1, -1, 7, 8, 9, 10])
            self._append(which, rows, rng.choice(CODECS), producer_id, is_transactional=producer_id >= 9)
            if producer_id >= 9:
                self.end_transaction(which, producer_id, rng.choice([ABORT, COMMIT]))

    def _random_row(self, rng: Random) -> Fields:
        key = rng.choice([None, *(b"key-%d" % number for number in range(12))])
        value = rng.choice([None, rng.randbytes(rng.randrange(80)), b"v" * rng.randrange(300)])
        return key, value, (), max(self.clock.ms + rng.randrange(-2000, 100), -1)

    @rule(which=some, drawn=rows, producer_id=st.sampled_from([7, 8]))
    def append_as_producer(self, which: int, drawn: list[Any], producer_id: int) -> None:
        self._append(which, self._rows(drawn), "none", producer_id)

    @rule(which=some, drawn=rows, producer_id=st.sampled_from([9, 10]))
    def append_in_transaction(self, which: int, drawn: list[Any], producer_id: int) -> None:
        self._append(which, self._rows(drawn), "lz4", producer_id, is_transactional=True)

    def _append(
        self, which: int, rows: list[Fields], codec: str, producer_id: int = -1, *, is_transactional: bool = False
    ) -> None:
        partition, log, model = self._one(which)
        sequence = self.sequences.get((partition, producer_id), 0) if producer_id >= 0 else -1
        epoch = 0 if producer_id >= 0 else -1
        fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        batch = sealed(rows, codec, transactional=is_transactional, **fields)
        try:
            appended = log.append(batch)
        except RecordTooLarge:
            assert batch.size > min(log.config.max_message_bytes, log.config.segment_bytes)
            return
        assert appended.base_offset == model.next_offset, "offsets are given out in order"
        append_time = self.clock.ms if log.config.message_timestamp_type == "LogAppendTime" else None
        model.append(rows, append_time, producer_id=producer_id, is_transactional=is_transactional)
        self.sequences[partition, producer_id] = sequence + len(rows)

    def _rows(self, drawn: list[Any]) -> list[Fields]:
        """Return the records with their times; those of one batch are never further apart than 2⁶³−1."""
        rows = [(key, value, headers, self._time(*time)) for key, value, headers, time in drawn]
        last = max(row[3] for row in rows)
        return [row if row[3] >= 0 or last < _NEVER else (*row[:3], 0) for row in rows]

    def _time(self, kind: str, ms: int) -> int:
        return ms if kind == "at" else max(self.clock.ms + ms, -1)

    @rule(which=some, producer_id=st.sampled_from([9, 10]), kind=st.sampled_from([ABORT, COMMIT]))
    def end_transaction(self, which: int, producer_id: int, kind: int) -> None:
        _, log, model = self._one(which)
        if producer_id in model.open_transactions():
            try:
                log.append(marker(producer_id, kind))
            except RecordTooLarge:
                return
            model.end_transaction(producer_id, kind)

    # --- the life of a log -------------------------------------------------------------------------------------------

    @rule(which=some)
    def flush(self, which: int) -> None:
        _, log, model = self._one(which)
        log.flush()
        assert log.recovery_point == model.next_offset

    @rule(which=some)
    def roll(self, which: int) -> None:
        self._one(which)[1].roll()

    @rule(ms=st.sampled_from([1, 50, 1000, 60_000, 600_000, 90_000_000]))
    def wait(self, ms: int) -> None:
        self.clock.advance(ms)
        self.directory.deletions.run_due()

    @rule(ms=st.sampled_from([0, 1, 1_700_000_000_000, 1_900_000_000_000, 2**62]))
    def set_clock(self, ms: int) -> None:
        self.clock.jump_to(ms)

    @rule()
    def retain(self) -> None:
        """P7: only whole old segments go, never the active one, and the start never falls."""
        before = {p: _Before(self.directory.log(p)) for p in self.models}
        _, failures = retention.sweep(self.directory, list(self.models), self.clock.ms)
        assert not failures
        for partition, model in self.models.items():
            log = self.directory.log(partition)
            assert log.log_start_offset >= model.start, "the log start fell"
            before[partition].check_gone(log, model.start, self.clock.ms)
            model.start = log.log_start_offset

    @rule(which=some, part=fractions)
    def delete_records(self, which: int, part: float) -> None:
        _, log, model = self._one(which)
        offset = model.start + int(part * (model.next_offset - model.start))
        try:
            start = log.delete_records(offset)
        except PolicyViolation:
            assert not log.config.is_deleted
            return
        assert start == max(offset, model.start)
        model.start = start

    @rule(which=some, part=fractions)
    def truncate(self, which: int, part: float) -> None:
        _, log, model = self._one(which)
        offset = model.next_offset - int(part**3 * (model.next_offset - model.start))
        first = log.snapshot().first.base_offset
        assert log.truncate_to(offset) == (offset < model.next_offset)
        model.truncate_to(offset, first)

    @rule(which=some, offset=st.sampled_from([0, 5, 1000, 2**40]), wanted=rarely)
    def truncate_fully(self, which: int, offset: int, wanted: bool) -> None:
        if wanted:
            _, log, model = self._one(which)
            log.truncate_fully(offset)
            model.truncate_fully(offset)

    @rule(slots=st.sampled_from([3, 1000]), which=some, rolls=st.booleans())
    def compact(self, slots: int, which: int, rolls: bool) -> None:
        """P6: of each key the last value stays."""
        compacted = [p for p in sorted(self.models) if self.directory.log(p).config.is_compacted]
        if not compacted:
            return
        partition = compacted[which % len(compacted)]
        log, model = self.directory.log(partition), self.models[partition]
        if rolls:
            log.roll()
        range = find_dirty_range(log, self.directory.cleaner_offset(partition), self.clock.ms)
        if range.cleanable_bytes:
            done = clean(log, range, now_ms=self.clock.ms, map_bytes=24 * slots)
            self.directory.set_cleaner_offset(partition, done.end_offset)
            model.compact(done.end_offset, range.first_uncleanable)
            self._check_unique(log, model, done.end_offset)

    def _check_unique(self, log: Log, model: LogModel, clean_end: int) -> None:
        fates = model.fates()
        clean = [r.key for o, r in present(log).items() if o < clean_end and fates[o] and r.key is not None]
        assert len(set(clean)) == len(clean), "a key twice in what is clean"

    @rule(now=st.booleans())
    def run_background_tasks(self, now: bool) -> None:
        """All that a mount does in the background, at once."""
        failed: list[str] = []
        BackgroundTasks(self.directory, lambda done: failed.append(str(done)) if done.error else None).run_all(now=now)
        assert not failed
        self.has_expired = True  # producers that were idle for long, on a clock that jumps
        for partition, model in self.models.items():
            log = self.directory.log(partition)
            assert log.log_start_offset >= model.start, "the log start fell"
            model.start = log.log_start_offset
            if log.config.is_compacted:
                clean_end = self.directory.cleaner_offset(partition) or 0
                model.compact(clean_end, log.snapshot().active.base_offset)

    @rule()
    def checkpoint(self) -> None:
        self.directory.checkpoint()

    @rule()
    def unlink(self) -> None:
        self.directory.deletions.run_all()

    # --- ends and beginnings -----------------------------------------------------------------------------------------

    @rule()
    def close_and_open(self) -> None:
        self.directory.close()
        self.directory = self._open()

    @rule()
    def die_and_open(self) -> None:
        """P2, P4: what was handed over is there, after the death of the process too."""
        self.lives += 1
        left = os.path.join(self.home, str(self.lives))
        shutil.copytree(self.path, left, symlinks=True)
        self.directory._lock.release()
        shutil.rmtree(self.path)
        self.path = left
        self.directory = self._open()

    # --- looking -----------------------------------------------------------------------------------------------------

    @rule(which=some, time=times)
    def find_time(self, which: int, time: tuple[str, int]) -> None:
        _, log, _ = self._one(which)
        timestamp = self._time(*time)
        matches = ((o, r.timestamp) for o, r in sorted(present(log).items()) if r.timestamp >= timestamp)
        assert log.find_timestamp(timestamp) == next(matches, None)

    @rule(which=some, is_committed_only=st.booleans())
    def read_values(self, which: int, is_committed_only: bool) -> None:
        _, log, model = self._one(which)
        values = PartitionView(log, FilePool(8), lambda error: None, is_committed_only=is_committed_only)
        assert values.refresh()
        pieces, byte = [], 0
        while (located := values.locate(byte)) is not None:
            pieces.append(bytes(values.read(located))[byte - located.start :])
            byte = located.end
        fates, end = model.fates(), LogView(log, is_committed_only=is_committed_only).end_offset()
        shown = [r for o, r in sorted(present(log).items()) if not is_committed_only or (fates[o] and o < end)]
        assert b"".join(pieces) == b"".join((record.value or b"") + b"\n" for record in shown)

    @rule()
    def look_read_only(self) -> None:
        """A concurrent reader of the directory sees what was written."""
        reader = self._open(read_only=True)
        for partition, model in self.models.items():
            log = reader.log(partition)
            is_right = log.next_offset == model.next_offset or model.was_cut_inside
            assert is_right, f"{partition} ends at {log.next_offset} instead of {model.next_offset}: {log.damage}"
            assert set(present(log)) >= model.required()
        reader.close()

    @invariant()
    def every_record_is_where_it_should_be(self) -> None:
        self.steps += 1
        assert self.directory.partitions() == sorted(self.models)
        for partition, model in self.models.items():
            log = self.directory.log(partition)
            assert (log.log_start_offset, log.next_offset) == (model.start, model.next_offset), partition
            assert log.failure is None
            # A log that was cut inside a batch ends beyond its last one: as after a loss, which is reported.
            assert not log.damage or model.was_cut_inside, log.damage
            log.check()
            found, records, required = present(log), model.records(), model.required()
            assert all(records.get(offset) == record for offset, record in found.items()), partition
            assert required <= set(found), f"{partition}: {sorted(required - set(found))} are missing"
            self._check_producers(log, model)

    def _check_producers(self, log: Log, model: LogModel) -> None:
        """Each producer whose last batch is in the log is known by it, and the first open transaction holds the end."""
        headers = [header for segment in log.snapshot() for _, header in segment.headers()]
        headers = [header for header in headers if header.last_offset >= model.start]
        last = {header.producer_id: header for header in headers if header.producer_id >= 0 and not header.is_control}
        expected = {producer_id: each.base_sequence + each.last_offset_delta for producer_id, each in last.items()}
        known = {producer_id: entry.last_sequence for producer_id, entry in log.producers().items()}
        for producer_id, sequence in expected.items():
            # A truncation may leave a snapshot that knows of a batch which compaction has taken since.
            sequence_known = known.get(producer_id, sequence if self.has_expired else -2)
            right = sequence_known >= sequence if model.replaced else sequence_known == sequence
            assert right, f"producers {expected}, known {known}"
        begun = min(model.open_transactions().values(), default=model.next_offset)
        if begun >= log.snapshot().first.base_offset:
            stable, expected_end = log.last_stable_offset(), max(begun, model.start)
            # A truncation may take the marker of a transaction whose first batches compaction has taken.
            right = stable >= expected_end if model.replaced else stable == expected_end
            assert right, f"stable up to {stable} instead of {expected_end}"


class _Before:
    """A log before a retention pass."""

    def __init__(self, log: Log) -> None:
        self.segments = list(log.snapshot())
        self.sizes = [segment.size for segment in self.segments]
        self.records = present(log)

    def check_gone(self, log: Log, start: int, now_ms: int) -> None:
        """Each segment that is gone lay below the start, or was too old, or more than there is to be."""
        gone = [segment for segment in self.segments if segment.is_removed]
        bounds = [*(segment.base_offset for segment in gone), log.snapshot().first.base_offset]
        config, rest = log.config, sum(self.sizes)
        for segment, end, size in zip(gone, bounds[1:], self.sizes, strict=False):
            rest -= size
            times = [r.timestamp for o, r in self.records.items() if segment.base_offset <= o < end]
            age_ms = now_ms - max(times, default=-1)
            is_too_old = max(times, default=-1) < 0 or config.retention_ms < age_ms  # without times: the file's own
            is_old = config.is_deleted and config.retention_ms >= 0 and is_too_old
            is_beyond = config.is_deleted and 0 <= config.retention_bytes <= rest
            assert end <= start or is_old or is_beyond, f"segment {segment.base_offset} was not due"


def play(random_seed: int, scratch: Path) -> int:
    """Run a few examples of up to a hundred steps, drawn by the seed; return the number of steps."""
    steps = 0

    class Drawn(Machine):
        def teardown(self) -> None:
            nonlocal steps
            steps += self.steps
            super().teardown()

    run_state_machine_as_test(
        seed(random_seed)(Drawn),
        settings=settings(
            max_examples=EXAMPLES_A_ROUND,
            stateful_step_count=STEPS_MAX,
            database=None,
            deadline=None,
            derandomize=False,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )
    return steps


ROW = Row(
    13,
    "state_machine",
    "any sequence of operations",
    play,
    seeds_in_ci=range(4),
    goal=50_000,
    unit="steps",
    promises=(
        "Offsets increase strictly, and records of one writer stay in order.",
        "After a crash, a partition is an exact prefix of the appended batches, and contains "
        "everything that was in the segment file when the daemon was killed.",
    ),
)
