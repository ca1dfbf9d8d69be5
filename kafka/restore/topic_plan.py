"""The topics of a restore: compared with those of the cluster, and created there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from offsetfs.common.name_patterns import NamePattern
from offsetfs.kafka.client.cluster import ClusterClient, NodeKind, repeated
from offsetfs.kafka.client.errors import ClientError, KafkaError, check_code, error_name
from offsetfs.kafka.client.metadata import TOPIC_RESOURCE, ClusterMetadata, TopicInfo, settings_requests
from offsetfs.kafka.client.partition_offsets import EARLIEST, LATEST, partition_offsets
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import INTERNAL_TOPICS, LOG_APPEND_TIME, LogDirectory, TopicPartition

DEFAULT_FACTOR_VERSION = 4
"""The version of CreateTopics from which the cluster has a default for the number of replicas."""

CREATION_TIMEOUT_MS = 30_000
DELETION_BY_NAME_VERSION = 5
"""Later versions of DeleteTopics have other fields for names."""

_WHOLE_NAME = r"(?<![\w.-])%s(?![\w-]|\.\w)"
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
        """The number of partitions that the topic needs."""
        return max(self.partitions) + 1


def topics_of(
    directory: LogDirectory, patterns: Sequence[NamePattern], overrides: Mapping[str, str]
) -> list[TopicPlan]:
    """Return the topics whose names a pattern matches as a whole; all but Kafka's own without patterns.

    `overrides`: settings for all topics, over those of the directory; an empty value removes one.
    """
    numbers: dict[str, list[int]] = {}
    for partition in directory.partitions():
        wanted = any(pattern.fullmatch(partition.topic) for pattern in patterns) if patterns else True
        if wanted and partition.topic not in INTERNAL_TOPICS:
            numbers.setdefault(partition.topic, []).append(partition.partition)
    return [
        TopicPlan(name, tuple(sorted(partitions)), _settings({**_own_settings(directory, name), **overrides}))
        for name, partitions in sorted(numbers.items())
    ]


def _own_settings(directory: LogDirectory, topic: str) -> Mapping[str, str]:
    """Return the settings of a topic; of a mirror those that it has in its cluster: here it has no retention."""
    mirror = directory.mirror
    if mirror is not None and topic in mirror.topics:
        return mirror.topics[topic].settings
    return directory.explicit_settings_of(topic)


def _settings(given: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in given.items() if value}


async def compare(client: ClusterClient, plans: Sequence[TopicPlan], *, into_existing: bool) -> list[TopicPlan]:
    """Return the plans with what the cluster has; RestoreRefused for topics that cannot be restored, ClientError."""
    metadata = await repeated(lambda: _known(client, plans), client.properties)
    compared = [_compared(plan, metadata.topics[plan.name]) for plan in plans]
    existing = [plan for plan in compared if plan.exists]
    if not into_existing:
        starts = await partition_offsets(client, _partitions_of(existing, metadata.topics), EARLIEST)
        ends = await partition_offsets(client, list(starts), LATEST)
        full = sorted({partition.topic for partition, end in ends.items() if end > starts[partition]})
        if full:
            remedy = "delete them there, or append to them with --into-existing"
            raise RestoreRefused(f"the cluster has records in {', '.join(full)}; {remedy}")
    await _check_times(client, existing)
    return compared


async def _known(client: ClusterClient, plans: Sequence[TopicPlan]) -> ClusterMetadata:
    metadata = await client.metadata([plan.name for plan in plans], refresh=True)
    for topic in metadata.topics.values():
        if topic.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            check_code(topic.error, topic.name)
    return metadata


async def _check_times(client: ClusterClient, plans: Sequence[TopicPlan]) -> None:
    """Raise RestoreRefused for a topic of the cluster whose broker would replace the times of the records.

    Where the user may not see the settings, nothing is checked.
    """
    for request in settings_requests([plan.name for plan in plans], [_TIMESTAMP_TYPE]):
        await _check_times_of(client, request)


async def _check_times_of(client: ClusterClient, request: m.DescribeConfigsRequest) -> None:
    async def ask() -> list[Any]:
        response = await client.request(request)
        results = [result for result in response.results if result.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        for result in results:
            check_code(
                result.error_code, f"{result.resource_name}: {result.error_message or 'its settings are not known'}"
            )
        return results

    for result in await repeated(ask, client.properties):
        if any(config.name == _TIMESTAMP_TYPE and config.value == LOG_APPEND_TIME for config in result.configs):
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
    return [TopicPartition(plan.name, index) for plan in plans for index in topics[plan.name].partitions]


async def without_refused_settings(
    client: ClusterClient, plans: Sequence[TopicPlan], factor: int | None
) -> tuple[list[TopicPlan], list[str]]:
    """Return the plans without the settings that the cluster does not know or refuses, and a sentence for each of them.

    KafkaError for what else a topic is refused, ClientError. Nothing is created. All topics are validated first: a
    broker creates those that it accepts beside others that it refuses: a name that collides, the number of replicas.
    """
    settings = {plan.name: dict(plan.settings) for plan in plans if not plan.exists}
    left_out = list[str]()
    while settings:
        current = [replace(plan, settings=settings[plan.name]) for plan in plans if plan.name in settings]
        refused = [
            result for result in await _created(client, current, factor, validate_only=True) if result.error_code
        ]
        for result in refused:
            names = await _refused_settings(client, _named(current, result.name), result, factor)
            if not names:
                raise _refusal(result)
            for name in names:
                left_out.append(
                    f"{result.name}: {name}={settings[result.name].pop(name)} is left out: {_reason(result)}"
                )
        if not refused:
            break
    return [replace(plan, settings=settings.get(plan.name, plan.settings)) for plan in plans], left_out


async def _refused_settings(client: ClusterClient, plan: TopicPlan, refused: Any, factor: int | None) -> list[str]:
    """Return the settings for which a broker refuses a topic: those that it names, else those that it refuses alone."""
    if refused.error_code not in (ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION):
        return []
    sent = [config.name for config in _configs(plan)]
    named = [name for name in sent if re.search(_WHOLE_NAME % re.escape(name), refused.error_message or "")]
    if named or refused.error_code == ErrorCode.POLICY_VIOLATION:
        return named
    refused_names = []
    for name in sent:
        alone = replace(plan, settings={name: plan.settings[name]})
        (answer,) = await _created(client, [alone], factor, validate_only=True)
        if answer.error_code == ErrorCode.INVALID_CONFIG:
            refused_names.append(name)
    return refused_names


def _named(plans: Iterable[TopicPlan], name: str) -> TopicPlan:
    return next(plan for plan in plans if plan.name == name)


def _reason(refused: Any) -> str:
    return refused.error_message or error_name(refused.error_code)


def _refusal(refused: Any) -> KafkaError:
    return KafkaError(refused.error_code, f"{refused.name}: {refused.error_message or 'it cannot be created'}")


async def create(client: ClusterClient, plans: Sequence[TopicPlan], factor: int | None) -> None:
    """Create the topics that the cluster does not have, and wait for their leaders; KafkaError, ClientError.

    After an error none of the topics exists.
    """
    new = [plan for plan in plans if not plan.exists]
    if not new:
        return
    created = list[str]()
    try:
        for result in await _created(client, new, factor, validate_only=False):
            if result.error_code:
                raise _refusal(result)
            created.append(result.name)
        await _wait_for_leaders(client, new)
    except ClientError:
        await delete(client, created)
        raise


async def _created(
    client: ClusterClient, plans: Sequence[TopicPlan], factor: int | None, *, validate_only: bool
) -> list[Any]:
    """Ask the controller to create topics; return its answers, without errors that pass; ClientError."""
    done, attempts = dict[str, Any](), 0

    async def ask() -> None:
        nonlocal attempts
        attempts += 1
        await client.metadata([plan.name for plan in plans], refresh=True)  # the controller may have moved
        connection = await client.connection(NodeKind.CONTROLLER)
        has_default = connection.version_of(m.CreateTopicsRequest) >= DEFAULT_FACTOR_VERSION
        replicas = factor or (-1 if has_default else 1)
        left = [plan for plan in plans if plan.name not in done]
        topics = [m.CreatableTopic(plan.name, plan.count, replicas, configs=_configs(plan)) for plan in left]
        request = m.CreateTopicsRequest(topics, CREATION_TIMEOUT_MS, validate_only)
        response = await connection.request(request, timeout_ms=2 * CREATION_TIMEOUT_MS)
        for topic in response.topics:
            if attempts > 1 and topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                topic.error_code = ErrorCode.NONE  # by an attempt whose answer did not come
            refusal = _refusal(topic)
            if not topic.error_code or not refusal.is_retriable:
                done[topic.name] = topic
        if passing := [topic for topic in response.topics if topic.name not in done]:
            raise _refusal(passing[0])

    await repeated(ask, client.properties)
    return [done[plan.name] for plan in plans]


async def delete(client: ClusterClient, names: Sequence[str]) -> list[str]:
    """Delete topics that this run has created and that have no records; return those that are deleted."""

    async def ask() -> list[str]:
        request = m.DeleteTopicsRequest(topic_names=list(names), timeout_ms=CREATION_TIMEOUT_MS)
        response = await client.request(request, node=NodeKind.CONTROLLER, max_version=DELETION_BY_NAME_VERSION)
        return [row.name for row in response.responses if not row.error_code]

    if not names:
        return []
    try:
        return await repeated(ask, client.properties)
    except ClientError:
        return []


def _configs(plan: TopicPlan) -> list[m.CreatableTopicConfig]:
    """Return the settings of a new topic, without LogAppendTime: a broker would replace the times of the records."""
    return [m.CreatableTopicConfig(name, value) for name, value in plan.settings.items() if not _is_late(name, value)]


def _is_late(name: str, value: str) -> bool:
    return name == _TIMESTAMP_TYPE and value == LOG_APPEND_TIME


async def _wait_for_leaders(client: ClusterClient, plans: Sequence[TopicPlan]) -> None:
    async def ask() -> None:
        metadata = await client.metadata([plan.name for plan in plans], refresh=True)
        for plan in plans:
            partitions = metadata.topics[plan.name].partitions
            if len(partitions) < plan.count or any(partition.leader < 0 for partition in partitions.values()):
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{plan.name}: the new topic has no leader")

    await repeated(ask, client.properties)


async def complete(client: ClusterClient, plans: Sequence[TopicPlan]) -> None:
    """Set the topic settings that must not apply before the records are there; KafkaError, ClientError.

    The restored records stay those of CreateTime with the times that they have: no producer may send others.
    """
    late = [
        plan for plan in plans if not plan.exists and _is_late(_TIMESTAMP_TYPE, plan.settings.get(_TIMESTAMP_TYPE, ""))
    ]
    if not late:
        return
    change = m.IncrementalAlterConfigsRequestAlterableConfig(_TIMESTAMP_TYPE, 0, LOG_APPEND_TIME)
    resources = [
        m.IncrementalAlterConfigsRequestAlterConfigsResource(TOPIC_RESOURCE, plan.name, [change]) for plan in late
    ]

    async def ask() -> None:
        response = await client.request(m.IncrementalAlterConfigsRequest(resources), node=NodeKind.CONTROLLER)
        for row in response.responses:
            check_code(row.error_code, f"{row.resource_name}: {_TIMESTAMP_TYPE}: {row.error_message}")

    await repeated(ask, client.properties)
