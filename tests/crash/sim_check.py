"""Whether a disk that was left by a crash keeps what was promised: opened, read, appended to, opened again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from random import Random

from fixtures.simulation.simdisk import SimDisk
from fixtures.simulation.simsystem import System
from sim_life import DIRECTORY_CONFIG, PATH, view_of
from sim_model import (
    ABSENT,
    FIRST_MS,
    FakeClock,
    Promise,
    Promises,
    Row,
    Timeline,
    Written,
    kept_by_compaction,
    transactions,
)

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import NotALogDirectory, StorageError
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.record import Record

_serial = count()


def check(
    system: System,
    disk: SimDisk,
    promises: Promises,
    defaults: dict[str, str],
    random: Random,
    *,
    was_killed: bool = False,
) -> Timeline:
    """Assert that `disk` keeps `promises`, and goes on as a log should.

    `was_killed`: the process died, and the disk has lost nothing. The disk is changed by the check. Returns what it
    promised meanwhile: what an open directory shows is on disk for good.
    """
    system.disk = disk
    timeline = Timeline(promises)
    if random.random() < 0.2:
        _look_only(disk, promises, defaults)
    directory = _open(defaults)
    observe(directory, timeline, len(disk.history), was_killed=was_killed)
    for partition in directory.partitions():
        log = directory.log(partition)
        log.check()
        _check_look_ups(log, random)
        _append(log, timeline, disk)
    directory.close()
    if random.random() < 0.3:
        directory = _open(defaults)
        observe(directory, timeline, len(disk.history))
        assert all(directory.log(p).damage == () for p in directory.partitions()), "damage behind an orderly end"
        directory.close()
    return timeline


def _open(defaults: dict[str, str]) -> LogDirectory:
    clock = FakeClock()
    clock.ms += 3_600_000
    return LogDirectory.open(PATH, defaults=defaults, clock=clock, config=DIRECTORY_CONFIG)


def _look_only(disk: SimDisk, promises: Promises, defaults: dict[str, str]) -> None:
    """Assert that a reader, which recovers nothing, is shown what was promised, nothing foreign, and writes nothing."""
    before = disk.tree(PATH.strip("/"))
    try:
        directory = LogDirectory.open(
            PATH, defaults=defaults, read_only=True, clock=FakeClock(), config=DIRECTORY_CONFIG
        )
    except NotALogDirectory:
        assert not any(promise.must_exist for promise in promises.values())
        return
    there = directory.partitions()
    for partition, promise in promises.items():
        if partition in there and promise.must_exist:
            _look_at(directory.log(partition), promise)
    directory.close()
    assert disk.tree(PATH.strip("/")) == before, "a reader wrote"


def _look_at(log: Log, promise: Promise) -> None:
    """Assert that a log opened for reading shows what is on disk; beyond that damage may stop it."""
    possible: dict[int, set[Row]] = {}
    for written in (*promise.batches, *promise.ghosts):
        for offset, row in enumerate(written.rows, written.base_offset):
            possible.setdefault(offset, set()).add(row)
    offset = max(log.log_start_offset, promise.start)
    while offset < log.next_offset:
        try:
            batch = log.batch_at(offset)
        except StorageError as error:
            assert offset >= promise.synced, f"{log.partition}: offset {offset} of {promise.synced}: {error}"
            return
        if batch is None:
            break
        for record_offset, row in _rows(batch.records()):
            assert row in possible[record_offset], f"{log.partition}: offset {record_offset} is foreign"
        offset = batch.header.next_offset
    unseen = set(range(offset, promise.synced)) - promise.replaced
    assert not unseen, f"{log.partition}: a reader sees {offset} of {promise.synced}"


def observe(directory: LogDirectory, timeline: Timeline, time: int, *, was_killed: bool = False) -> None:
    """Assert that a directory that was just opened keeps the promises; let what it shows be promised from `time` on."""
    promises = dict(timeline.now)
    _check_names(directory, promises)
    there = directory.partitions()
    for partition, promise in promises.items():
        if was_killed:
            promise = replace(promise, synced=max(promise.synced, promise.handed))
        found = _found(directory.log(partition), promise) if partition in there else ABSENT
        timeline.replace(time, partition, found)


def _check_names(directory: LogDirectory, promises: Promises) -> None:
    there = set(directory.partitions())
    for partition, promise in promises.items():
        assert partition in there or not promise.must_exist, f"{partition} is gone"
        assert partition not in there or promise.may_exist, f"{partition} is back"
    assert there <= promises.keys(), f"foreign: {there - promises.keys()}"
    assert not directory.failed, f"not to be opened: {directory.failed}"


def _found(log: Log, promise: Promise) -> Promise:
    """Assert that a log is what was promised of it; return what it is, as the promise of what is on disk now."""
    where = f"{log.partition} [{log.log_start_offset}, {log.next_offset}), synced to {promise.synced}"
    for damage in log.damage:
        assert damage.offset is not None, where
        assert damage.offset >= promise.synced or damage.offset < promise.start, f"{where}: {damage}"
    assert promise.start <= log.log_start_offset <= max(promise.start, promise.start_max), where
    possible = _possible(promise)
    assert promise.synced <= log.next_offset, f"{where}: lost"
    batches = [(batch.base_offset, tuple(_rows(batch.records()))) for batch in _batches(log)]
    there = _match(batches, log, promise, possible, where)
    return Promise(
        must_exist=True,
        batches=there,
        handed=log.next_offset,
        synced=log.next_offset,
        start=log.log_start_offset,
        start_max=log.log_start_offset,
        compacts=promise.compacts,
        replaced=frozenset(offset for offset in promise.replaced if offset < log.next_offset),
    )


def _possible(promise: Promise) -> list[Written]:
    return [*promise.batches, *promise.ghosts]


def _batches(log: Log) -> Iterable[Batch]:
    offset = log.log_start_offset
    while (batch := log.batch_at(offset)) is not None:
        yield batch
        offset = batch.header.next_offset


def _rows(records: Iterable[Record]) -> Iterable[tuple[int, Row]]:
    return ((r.offset, (r.key, r.value, r.timestamp)) for r in records)


def _match(
    batches: Sequence[tuple[int, tuple[tuple[int, Row], ...]]],
    log: Log,
    promise: Promise,
    possible: list[Written],
    where: str,
) -> tuple[Written, ...]:
    """Assert that the batches are an exact prefix of what was appended, from the log start on; return that prefix."""
    ends = {written.next_offset: written for written in possible} | {
        promise.start_max: None,
        promise.start: None,
        0: None,
    }
    assert log.next_offset in ends, f"{where}: ends within a batch"
    prefix = [written for written in promise.batches if written.next_offset <= log.next_offset]
    last = prefix[-1].next_offset if prefix else 0
    if last < log.next_offset:
        ghost = ends[log.next_offset]
        prefix += [ghost] if ghost is not None and ghost.base_offset == last else []
    appended = {w.base_offset + i: row for w in prefix for i, row in enumerate(w.rows)}
    shown = {offset: row for _, rows in batches for offset, row in rows}
    order = [offset for _, rows in batches for offset, _ in rows]
    assert order == sorted(set(order)), f"{where}: offsets {order}"
    expected = {offset: row for offset, row in appended.items() if offset >= log.log_start_offset}
    shown = {offset: row for offset, row in shown.items() if offset >= log.log_start_offset}
    foreign = {offset: row for offset, row in shown.items() if expected.get(offset) != row}
    for written in promise.ghosts:
        foreign = {
            o: row for o, row in foreign.items() if dict(enumerate(written.rows, written.base_offset)).get(o) != row
        }
    assert not foreign, f"{where}: never appended: {foreign}"
    if promise.compacts:
        kept = kept_by_compaction(prefix, log.log_start_offset)
        expected = {offset: row for offset, row in kept.items() if offset not in promise.replaced}
    missing = {offset: row for offset, row in expected.items() if offset not in shown}
    assert not missing, f"{where}: missing {sorted(missing)}"
    _check_producers(log, prefix, where)
    _check_transactions(log, prefix, where)
    _check_epochs(log, where)
    return tuple(prefix)


def _check_producers(log: Log, prefix: list[Written], where: str) -> None:
    """Assert that the log knows of each producer what its last batch says, or nothing when that batch is gone."""
    last = {w.producer[0]: w for w in prefix if w.producer[0] >= 0 and w.marker is None}
    known = log.producers()
    for producer_id, written in last.items():
        if written.base_offset >= log.log_start_offset:
            expected = (written.next_offset - 1, written.producer[2] + len(written.rows) - 1)
            entry = known.get(producer_id)
            reported = None if entry is None else (entry.last_offset, entry.last_sequence)
            assert reported == expected, f"{where}: producer {producer_id}: {reported}, not {expected}"
    assert known.keys() <= last.keys(), f"{where}: producers {known.keys()} of {last.keys()}"


def _check_transactions(log: Log, prefix: list[Written], where: str) -> None:
    """Assert that a log knows which of its transactions are open, and the fate of the others."""
    if any(written.transactional and written.base_offset < log.log_start_offset for written in prefix):
        return  # one that began below the log start is known as long as the record of it exists
    fates, open_from = transactions(prefix)
    expected = log.next_offset if open_from is None else open_from
    assert log.last_stable_offset() == expected, f"{where}: stable to {log.last_stable_offset()}, not {expected}"
    for batch in _batches(log):
        fate = fates.get(batch.base_offset)
        if fate is not None and not batch.header.is_control:
            assert log.transactions.is_committed(batch.header) is fate, f"{where}: {batch.base_offset} is not {fate}"


def _check_epochs(log: Log, where: str) -> None:
    """Assert that the leader epochs on disk say of each batch what stands in it."""
    log.epochs.check()
    for batch in _batches(log):
        begun = [epoch for epoch, start in log.epochs.entries if start <= max(batch.base_offset, log.log_start_offset)]
        assert begun[-1:] == [batch.header.leader_epoch], f"{where}: {log.epochs.entries}, {batch.header}"


def _check_look_ups(log: Log, random: Random) -> None:
    """Assert that a random offset and a random time are found as a walk over everything finds them."""
    rows = [
        (offset, row)
        for batch in _batches(log)
        if not batch.header.is_control
        for offset, row in _rows(batch.records())
        if offset >= log.log_start_offset
    ]
    if random.random() < 0.3:
        assert view_of(log) == b"".join((row[1] or b"") + b"\n" for _, row in rows), f"{log.partition}: another view"
    for offset, row in random.sample(rows, min(3, len(rows))):
        batch = log.batch_at(offset)
        assert batch is not None and dict(_rows(batch.records()))[offset] == row, f"offset {offset}"
        first = next(o for o, (_, _, timestamp) in rows if timestamp >= row[2])
        found = log.find_timestamp(row[2])
        assert found is not None and found[0] == first, f"time {row[2]}: {found}, not {first}"


def _append(log: Log, timeline: Timeline, disk: SimDisk) -> None:
    """Append a batch and sync it."""
    before = timeline.now[log.partition]
    written = Written(log.next_offset, ((b"key-1", b"behind-%d" % next(_serial), FIRST_MS),))
    timeline.put(len(disk.history), log.partition, batches=(*before.batches, written))
    appended = log.append(written.seal("none"))
    assert appended.base_offset == written.base_offset
    log.flush()
    timeline.put(len(disk.history), log.partition, synced=written.next_offset, handed=written.next_offset)
