"""A survey of log directories: names, sizes, checkpoints and the ends of indexes, in one pass, without opening a log.

Ten thousand partitions take about a second. A broker may be running: what disappears during the pass is left out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from offsetfs.answers.doctor import index_tails
from offsetfs.storage import I64_MAX, METADATA_TOPIC, TopicPartition, files
from offsetfs.storage.directory import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CleanShutdown,
    read_epochs,
    read_offsets,
    read_properties,
    read_topic_id,
    writer_of,
)
from offsetfs.storage.errors import InvalidCheckpoint, sentence
from offsetfs.storage.segments import parse_segment_name

_NODE_DIGITS_MAX = 10
SNAPSHOT_HEAD_BYTES, SNAPSHOT_ENTRY_BYTES = 10, 46
_INDEXES_READ = 2
"""The newest segments of a partition whose offset index is read."""

CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS)

OnPartition = Callable[[int, int], None]
"""Called with the partitions that were surveyed, and their number."""


@dataclass(frozen=True, slots=True)
class SegmentSurvey:
    """One `.log` file. `next_base`: the base offset of the next segment, 2⁶³−1 for the active one."""

    base: int
    size: int
    modified_ms: int
    owner: int
    next_base: int = I64_MAX
    latest: tuple[int, int] | None = None
    """The last entry of the time index: the largest timestamp, and its offset relative to `base`."""
    indexed: tuple[int, int] | None = None
    """The last entry of the offset index, of the newest segments: an offset relative to `base`, and its position."""


@dataclass(slots=True)
class PartitionSurvey:
    """One partition directory."""

    partition: TopicPartition
    path: str
    directory: DirectorySurvey
    names: Sequence[str]
    segments: Sequence[SegmentSurvey]
    created_ms: int | None = None
    """About when it was created: when its `partition.metadata` was written."""
    topic_id: bytes | None = None
    topic_id_problem: str = ""
    epochs: Sequence[tuple[int, int]] = ()
    epochs_problem: str = ""
    end: int | None = None
    """The offset after the last whole batch; None if that is not known."""
    snapshots: Sequence[int] = ()
    """The offsets of the producer snapshots, the newest last."""
    producers: int = 0
    """The producers in the newest snapshot, by its size."""

    @property
    def bytes(self) -> int:
        return sum(segment.size for segment in self.segments)


@dataclass(slots=True)
class DirectorySurvey:
    """One log directory."""

    path: str
    names: Sequence[str]
    writer: int | None
    """The process that writes to it."""
    is_clean: bool
    """Whether the last writer closed it cleanly."""
    directories: Sequence[str]
    """Names of subdirectories that are not partitions."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of `meta.properties`; empty if there is none, or it cannot be read."""
    unreadable: dict[TopicPartition, str] = field(default_factory=dict)
    """The partitions that are not in `partitions`, because they cannot be read, with the reason."""
    partitions: list[PartitionSurvey] = field(default_factory=list)
    checkpoints: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    checkpoint_problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        return self.writer is not None

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)

    @property
    def node(self) -> int | None:
        """The id of the broker, if `meta.properties` says it."""
        text = self.properties.get("node.id", self.properties.get("broker.id", ""))
        return int(text) if text.isdecimal() and len(text) <= _NODE_DIGITS_MAX else None


def survey(path: str, on_partition: OnPartition = lambda done, total: None) -> DirectorySurvey:
    """Return the survey of the log directory at `path`. OSError if it cannot be listed."""
    names, subdirectories = files.names(path), files.directory_names(path)
    parsed = {name: TopicPartition.parse_or_none(name) for name in subdirectories}
    others = [name for name, partition in parsed.items() if partition is None]
    result = DirectorySurvey(path, names, writer_of(path), CleanShutdown.read(path) is not None, sorted(others))
    with contextlib.suppress(InvalidCheckpoint):  # `identity` reports it
        result.properties = read_properties(os.path.join(path, META_PROPERTIES)) or {}
    result.checkpoints, result.checkpoint_problems = _checkpoints(path, names)
    held = (partition for partition in parsed.values() if partition is not None)
    found = sorted(held, key=attrgetter("topic", "partition"))
    for number, partition in enumerate(found):
        try:
            result.partitions.append(_partition(partition, result))
        except FileNotFoundError:
            continue  # deleted meanwhile
        except OSError as error:
            result.unreadable[partition] = sentence(error)
        on_partition(number + 1, len(found))
    return result


def _checkpoints(path: str, names: Sequence[str]) -> tuple[dict[str, Mapping[TopicPartition, int]], dict[str, str]]:
    offsets: dict[str, Mapping[TopicPartition, int]] = {}
    problems: dict[str, str] = {}
    for name in CHECKPOINTS:
        try:
            offsets[name] = read_offsets(os.path.join(path, name)) if name in names else {}
        except InvalidCheckpoint as error:
            offsets[name], problems[name] = {}, error.reason
    return offsets, problems


def _partition(partition: TopicPartition, directory: DirectorySurvey) -> PartitionSurvey:
    path = os.path.join(directory.path, str(partition))  # a path may end in a slash
    names = files.names(path)
    parsed = [segment for segment in map(parse_segment_name, names) if segment is not None]
    bases = sorted(base for base, suffix in parsed if suffix == ".log")
    found = PartitionSurvey(partition, path, directory, names, list(_segments(path, bases)))
    found.snapshots = sorted(base for base, suffix in parsed if suffix == ".snapshot")
    found.producers = _producers(path, found.snapshots)
    if found.segments:
        active = found.segments[-1]
        found.end = index_tails.end_of(path, active.base, active.size, active.indexed)
    if partition.topic == METADATA_TOPIC:
        return found
    if PARTITION_METADATA in names:
        try:
            found.created_ms = files.status(f"{path}/{PARTITION_METADATA}").st_mtime_ns // 1_000_000
            found.topic_id = read_topic_id(f"{path}/{PARTITION_METADATA}")
        except InvalidCheckpoint as error:
            found.topic_id_problem = error.reason
    if LEADER_EPOCHS in names:
        try:
            found.epochs = read_epochs(f"{path}/{LEADER_EPOCHS}")
        except InvalidCheckpoint as error:
            found.epochs_problem = error.reason
    return found


def _producers(path: str, snapshots: Sequence[int]) -> int:
    if not snapshots:
        return 0
    try:
        size = files.status(f"{path}/{snapshots[-1]:020}.snapshot").st_size
    except FileNotFoundError:
        return 0  # replaced by a newer one meanwhile
    return max(size - SNAPSHOT_HEAD_BYTES, 0) // SNAPSHOT_ENTRY_BYTES


def _segments(path: str, bases: Sequence[int]) -> Iterator[SegmentSurvey]:
    for base, next_base in zip(bases, [*bases, I64_MAX][1:], strict=True):
        stem = f"{path}/{base:020}"
        try:
            status = files.status(f"{stem}.log")
        except FileNotFoundError:
            continue  # removed by retention meanwhile
        modified_ms, latest, indexed = status.st_mtime_ns // 1_000_000, None, None
        if status.st_size:
            latest = index_tails.last_time(f"{stem}.timeindex")
            indexed = index_tails.last_position(f"{stem}.index") if base in bases[-_INDEXES_READ:] else None
        yield SegmentSurvey(base, status.st_size, modified_ms, status.st_uid, next_base, latest, indexed)
