"""Incremental fetch sessions (KIP-227): a request has only the partitions that have changed since the last one.

    no session ──► all partitions, epoch 0 ──► the broker names a session ──► only what changed, epoch 1, 2 …

Brokers before 1.1 have no sessions: each request has all partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offsetfs.kafka.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.kafka.protocol import messages as m
from offsetfs.storage import I32_MAX

SESSIONS_VERSION = 7
LEADER_EPOCH_VERSION = 9
RACK_VERSION = 11
FETCHED_EPOCH_VERSION = 12

_FINAL_EPOCH = -1
"""Asks for a response without a session, and ends that of the id."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The part of a request for one partition."""

    position: int
    position_epoch: int
    leader_epoch: int
    generation: int


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """A request, and what it asks for: its response is about these partitions at these positions, whatever has happened
    to them, and to the session, before the response arrives.
    """

    message: m.FetchRequest
    asked: Mapping[MirroredPartition, Asked]


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
        self,
        partitions: Iterable[MirroredPartition],
        version: int,
        *,
        bytes_max: int,
        wait_ms: int,
        rack: str,
        is_single: bool = False,
    ) -> SessionRequest:
        """Return the next request, for these partitions at their positions; `is_single`: without a session."""
        if version != self._version:
            self.restart()
            self._version = version
        has_session = version >= SESSIONS_VERSION and not is_single
        session_id, epoch = self._id, self._epoch if has_session else _FINAL_EPOCH
        if not has_session:
            self.restart()
        wanted = {partition: _asked(partition) for partition in partitions}
        changed = [partition for partition, asked in wanted.items() if self._known.get(partition) != asked]
        gone = [partition for partition in self._known if partition not in wanted]
        self._known = wanted if has_session else {}
        message = m.FetchRequest(
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            session_id=session_id,
            session_epoch=epoch,
            topics=_topics(changed, version, bytes_max),
            forgotten_topics_data=_forgotten(gone),
            rack_id=rack if version >= RACK_VERSION else "",
        )
        return SessionRequest(message, wanted)

    def taken(self, session_id: int) -> None:
        """Record the session id of a response without an error."""
        if not session_id or self._id not in (0, session_id):  # no space, or the response of another session
            self.restart()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == I32_MAX else self._epoch + 1


def _asked(partition: MirroredPartition) -> Asked:
    return Asked(partition.position, partition.position_epoch, partition.leader_epoch, partition.generation)


def _topics(partitions: Iterable[MirroredPartition], version: int, bytes_max: int) -> list[m.FetchRequestFetchTopic]:
    topics: dict[str, m.FetchRequestFetchTopic] = {}
    for partition in partitions:
        name = partition.name.topic
        topic = topics.setdefault(name, m.FetchRequestFetchTopic(name, partition.topic_id, []))
        topic.partitions.append(
            m.FetchRequestFetchPartition(
                partition=partition.name.partition,
                current_leader_epoch=partition.leader_epoch if version >= LEADER_EPOCH_VERSION else UNKNOWN,
                fetch_offset=partition.position,
                last_fetched_epoch=partition.position_epoch if version >= FETCHED_EPOCH_VERSION else UNKNOWN,
                partition_max_bytes=bytes_max,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Iterable[MirroredPartition]) -> list[m.FetchRequestForgottenTopic]:
    topics: dict[str, m.FetchRequestForgottenTopic] = {}
    for partition in partitions:
        name = partition.name.topic
        topics.setdefault(name, m.FetchRequestForgottenTopic(name, partition.topic_id, [])).partitions.append(
            partition.name.partition
        )
    return list(topics.values())
