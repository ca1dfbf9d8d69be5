"""The shared state of the parts of a mirror: partitions, failures, the source, and the event loop's next round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.errors import error_name
from offsetfs.kafka.mirror.options import MirrorOptions
from offsetfs.kafka.mirror.partition import MirroredPartition, is_passing
from offsetfs.kafka.mirror.positions import SourceOffset
from offsetfs.storage import LogDirectory, TopicPartition

OnEvent = Callable[[str], None]
"""Called with one sentence for each event that the user sees."""


@dataclass(slots=True, eq=False)
class MirrorState:
    """The state of one mirror. Only the event loop changes it."""

    directory: LogDirectory
    client: ClusterClient
    source: str
    """The addresses of brokers, as the user gave them."""
    options: MirrorOptions
    on_event: OnEvent
    partitions: dict[TopicPartition, MirroredPartition] = field(default_factory=dict)
    by_id: dict[tuple[bytes, int], MirroredPartition] = field(default_factory=dict)
    """The partitions by topic id and number."""
    failures: dict[str, str] = field(default_factory=dict)
    """Topics that are not mirrored, with the reason."""
    is_begun: bool = False
    """Whether the topics of the source were asked for once."""
    asks_again: bool = False
    """Whether topics and leaders are asked for in the next round."""
    wake: trio.Event = field(default_factory=trio.Event)
    """Begins the next round."""

    def active(self) -> list[MirroredPartition]:
        """Return the partitions that are not stopped."""
        return [partition for partition in self.partitions.values() if not partition.is_stopped]

    def partitions_of(self, node: int) -> list[MirroredPartition]:
        """Return the partitions that are fetched from a broker."""
        return [
            partition for partition in self.partitions.values() if partition.node == node and not partition.is_stopped
        ]

    def by_name(self, topic: str, topic_id: bytes, number: int) -> MirroredPartition | None:
        """Return the partition of a response, which names its topic or has the topic id."""
        if topic:
            return self.partitions.get(TopicPartition(topic, number))
        return self.by_id.get((bytes(topic_id), number))

    def metadata_is_old(self) -> None:
        """Ask for topics and leaders again, soon."""
        self.asks_again = True
        self.wake.set()

    def changed(self, partition: MirroredPartition) -> None:
        """Report the failure of a partition that has stopped, and begin the next round."""
        if partition.is_stopped and partition.failure:
            self.report(partition, partition.failure)
        self.wake.set()

    def report(self, partition: MirroredPartition, text: str) -> None:
        """Report an event of a partition."""
        self.on_event(f"{partition.name}: {text}")

    def stop(self, partition: MirroredPartition, failure: str, *, is_another: bool = False) -> None:
        """Stop a partition for a reason that does not pass, and report it."""
        partition.stop(failure, is_another=is_another)
        self.changed(partition)

    def note_error(self, partition: MirroredPartition, text: str) -> None:
        """Record an error that may pass; the source is asked again."""
        partition.note_error(text, trio.current_time())
        self.asks_again = True

    def is_answered(self, partition: MirroredPartition, answer: SourceOffset | None) -> bool:
        """Return whether the source has answered ListOffsets; otherwise it is asked again, or the partition stops."""
        if answer is None:
            self.asks_again = True
            return False
        if is_passing(answer.error):
            self.note_error(partition, f"ListOffsets: {error_name(answer.error)}")
            return False
        if answer.error:
            self.stop(partition, f"ListOffsets: {error_name(answer.error)}")
            return False
        return True
