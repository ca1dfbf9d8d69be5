"""Leaders, replicas and log directories of a broker that has all replicas.

ElectLeaders, AlterReplicaLogDirs, DescribeLogDirs, reassignments and DescribeQuorum. Nothing changes: this broker is
the leader, and its replica stays where it is. Follows ReplicationControlManager, ReplicaManager and KafkaRaftClient.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.cluster import BrokerNode
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.admin_results import UNKNOWN_TOPIC, repeated
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID
from offsetfs.storage import METADATA_TOPIC, LogDirectory

_log = logging.getLogger(__name__)

_ELECTION_TYPES = (0, 1)  # preferred, unclean
_NOT_NEEDED = "Leader election not needed for topic partition."
_NO_REASSIGNMENT = "No partition reassignment is in progress."


class ReplicaAdmin:
    """Answers requests for leaders, replicas and their directories."""

    def __init__(self, topics: Topics, node: BrokerNode) -> None:
        self._topics = topics
        self._node = node

    async def elect_leaders(self, request: m.ElectLeadersRequest, version: int) -> m.ElectLeadersResponse:
        """Return ELECTION_NOT_NEEDED for each partition that exists. A request for all returns the topics alone."""
        if version >= 1 and request.election_type not in _ELECTION_TYPES:
            return m.ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
        topics = self._topics.all()
        if request.topic_partitions is None:
            return m.ElectLeadersResponse(replica_election_results=[m.ReplicaElectionResult(topic) for topic in topics])
        response, slices = m.ElectLeadersResponse(), Slices()
        for wanted in request.topic_partitions:
            rows = []
            for partition in wanted.partitions:
                await slices.step()
                if self._has(wanted.topic, partition):
                    code, message = ErrorCode.ELECTION_NOT_NEEDED, _NOT_NEEDED
                elif wanted.topic in topics:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    message = f"No such partition as {wanted.topic}-{partition}"
                else:
                    code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {wanted.topic}"
                rows.append(m.ElectLeadersResponsePartitionResult(partition, code, message))
            response.replica_election_results.append(m.ReplicaElectionResult(wanted.topic, rows))
        return response

    async def alter_replica_log_dirs(
        self, request: m.AlterReplicaLogDirsRequest, version: int
    ) -> m.AlterReplicaLogDirsResponse:
        """Accept the directory that a partition is in. It cannot be moved: OPERATION_NOT_ATTEMPTED."""
        paths, slices = dict[tuple[str, int], str](), Slices()
        for target in request.dirs:
            for named in target.topics:
                for number in named.partitions:
                    await slices.step()
                    paths[named.name, number] = target.path
        results: dict[str, m.AlterReplicaLogDirTopicResult] = {}
        for (topic, partition), path in paths.items():
            await slices.step()
            result = results.get(topic)
            if result is None:
                result = results[topic] = m.AlterReplicaLogDirTopicResult(topic)
            code = self._moved(topic, partition, path)
            result.partitions.append(m.AlterReplicaLogDirPartitionResult(partition, code))
        return m.AlterReplicaLogDirsResponse(results=list(results.values()))

    def _moved(self, topic: str, partition: int, path: str) -> ErrorCode:
        directory = next(
            (known_directory for known_directory in self._topics.directory.directories if known_directory.path == path),
            None,
        )
        if directory is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if not self._has(topic, partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        is_there = directory.has(self._topics.name(topic, partition))
        return ErrorCode.NONE if is_there else ErrorCode.OPERATION_NOT_ATTEMPTED

    async def alter_reassignments(
        self, request: m.AlterPartitionReassignmentsRequest, version: int
    ) -> m.AlterPartitionReassignmentsResponse:
        """Accept this broker as the only replica, which it is."""
        response, slices = m.AlterPartitionReassignmentsResponse(error_message=None), Slices()
        if request.topics:
            response.allow_replication_factor_change = request.allow_replication_factor_change
        for topic in request.topics:
            rows = list[m.ReassignablePartitionResponse]()
            for partition in topic.partitions:
                await slices.step()
                rows.append(
                    m.ReassignablePartitionResponse(partition.partition_index, *self._reassigned(topic.name, partition))
                )
            response.responses.append(m.ReassignableTopicResponse(topic.name, rows))
        return response

    def _reassigned(self, topic: str, wanted: m.ReassignablePartition) -> tuple[ErrorCode, str | None]:
        if not self._has(topic, wanted.partition_index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC
        if wanted.replicas is None:
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, _NO_REASSIGNMENT
        reason = ""
        if not wanted.replicas:
            reason = "The manual partition assignment includes an empty replica list."
        elif repeated(wanted.replicas):
            reason = "The manual partition assignment includes a broker more than once."
        elif wanted.replicas != [self._node.node_id]:
            reason = f"replicas {wanted.replicas}: the only broker is {self._node.node_id}"
        return (ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason) if reason else (ErrorCode.NONE, None)

    async def list_reassignments(
        self, request: m.ListPartitionReassignmentsRequest, version: int
    ) -> m.ListPartitionReassignmentsResponse:
        """Return no partition: none is being reassigned."""
        return m.ListPartitionReassignmentsResponse(error_message=None)

    async def describe_quorum(self, request: m.DescribeQuorumRequest, version: int) -> m.DescribeQuorumResponse:
        """Return this broker as the only voter. There is no log of the cluster's metadata: its end is offset 0."""
        if not _is_metadata(request):
            slices = Slices()
            return m.DescribeQuorumResponse(topics=[await _unknown(slices, topic) for topic in request.topics])
        now_ms = self._topics.directory.clock.now_ms()
        voter = m.DescribeQuorumResponseReplicaState(self._node.node_id, NO_ID, 0, now_ms, now_ms)
        partition = m.DescribeQuorumResponsePartitionData(leader_id=self._node.node_id, current_voters=[voter])
        return m.DescribeQuorumResponse(
            topics=[m.DescribeQuorumResponseTopicData(METADATA_TOPIC, [partition])],
            nodes=[m.Node(self._node.node_id)] if version >= 2 else [],
        )

    def _has(self, topic: str, partition: int) -> bool:
        served = self._topics.all().get(topic)
        return served is not None and partition in served.partitions

    async def describe_log_dirs(self, request: m.DescribeLogDirsRequest, version: int) -> m.DescribeLogDirsResponse:
        """Return the partitions that were asked for, all for null, by log directory with their sizes. Opens no log.

        Also the space of the file systems (KIP-113, KIP-827).
        """
        wanted = None if request.topics is None else {topic.topic: set(topic.partitions) for topic in request.topics}
        results = [
            await in_thread(partial(_described, directory, wanted), abandon_on_cancel=True)
            for directory in self._topics.directory.directories
        ]
        return m.DescribeLogDirsResponse(results=results)


