"""Fetch sessions (KIP-227): a client sends the partitions that changed for it, and gets those that have changed here.

    epoch 0      a full request: begins a session; a session that the request names ends
    epoch n      the n-th request of the session: the changes since the last one; the response has the changes as well
    epoch -1     a request without a session; a session that the request names ends

Follows Kafka's FetchSession, FetchManager and FetchSessionCache. A session without a free slot is not created (id 0):
the client goes on with full requests, which return the same records.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import trio

from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.partitions import Topics, Watcher
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import TOPIC_IDS_VERSION
from offsetfs.kafka.protocol.messages import FetchRequest, FetchRequestFetchPartition, FetchResponsePartitionData
from offsetfs.storage import I32_MAX, Log, LogState, TopicPartition

NO_SESSION = 0
EVICTION_S = 120.0
"""The time that a session is idle, or old and smaller than a new one, before it is replaced.

Kafka: `MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS`."""

_FIRST_EPOCH = 0
_FINAL_EPOCH = -1

Key = tuple[str | bytes, int]
"""Topic name, or from version 13 on topic id, and number of a partition."""


@dataclass(frozen=True, slots=True)
class ReadPermission:
    """The topics that a client may read."""

    allows: Callable[[str], bool]
    state: object
    """Equal as long as `allows` has the same answers."""


class FetchedPartition:
    """A partition of a request or session: what the client wants of it, and what it got last."""

    __slots__ = (
        "data",
        "is_unfinished",
        "key",
        "log",
        "name",
        "sent_high_watermark",
        "sent_log_start",
        "state",
        "wanted",
    )

    def __init__(self, key: Key, wanted: FetchRequestFetchPartition) -> None:
        self.key = key
        self.wanted = wanted
        self.name: TopicPartition | None = None
        self.log: Log | None = None
        self.state: LogState | None = None
        """The state of the log when it was looked at last."""
        self.data: FetchResponsePartitionData | None = None
        """The answer for that state."""
        self.is_unfinished = True
        """Whether there may be something to send even if the log has not changed."""
        self.sent_high_watermark = -1
        self.sent_log_start = -1

    @property
    def is_due(self) -> bool:
        """Whether the log must be looked at."""
        log = self.log
        return self.is_unfinished or log is None or self.state is not log.state or log.is_gone

    def update(self, wanted: FetchRequestFetchPartition) -> None:
        """Take what a later request of the session wants."""
        self.wanted, self.is_unfinished = wanted, True

    def must_be_sent(self, data: FetchResponsePartitionData) -> bool:
        """Whether an incremental response has this partition. Kafka: `CachedPartition.maybeUpdateResponseData`."""
        has_news = (
            bool(data.records)
            or data.error_code != ErrorCode.NONE
            or data.diverging_epoch.epoch >= 0
            or data.high_watermark != self.sent_high_watermark
            or data.log_start_offset != self.sent_log_start
        )
        # After an error the next response without one is sent, too.
        self.sent_high_watermark = -1 if data.error_code else data.high_watermark
        self.sent_log_start = data.log_start_offset
        return has_news


class FetchSession:
    """The partitions of a session, in the order in which they are read."""

    def __init__(
        self, session_id: int, partitions: dict[Key, FetchedPartition], watcher: Watcher, *, ids: bool
    ) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.watcher = watcher
        self.uses_topic_ids = ids
        self.isolation_level = 0
        self.epoch = 1
        self.is_idle = False
        """Whether the last request has left nothing that must be looked at again."""
        self.permitted: object = None
        """The state of the permission by which the logs were opened."""
        self.scan_due_s = 0.0
        self.created_s = self.used_s = trio.current_time()

    def update(self, request: FetchRequest, version: int) -> None:
        """Add, change and forget partitions as the request says."""
        self.is_idle = self.is_idle and not request.topics and request.isolation_level == self.isolation_level
        for key, wanted in _partitions_of(request, version):
            partition = self.partitions.get(key)
            if partition is None:
                self.partitions[key] = FetchedPartition(key, wanted)
            else:
                partition.update(wanted)
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if version >= TOPIC_IDS_VERSION else topic.topic
            for number in topic.partitions:
                forgotten = self.partitions.pop((name, number), None)
                if forgotten is not None and forgotten.name is not None:
                    self.watcher.remove(forgotten.name)
        if request.isolation_level != self.isolation_level:
            self.isolation_level = request.isolation_level
            for partition in self.partitions.values():
                partition.is_unfinished = True

    def moved_to_end(self, key: Key) -> None:
        """Let a partition that had records be read last, so that each gets its share of the limit."""
        self.partitions[key] = self.partitions.pop(key)


class FetchContext:
    """One request: its partitions, and the session that it belongs to or begins."""

    def __init__(
        self, partitions: dict[Key, FetchedPartition], session: FetchSession | None, *, begins_session: bool = False
    ) -> None:
        self.partitions = partitions
        self.session = session
        self.epoch = NO_SESSION if session is None else session.epoch
        self.begins_session = begins_session
        self.permission: ReadPermission | None = None
        """The topics that the client may read; None: all of them."""
        self.looked_at: dict[FetchedPartition, None] = {}
        """The partitions in the order in which they were read; for a full request all of them."""

    def permit(self, permission: ReadPermission | None) -> None:
        """Close the logs that the client may not read any more, and look at them again in each request."""
        self.permission = permission
        if permission is None:
            return
        session = self.session
        if session is not None:
            if session.permitted == permission.state:
                return
            session.permitted = permission.state
        for partition in self.partitions.values():
            if partition.name is not None and not permission.allows(partition.name.topic):
                partition.name = partition.log = partition.state = None
                partition.is_unfinished = True
                if session is not None:
                    session.is_idle = False

    @property
    def is_superseded(self) -> bool:
        """Whether a later request of the session has come over another connection."""
        return self.session is not None and self.session.epoch != self.epoch


class FetchSessions:
    """The sessions of all clients, the least recently used first."""

    def __init__(self, topics: Topics, slots: int) -> None:
        """`slots`: Kafka's `max.incremental.fetch.session.cache.slots`."""
        self._topics = topics
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    async def context(self, request: FetchRequest, version: int) -> FetchContext | ErrorCode:
        """Return what a request asks for, together with its session's earlier requests; or the error of the request."""
        if request.session_epoch in (_FIRST_EPOCH, _FINAL_EPOCH):
            self._end(request.session_id)
            partitions, slices = dict[Key, FetchedPartition](), Slices()
            for key, wanted in _partitions_of(request, version):
                await slices.step()
                partitions[key] = FetchedPartition(key, wanted)
            return FetchContext(partitions, None, begins_session=request.session_epoch == _FIRST_EPOCH)
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != (version >= TOPIC_IDS_VERSION):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.update(request, version)
        if not session.partitions:
            self._end(session.session_id)
            return FetchContext({}, None)
        session.epoch = session.epoch % I32_MAX + 1
        session.used_s = trio.current_time()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return FetchContext(session.partitions, session)

    def begin(self, context: FetchContext, request: FetchRequest, version: int) -> FetchSession | None:
        """Return a new session with the partitions of a full request; None if there is no slot."""
        if not self._has_slot(len(context.partitions)):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = secrets.randbelow(I32_MAX) + 1
        session = FetchSession(session_id, context.partitions, Watcher(self._topics), ids=version >= TOPIC_IDS_VERSION)
        session.isolation_level = request.isolation_level
        for partition in context.partitions.values():
            if partition.name is not None:
                session.watcher.add(partition.name)
        self._sessions[session_id] = session
        return session

    def _has_slot(self, size: int) -> bool:
        """Return whether a session of `size` partitions may begin; end another session if needed.

        Kafka: `FetchSessionCache.tryEvict`.
        """
        if len(self._sessions) < self._slots:
            return True
        now = trio.current_time()
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now - oldest.used_s > EVICTION_S:
            self._end(oldest.session_id)
            return True
        old = [session for session in self._sessions.values() if now - session.created_s > EVICTION_S]
        smallest = min(old, key=lambda session: len(session.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= size:
            return False
        self._end(smallest.session_id)
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.watcher.close()
            session.epoch = _FINAL_EPOCH  # a request that still waits gets an error


def _partitions_of(request: FetchRequest, version: int) -> Iterable[tuple[Key, FetchRequestFetchPartition]]:
    for topic in request.topics:
        name: str | bytes = topic.topic_id if version >= TOPIC_IDS_VERSION else topic.topic
        for partition in topic.partitions:
            yield (name, partition.partition), partition
