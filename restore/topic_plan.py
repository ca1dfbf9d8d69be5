"""The topics that are restored: what the log directory has of them, what the cluster has, and how they are created."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import trio

from offsetfs.client.cluster import ClusterClient, NodeKind
from offsetfs.client.errors import KafkaError, check_code
from offsetfs.client.metadata import TopicInfo
from offsetfs.client.retries import repeated
from offsetfs.protocol import messages as m
from offsetfs.protocol.error_codes import ErrorCode
from offsetfs.storage import INTERNAL_TOPICS, LOG_APPEND_TIME, LogDirectory, TopicPartition

DEFAULT_FACTOR_VERSION = 4
"""From this version of CreateTopics on, the cluster has a default for the number of replicas."""

CREATION_TIMEOUT_MS = 30_000
_LATEST, _EARLIEST = -1, -2
_CONSUMER = -1
_TOPIC_RESOURCE = 2
_TIMESTAMP_TYPE = "message.timestamp.type"


class RestoreRefused(Exception):
    """Nothing was changed, for this reason; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic of the log directory."""

    name: str
    partitions: tuple[int, ...]
    """Those that the directory has."""
    settings: Mapping[str, str]
    exists: bool = False
    """Whether the cluster has the topic."""

    @property
    def count(self) -> int:
        """How many partitions the topic needs."""
        return max(self.partitions) + 1


def topics_of(
    directory: LogDirectory, patterns: Sequence[re.Pattern[str]], overrides: Mapping[str, str]
) -> list[TopicPlan]:
    """Return the topics whose names a pattern matches as a whole; all but Kafka's own without patterns.

    `overrides`: settings for all topics, over those of the directory; an empty value removes one.
    """
    found: dict[str, list[int]] = {}
    for each in directory.partitions():
        wanted = any(pattern.fullmatch(each.topic) for pattern in patterns) if patterns else True
        if wanted and each.topic not in INTERNAL_TOPICS:
            found.setdefault(each.topic, []).append(each.partition)
    return [
        TopicPlan(name, tuple(sorted(partitions)), _settings({**_own_settings(directory, name), **overrides}))
        for name, partitions in sorted(found.items())
    ]


def _own_settings(directory: LogDirectory, topic: str) -> Mapping[str, str]:
    """Return the settings of a topic; of a mirror those that it has in its cluster: here it has no retention."""
    mirror = directory.mirror
    if mirror is not None and topic in mirror.topics:
        return mirror.topics[topic].settings
    return directory.settings_of(topic)


def _settings(given: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in given.items() if value}


async def compare(client: ClusterClient, plans: Sequence[TopicPlan], *, into_existing: bool) -> list[TopicPlan]:
    """Return the plans with what the cluster has; RestoreRefused for topics that cannot be restored, ClientError."""
    metadata = await client.metadata([each.name for each in plans], refresh=True)
    found = [_compared(each, metadata.topics[each.name]) for each in plans]
    existing = [each for each in found if each.exists]
    if not into_existing:
        starts = await end_offsets(client, _partitions_of(existing, metadata.topics), earliest=True)
        ends = await end_offsets(client, list(starts))
        full = sorted({each.topic for each, end in ends.items() if end > starts[each]})
        if full:
            remedy = "delete them there, or append to them with --into-existing"
            raise RestoreRefused(f"the cluster has records in {', '.join(full)}; {remedy}")
    await _check_times(client, existing)
    return found


async def _check_times(client: ClusterClient, plans: Sequence[TopicPlan]) -> None:
    """Raise RestoreRefused for a topic of the cluster whose broker would replace the times of the records.

    Where the user may not see the settings, nothing is checked.
    """
    if not plans:
        return
    resources = [m.DescribeConfigsResource(_TOPIC_RESOURCE, each.name, [_TIMESTAMP_TYPE]) for each in plans]
    response = await client.request(m.DescribeConfigsRequest(resources))
    for result in response.results:
        if result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            continue
        check_code(result.error_code, f"{result.resource_name}: {result.error_message or 'its settings are not known'}")
        if any(each.name == _TIMESTAMP_TYPE and each.value == LOG_APPEND_TIME for each in result.configs):
            remedy = f"set {_TIMESTAMP_TYPE}=CreateTime there until the records are restored, or delete the topic"
            raise RestoreRefused(f"{result.resource_name} has {LOG_APPEND_TIME} in the cluster; {remedy}")


def _compared(plan: TopicPlan, topic: TopicInfo) -> TopicPlan:
    if topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return plan
    check_code(topic.error, plan.name)
    if len(topic.partitions) < plan.count:
        remedy = "add partitions, or delete the topic there"
        raise RestoreRefused(
            f"{plan.name} has {len(topic.partitions)} partitions in the cluster and {plan.count} here; {remedy}"
        )
    return TopicPlan(plan.name, plan.partitions, plan.settings, exists=True)


def _partitions_of(plans: Iterable[TopicPlan], topics: Mapping[str, TopicInfo]) -> list[TopicPartition]:
    return [TopicPartition(each.name, index) for each in plans for index in topics[each.name].partitions]


async def create(client: ClusterClient, plans: Sequence[TopicPlan], factor: int | None, *, validate_only: bool) -> None:
    """Create the topics that the cluster does not have, and wait for their leaders; KafkaError, ClientError.

    All are validated first, because a broker creates those that it accepts beside others that it refuses: a name that
    collides, a setting, the number of replicas.
    """
    new = [each for each in plans if not each.exists]
    if not new:
        return
    connection = await client.connection(NodeKind.CONTROLLER)
    has_default = connection.version_of(m.CreateTopicsRequest) >= DEFAULT_FACTOR_VERSION
    replicas = factor or (-1 if has_default else 1)
    topics = [m.CreatableTopic(each.name, each.count, replicas, configs=_configs(each)) for each in new]
    for only in (True,) if validate_only else (True, False):
        request = m.CreateTopicsRequest(topics, CREATION_TIMEOUT_MS, only)
        response = await connection.request(request, timeout_ms=2 * CREATION_TIMEOUT_MS)
        for each in response.topics:
            check_code(each.error_code, f"{each.name}: {each.error_message or 'it cannot be created'}")
    if not validate_only:
        await _wait_for_leaders(client, new)


def _configs(plan: TopicPlan) -> list[m.CreatableTopicConfig]:
    """Return the settings of a new topic, without LogAppendTime: a broker would replace the times of the records."""
    return [m.CreatableTopicConfig(name, value) for name, value in plan.settings.items() if not _is_late(name, value)]


def _is_late(name: str, value: str) -> bool:
    return name == _TIMESTAMP_TYPE and value == LOG_APPEND_TIME


async def _wait_for_leaders(client: ClusterClient, plans: Sequence[TopicPlan]) -> None:
    with trio.fail_after(CREATION_TIMEOUT_MS / 1000):
        while True:
            metadata = await client.metadata([each.name for each in plans], refresh=True)
            topics = [metadata.topics[each.name] for each in plans]
            if all(
                len(topic.partitions) >= plan.count and all(each.leader >= 0 for each in topic.partitions.values())
                for plan, topic in zip(plans, topics, strict=True)
            ):
                return
            await trio.sleep(client.properties.retry_backoff_ms / 1000)


async def complete(client: ClusterClient, plans: Sequence[TopicPlan]) -> None:
    """Set what a topic may have only when its records are there; KafkaError, ClientError."""
    late = [
        each for each in plans if not each.exists and _is_late(_TIMESTAMP_TYPE, each.settings.get(_TIMESTAMP_TYPE, ""))
    ]
    if not late:
        return
    change = m.IncrementalAlterConfigsRequestAlterableConfig(_TIMESTAMP_TYPE, 0, LOG_APPEND_TIME)
    resources = [
        m.IncrementalAlterConfigsRequestAlterConfigsResource(_TOPIC_RESOURCE, each.name, [change]) for each in late
    ]
    response = await client.request(m.IncrementalAlterConfigsRequest(resources), node=NodeKind.CONTROLLER)
    for each in response.responses:
        check_code(each.error_code, f"{each.resource_name}: {_TIMESTAMP_TYPE}: {each.error_message}")


async def end_offsets(
    client: ClusterClient, partitions: Sequence[TopicPartition], *, earliest: bool = False
) -> dict[TopicPartition, int]:
    """Return the ends of partitions in the cluster, or their beginnings with `earliest`; KafkaError, ClientError.

    Leaders that change are waited for up to `request.timeout.ms`: those of a new topic answer NOT_LEADER_OR_FOLLOWER.
    """
    wanted = _EARLIEST if earliest else _LATEST
    return await repeated(lambda: _offsets(client, partitions, wanted), client.properties)


async def _offsets(
    client: ClusterClient, partitions: Sequence[TopicPartition], wanted: int
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    metadata = await client.metadata(sorted({each.topic for each in partitions}), refresh=True)
    by_leader: dict[int, dict[str, list[int]]] = {}
    for each in partitions:
        leader = metadata.topics[each.topic].partitions[each.partition].leader
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{each} has no leader")
        by_leader.setdefault(leader, {}).setdefault(each.topic, []).append(each.partition)
    found = {}
    for leader, topics in by_leader.items():
        rows = [
            m.ListOffsetsTopic(name, [m.ListOffsetsPartition(index, timestamp=wanted) for index in indexes])
            for name, indexes in topics.items()
        ]
        response = await client.request(m.ListOffsetsRequest(_CONSUMER, topics=rows), node=leader)
        for topic in response.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                check_code(row.error_code, str(partition))
                found[partition] = row.offset
    return found
