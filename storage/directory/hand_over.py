"""Hand-over of a partition that offsetfs wrote to a Kafka broker.

A KRaft broker knows topics only from its metadata and sets unknown partition directories aside as stray. So the topic
is created there first and the broker is stopped. Then our files replace its empty ones, under its topic id. The broker
assigns leader epochs: every batch is stamped with the epoch of the broker's empty log. The checksum does not cover it.
Messages of formats v0 and v1 have no epoch and are copied as they are.

    1. everything is copied to `<name>.handover`, which Kafka ignores; batches are verified on the way; synced
    2. the broker's empty segment is removed, and each copy gets its final name, the first segment last
    3. the leader epochs, then the checkpoints of the broker's directory are written

A crash before the end leaves `.handover` files, which show the next attempt that it may start again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from offsetfs.storage import checkpoint, files
from offsetfs.storage.checkpoint import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CleanShutdown,
)
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.directory_listing import check_log_directory
from offsetfs.storage.errors import StorageError
from offsetfs.storage.lock import DirectoryLock
from offsetfs.storage.names import TopicPartition, parse_segment_name
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch import MAGIC, stamp
from offsetfs.storage.records.format.legacy import RUNS
from offsetfs.storage.segments.segment import Segment

SUFFIX = ".handover"
_COPIED_WHOLE = (".index", ".timeindex", ".txnindex", ".snapshot")

OnProgress = Callable[[int, int], None]
"""Called with the bytes copied and their total."""


class HandOverRefused(StorageError):
    """The broker's directory is not ready to take the partition. The message says what to do."""


@dataclass(frozen=True, slots=True)
class HandOverResult:
    """The result of a hand-over: offsets `[log_start_offset, next_offset)` in `segments` segments."""

    log_start_offset: int
    next_offset: int
    segments: int
    bytes: int


def hand_over(
    source: str, partition: TopicPartition, broker: str, *, on_progress: OnProgress = lambda done, total: None
) -> HandOverResult:
    """Copy `partition` of the log directory `source` into the stopped broker's log directory `broker`.

    The source is not changed. Durable on return. Raises `LogDirectoryLocked` while a process writes to either
    directory, `HandOverRefused`, `UnknownPartition`, and `CorruptBatch` for a damaged source.
    """
    check_log_directory(broker, read_only=True)
    directory = LogDirectory.open(source)
    try:
        log = directory.writable_log(partition)
        # The broker must not start between the checks and the last rename.
        lock = DirectoryLock(broker)
        lock.acquire()
        try:
            return _hand_over(log, broker, on_progress)
        finally:
            lock.release()
    finally:
        directory.close()


def _hand_over(log: Log, broker: str, on_progress: OnProgress) -> HandOverResult:
    target = os.path.join(broker, str(log.partition))
    _check_ready(log, broker, target)
    # Epochs above the leader's would be dropped by the broker, and consumers would detect a diverged log (KIP-320).
    epoch = max([0, *(epoch for epoch, _ in checkpoint.read_epochs(os.path.join(target, LEADER_EPOCHS)))])
    names = _copy(log, target, epoch, on_progress)
    _put_in_place(target, names)
    start = _epoch_start(log)
    entries = [(epoch, start)] if log.log_start_offset < log.next_offset > start else []
    checkpoint.write_epochs(os.path.join(target, LEADER_EPOCHS), entries)
    _write_checkpoints(log, broker)
    return HandOverResult(log.log_start_offset, log.next_offset, len(log.snapshot()), log.size_bytes)


def _check_ready(log: Log, broker: str, target: str) -> None:
    topic, name = log.partition.topic, str(log.partition)
    if log.damage:
        # A broker truncates a log at the first batch that it cannot read (decision 3), so nothing damaged is handed
        # over.
        damage = log.damage[0]
        raise HandOverRefused(
            f"the source is damaged ({damage.reason})", path=damage.path, position=damage.position, offset=damage.offset
        )
    # After a crash the broker recovers its logs at the start, and would take our checkpoints for its own.
    if CleanShutdown.read(broker) is None:
        raise HandOverRefused("the broker was not stopped cleanly: start it and stop it once more", path=broker)
    if not files.is_directory(target) or not _is_known_to(broker, target):
        raise HandOverRefused(f"the broker has no {name}: start it, create topic {topic}, stop it", path=broker)
    present = files.names(target)
    logs = [os.path.join(target, file) for file in present if file.endswith(".log")]
    if any(files.status(path).st_size for path in logs) and not any(file.endswith(SUFFIX) for file in present):
        raise HandOverRefused("the broker's partition holds records already, and keeps them", path=target)


