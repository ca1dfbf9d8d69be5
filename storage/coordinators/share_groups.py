"""The progress of share groups in each partition, from `__share_group_state`.

A share coordinator keeps one state for each group and partition: the start offset, below which all records are done,
and the state batches of the records behind it. Key type 0 is a snapshot, which replaces the state, or a tombstone,
which ends it; type 1 is an update (`StateBatch`). Follows ShareCoordinatorShard of Kafka's share coordinator
(KIP-932).

At most `BATCHES_MAX` state batches are kept. A partition whose batches do not fit has its start offset alone.

Threads: any, as for `topic_replay`.
"""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple

from offsetfs.kafka.protocol import kafka_reader
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.message import id_text
from offsetfs.kafka.protocol.records import (
    ShareSnapshotValue,
    ShareSnapshotValueStateBatch,
    ShareUpdateValue,
    ShareUpdateValueStateBatch,
)
from offsetfs.kafka.protocol.schemas import includes, schema
from offsetfs.storage import checkpoint
from offsetfs.storage.coordinators.topic_replay import (
    STEP_BYTES,
    Limits,
    OmissionReport,
    StateBudget,
    TopicReplay,
    log_end,
)
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import StorageError, WouldBlock
from offsetfs.storage.names import SHARE_TOPIC, TopicPartition
from offsetfs.storage.records.format.record import Record

STATES = ("Available", "Acquired", "Acknowledged", "Archiving", "Archived")
"""The names of delivery states by number. Brokers keep acquired records in memory and do not write that state."""

FINISHED = (STATES.index("Acknowledged"), STATES.index("Archived"))


class StateBatch(NamedTuple):
    """The records from `first_offset` to `last_offset`, both included."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int


def combined(batches: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return the batches from `start_offset` on, sorted, without overlaps, and as few as there can be.

    A share coordinator writes a snapshot of all batches, then updates, whose batches may overlap those before them.
    Where batches overlap, the one with the higher delivery count holds, and of the same count the one with the higher
    state. Batches below the start offset are done. Follows PersisterStateBatchCombiner (KIP-932).

    Costs n log n.
    """
    ordered = sorted(batch for batch in batches if batch.last_offset >= start_offset)
    edges = sorted(
        {edge for batch in ordered for edge in (max(batch.first_offset, start_offset), batch.last_offset + 1)}
    )
    result: list[StateBatch] = []
    covering: list[tuple[int, int, int]] = []  # minus delivery count, minus state, last offset: the first one holds
    place = 0
    for edge, following in itertools.pairwise(edges):
        while place < len(ordered) and ordered[place].first_offset <= edge:
            batch = ordered[place]
            # A heap instead of comparing all pairs: a snapshot and its updates may hold 10,000 overlapping batches of
            # one partition.
            heapq.heappush(covering, (-batch.delivery_count, -batch.state, batch.last_offset))
            place += 1
        while covering and covering[0][2] < edge:
            heapq.heappop(covering)
        if covering:
            _add(result, StateBatch(edge, following - 1, -covering[0][1], -covering[0][0]))
    return result


def _add(batches: list[StateBatch], batch: StateBatch) -> None:
    """Add a batch behind those found, or lengthen the last one where it is of the same kind."""
    if batches and batches[-1].last_offset + 1 == batch.first_offset and batches[-1][2:] == batch[2:]:
        batches[-1] = batches[-1]._replace(last_offset=batch.last_offset)
    else:
        batches.append(batch)


BATCHES_MAX = 200_000
"""State batches kept in memory, some 250 bytes each, and one more for each group and partition: protects the daemon
from a topic that holds more. A broker writes 10,000 for a partition at most."""

_SNAPSHOT, _UPDATE = 0, 1
_KEY_START = Struct(">hh")  # type, size of the group's name
_KEY_END = Struct(">16si")  # topic id, partition
_VERSION = Struct(">h")
_UNCHANGED = -1
_COMBINE_MIN = 100  # batches that are added before they are combined, so that each update costs little

_Key = tuple[bytes, int]  # topic id, partition
_WrittenBatch = ShareSnapshotValueStateBatch | ShareUpdateValueStateBatch
_NOWAIT_BATCHES_MAX = 1000  # a millisecond or two of work


