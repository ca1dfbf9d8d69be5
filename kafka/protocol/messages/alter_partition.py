"""The messages of AlterPartition. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class BrokerState(ProtocolMessage):
    __slots__ = ("broker_epoch", "broker_id")

    def __init__(self, broker_id: int = 0, broker_epoch: int = -1) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class AlterPartitionRequestPartitionData(ProtocolMessage):
    __slots__ = (
        "leader_epoch",
        "leader_recovery_state",
        "new_isr",
        "new_isr_with_epochs",
        "partition_epoch",
        "partition_index",
    )

    def __init__(
        self,
        partition_index: int = 0,
        leader_epoch: int = 0,
        new_isr: list[int] = NEW,
        new_isr_with_epochs: list[BrokerState] = NEW,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.leader_epoch = leader_epoch
        self.new_isr = [] if new_isr is NEW else new_isr
        self.new_isr_with_epochs = [] if new_isr_with_epochs is NEW else new_isr_with_epochs
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class AlterPartitionRequestTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[AlterPartitionRequestPartitionData] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class AlterPartitionRequest(ProtocolMessage):
    __slots__ = ("broker_epoch", "broker_id", "topics")

    def __init__(
        self, broker_id: int = 0, broker_epoch: int = -1, topics: list[AlterPartitionRequestTopicData] = NEW
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.topics = [] if topics is NEW else topics


class AlterPartitionResponsePartitionData(ProtocolMessage):
    __slots__ = (
        "error_code",
        "isr",
        "leader_epoch",
        "leader_id",
        "leader_recovery_state",
        "partition_epoch",
        "partition_index",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        isr: list[int] = NEW,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.isr = [] if isr is NEW else isr
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class AlterPartitionResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[AlterPartitionResponsePartitionData] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class AlterPartitionResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms", "topics")

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, topics: list[AlterPartitionResponseTopicData] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics
