"""The starts of new partitions and, with `once`, the ends.

That the beginning of a partition is decided is recorded in the file of the mirror before its first record is here: from
then on the partition continues at the end of its log, also if the log is empty.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from offsetfs.common.threads import in_thread
from offsetfs.kafka.client.metadata import ClusterMetadata
from offsetfs.kafka.mirror import positions
from offsetfs.kafka.mirror.options import LATEST
from offsetfs.kafka.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.kafka.mirror.positions import OffsetQuery, OnFailure, SourceOffset
from offsetfs.kafka.mirror.state import MirrorState
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import TopicPartition

Empty = Callable[[MirroredPartition, int], Awaitable[bool]]
"""Lets a partition begin at an offset, without records; returns whether it could."""


class PartitionStarts:
    """The beginnings of the partitions of a mirror."""

    def __init__(self, state: MirrorState, empty: Empty, on_failure: OnFailure) -> None:
        self._state = state
        self._empty = empty
        self._on_failure = on_failure

    async def begin(self, new: Sequence[MirroredPartition], metadata: ClusterMetadata) -> None:
        """Set where new partitions begin and, with `once`, where they end."""
        asked = list[OffsetQuery]()
        for partition in new:
            topic = metadata.topics.get(partition.name.topic)  # it may be gone before it has begun
            info = None if topic is None else topic.partitions.get(partition.name.partition)
            if info is not None and info.leader != UNKNOWN:
                asked.append(OffsetQuery(partition.name, info.leader, info.leader_epoch, self._state.options.start))
        empty = [query for query in asked if not self._has_begun(query.name)]
        given = {query.name: self._state.options.starts.get(query.name) for query in empty}
        starts = {name: SourceOffset(ErrorCode.NONE, offset) for name, offset in given.items() if offset is not None}
        unset = [query for query in empty if query.name not in starts]
        starts |= await positions.offsets_at(self._state.client, unset, self._on_failure)
        ends: positions.Answers = {}
        if self._state.options.once:
            ends = await positions.offsets_at(
                self._state.client, [positions.at_time(query, LATEST) for query in asked], self._on_failure
            )
        begun = {partition.name.topic: {*self._begun(partition.name.topic)} for partition in new}
        for query in asked:
            partition = self._state.partitions[query.name]
            if query in empty and not self._state.is_answered(partition, starts.get(query.name)):
                continue
            if self._state.options.once and not self._state.is_answered(partition, ends.get(query.name)):
                continue
            if (
                query in empty
                and starts[query.name].offset > 0
                and not await self._empty(partition, starts[query.name].offset)
            ):
                continue
            if self._state.options.once:
                partition.stop_at = ends[query.name].offset
            partition.leader, partition.leader_epoch = query.leader, query.leader_epoch
            begun[query.name.topic].add(query.name.partition)
        if begun:  # before their first records are here
            await in_thread(partial(self.set_begun, begun))

    def _has_begun(self, name: TopicPartition) -> bool:
        """Whether the first offset of a partition is decided, so that it continues at the end of its log."""
        partition = self._state.partitions[name]
        return bool(partition.end or partition.log.size_bytes) or name.partition in self._begun(name.topic)

    def _begun(self, topic: str) -> Collection[int]:
        known = self._state.directory.mirror
        return () if known is None or topic not in known.topics else known.topics[topic].begun

    def set_begun(self, begun: Mapping[str, Collection[int]]) -> None:
        """Record which partitions of topics have begun, in a thread; durable on return. StorageError, OSError."""
        known = self._state.directory.mirror
        assert known is not None  # `TopicFollower` wrote it
        changed = {
            name: replace(known.topics[name], begun=frozenset(numbers))
            for name, numbers in begun.items()
            if {*known.topics[name].begun} != {*numbers}
        }
        if changed:
            self._state.directory.set_mirror(replace(known, topics={**known.topics, **changed}))