class ShareProgress(NamedTuple):
    """The progress of a share group in a partition.

    `topic`: None if the name of the topic id is unknown. `start_offset`: -1 before the first delivery. `end_offset`:
    None if the directory does not have the partition. `batches`: None if there are more than are kept.
    """

    topic: str | None
    topic_id: str
    partition: int
    start_offset: int
    end_offset: int | None
    state_epoch: int
    leader_epoch: int
    batches: list[StateBatch] | None

    @property
    def lag(self) -> int | None:
        """Records from the start offset to the end that are neither acknowledged nor archived; None if not known."""
        if self.end_offset is None or self.start_offset < 0 or self.batches is None:
            return None
        finished = sum(batch.last_offset + 1 - batch.first_offset for batch in self.batches if batch.state in FINISHED)
        return max(self.end_offset - self.start_offset - finished, 0)

    def described(self) -> dict[str, object]:
        """Return the fields for `state`, with Kafka's names."""
        batches = [
            {
                "first_offset": batch.first_offset,
                "last_offset": batch.last_offset,
                "state": STATES[batch.state],
                "delivery_count": batch.delivery_count,
            }
            for batch in self.batches or ()
        ]
        return {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partition": self.partition,
            "start_offset": self.start_offset,
            "lag": self.lag,
            "state_epoch": self.state_epoch,
            "leader_epoch": self.leader_epoch,
            "batches": None if self.batches is None else batches,
        }


class ShareGroups:
    """The share groups of one log directory."""

    def __init__(self, directory: AnyLogDirectory, on_omission: Callable[[str], None]) -> None:
        """`on_omission` is called with a sentence, once for each kind of record that is left out."""
        self._directory = directory
        self._replay = TopicReplay(directory, SHARE_TOPIC, _ShareStates, on_omission)
        self._topic_ids: dict[str, str] = {}
        self._listing: Sequence[TopicPartition] | None = None  # from which `_topic_ids` was made

    def refresh(self, *, nowait: bool = False, bytes_max: int = STEP_BYTES) -> bool:
        """Process records that were appended since, about `bytes_max` of them; return whether all are processed.

        With `nowait`, `WouldBlock` if there are any.
        """
        return self._replay.refresh(Limits("state batches", BATCHES_MAX), nowait=nowait, bytes_max=bytes_max)

    def names(self, *, nowait: bool = False) -> list[bytes]:
        """Return the groups that have a state in a partition, sorted, as of the last `refresh`."""
        with self._replay.states(nowait=nowait) as states:
            return sorted({group for state in states for group in state.groups})

    def knows(self, group: bytes, *, nowait: bool = False) -> bool:
        """Return whether the group has a state in a partition, as of the last `refresh`."""
        with self._replay.states(nowait=nowait) as states:
            return any(group in state.groups for state in states)

    def progress(self, group: bytes, topics: Mapping[str, str], *, nowait: bool = False) -> list[ShareProgress]:
        """Return the group's progress by topic and partition, as of the last `refresh`. Opens the partitions' logs.

        `topics`: names by topic id, as the group's coordinator has them; for others those in the log directory. With
        `nowait` `WouldBlock` when many batches are to be combined.
        """
        progress: list[ShareProgress] = []
        with self._replay.states(nowait=nowait) as states:
            names = {**self._local_topics(nowait), **topics}
            kept_in = (kept for state in states for kept in state.groups.get(group, {}).values())
            # Combining 10,000 state batches takes some ten milliseconds, too long for the event loop.
            if nowait and sum(1 + len(kept.batches or ()) for kept in kept_in) > _NOWAIT_BATCHES_MAX:
                raise WouldBlock("many state batches are to be combined", path=self._directory.path)
            for state in states:
                for (topic_id, partition), kept in state.groups.get(group, {}).items():
                    text = id_text(topic_id)
                    named = TopicPartition.valid_or_none(names.get(text, ""), partition)
                    end = None if named is None else log_end(self._directory, named, nowait=nowait)
                    batches = None if kept.batches is None else combined(kept.batches, kept.start_offset)
                    progress.append(
                        ShareProgress(
                            *(None if named is None else named.topic, text, partition, kept.start_offset, end),
                            *(kept.state_epoch, kept.leader_epoch, batches),
                        )
                    )
        return sorted(progress, key=lambda partition: (partition.topic or "", partition.topic_id, partition.partition))

    def _local_topics(self, nowait: bool) -> dict[str, str]:
        """Return the topics of the log directory by id; read again when the directory's partitions are others."""
        listing = self._directory.partitions()
        if listing is not self._listing:
            if nowait:
                raise WouldBlock("topic ids are to be read", path=self._directory.path)
            first = {partition.topic: partition for partition in reversed(listing)}
            ids = {topic: self._topic_id(partition) for topic, partition in first.items()}
            self._topic_ids = {topic_id: topic for topic, topic_id in ids.items() if topic_id is not None}
            self._listing = listing
        return self._topic_ids

    def _topic_id(self, partition: TopicPartition) -> str | None:
        try:
            path = self._directory.directory_of(partition).path
            topic_id = checkpoint.read_topic_id(os.path.join(path, str(partition), checkpoint.PARTITION_METADATA))
        except (StorageError, OSError):
            return None
        return None if topic_id is None else id_text(topic_id)


