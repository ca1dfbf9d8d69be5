"""Administration of topics, their settings, and what describes them: the answers of Kafka 4.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest
import trio
from fixtures.broker.running import Running

from offsetfs.kafka.broker.topics import configs
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import BatchBuilder, LogConfig, LogDirectory, TopicPartition
from offsetfs.storage.settings.config import property_name
from offsetfs.storage.settings.config_values import CompressionLevelType, IntegerType
from offsetfs.storage.units import I32_MAX

pytestmark = pytest.mark.unit

OTHER_ID = b"\1" * 16


async def create(running: Running, *names: str, **fields: Any) -> Any:
    topics = [m.CreatableTopic(name=each, **{"num_partitions": 1, "replication_factor": 1, **fields}) for each in names]
    return (await running.send(19, "CreateTopics", 7, m.CreateTopicsRequest(topics=topics))).topics


async def delete(running: Running, *states: m.DeleteTopicState) -> list[int]:
    response = await running.send(20, "DeleteTopics", 6, m.DeleteTopicsRequest(topics=list(states)))
    return [each.error_code for each in response.responses]


async def change(running: Running, *changes: tuple[str, int, str | None], topic: str = "t", only: bool = False) -> int:
    configs = [m.IncrementalAlterConfigsRequestAlterableConfig(*each) for each in changes]
    resource = m.IncrementalAlterConfigsRequestAlterConfigsResource(2, topic, configs)
    request = m.IncrementalAlterConfigsRequest(resources=[resource], validate_only=only)
    code: int = (await running.send(44, "IncrementalAlterConfigs", 1, request)).responses[0].error_code
    return code


async def described(running: Running, *names: str) -> dict[str, tuple[str, int, list[tuple[str, int, str]]]]:
    """Return value, source and synonyms of settings of the topic `t`."""
    resource = m.DescribeConfigsResource(2, "t", list(names))
    request = m.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    response = await running.send(32, "DescribeConfigs", 4, request)
    return {
        each.name: (each.value, each.config_source, [(one.name, one.source, one.value) for one in each.synonyms])
        for each in response.results[0].configs
    }


# --- topics ----------------------------------------------------------------------------------------------------------


async def test_a_topic_whose_id_is_another_one_is_not_deleted(running: Running, directory: LogDirectory) -> None:
    """A request with name and id once deleted the topic of this name, although another one had the id."""
    assert await delete(running, m.DeleteTopicState("t", OTHER_ID)) == [ErrorCode.INVALID_REQUEST]
    assert await delete(running, m.DeleteTopicState(None, bytes(16))) == [ErrorCode.INVALID_REQUEST]
    assert await delete(running, m.DeleteTopicState(None, OTHER_ID)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert await delete(running, m.DeleteTopicState("t"), m.DeleteTopicState("t")) == [ErrorCode.INVALID_REQUEST]
    assert directory.has(TopicPartition("t", 0))
    topic_id = directory.topic_id(TopicPartition("t", 0))
    assert topic_id is not None and await delete(running, m.DeleteTopicState(None, topic_id)) == [0]
    assert not directory.has(TopicPartition("t", 0))


async def test_a_topic_that_occurs_twice_is_not_created(running: Running, directory: LogDirectory) -> None:
    found = await create(running, "twice", "twice")
    assert [each.error_code for each in found] == [ErrorCode.INVALID_REQUEST]
    assert not directory.has(TopicPartition("twice", 0))


@pytest.mark.parametrize(
    ("name", "fields", "code"),
    [
        ("t", {}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ("a b", {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__cluster_metadata", {}, ErrorCode.INVALID_REQUEST),
        ("n", {"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ("n", {"replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ("n", {"configs": [m.CreatableTopicConfig("retention.ms", None)]}, ErrorCode.INVALID_CONFIG),
        ("n", {"configs": [m.CreatableTopicConfig("retention.ms", "soon")]}, ErrorCode.INVALID_CONFIG),
        ("n", {"configs": [m.CreatableTopicConfig("no.setting", "1")]}, ErrorCode.INVALID_CONFIG),
        ("n", {"assignments": [m.CreatableReplicaAssignment(0, [1])]}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_topic_is_refused(
    running: Running, directory: LogDirectory, name: str, fields: dict[str, Any], code: ErrorCode
) -> None:
    found = await create(running, name, **fields)
    assert found[0].error_code == code and found[0].error_message
    assert [str(each) for each in directory.partitions()] == ["t-0"]


async def test_names_that_are_equal_in_kafkas_metrics_collide(running: Running) -> None:
    assert (await create(running, "a.b"))[0].error_code == 0
    assert (await create(running, "a_b"))[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("assigned", "code"),
    [
        ([(0, [1]), (1, [1])], ErrorCode.NONE),
        ([(0, [1]), (2, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [1]), (0, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [9])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [1, 1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_a_manual_assignment_names_this_broker(
    running: Running, assigned: Sequence[tuple[int, list[int]]], code: ErrorCode
) -> None:
    assignments = [m.CreatableReplicaAssignment(*each) for each in assigned]
    found = await create(running, "n", num_partitions=-1, replication_factor=-1, assignments=assignments)
    assert (found[0].error_code, found[0].num_partitions) == (code, 2 if code == ErrorCode.NONE else -1)


@pytest.mark.parametrize(
    ("count", "assigned", "code"),
    [
        (3, None, ErrorCode.NONE),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (100_000, None, ErrorCode.INVALID_PARTITIONS),
        (3, [[1], [1]], ErrorCode.NONE),
        (3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1], [9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_partitions_are_added(
    running: Running, directory: LogDirectory, count: int, assigned: list[list[int]] | None, code: ErrorCode
) -> None:
    """An assignment was once not looked at."""
    assignments = None if assigned is None else [m.CreatePartitionsAssignment(each) for each in assigned]
    topic = m.CreatePartitionsTopic("t", count, assignments)
    response = await running.send(37, "CreatePartitions", 3, m.CreatePartitionsRequest(topics=[topic]))
    assert response.results[0].error_code == code
    assert len(directory.partitions()) == (count if code == ErrorCode.NONE else 1)


# --- settings --------------------------------------------------------------------------------------------------------


def test_a_setting_of_32_bits_has_the_type_int() -> None:
    """As Kafka's ConfigDef has it; the others are of type long."""
    kinds = {property_name(each.name): each.metadata["kind"] for each in fields(LogConfig)}
    expected = {
        name
        for name, kind in kinds.items()
        if isinstance(kind, CompressionLevelType) or (isinstance(kind, IntegerType) and kind.high <= I32_MAX)
    }
    assert expected == configs._INT_NAMES, "kafka/broker/topics/configs.py:_INT_NAMES"


