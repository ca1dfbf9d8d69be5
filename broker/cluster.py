"""What clients learn of the cluster: one broker, its topics, and the versions of each API that it answers.

ApiVersions, Metadata, DescribeCluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import trio

from offsetfs.broker.error_codes import ErrorCode, code_of
from offsetfs.broker.partitions import Topic, Topics
from offsetfs.protocol.message import NO_ID
from offsetfs.protocol.messages import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from offsetfs.storage import INTERNAL_TOPICS
from offsetfs.storage.errors import PartitionExists, StorageError

UNKNOWN_OPERATIONS = -(2**31)
"""The operations of a resource where the client has not asked for them."""

TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
"""Everything that is possible, as a bit for each code of `AclOperation`: there are no ACLs."""

_BROKERS, _CONTROLLERS = 1, 2


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """This broker. `host` and `port` are the address that clients get (`advertised.listeners`)."""

    node_id: int
    cluster_id: str
    host: str
    port: int


class Cluster:
    """Answers what clients ask first."""

    def __init__(self, topics: Topics, node: BrokerNode, versions: Mapping[int, tuple[int, int]]) -> None:
        self._topics = topics
        self._node = node
        self._versions = versions

    async def api_versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """Return the APIs and their versions."""
        keys = [ApiVersion(key, first, last) for key, (first, last) in sorted(self._versions.items())]
        return ApiVersionsResponse(api_keys=keys)

    async def metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        """Return the broker and the topics that were asked for: all of them for null, and for an empty list in v0."""
        node = self._node
        response = MetadataResponse(
            brokers=[MetadataResponseBroker(node.node_id, node.host, node.port)],
            cluster_id=node.cluster_id,
            controller_id=node.node_id,
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else UNKNOWN_OPERATIONS
            ),
        )
        known = self._topics.all()
        if request.topics is None or (version == 0 and not request.topics):
            response.topics = [self._topic(each, request) for each in known.values()]
            return response
        for wanted in request.topics:
            response.topics.append(await self._wanted(wanted.name, wanted.topic_id, known, request, version))
        return response

    async def _wanted(
        self, name: str | None, topic_id: bytes, known: Mapping[str, Topic], request: MetadataRequest, version: int
    ) -> MetadataResponseTopic:
        if name is None or (version >= 12 and topic_id != NO_ID):
            name = self._topics.name_of(topic_id)
            if name is None:
                return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        if name in known:
            return self._topic(known[name], request)
        if version >= 4 and not request.allow_auto_topic_creation:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        try:
            with trio.CancelScope(shield=True):  # a thread goes on when its task is cancelled
                created = await trio.to_thread.run_sync(self._topics.create_missing, name)
        except PartitionExists:
            created = True
        except (StorageError, OSError) as error:
            return MetadataResponseTopic(code_of(error), name=name)
        if not created:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        return self._topic(self._topics.all().get(name) or Topic(name, {}), request)

    def _topic(self, topic: Topic, request: MetadataRequest) -> MetadataResponseTopic:
        node_id, name = self._node.node_id, topic.name
        return MetadataResponseTopic(
            name=name,
            topic_id=self._topics.topic_id(name),
            is_internal=name in INTERNAL_TOPICS,
            partitions=[
                MetadataResponsePartition(
                    partition_index=number,
                    leader_id=node_id,
                    leader_epoch=self._topics.leader_epoch(each),
                    replica_nodes=[node_id],
                    isr_nodes=[node_id],
                )
                for number, each in topic.partitions.items()
            ],
            topic_authorized_operations=(
                TOPIC_OPERATIONS if request.include_topic_authorized_operations else UNKNOWN_OPERATIONS
            ),
        )

    async def describe_cluster(self, request: DescribeClusterRequest, version: int) -> DescribeClusterResponse:
        """Return the only broker, which is the controller as well."""
        node = self._node
        if version >= 1 and request.endpoint_type != _BROKERS:
            is_known = request.endpoint_type == _CONTROLLERS
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="this is an endpoint of brokers: use --bootstrap-server",
                endpoint_type=_BROKERS,
            )
        return DescribeClusterResponse(
            cluster_id=node.cluster_id,
            controller_id=node.node_id,
            brokers=[DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port)],
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else UNKNOWN_OPERATIONS
            ),
        )