@dataclass(slots=True)
class _ShareState:
    """The state of one group in one partition. `batches`: as they were written; None if they exceed the limit."""

    start_offset: int
    state_epoch: int
    leader_epoch: int
    batches: list[StateBatch] | None
    combine_at: int = _COMBINE_MIN


class _ShareStates:
    """The state that the records of one partition result in."""

    def __init__(self, budget: StateBudget, omissions: OmissionReport) -> None:
        self.groups: dict[bytes, dict[_Key, _ShareState]] = {}
        self._budget = budget
        self._omissions = omissions

    def apply(self, record: Record) -> None:
        key = record.key or b""
        if len(key) < _KEY_START.size:
            self._omissions.report_once("a record without a whole key")
            return
        kind, size = _KEY_START.unpack_from(key)
        if kind not in (_SNAPSHOT, _UPDATE):
            self._omissions.report_once(f"a record of the unknown type {kind}")
            return
        if size < 0 or len(key) != _KEY_START.size + size + _KEY_END.size:
            self._omissions.report_once("a key that is no group, topic id and partition")
            return
        group = key[_KEY_START.size : _KEY_START.size + size]
        of_group = self.groups.get(group, {})
        if kind == _SNAPSHOT:
            self._replace(of_group, _KEY_END.unpack_from(key, _KEY_START.size + size), record.value)
        elif record.value is not None:
            self._update(of_group, _KEY_END.unpack_from(key, _KEY_START.size + size), record.value)
        if of_group:
            self.groups[group] = of_group
        else:
            self.groups.pop(group, None)

    def _replace(self, of_group: dict[_Key, _ShareState], key: _Key, value: bytes | None) -> None:
        snapshot: ShareSnapshotValue | None = None if value is None else self._read("ShareSnapshotValue", value)
        if value is not None and snapshot is None:
            return
        before = of_group.pop(key, None)
        if before is not None:
            self._budget.release(1 + len(before.batches or ()))
        if snapshot is not None and self._budget.reserve(1):
            kept = _ShareState(snapshot.start_offset, snapshot.state_epoch, snapshot.leader_epoch, [])
            of_group[key] = kept
            self._add(kept, snapshot.state_batches)

    def _update(self, of_group: dict[_Key, _ShareState], key: _Key, value: bytes) -> None:
        update: ShareUpdateValue | None = self._read("ShareUpdateValue", value)
        if update is None:
            return
        kept = of_group.get(key)
        if kept is None:
            if not self._budget.reserve(1):
                return
            kept = of_group[key] = _ShareState(-1, -1, -1, [])
        # An update contains only what changed; -1 stands for the rest (ShareUpdateValue).
        if update.start_offset != _UNCHANGED:
            kept.start_offset = update.start_offset
        if update.leader_epoch != _UNCHANGED:
            kept.leader_epoch = update.leader_epoch
        self._add(kept, update.state_batches)

    def _add(self, kept: _ShareState, batches: Sequence[_WrittenBatch]) -> None:
        if kept.batches is None:
            return
        added = list(self._sound(batches))
        if len(kept.batches) + len(added) >= kept.combine_at:
            self._combine(kept)
        if self._budget.reserve(len(added)):
            kept.batches += added
        else:
            # A part of the batches would give a wrong lag, so without space for all of them none is kept.
            self._budget.release(len(kept.batches))
            kept.batches = None

    def _combine(self, kept: _ShareState) -> None:
        """Combine the batches, each time that they have doubled: so all updates together cost n log n."""
        assert kept.batches is not None
        before, kept.batches = len(kept.batches), combined(kept.batches, kept.start_offset)
        kept.combine_at = max(_COMBINE_MIN, 2 * len(kept.batches))
        self._budget.release(before - len(kept.batches))

    def _sound(self, batches: Sequence[_WrittenBatch]) -> Iterable[StateBatch]:
        for written in batches:
            batch = StateBatch(
                written.first_offset, written.last_offset, written.delivery_state, written.delivery_count
            )
            if 0 <= batch.first_offset <= batch.last_offset and 0 <= batch.state < len(STATES):
                yield batch
            else:
                self._omissions.report_once("an invalid state batch")

    def _read(self, name: str, value: bytes) -> Any:
        """Return the message in a value; None, reported, for one that cannot be read."""
        version = _VERSION.unpack_from(value)[0] if len(value) >= _VERSION.size else -1
        if not includes(schema(name).versions, version):
            self._omissions.report_once(f"a state of the unknown version {version}")
            return None
        try:
            return kafka_reader.reader(name, version)(memoryview(value), _VERSION.size)[0]
        except InvalidMessage:
            self._omissions.report_once("a state that ends too early, or is none")
            return None
