"""ConsumerProtocolSubscription. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.protocol.message import NEW, ProtocolMessage


class ConsumerProtocolSubscriptionTopicPartition(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[int] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class ConsumerProtocolSubscription(ProtocolMessage):
    __slots__ = ("generation_id", "owned_partitions", "rack_id", "topics", "user_data")

    def __init__(
        self,
        topics: list[str] = NEW,
        user_data: bytes | None = None,
        owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = NEW,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.user_data = user_data
        self.owned_partitions = [] if owned_partitions is NEW else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id