async def test_a_setting_has_a_source_and_synonyms(running: Running) -> None:
    found = await described(running, "cleanup.policy", "retention.ms")
    assert found == {
        "cleanup.policy": ("delete", 5, [("log.cleanup.policy", 5, "delete")]),
        "retention.ms": ("604800000", 5, []),
    }
    assert await change(running, ("cleanup.policy", 2, "compact"), ("retention.ms", 0, "5000")) == 0
    found = await described(running, "cleanup.policy", "retention.ms")
    synonyms = [("cleanup.policy", 1, "delete,compact"), ("log.cleanup.policy", 5, "delete")]
    assert found == {
        "cleanup.policy": ("delete,compact", 1, synonyms),
        "retention.ms": ("5000", 1, [("retention.ms", 1, "5000")]),
    }
    assert await change(running, ("cleanup.policy", 3, "delete"), ("retention.ms", 1, None)) == 0
    found = await described(running, "cleanup.policy", "retention.ms")
    assert (found["cleanup.policy"][0], found["retention.ms"][1]) == ("compact", 5)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", 0, "soon")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", 2, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 0, "1"), ("retention.ms", 1, None)], ErrorCode.INVALID_REQUEST),
        ([("no.setting", 0, "1")], ErrorCode.INVALID_CONFIG),
        ([("no.setting", 1, None)], ErrorCode.NONE),
    ],
)
async def test_a_change_of_settings_is_refused(
    running: Running, directory: LogDirectory, changes: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    assert await change(running, *changes) == code
    assert directory.settings_of("t") == {}


async def test_a_change_that_is_only_validated_changes_nothing(running: Running, directory: LogDirectory) -> None:
    assert await change(running, ("retention.ms", 0, "7"), only=True) == 0
    assert directory.settings_of("t") == {}


async def test_a_topic_in_two_resources_is_refused(running: Running, directory: LogDirectory) -> None:
    config = m.AlterConfigsRequestAlterableConfig("retention.ms", "9")
    resources = [m.AlterConfigsRequestAlterConfigsResource(2, "t", [config])] * 2
    response = await running.send(33, "AlterConfigs", 2, m.AlterConfigsRequest(resources=resources))
    assert [each.error_code for each in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert directory.settings_of("t") == {}


# --- descriptions ----------------------------------------------------------------------------------------------------


async def pages(running: Running, limit: int, *names: str) -> list[list[tuple[str, int, list[int]]]]:
    """Return the pages of DescribeTopicPartitions: name, error and partitions of each topic."""
    found, cursor = [], None
    while True:
        request = m.DescribeTopicPartitionsRequest(
            topics=[m.DescribeTopicPartitionsRequestTopicRequest(each) for each in names],
            response_partition_limit=limit,
            cursor=cursor,
        )
        response = await running.send(75, "DescribeTopicPartitions", 0, request)
        found.append(
            [(each.name, each.error_code, [p.partition_index for p in each.partitions]) for each in response.topics]
        )
        if response.next_cursor is None:
            return found
        following = response.next_cursor
        cursor = m.DescribeTopicPartitionsRequestCursor(following.topic_name, following.partition_index)


async def test_topics_are_described_in_pages(running: Running, directory: LogDirectory) -> None:
    directory.create_partitions([TopicPartition("a", each) for each in range(3)])
    assert await pages(running, 2) == [[("a", 0, [0, 1])], [("a", 0, [2]), ("t", 0, [0])]]
    assert await pages(running, 3) == [[("a", 0, [0, 1, 2])], [("t", 0, [0])]]
    assert await pages(running, 0, "t") == [[("t", 0, [0])]]
    assert await pages(running, 9, "t", "nowhere", "a b") == [
        [("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, []), ("nowhere", 3, []), ("t", 0, [0])]
    ]


async def test_log_directories_are_described_with_sizes(running: Running, directory: LogDirectory) -> None:
    builder = BatchBuilder(1 << 16)
    builder.append(None, b"x" * 1000, (), 1)
    directory.log(TopicPartition("t", 0)).append(builder.seal())
    directory.create_partitions([TopicPartition("other", 0)])
    for topics, expected in ((None, {"other", "t"}), ([m.DescribableLogDirTopic("t", [0, 9])], {"t"})):
        response = await running.send(35, "DescribeLogDirs", 4, m.DescribeLogDirsRequest(topics=topics))
        (result,) = response.results
        assert {each.name for each in result.topics} == expected and result.log_dir == directory.path
        assert result.total_bytes >= result.usable_bytes > 0
        sizes = {each.name: each.partitions[0].partition_size for each in result.topics}
        assert sizes["t"] == directory.log(TopicPartition("t", 0)).size_bytes > 1000
    assert directory.opened(TopicPartition("other", 0)) is None


@pytest.mark.parametrize(
    ("kind", "code"),
    [(1, 0), (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_the_cluster_is_described_to_clients_of_brokers(running: Running, kind: int, code: int) -> None:
    request = m.DescribeClusterRequest(endpoint_type=kind, include_cluster_authorized_operations=True)
    response = await running.send(60, "DescribeCluster", 2, request)
    assert response.error_code == code and len(response.brokers) == (not code)
    assert code or response.cluster_authorized_operations == 8096


@pytest.mark.parametrize("version", range(2, 8))
async def test_all_versions_create_a_topic(running: Running, version: int) -> None:
    topic = m.CreatableTopic(name="n", num_partitions=2, replication_factor=1)
    response = await running.send(19, "CreateTopics", version, m.CreateTopicsRequest(topics=[topic]))
    assert response.topics[0].error_code == 0


@pytest.mark.parametrize("keys", [None, []])
@pytest.mark.parametrize("version", range(1, 5))
async def test_all_versions_describe_settings(running: Running, version: int, keys: list[str] | None) -> None:
    """No keys are all keys, as in Kafka."""
    request = m.DescribeConfigsRequest(resources=[m.DescribeConfigsResource(2, "t", keys)], include_synonyms=True)
    response = await running.send(32, "DescribeConfigs", version, request)
    assert {each.name: each.value for each in response.results[0].configs}["cleanup.policy"] == "delete"


async def test_an_answer_has_no_paths_of_the_server(directory: LogDirectory, nursery: trio.Nursery) -> None:
    """Produce left them out; requests of administrators showed them."""
    directory.close()
    opened = LogDirectory.open(directory.path, read_only=True)
    running = Running(opened)
    nursery.start_soon(running.run)
    (found,) = await create(running, "new")
    assert (found.error_code, found.error_message) == (ErrorCode.POLICY_VIOLATION, "opened for reading")
    (named,) = await create(running, "a b")
    assert directory.path not in named.error_message
    running.broker.stop()
    opened.close()


async def test_a_new_topic_leaves_the_known_leader_epochs(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each new topic the epochs of all partitions were read again, on the event loop."""
    topics, kept, again = Topics(directory, 1, creates=True), TopicPartition("kept", 0), TopicPartition("again", 0)
    directory.create_partitions([kept, again])
    monkeypatch.setattr(LogDirectory, "opened", lambda *_: None)
    read, epochs = list[TopicPartition](), {kept: 3, again: 5}

    def noted(_: LogDirectory, partition: TopicPartition) -> int:
        read.append(partition)
        return epochs.get(partition, 0)

    monkeypatch.setattr(LogDirectory, "leader_epoch", noted)
    assert [topics.leader_epoch(each) for each in (kept, again)] == [3, 5]
    topics.create("new", range(1), {})
    topics.all()
    assert (topics.leader_epoch(kept), read) == (3, [kept, again])
    topics.delete_logs([again])
    topics.create("again", range(1), {})
    topics.all()
    epochs[again] = 0
    assert (topics.leader_epoch(again), topics.leader_epoch(kept), read[2:]) == (0, 3, [again])


async def test_settings_of_a_broker_can_be_read_and_not_changed(running: Running) -> None:
    described = m.DescribeConfigsRequest(resources=[m.DescribeConfigsResource(4, "1")])
    (found,) = (await running.send(32, "DescribeConfigs", 4, described)).results
    assert found.error_code == 0 and found.configs
    config = m.IncrementalAlterConfigsRequestAlterableConfig("log.retention.ms", 0, "9")
    resource = m.IncrementalAlterConfigsRequestAlterConfigsResource(4, "1", [config])
    request = m.IncrementalAlterConfigsRequest(resources=[resource])
    (refused,) = (await running.send(44, "IncrementalAlterConfigs", 1, request)).responses
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "settings of a broker can be read, not changed; change its file and start it again"
