"""The cluster as clients see it: one broker, its topics, and the versions of each API that it answers.

ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.connections.listeners import ADVERTISED
from offsetfs.kafka.broker.errors import code_of
from offsetfs.kafka.broker.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, UNKNOWN_OPERATIONS
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.partitions import ServedTopic, Topics
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID
from offsetfs.kafka.protocol.messages import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    FinalizedFeatureKey,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    SupportedFeatureKey,
)
from offsetfs.storage import INTERNAL_TOPICS, check_topic
from offsetfs.storage.errors import InvalidName, PartitionExists, StorageError

DESCRIBED_PARTITIONS_MAX = 2000
"""The partitions in a response to DescribeTopicPartitions. Kafka: `max.request.partition.size.limit`."""

_BROKERS, _CONTROLLERS = 1, 2

_FEATURES = {"group.version": 1, "transaction.version": 2}
"""The features of a cluster that clients ask for, with their levels: groups of KIP-848, transactions of KIP-890."""

_NODES_SINCE = 5  # ApiVersions
_ANY_NODE = (None, -1)

_FEATURES_EPOCH = 1  # it would rise with each change of the levels


_SOFTWARE = re.compile("[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""Names and versions of clients (KIP-511)."""


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """This broker. `host` and `port` are the address for the client of the current task (`advertised.listeners`)."""

    node_id: int
    cluster_id: str
    first_host: str
    first_port: int
    """The address of the first listener, for tasks without a client."""

    @property
    def host(self) -> str:
        return ADVERTISED.get((self.first_host, self.first_port))[0]

    @property
    def port(self) -> int:
        return ADVERTISED.get((self.first_host, self.first_port))[1]


