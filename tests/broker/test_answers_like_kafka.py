"""Answers that once differed from Kafka's, found by sending the same requests to both (tests/interop)."""

from __future__ import annotations

import pytest
from running_broker import Running

from offsetfs.broker.authorization.operations import TOPIC_OPERATIONS
from offsetfs.protocol import messages as m

pytestmark = pytest.mark.unit


async def test_a_topic_that_does_not_exist_is_described_with_the_operations_of_the_client(running: Running) -> None:
    request = m.DescribeTopicPartitionsRequest(
        [m.DescribeTopicPartitionsRequestTopicRequest(each) for each in ("x", "a b")]
    )
    found = await running.send(75, "DescribeTopicPartitions", 0, request)
    assert [(each.name, each.error_code, each.topic_authorized_operations) for each in found.topics] == [
        ("a b", 17, TOPIC_OPERATIONS),
        ("x", 3, TOPIC_OPERATIONS),
    ]
