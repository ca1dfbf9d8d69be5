"""Incremental fetch sessions (KIP-227): a request has only the partitions that have changed since the last one.

    no session ──► all partitions, epoch 0 ──► the broker names a session ──► only what changed, epoch 1, 2 …

Brokers before 1.1 have no sessions: each request has all partitions.
"""

from __future__ import annotations

from collections.abc import Iterable

from offsetfs.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.protocol import messages as m

SESSIONS_VERSION = 7
LEADER_EPOCH_VERSION = 9
RACK_VERSION = 11
FETCHED_EPOCH_VERSION = 12
TOPIC_IDS_VERSION = 13
_EPOCH_MAX = 2**31 - 1

Asked = tuple[int, int, int, int]
"""Position, its epoch, leader epoch, generation."""


class SourceSession:
    """The session of one connection."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = 0
        self._version = 0
        self._known: dict[MirroredPartition, Asked] = {}

    def restart(self) -> None:
        """Begin with all partitions again: the connection or the session of the broker is gone."""
        self._id = self._epoch = 0
        self._known = {}

    def request(
        self, partitions: Iterable[MirroredPartition], version: int, *, bytes_max: int, wait_ms: int, rack: str
    ) -> m.FetchRequest:
        """Return the next request, for these partitions at their positions."""
        if version != self._version:
            self.restart()
            self._version = version
        wanted = {each: _asked(each) for each in partitions}
        changed = [each for each, asked in wanted.items() if self._known.get(each) != asked]
        gone = [each for each in self._known if each not in wanted]
        self._known = wanted if version >= SESSIONS_VERSION else {}
        return m.FetchRequest(
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            session_id=self._id,
            session_epoch=self._epoch if version >= SESSIONS_VERSION else -1,
            topics=_topics(changed, version, bytes_max),
            forgotten_topics_data=_forgotten(gone),
            rack_id=rack if version >= RACK_VERSION else "",
        )

    def asked(self, partition: MirroredPartition) -> Asked:
        """Return what the last request had for a partition."""
        return self._known.get(partition) or _asked(partition)

    def taken(self, session_id: int) -> None:
        """Record the session id of a response without an error."""
        self._id = session_id
        if not session_id:  # the broker has no space for a session
            self.restart()
        else:
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1


def _asked(partition: MirroredPartition) -> Asked:
    return partition.position, partition.position_epoch, partition.leader_epoch, partition.generation


def _topics(partitions: Iterable[MirroredPartition], version: int, bytes_max: int) -> list[m.FetchRequestFetchTopic]:
    topics: dict[str, m.FetchRequestFetchTopic] = {}
    for each in partitions:
        name = each.name.topic
        topic = topics.setdefault(name, m.FetchRequestFetchTopic(name, each.topic_id, []))
        topic.partitions.append(
            m.FetchRequestFetchPartition(
                partition=each.name.partition,
                current_leader_epoch=each.leader_epoch if version >= LEADER_EPOCH_VERSION else UNKNOWN,
                fetch_offset=each.position,
                last_fetched_epoch=each.position_epoch if version >= FETCHED_EPOCH_VERSION else UNKNOWN,
                partition_max_bytes=bytes_max,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Iterable[MirroredPartition]) -> list[m.FetchRequestForgottenTopic]:
    topics: dict[str, m.FetchRequestForgottenTopic] = {}
    for each in partitions:
        name = each.name.topic
        topics.setdefault(name, m.FetchRequestForgottenTopic(name, each.topic_id, [])).partitions.append(
            each.name.partition
        )
    return list(topics.values())