class Cluster:
    """Answers what clients ask first."""

    def __init__(self, topics: Topics, node: BrokerNode, versions: Mapping[int, tuple[int, int]]) -> None:
        self._topics = topics
        self._node = node
        self._versions = versions

    async def api_versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """Return the APIs and their versions, and the features (version 3 and later).

        A client that expects another cluster or node gets REBOOTSTRAP_REQUIRED (KIP-1242).
        """
        software = request.client_software_name, request.client_software_version
        if version >= 3 and not all(_SOFTWARE.fullmatch(text) for text in software):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        asked = request.cluster_id, request.node_id
        if version >= _NODES_SINCE and asked != _ANY_NODE:
            if None in asked or -1 in asked:
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
            if asked != (self._node.cluster_id, self._node.node_id):
                return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        keys = [ApiVersion(key, first, last) for key, (first, last) in sorted(self._versions.items())]
        return ApiVersionsResponse(
            api_keys=keys,
            supported_features=[SupportedFeatureKey(name, 0, level) for name, level in _FEATURES.items()],
            finalized_features_epoch=_FEATURES_EPOCH,
            finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in _FEATURES.items()],
        )

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
        wanted_topics = request.topics or []
        if version < 12 and any(topic.name is None or topic.topic_id != NO_ID for topic in wanted_topics):
            code = ErrorCode.INVALID_REQUEST
            return MetadataResponse(
                topics=[
                    MetadataResponseTopic(code, name=topic.name or "", topic_id=topic.topic_id)
                    for topic in wanted_topics
                ]
            )
        known, slices = self._topics.all(), Slices()
        if request.topics is None or (version == 0 and not request.topics):
            for topic in known.values():
                await slices.step()
                response.topics.append(self._topic(topic, request))
            return response
        for wanted in {(topic.name, topic.topic_id): topic for topic in request.topics}.values():
            await slices.step()
            response.topics.append(await self._wanted(wanted.name, wanted.topic_id, known, request, version))
        return response

    async def _wanted(
        self,
        name: str | None,
        topic_id: bytes,
        known: Mapping[str, ServedTopic],
        request: MetadataRequest,
        version: int,
    ) -> MetadataResponseTopic:
        if name is None or (version >= 12 and topic_id != NO_ID):
            name = self._topics.name_of(topic_id)
            if name is None:
                return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        if name in known:
            return self._topic(known[name], request)
        if version >= 4 and not request.allow_auto_topic_creation:
            return _missing(name, _missing_code(name), request)
        try:
            with trio.CancelScope(shield=True):  # a thread goes on when its task is cancelled
                created = await in_thread(partial(self._topics.create_missing, name))
        except PartitionExists:
            created = True
        except (StorageError, OSError) as error:
            return _missing(name, code_of(error), request)
        if not created:
            return _missing(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, request)
        return self._topic(self._topics.all().get(name) or ServedTopic(name, {}), request)

    def _topic(self, topic: ServedTopic, request: MetadataRequest) -> MetadataResponseTopic:
        node_id, name = self._node.node_id, topic.name
        return MetadataResponseTopic(
            name=name,
            topic_id=self._topics.topic_id(name),
            is_internal=name in INTERNAL_TOPICS,
            partitions=[
                MetadataResponsePartition(
                    partition_index=number,
                    leader_id=node_id,
                    leader_epoch=self._topics.leader_epoch(partition),
                    replica_nodes=[node_id],
                    isr_nodes=[node_id],
                )
                for number, partition in topic.partitions.items()
            ],
            topic_authorized_operations=_operations(request),
        )

    async def describe_topic_partitions(
        self, request: DescribeTopicPartitionsRequest, version: int
    ) -> DescribeTopicPartitionsResponse:
        """Return topics in pages, all of them for an empty list. As `DescribeTopicPartitionsRequestHandler`."""
        known, cursor = self._topics.all(), request.cursor
        if cursor is not None and cursor.partition_index < 0:
            invalid = [_undescribed(ErrorCode.INVALID_REQUEST, topic.name) for topic in request.topics]
            return DescribeTopicPartitionsResponse(topics=invalid)
        slices, begin = Slices(), "" if cursor is None else cursor.topic_name
        names = await slices.sorted(list({topic.name for topic in request.topics} or known))
        described: list[DescribeTopicPartitionsResponseTopic] = []
        following: DescribeTopicPartitionsResponseCursor | None = None
        left = max(min(request.response_partition_limit, DESCRIBED_PARTITIONS_MAX), 1)
        for name in names:
            await slices.step()
            if name < begin:
                continue
            if left <= 0:
                following = DescribeTopicPartitionsResponseCursor(name, 0)
                break
            topic = known.get(name)
            if topic is None:
                described.append(_undescribed(_missing_code(name), name, TOPIC_OPERATIONS))
                continue
            first = cursor.partition_index if cursor is not None and name == begin else 0
            numbers = [number for number in topic.partitions if number >= first]
            described.append(self._described(topic, numbers[:left]))
            if len(numbers) > left:
                following = DescribeTopicPartitionsResponseCursor(name, numbers[left])
                break
            left -= len(numbers)
        return DescribeTopicPartitionsResponse(0, described, following)

    def _described(self, topic: ServedTopic, numbers: list[int]) -> DescribeTopicPartitionsResponseTopic:
        node_id = self._node.node_id
        return DescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=self._topics.topic_id(topic.name),
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[
                DescribeTopicPartitionsResponsePartition(
                    partition_index=number,
                    leader_id=node_id,
                    leader_epoch=self._topics.leader_epoch(topic.partitions[number]),
                    replica_nodes=[node_id],
                    isr_nodes=[node_id],
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                )
                for number in numbers
            ],
            topic_authorized_operations=TOPIC_OPERATIONS,
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


def _undescribed(
    code: ErrorCode, name: str, operations: int = UNKNOWN_OPERATIONS
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(code, name, topic_authorized_operations=operations)


def _missing(name: str, code: ErrorCode, request: MetadataRequest) -> MetadataResponseTopic:
    return MetadataResponseTopic(code, name=name, topic_authorized_operations=_operations(request))


def _operations(request: MetadataRequest) -> int:
    return TOPIC_OPERATIONS if request.include_topic_authorized_operations else UNKNOWN_OPERATIONS


def _missing_code(name: str) -> ErrorCode:
    """Return the error for a topic that does not exist."""
    try:
        check_topic(name)
    except InvalidName:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
