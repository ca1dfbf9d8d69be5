"""Regular expressions of consumers: whatever a client sends, other requests are answered meanwhile."""

from __future__ import annotations

import pytest
import trio
from fixtures.broker.consumer_group_requests import Consumers
from fixtures.security.authorized_broker import AuthorizedBroker

from offsetfs.kafka.broker.groups import topic_patterns
from offsetfs.kafka.broker.groups.group import GroupError
from offsetfs.kafka.broker.groups.topic_patterns import LENGTH_MAX, TopicPatterns
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit

CATASTROPHIC = (".?" * 398 + "~", "(a|aa)" * 50 + "b", "(.*a){20}~", "((a?b?){30}){30}~", r"(\w|\w\w)*!")
NAMES = ["a" * 248 + each for each in "abc"]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
async def test_a_pattern_that_backtracks_without_end_is_answered(directory: LogDirectory, pattern: str) -> None:
    consumers = Consumers(directory)
    directory.create_partitions([TopicPartition(each, 0) for each in NAMES])
    joined = await consumers.join("a", subscribed_topic_regex=pattern)
    assert joined.error_code == 0
    assert consumers.group.regexes[pattern].topics == set()


@pytest.mark.parametrize("pattern", ["(", "(?=t)t", r"(t)\1", "t" * (LENGTH_MAX + 1), "t\ud800"])
async def test_a_pattern_that_kafka_refuses_is_refused(directory: LogDirectory, pattern: str) -> None:
    consumers = Consumers(directory)
    assert (await consumers.join("a", subscribed_topic_regex=pattern)).error_code == (
        ErrorCode.INVALID_REGULAR_EXPRESSION
    )
    assert consumers.coordinator.table.names() == []


async def test_repetitions_within_repetitions_are_as_in_kafka(directory: LogDirectory) -> None:
    consumers = Consumers(directory)
    assert (await consumers.join("a", subscribed_topic_regex="((t|x)+)*.?.?.?.?")).error_code == 0
    assert consumers.group.regexes["((t|x)+)*.?.?.?.?"].topics == {"t"}


async def test_names_are_matched_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_patterns, "SLICE_S", 0.0)
    patterns, passes = TopicPatterns(), 0

    async def bystander() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bystander)
        found = await patterns.matching("a.*", [f"{name}{number}" for name in "ab" for number in range(10)])
        nursery.cancel_scope.cancel()
    assert found == {f"a{number}" for number in range(10)}
    assert passes > 20


async def test_a_pattern_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_patterns, "SLICE_S", 0.0)
    monkeypatch.setattr(topic_patterns, "WORK_S_MAX", 0.0)
    with pytest.raises(GroupError, match="processor time") as refused:
        await TopicPatterns().matching("a.*", NAMES)
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_nothing_is_matched_for_a_client_without_rights(
    guarded: AuthorizedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(topic_patterns, "NamePattern")  # an error if a pattern is compiled
    request = m.ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=1000, subscribed_topic_regex=".*", topic_partitions=[]
    )
    response = await guarded.ask("ConsumerGroupHeartbeat", 1, request)
    assert response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
