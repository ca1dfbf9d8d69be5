"""ConsumerProtocolAssignment. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.protocol.message import NEW, ProtocolMessage


class ConsumerProtocolAssignmentTopicPartition(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[int] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class ConsumerProtocolAssignment(ProtocolMessage):
    __slots__ = (
        "assigned_partitions",
        "user_data",
    )

    def __init__(
        self, assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = NEW, user_data: bytes | None = None
    ) -> None:
        self.assigned_partitions = [] if assigned_partitions is NEW else assigned_partitions
        self.user_data = user_data
