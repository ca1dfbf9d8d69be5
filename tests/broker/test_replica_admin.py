"""Leaders, replicas and their directories: the answers of a Kafka 4.1 with one broker."""

from __future__ import annotations

import pytest
from fixtures.broker.group_requests import FEW_PARTITIONS
from fixtures.broker.running import Running

from offsetfs.kafka.broker.errors import failure_response
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_no_leader_has_to_be_elected(running: Running) -> None:
    """`serve` once did not know the request: kafka-python's test of it failed, and passes with a single Kafka."""
    wanted = [
        m.ElectLeadersRequestTopicPartitions("t", [0, 7]),
        m.ElectLeadersRequestTopicPartitions("nowhere", [0]),
    ]
    for version in range(3):
        response = await running.send(43, "ElectLeaders", version, m.ElectLeadersRequest(0, wanted))
        rows = {each.topic: each.partition_result for each in response.replica_election_results}
        assert [each.error_code for each in rows["t"]] == [ErrorCode.ELECTION_NOT_NEEDED, UNKNOWN]
        assert [each.error_message for each in rows["nowhere"]] == ["No such topic as nowhere"]
    everything = await running.send(43, "ElectLeaders", 2, m.ElectLeadersRequest(1, None))
    assert [(each.topic, each.partition_result) for each in everything.replica_election_results] == [("t", [])]
    refused = await running.send(43, "ElectLeaders", 2, m.ElectLeadersRequest(9, wanted))
    assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_a_partition_stays_in_its_directory(running: Running, directory: LogDirectory) -> None:
    def to(path: str, *topics: str) -> m.AlterReplicaLogDir:
        return m.AlterReplicaLogDir(path, [m.AlterReplicaLogDirTopic(each, [0]) for each in topics])

    async def codes(*targets: m.AlterReplicaLogDir) -> dict[str, list[int]]:
        response = await running.send(34, "AlterReplicaLogDirs", 2, m.AlterReplicaLogDirsRequest([*targets]))
        return {each.topic_name: [one.error_code for one in each.partitions] for each in response.results}

    there, other = to(directory.path, "t", "nowhere"), to("/nowhere", "t")
    assert await codes(there) == {"t": [ErrorCode.NONE], "nowhere": [UNKNOWN]}
    assert await codes(other) == {"t": [ErrorCode.LOG_DIR_NOT_FOUND]}
    # As in Kafka, the last directory of a partition counts.
    assert await codes(there, other) == {"t": [ErrorCode.LOG_DIR_NOT_FOUND], "nowhere": [UNKNOWN]}
    request = m.AlterReplicaLogDirsRequest([there, other])
    failed = failure_response(request, 2).results
    assert [(each.topic_name, each.partitions[0].error_code) for each in failed] == [
        (each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in ("t", "nowhere", "t")
    ]


@pytest.mark.parametrize(
    ("topic", "partition", "replicas", "code"),
    [
        ("t", 0, [1], ErrorCode.NONE),
        ("t", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 7, [1], UNKNOWN),
        ("nowhere", 0, [1], UNKNOWN),
    ],
)
async def test_the_only_broker_is_the_only_replica(
    running: Running, topic: str, partition: int, replicas: list[int] | None, code: ErrorCode
) -> None:
    request = m.AlterPartitionReassignmentsRequest(
        topics=[m.ReassignableTopic(topic, [m.ReassignablePartition(partition, replicas)])]
    )
    response = await running.send(45, "AlterPartitionReassignments", 1, request)
    (row,) = response.responses[0].partitions
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert (row.partition_index, row.error_code, row.error_message is None) == (partition, code, not code)
    listed = await running.send(46, "ListPartitionReassignments", 0, m.ListPartitionReassignmentsRequest())
    assert (listed.error_code, listed.topics) == (ErrorCode.NONE, [])


async def test_resources_with_settings_are_the_topics_and_the_broker(running: Running) -> None:
    async def listed(version: int, *types: int) -> tuple[int, list[tuple[str, int]]]:
        request = m.ListConfigResourcesRequest(list(types))
        response = await running.send(74, "ListConfigResources", version, request)
        return response.error_code, [(each.resource_name, each.resource_type) for each in response.config_resources]

    assert await listed(1) == (ErrorCode.NONE, [("1", 8), ("1", 4), ("t", 2)])
    assert await listed(1, 2, 16) == (ErrorCode.NONE, [("t", 2)])
    assert await listed(1, 3) == (ErrorCode.UNSUPPORTED_VERSION, [])
    assert await listed(0) == (ErrorCode.NONE, [])


@pytest.mark.parametrize("version", [3, 6])
async def test_a_look_up_of_a_group_creates_the_topic(running: Running, directory: LogDirectory, version: int) -> None:
    """A consumer that read `__consumer_offsets` first waited for it."""
    request = m.FindCoordinatorRequest(coordinator_keys=["g"]) if version >= 4 else m.FindCoordinatorRequest("g")
    for _ in range(2):
        response = await running.send(10, "FindCoordinator", version, request)
        assert (response.coordinators[0] if version >= 4 else response).error_code == ErrorCode.NONE
    topics = [each.topic for each in directory.partitions()]
    assert topics.count("__consumer_offsets") == FEW_PARTITIONS.offsets_topic_num_partitions


@pytest.mark.parametrize("version", range(3))
async def test_this_broker_is_the_only_voter(running: Running, version: int) -> None:
    """`serve` once did not know the request: kafka-python's test of it failed, and passes with a single Kafka."""

    def asked(topic: str, *partitions: int) -> m.DescribeQuorumRequestTopicData:
        rows = [m.DescribeQuorumRequestPartitionData(each) for each in partitions]
        return m.DescribeQuorumRequestTopicData(topic, rows)

    request = m.DescribeQuorumRequest([asked("__cluster_metadata", 0)])
    found = await running.send(55, "DescribeQuorum", version, request)
    partition = found.topics[0].partitions[0]
    assert (found.error_code, found.topics[0].topic_name, partition.error_code) == (0, "__cluster_metadata", 0)
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 0, 0)
    assert [(each.replica_id, each.log_end_offset) for each in partition.current_voters] == [(1, 0)]
    assert [each.node_id for each in found.nodes] == ([1] if version >= 2 else [])
    for others in ([asked("t", 0)], [asked("__cluster_metadata", 0, 1)], [*request.topics, asked("t", 0)]):
        refused = await running.send(55, "DescribeQuorum", version, m.DescribeQuorumRequest(others))
        assert {one.error_code for each in refused.topics for one in each.partitions} == {UNKNOWN}
