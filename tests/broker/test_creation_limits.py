"""Creations of partitions: how many, how long, and until when."""

from __future__ import annotations

import pytest

from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.topics import topic_admin
from offsetfs.kafka.broker.topics.configs import Configs
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.broker.topics.topic_admin import TopicAdmin
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.directory.partition_directories import deleted_directories

pytestmark = pytest.mark.unit


def admin_of(directory: LogDirectory) -> TopicAdmin:
    topics, settings = Topics(directory, 1, creates=False), ServerSettings()

    async def forget(_partitions: object) -> None:
        raise AssertionError

    return TopicAdmin(topics, Configs(topics, settings), settings, forget)


@pytest.mark.parametrize(
    "topics",
    [
        [m.CreatableTopic("a", 1_000_000, 1)],
        [m.CreatableTopic(f"t{number}", 10_000, 1) for number in range(100)],
        [m.CreatableTopic("a", 10_000, 1), m.CreatableTopic("b", -1, -1)],
    ],
    ids=["one topic", "many topics", "with the default"],
)
@pytest.mark.parametrize("only_checks", [True, False])
async def test_a_request_creates_ten_thousand_partitions_at_most(
    directory: LogDirectory, topics: list[m.CreatableTopic], only_checks: bool
) -> None:
    before = directory.partitions()
    response = await admin_of(directory).create_topics(m.CreateTopicsRequest(topics, validate_only=only_checks), 7)
    assert [each.name for each in response.topics] == [each.name for each in topics]
    assert {each.error_code for each in response.topics} == {ErrorCode.POLICY_VIOLATION}
    assert directory.partitions() == before


async def test_a_request_adds_ten_thousand_partitions_at_most(directory: LogDirectory) -> None:
    directory.create_partitions([TopicPartition("u", 0)])
    asked = [m.CreatePartitionsTopic(each, 6000, None) for each in "tu"]
    response = await admin_of(directory).create_partitions(m.CreatePartitionsRequest(asked), 3)
    assert {each.error_code for each in response.results} == {ErrorCode.POLICY_VIOLATION}
    assert len(directory.partitions()) == 2


async def test_a_creation_ends_with_the_broker_and_leaves_nothing(directory: LogDirectory) -> None:
    admin = admin_of(directory)
    admin._topics.close()
    response = await admin.create_topics(m.CreateTopicsRequest([m.CreatableTopic("new", 100, 1)]), 7)
    assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    more = await admin.create_partitions(m.CreatePartitionsRequest([m.CreatePartitionsTopic("t", 100, None)]), 3)
    assert more.results[0].error_code == ErrorCode.NOT_CONTROLLER
    assert directory.partitions() == [TopicPartition("t", 0)]
    assert deleted_directories(directory.path) == []


async def test_a_creation_ends_at_its_time_limit_and_leaves_nothing(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_admin, "_TIMEOUT_S_MIN", 0.0)
    request = m.CreateTopicsRequest([m.CreatableTopic("new", 1000, 1)], timeout_ms=1)
    response = await admin_of(directory).create_topics(request, 7)
    assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert directory.partitions() == [TopicPartition("t", 0)]
    assert deleted_directories(directory.path) == []
    request.timeout_ms = 0  # as librdkafka asks
    assert (await admin_of(directory).create_topics(request, 7)).topics[0].error_code == ErrorCode.NONE
