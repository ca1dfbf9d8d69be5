"""The brokers, topics and partitions of a cluster, as a response to Metadata has them; requests for topic settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from offsetfs.common.addresses import Address
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID

TOPIC_RESOURCE = 2
"""Kafka: `ConfigResource.Type.TOPIC`."""

DESCRIBED_MAX = 500
"""Topics in one request for settings."""


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A broker of the cluster."""

    id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition, as its cluster reports it."""

    index: int
    leader: int
    """The node id of the leader; -1 if there is none."""
    leader_epoch: int
    """-1 where the broker is older than 2.1."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error: int
    """A code of `ErrorCode`, such as LEADER_NOT_AVAILABLE; 0 without an error."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic, as its cluster reports it."""

    name: str
    id: bytes
    """16 bytes; all of them 0 where the broker is older than 2.8."""
    is_internal: bool
    error: int
    """A code of `ErrorCode`, such as UNKNOWN_TOPIC_OR_PARTITION; 0 without an error."""
    partitions: Mapping[int, PartitionInfo]

    @property
    def has_id(self) -> bool:
        return self.id != NO_ID


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """A cluster at one time."""

    cluster_id: str | None
    """None where the broker is older than 0.10.1."""
    controller_id: int
    brokers: Mapping[int, ClusterNode]
    topics: Mapping[str, TopicInfo]


CREATION_OPTIONAL_VERSION = 4
"""Requests of this version and later can ask for a topic without creating it."""


def metadata_request(version: int, topics: Sequence[str] | None) -> m.MetadataRequest:
    """Return the request for these topics, or for all. It creates no topic: where it would, it asks for all."""
    if version < CREATION_OPTIONAL_VERSION:
        return m.MetadataRequest(None if version else [])
    wanted = None if topics is None else [m.MetadataRequestTopic(name=topic) for topic in topics]
    return m.MetadataRequest(wanted, allow_auto_topic_creation=False)


def cluster_metadata(response: m.MetadataResponse, topics: Sequence[str] | None) -> ClusterMetadata:
    """Return the metadata of these topics in a response, or of all topics."""
    infos = {topic.name: _topic(topic) for topic in response.topics if topic.name is not None}
    if topics is not None:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        infos = {topic: infos.get(topic) or TopicInfo(topic, NO_ID, False, missing, {}) for topic in topics}
    return ClusterMetadata(
        response.cluster_id,
        response.controller_id,
        {
            broker.node_id: ClusterNode(broker.node_id, (broker.host, broker.port), broker.rack)
            for broker in response.brokers
        },
        infos,
    )


def _topic(row: Any) -> TopicInfo:
    partitions = {partition.partition_index: _partition(partition) for partition in row.partitions}
    return TopicInfo(row.name, bytes(row.topic_id), row.is_internal, row.error_code, partitions)


def _partition(row: Any) -> PartitionInfo:
    return PartitionInfo(
        row.partition_index,
        row.leader_id,
        row.leader_epoch,
        tuple(row.replica_nodes),
        tuple(row.isr_nodes),
        tuple(row.offline_replicas),
        row.error_code,
    )


def settings_requests(topics: Iterable[str], names: Sequence[str] | None = None) -> Iterator[m.DescribeConfigsRequest]:
    """Yield requests for settings of topics, for all of them without `names`.

    Each names `DESCRIBED_MAX` topics: a broker may bound a response (`serve`: 100,000 settings).
    """
    keys = None if names is None else list(names)
    resources = [m.DescribeConfigsResource(TOPIC_RESOURCE, topic, keys) for topic in topics]
    for start in range(0, len(resources), DESCRIBED_MAX):
        yield m.DescribeConfigsRequest(resources[start : start + DESCRIBED_MAX])
