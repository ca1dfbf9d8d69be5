"""Members of one consumer group (KIP-848) that only send heartbeats: the load on a group coordinator without clients.

As librdkafka and the Java client do, a member reports what it reads as soon as its assignment has changed. Otherwise it
waits `HEARTBEAT_S` for its next heartbeat, which is shorter than the brokers' five seconds: the figure is then the time
of the broker, and not that of the members' pauses.
"""

from __future__ import annotations

import heapq
import itertools
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fixtures.broker.running import decoded, framed

from offsetfs.kafka.protocol import messages as m

HEARTBEAT_S = 0.2
SECONDS_MAX = 100.0

FIND_COORDINATOR, HEARTBEAT = 10, 68
_VERSION = 1
_RETRIED = (14, 15, 16)  # the coordinator is loading, not available, or not there yet
_REBALANCE_MS = 60_000

Reads = frozenset[tuple[bytes, int]]


@dataclass(slots=True, eq=False)
class GroupMember:
    """A member on a connection of its own."""

    group: str
    topic: str
    member_id: str
    connection: socket.socket
    epoch: int = 0
    reads: Reads = frozenset()
    is_reported: bool = True
    """Whether the broker knows what the member reads."""
    is_waiting: bool = False
    """Whether it waits for a response."""
    received: bytearray = field(default_factory=bytearray)

    def send(self) -> None:
        """Send a heartbeat; the first one joins."""
        request = m.ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch)
        if self.epoch == 0:
            request.rebalance_timeout_ms, request.subscribed_topic_names = _REBALANCE_MS, [self.topic]
        if self.epoch == 0 or not self.is_reported:
            request.topic_partitions = [
                m.ConsumerGroupHeartbeatRequestTopicPartitions(topic, [each for _, each in rows])
                for topic, rows in itertools.groupby(sorted(self.reads), key=lambda each: each[0])
            ]
        self.is_reported = self.is_waiting = True
        self.connection.sendall(framed(HEARTBEAT, "ConsumerGroupHeartbeat", _VERSION, request))

    def take(self) -> bool:
        """Receive; return whether the response is complete."""
        data = self.connection.recv(1 << 16)
        assert data, f"{self.member_id}: the broker has closed the connection"
        self.received += data
        if len(self.received) < 4 or len(self.received) < 4 + int.from_bytes(self.received[:4], "big"):
            return False
        response: m.ConsumerGroupHeartbeatResponse = decoded(
            HEARTBEAT, "ConsumerGroupHeartbeat", _VERSION, bytes(self.received[4:])
        )
        self.received.clear()
        self.is_waiting = False
        if response.error_code in _RETRIED and self.epoch == 0:
            return True
        assert not response.error_code, response
        self.epoch = response.member_epoch
        if response.assignment is not None:
            given = response.assignment.topic_partitions
            reads = frozenset((topic.topic_id, each) for topic in given for each in topic.partitions)
            self.is_reported = reads == self.reads
            self.reads = reads
        return True

    def leave(self) -> None:
        """Send that the member leaves."""
        request = m.ConsumerGroupHeartbeatRequest(self.group, self.member_id, -1)
        self.connection.sendall(framed(HEARTBEAT, "ConsumerGroupHeartbeat", _VERSION, request))
        while not self.take():
            pass


def run(members: Sequence[GroupMember], is_over: Callable[[], bool]) -> float:
    """Send the heartbeats of members until all have reported what they read, and it `is_over`; return the seconds."""
    due: list[tuple[float, int]] = []
    start = time.perf_counter()
    with selectors.DefaultSelector() as waiting:
        for number, each in enumerate(members):
            waiting.register(each.connection, selectors.EVENT_READ, number)
            each.send()
        while not (all(each.is_reported for each in members) and is_over()):
            now = time.perf_counter()
            assert now - start < SECONDS_MAX, "the group is not stable"
            while due and due[0][0] <= now:
                members[heapq.heappop(due)[1]].send()
            pause_s = max(due[0][0] - now, 0) if due else HEARTBEAT_S
            for key, _ in waiting.select(pause_s):
                member = members[key.data]
                if not member.take():
                    continue
                if member.is_reported:
                    heapq.heappush(due, (time.perf_counter() + HEARTBEAT_S, key.data))
                else:
                    member.send()
        elapsed = time.perf_counter() - start
    for each in members:
        while each.is_waiting:
            each.take()
    return elapsed
