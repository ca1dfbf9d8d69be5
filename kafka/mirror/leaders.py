"""The leaders of partitions: which broker is asked, and what happens while one does not answer.

A broker that does not answer, and a partition without a leader, are reported after a while; with `once` their
partitions stop in the end. The others continue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import trio

from offsetfs.kafka.client.errors import ClientError, NoBrokerAnswers
from offsetfs.kafka.client.metadata import ClusterMetadata
from offsetfs.kafka.mirror import timing, topics
from offsetfs.kafka.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.kafka.mirror.state import MirrorState
from offsetfs.kafka.protocol.message import NO_ID

_NO_LEADER = NoBrokerAnswers("the source has no leader for some partitions")


@dataclass(slots=True)
class _SilentBroker:
    """A broker that does not answer; of the node id UNKNOWN: partitions without a leader."""

    since: float
    error: ClientError
    is_reported: bool = False


class Leaders:
    """The leaders of the partitions of a mirror."""

    def __init__(self, state: MirrorState) -> None:
        self._state = state
        self._silent: dict[int, _SilentBroker] = {}

    def follow(self, metadata: ClusterMetadata) -> None:
        """Take over leaders and leader epochs of the metadata; a partition whose leader is new is checked again."""
        now = trio.current_time()
        for partition in self._state.active():
            topic = metadata.topics.get(partition.name.topic)
            info = None if topic is None else topic.partitions.get(partition.name.partition)
            if info is None or info.leader_epoch >= partition.leader_epoch or partition.topic_id == NO_ID:
                partition.named_leader = UNKNOWN if info is None else info.leader
            if info is None or info.leader == UNKNOWN:
                self._note_leaderless(partition, now)
                continue
            partition.leaderless_since = math.inf
            if partition.leader == UNKNOWN:
                continue  # not begun
            if UNKNOWN < info.leader_epoch < partition.leader_epoch and partition.topic_id != NO_ID:
                self._state.asks_again = True  # of a broker that has not heard of the last election; as Kafka's clients
                continue
            if (info.leader, info.leader_epoch) != (partition.leader, partition.leader_epoch):
                partition.leader, partition.leader_epoch = info.leader, info.leader_epoch
                partition.read_replica, partition.is_checked = UNKNOWN, False

    def _note_leaderless(self, partition: MirroredPartition, now: float) -> None:
        self._state.asks_again = True
        self.node_failed(UNKNOWN, _NO_LEADER)
        if not self._state.options.once:
            return
        if math.isinf(partition.leaderless_since):
            partition.leaderless_since = now
        elif now - partition.leaderless_since > timing.PATIENCE_S:
            self._state.stop(partition, "the source has no leader for the partition")

    def node_failed(self, node: int, error: ClientError) -> None:
        """Record that a broker does not answer; its partitions may have another leader."""
        silent = self._silent.setdefault(node, _SilentBroker(trio.current_time(), error))
        silent.error = error
        self._state.metadata_is_old()

    def node_answered(self, node: int) -> None:
        """Record that a broker answers."""
        silent = self._silent.pop(node, None)
        if silent is not None and silent.is_reported:
            self._state.on_event(f"broker {node} answers again")

    def attend_silent(self) -> None:
        """Report brokers that do not answer. With `once` their partitions stop in the end; the others continue."""
        now = trio.current_time()
        for node, silent in list(self._silent.items()):
            waiting = [
                partition
                for partition in self._state.active()
                if partition.named_leader == node and not partition.is_complete
            ]
            has_ended = self._state.options.once and node != UNKNOWN and now - silent.since > timing.PATIENCE_S
            if not waiting:
                del self._silent[node]
                if silent.is_reported:
                    self._state.on_event("the partitions that waited have another leader, or are complete")
            elif has_ended or not silent.error.is_retriable:
                del self._silent[node]
                for partition in waiting:
                    self._state.stop(partition, f"{silent.error}; start the mirror again when broker {node} answers")
            elif not silent.is_reported and now - silent.since >= timing.SILENT_S:
                silent.is_reported = True
                go_on = ", and the others go on" if len(self._state.active()) > len(waiting) else ""
                names = topics.listed(partition.name for partition in waiting)
                self._state.on_event(f"{silent.error}; these partitions wait{go_on}: {names}")

    def attend_failing(self) -> None:
        """Report errors of partitions that do not pass soon. With `once` the partitions stop in the end."""
        now = trio.current_time()
        for partition in self._state.active():
            error = partition.passing_error
            if error is None or partition.is_complete:
                continue
            if self._state.options.once and now - error.since > timing.PATIENCE_S:
                self._state.stop(partition, f"{error.text}; see the log of the broker, and start the mirror again")
            elif not error.is_reported and now - error.since >= timing.SILENT_S:
                error.is_reported = True
                self._state.report(partition, f"{error.text}; trying again")

    def waiting_for(self, partition: MirroredPartition) -> str:
        """Return the reported reason for which a partition waits; "" if it does not wait."""
        error = partition.passing_error
        if error is not None and error.is_reported:
            return error.text
        silent = self._silent.get(partition.named_leader)
        is_waiting = silent is not None and silent.is_reported and not partition.is_stopped
        return str(silent.error) if silent is not None and is_waiting else ""