def _is_metadata(request: m.DescribeQuorumRequest) -> bool:
    """Return whether a request asks for the partition of the cluster's metadata, and for nothing else."""
    if len(request.topics) != 1:
        return False
    topic = request.topics[0]
    indexes = [partition.partition_index for partition in topic.partitions[:2]]
    return topic.topic_name == METADATA_TOPIC and indexes == [0]


async def _unknown(slices: Slices, asked: m.DescribeQuorumRequestTopicData) -> m.DescribeQuorumResponseTopicData:
    code, rows = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, list[m.DescribeQuorumResponsePartitionData]()
    for partition in asked.partitions:
        await slices.step()
        rows.append(m.DescribeQuorumResponsePartitionData(partition.partition_index, code, UNKNOWN_TOPIC))
    return m.DescribeQuorumResponseTopicData(asked.topic_name, rows)


def _described(directory: LogDirectory, wanted: Mapping[str, set[int]] | None) -> m.DescribeLogDirsResult:
    topics: dict[str, m.DescribeLogDirsTopic] = {}
    try:
        total, usable = directory.space()
        for name in directory.partitions():
            if wanted is not None and name.partition not in wanted.get(name.topic, ()):
                continue
            try:
                size = directory.size_of(name)
            except FileNotFoundError:  # deleted meanwhile
                continue
            topic = topics.setdefault(name.topic, m.DescribeLogDirsTopic(name.topic))
            topic.partitions.append(m.DescribeLogDirsPartition(name.partition, size))
    except OSError as error:
        _log.error("%s: the partitions could not be listed: %s", directory.path, error)
        return m.DescribeLogDirsResult(log_dir=directory.path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return m.DescribeLogDirsResult(0, directory.path, list(topics.values()), total, usable)
