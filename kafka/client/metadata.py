"""The brokers, topics and partitions of a cluster, as a response to Metadata has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from offsetfs.common.addresses import Address
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID


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
    wanted = None if topics is None else [m.MetadataRequestTopic(name=each) for each in topics]
    return m.MetadataRequest(wanted, allow_auto_topic_creation=False)


def cluster_metadata(response: m.MetadataResponse, topics: Sequence[str] | None) -> ClusterMetadata:
    """Return what a response says about these topics, or about all."""
    found = {each.name: _topic(each) for each in response.topics if each.name is not None}
    if topics is not None:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        found = {each: found.get(each) or TopicInfo(each, NO_ID, False, missing, {}) for each in topics}
    return ClusterMetadata(
        response.cluster_id,
        response.controller_id,
        {each.node_id: ClusterNode(each.node_id, (each.host, each.port), each.rack) for each in response.brokers},
        found,
    )


def _topic(found: Any) -> TopicInfo:
    partitions = {each.partition_index: _partition(each) for each in found.partitions}
    return TopicInfo(found.name, bytes(found.topic_id), found.is_internal, found.error_code, partitions)


def _partition(found: Any) -> PartitionInfo:
    return PartitionInfo(
        found.partition_index,
        found.leader_id,
        found.leader_epoch,
        tuple(found.replica_nodes),
        tuple(found.isr_nodes),
        tuple(found.offline_replicas),
        found.error_code,
    )
