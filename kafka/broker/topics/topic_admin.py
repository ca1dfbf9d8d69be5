"""Administration of topics: CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords.

Follows Kafka's ControllerApis and ReplicationControlManager for one node: the replication factor is always 1.
What waits for the disk runs in threads.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.admin_results import UNKNOWN_TOPIC, Rejected, answer, completed, repeated
from offsetfs.kafka.broker.topics.configs import Configs, check_count
from offsetfs.kafka.broker.topics.partitions import ServedTopic, Topics
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID
from offsetfs.storage import INTERNAL_TOPICS, METADATA_TOPIC, LogConfig, TopicPartition, check_topic

PARTITIONS_MAX = 10_000
"""Partitions of a topic, and of all topics that a request creates: each takes files, and syncs of the disk. Kafka:
`ReplicationControlManager.MAX_PARTITIONS_PER_BATCH`."""

_TIMEOUT_S, _TIMEOUT_S_MIN = 60.0, 5.0
"""Time limits of a creation: without a limit in the request, as librdkafka asks; and for any limit."""

_TOO_MANY = "Excessively large number of partitions per request."


@dataclass(slots=True)
class _Creation:
    """The common options of the topics of a request."""

    ends_s: float
    only_checks: bool
    configs: dict[tuple[LogConfig, frozenset[tuple[str, str]]], list[m.CreatableTopicConfigs]] = field(
        default_factory=dict
    )
    """The settings of the response, by those of the topics: most have the same ones."""


class TopicAdmin:
    """Answers the requests of administrators for topics."""

    def __init__(
        self,
        topics: Topics,
        configs: Configs,
        settings: ServerSettings,
        forget_offsets: Callable[[Iterable[TopicPartition]], Awaitable[None]],
    ) -> None:
        """`forget_offsets` deletes the commits of partitions."""
        self._topics = topics
        self._configs = configs
        self._settings = settings
        self._node_id = settings.node_id
        self._forget_offsets = forget_offsets

    # --- creation ----------------------------------------------------------------------------------------------------

    async def create_topics(self, request: m.CreateTopicsRequest, version: int) -> m.CreateTopicsResponse:
        """Create topics; durable when answered."""
        response = m.CreateTopicsResponse()
        if any(total > PARTITIONS_MAX for total in accumulate(map(self._asked_partitions, request.topics))):
            code, slices = ErrorCode.POLICY_VIOLATION, Slices()
            for name in dict.fromkeys(topic.name for topic in request.topics):
                await slices.step()
                response.topics.append(m.CreatableTopicResult(name, error_code=code, error_message=_TOO_MANY))
            return response
        creation = _Creation(_ends_s(request.timeout_ms), request.validate_only)
        twice = repeated(topic.name for topic in request.topics)
        for name in sorted(twice):
            code = ErrorCode.INVALID_REQUEST
            response.topics.append(m.CreatableTopicResult(name, error_code=code, error_message="Duplicate topic name."))
        slices = Slices()
        for topic in request.topics:
            await slices.step()
            if topic.name not in twice:
                result = m.CreatableTopicResult(name=topic.name, error_message=None)
                response.topics.append(result)
                await answer(result, partial(self._create, topic, result, creation))
        return response

    def _asked_partitions(self, topic: m.CreatableTopic) -> int:
        count = len(topic.assignments) or topic.num_partitions
        return self._settings.num_partitions if count == -1 else max(count, 0)

    async def _create(self, topic: m.CreatableTopic, result: m.CreatableTopicResult, creation: _Creation) -> None:
        self._check_new_name(topic.name)
        settings = _settings_of(topic)
        config = LogConfig.from_properties(settings, self._configs.defaults())
        count = self._partitions(topic)
        if not creation.only_checks:
            await completed(self._topics.create, topic.name, range(count), settings, creation.ends_s)
            result.topic_id = self._topics.topic_id(topic.name)
        result.num_partitions, result.replication_factor = count, 1
        key = config, frozenset(settings.items())
        if key not in creation.configs:
            creation.configs[key] = [
                m.CreatableTopicConfigs(
                    setting.name, setting.value, setting.read_only, setting.config_source, setting.is_sensitive
                )
                for setting in self._configs.of_topic(config, settings)
            ]
        result.configs = creation.configs[key]

    def _check_new_name(self, name: str) -> None:
        check_topic(name)
        if name == METADATA_TOPIC:
            raise Rejected(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        known = self._topics.all()
        if name in known:
            raise Rejected(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if "." in name or "_" in name:  # Kafka's metrics have the same name for both
            same = next(
                (known_name for known_name in known if known_name.replace(".", "_") == name.replace(".", "_")), None
            )
            if same is not None:
                reason = f"Topic '{name}' collides with existing topic: {same}"
                raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)

    def _partitions(self, topic: m.CreatableTopic) -> int:
        """Return how many partitions a new topic gets."""
        if topic.assignments:
            if topic.num_partitions != -1 or topic.replication_factor != -1:
                reason = "with a manual assignment, the number of partitions and the replication factor must be -1"
                raise Rejected(ErrorCode.INVALID_REQUEST, reason)
            indexes = sorted(assignment.partition_index for assignment in topic.assignments)
            if indexes != list(range(len(indexes))):
                reason = "partitions must be numbered from 0, each once and without gaps"
                raise Rejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
            self._check_replicas([assignment.broker_ids for assignment in topic.assignments])
            count = len(indexes)
        else:
            if topic.replication_factor not in (1, -1):
                reason = f"replication factor {topic.replication_factor}: there is one broker"
                raise Rejected(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
            count = self._settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions
        if not 0 < count <= PARTITIONS_MAX:
            raise Rejected(ErrorCode.INVALID_PARTITIONS, f"{count} partitions; 1 to {PARTITIONS_MAX} are possible")
        return count

    def _check_replicas(self, assignments: Sequence[Sequence[int]]) -> None:
        """Check that each partition is assigned to this broker, once."""
        for assignment in assignments:
            if list(assignment) != [self._node_id]:
                reason = f"replicas {list(assignment)}: the only broker is {self._node_id}"
                raise Rejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)

    async def create_partitions(self, request: m.CreatePartitionsRequest, version: int) -> m.CreatePartitionsResponse:
        """Add partitions to topics; durable when answered."""
        response = m.CreatePartitionsResponse()
        known = self._topics.all()
        added = (max(topic.count - _partition_count(known.get(topic.name)), 0) for topic in request.topics)
        # More in a single topic is an error of its own.
        if sum(count for count in added if count <= PARTITIONS_MAX) > PARTITIONS_MAX:
            code, slices = ErrorCode.POLICY_VIOLATION, Slices()
            for name in dict.fromkeys(topic.name for topic in request.topics):
                await slices.step()
                response.results.append(m.CreatePartitionsTopicResult(name, code, _TOO_MANY))
            return response
        ends_s = _ends_s(request.timeout_ms)
        twice = repeated(topic.name for topic in request.topics)
        for name in sorted(twice):
            code = ErrorCode.INVALID_REQUEST
            response.results.append(m.CreatePartitionsTopicResult(name, code, "Duplicate topic name."))
        slices = Slices()
        for topic in request.topics:
            await slices.step()
            if topic.name not in twice:
                result = m.CreatePartitionsTopicResult(topic.name)
                response.results.append(result)
                await answer(result, partial(self._extend, topic, ends_s, only_checks=request.validate_only))
        return response

    async def _extend(self, topic: m.CreatePartitionsTopic, ends_s: float, *, only_checks: bool) -> None:
        served = self._topics.all().get(topic.name)
        if served is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC)
        count = len(served.partitions)
        if topic.count <= count:
            reason = f"the topic has {count} partitions, so that {topic.count} are not more"
            raise Rejected(ErrorCode.INVALID_PARTITIONS, reason)
        if topic.count > PARTITIONS_MAX:
            reason = f"{topic.count} partitions; at most {PARTITIONS_MAX} are possible"
            raise Rejected(ErrorCode.INVALID_PARTITIONS, reason)
        if topic.assignments is not None:
            if len(topic.assignments) != topic.count - count:
                reason = f"{topic.count - count} partitions are added, and {len(topic.assignments)} assigned"
                raise Rejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
            self._check_replicas([assignment.broker_ids for assignment in topic.assignments])
        new = [number for number in range(topic.count) if number not in served.partitions]
        if not only_checks:
            await completed(self._topics.create, topic.name, new, None, ends_s)

    # --- deletion ----------------------------------------------------------------------------------------------------

    async def delete_topics(self, request: m.DeleteTopicsRequest, version: int) -> m.DeleteTopicsResponse:
        """Delete topics by name, or from version 6 on by name or id."""
        wanted = request.topics if version >= 6 else [m.DeleteTopicState(name) for name in request.topic_names]
        response = m.DeleteTopicsResponse()
        names = [topic.name if topic.name is not None else self._topics.name_of(topic.topic_id) for topic in wanted]
        twice = repeated(name for name in names if name is not None)
        refused: set[str] = set()
        slices = Slices()
        for name, topic in zip(names, wanted, strict=True):
            await slices.step()
            if name in refused:
                continue
            result = m.DeletableTopicResult(name=name, topic_id=topic.topic_id)
            response.responses.append(result)
            if name is not None and name in twice:
                refused.add(name)
            work = partial(self._delete, name, topic, result, is_repeated=name in twice)
            await answer(result, work, has_message=version >= 5)
        return response

    async def _delete(
        self, name: str | None, wanted: m.DeleteTopicState, result: m.DeletableTopicResult, *, is_repeated: bool
    ) -> None:
        has_id = wanted.topic_id != NO_ID
        if not self._settings.delete_topic_enable:
            raise Rejected(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
        if (wanted.name is None) != has_id:  # the id may be that of a topic that a newer topic has replaced
            raise Rejected(ErrorCode.INVALID_REQUEST, "give either the name or the id of a topic")
        if name is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        if is_repeated:
            raise Rejected(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        topic = self._topics.all().get(name)
        if topic is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC)
        result.topic_id = self._topics.topic_id(name)
        partitions = list(topic.partitions.values())
        # Before the logs: a deletion that a crash interrupts can be repeated as long as there is a log. After them:
        # consumers may have committed meanwhile.
        await self._forget_offsets(partitions)
        await completed(self._topics.delete_logs, partitions)
        await self._forget_offsets(partitions)

    async def delete_records(self, request: m.DeleteRecordsRequest, version: int) -> m.DeleteRecordsResponse:
        """Delete the records below offsets; -1 is the end of the log. Durable when answered."""
        response, slices = m.DeleteRecordsResponse(), Slices()
        for topic in (topic for topic in request.topics if topic.partitions):
            results = m.DeleteRecordsTopicResult(topic.name)
            response.topics.append(results)
            for partition in topic.partitions:
                result = m.DeleteRecordsPartitionResult(partition.partition_index, low_watermark=-1)
                results.partitions.append(result)
                await slices.step()
                await answer(result, partial(self._delete_records, topic.name, partition, result), has_message=False)
        return response

    async def _delete_records(
        self, topic: str, wanted: m.DeleteRecordsPartition, result: m.DeleteRecordsPartitionResult
    ) -> None:
        log = await self._topics.opened_log(topic, wanted.partition_index)
        if topic in INTERNAL_TOPICS:
            raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic}.")
        result.low_watermark = await completed(log.delete_records, wanted.offset)
        self._topics.changed(log.partition)


def _ends_s(timeout_ms: int) -> float:
    """Return when a request ends that creates partitions, by the monotonic clock."""
    return time.monotonic() + (max(timeout_ms / 1000, _TIMEOUT_S_MIN) if timeout_ms > 0 else _TIMEOUT_S)


def _partition_count(topic: ServedTopic | None) -> int:
    return 0 if topic is None else len(topic.partitions)


def _settings_of(topic: m.CreatableTopic) -> dict[str, str]:
    check_count(len(topic.configs))
    settings: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            raise Rejected(ErrorCode.INVALID_CONFIG, f"{config.name} has no value")
        settings[config.name] = config.value
    return settings