def _is_known_to(broker: str, target: str) -> bool:
    """Whether the broker created the partition: it has a topic id, or the broker's version has no topic ids.

    Kafka 2.8 and older versions write no partition.metadata, nor do later ones with an inter.broker.protocol.version
    below 2.8. Such a broker keeps its topics in ZooKeeper (meta.properties version 0) and does not set unknown
    directories aside.
    """
    path = os.path.join(target, PARTITION_METADATA)
    if checkpoint.read_topic_id(path) is not None:
        return True
    properties = checkpoint.read_properties(os.path.join(broker, META_PROPERTIES)) or {}
    return properties.get("version") == "0" and not files.exists(path)


def _copy(log: Log, target: str, epoch: int, on_progress: OnProgress) -> list[str]:
    """Copy all files of the log beside the broker's, durable on return; return their names, the first log last."""
    names: list[str] = []
    done, total = 0, log.size_bytes
    for segment in log.snapshot():
        for count in _copy_log(segment, target, epoch):
            done += count
            on_progress(done, total)
        names.append(os.path.basename(segment.log_path))
    for file in files.names(log.path):
        parsed = parse_segment_name(file)
        if parsed is not None and parsed[1] in _COPIED_WHOLE and parsed[0] <= log.next_offset:
            _copy_whole(os.path.join(log.path, file), os.path.join(target, file + SUFFIX))
            names.append(file)
    files.sync_directory(target)
    # Indexes before logs, and the first segment last: a crash in between leaves a log that does not begin at the log
    # start, which the next attempt replaces, and never a complete-looking part.
    return sorted(names, key=lambda name: (name.endswith(".log"), -int(name.split(".")[0])))


def _copy_log(segment: Segment, target: str, epoch: int) -> Iterator[int]:
    """Copy one log file batch by batch; yield the size of each. Synced when the iterator is exhausted."""
    segment.open_files()  # creates a missing index before it is copied
    path = os.path.join(target, os.path.basename(segment.log_path) + SUFFIX)
    with files.created(path) as copy:
        position = 0
        for batch in segment.batches(runs=RUNS):
            data = bytearray(batch.data)
            if batch.header.magic == MAGIC:
                # The batch checksum begins behind the epoch, so it still holds.
                stamp(data, batch.header.base_offset, epoch)
            copy.write(position, data)
            position += len(data)
            yield len(data)
        copy.sync()


def _epoch_start(log: Log) -> int:
    """Return the offset from which on every batch has an epoch: the one after the last message of v0 or v1."""
    start = log.snapshot().first.base_offset
    for segment in log.snapshot():
        for _, header in segment.headers(runs=RUNS):
            if header.magic < MAGIC:
                start = header.next_offset
    return start


def _copy_whole(source: str, target: str) -> None:
    data = files.read_file(source)
    with files.created(target) as copy:
        copy.write(0, data)
        copy.sync()


def _put_in_place(target: str, names: list[str]) -> None:
    for file in files.names(target):
        parsed = parse_segment_name(file)
        if parsed is not None and not file.endswith(SUFFIX) and file not in names:
            files.remove_file(os.path.join(target, file))
    for name in names:
        files.rename(os.path.join(target, name + SUFFIX), os.path.join(target, name))
    files.sync_directory(target)


def _write_checkpoints(log: Log, broker: str) -> None:
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        path = os.path.join(broker, name)
        checkpoint.write_offsets(path, checkpoint.read_offsets(path) | {log.partition: log.next_offset})
    if log.log_start_offset > log.snapshot().first.base_offset:
        path = os.path.join(broker, LOG_STARTS)
        checkpoint.write_offsets(path, checkpoint.read_offsets(path) | {log.partition: log.log_start_offset})
