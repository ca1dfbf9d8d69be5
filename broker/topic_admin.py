"""Administration of topics: CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, and their settings.

Follows Kafka's ControllerApis and ConfigHelper for one node: the replication factor is always 1. What waits for the
disk runs in threads.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any

import trio

from offsetfs.broker.error_codes import ErrorCode, code_of
from offsetfs.broker.partitions import Topics
from offsetfs.broker.settings import ServerSettings, values_of
from offsetfs.protocol import messages as m
from offsetfs.storage import LogConfig, TopicPartition, check_topic
from offsetfs.storage.errors import (
    InvalidConfig,
    InvalidName,
    OffsetOutOfRange,
    ReadOnlyLog,
    StorageError,
    UnknownPartition,
)
from offsetfs.storage.settings import DEFAULTS, TOPIC_SETTING_NAMES, effective_broker_settings

_log = logging.getLogger(__name__)

PARTITIONS_MAX = 10_000
"""How many partitions a request may create: each takes files, and syncs of the disk."""

_TOPIC, _BROKER = 2, 4  # types of resources (org.apache.kafka.common.config.ConfigResource)
_SOURCE_TOPIC, _SOURCE_BROKER, _SOURCE_DEFAULT = 1, 4, 5
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_TYPES: dict[type, int] = {bool: 1, str: 2, int: 5, float: 6, tuple: 7}  # DescribeConfigsResponse.ConfigType


class Rejected(Exception):
    """A request that is not carried out; `code` and text go to the client."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class TopicAdmin:
    """Answers the requests of administrators for topics."""

    def __init__(self, topics: Topics, settings: ServerSettings, on_deleted: Callable[[str], Awaitable[None]]) -> None:
        """`on_deleted` is called with each topic that was deleted, before the request is answered."""
        self._topics = topics
        self._settings = settings
        self._node_id = settings.node_id
        self._on_deleted = on_deleted

    # --- topics ------------------------------------------------------------------------------------------------------

    async def create_topics(self, request: m.CreateTopicsRequest, version: int) -> m.CreateTopicsResponse:
        """Create topics; durable when answered."""
        response = m.CreateTopicsResponse()
        for topic in request.topics:
            result = m.CreatableTopicResult(name=topic.name, error_message=None)
            response.topics.append(result)
            await _answer(result, partial(self._create, topic, result, version, only_checks=request.validate_only))
        return response

    async def _create(
        self, topic: m.CreatableTopic, result: m.CreatableTopicResult, version: int, *, only_checks: bool
    ) -> None:
        check_topic(topic.name)
        count = self._partitions(topic)
        known = self._topics.all()
        if topic.name in known:
            raise Rejected(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        settings = {each.name: each.value for each in topic.configs if each.value is not None}
        config = LogConfig.from_properties(settings, self._defaults())
        if not only_checks:
            await _in_thread(self._topics.create, topic.name, count, settings)
        if version >= 5:
            result.num_partitions, result.replication_factor = count, 1
            result.configs = [
                m.CreatableTopicConfigs(name, value, False, _SOURCE_TOPIC if name in settings else _SOURCE_DEFAULT)
                for name, value in config.properties().items()
            ]
        if version >= 7 and not only_checks:
            result.topic_id = self._topics.topic_id(topic.name)

    def _partitions(self, topic: m.CreatableTopic) -> int:
        """Return how many partitions a new topic gets."""
        if topic.assignments:
            if topic.num_partitions != -1 or topic.replication_factor != -1:
                raise Rejected(ErrorCode.INVALID_REQUEST, "both a manual assignment and counts were given")
            indexes = sorted(each.partition_index for each in topic.assignments)
            if indexes != list(range(len(indexes))):
                raise Rejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0, without gaps")
            if any(list(each.broker_ids) != [self._node_id] for each in topic.assignments):
                raise Rejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the only broker is {self._node_id}")
            return len(indexes)
        if topic.replication_factor not in (1, -1):
            reason = f"replication factor {topic.replication_factor}: there is one broker"
            raise Rejected(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
        count = self._settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions
        if not 0 < count <= PARTITIONS_MAX:
            raise Rejected(ErrorCode.INVALID_PARTITIONS, f"{count} partitions; 1 to {PARTITIONS_MAX} are possible")
        return count

    async def delete_topics(self, request: m.DeleteTopicsRequest, version: int) -> m.DeleteTopicsResponse:
        """Delete topics by name, or from version 6 on by name or id."""
        wanted = request.topics if version >= 6 else [m.DeleteTopicState(name) for name in request.topic_names]
        response = m.DeleteTopicsResponse()
        for each in wanted:
            name = each.name if each.name is not None else self._topics.name_of(each.topic_id)
            result = m.DeletableTopicResult(name=name, topic_id=each.topic_id)
            response.responses.append(result)
            if name is None:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
                continue
            await _answer(result, partial(self._delete, name, result), has_message=version >= 5)
        return response

    async def _delete(self, name: str, result: m.DeletableTopicResult) -> None:
        if not self._settings.delete_topic_enable:
            raise Rejected(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
        topic = self._topics.all().get(name)
        if topic is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        result.topic_id = self._topics.topic_id(name)
        await _in_thread(self._topics.delete_logs, topic.partitions.values())
        await self._on_deleted(name)

    async def create_partitions(self, request: m.CreatePartitionsRequest, version: int) -> m.CreatePartitionsResponse:
        """Add partitions to topics; durable when answered."""
        response = m.CreatePartitionsResponse()
        for topic in request.topics:
            result = m.CreatePartitionsTopicResult(topic.name)
            response.results.append(result)
            await _answer(result, partial(self._extend, topic, only_checks=request.validate_only))
        return response

    async def _extend(self, topic: m.CreatePartitionsTopic, *, only_checks: bool) -> None:
        found = self._topics.all().get(topic.name)
        if found is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        partitions = found.partitions
        if topic.count <= len(partitions) or topic.count > PARTITIONS_MAX:
            reason = (
                f"the topic has {len(partitions)} partitions; {topic.count} are not more, or above {PARTITIONS_MAX}"
            )
            raise Rejected(ErrorCode.INVALID_PARTITIONS, reason)
        new = [TopicPartition(topic.name, each) for each in range(topic.count) if each not in partitions]
        if not only_checks:
            await _in_thread(self._topics.directory.create_partitions, new)

    async def delete_records(self, request: m.DeleteRecordsRequest, version: int) -> m.DeleteRecordsResponse:
        """Delete the records below offsets; -1 is the end of the log. Durable when answered."""
        response = m.DeleteRecordsResponse()
        for topic in request.topics:
            answer = m.DeleteRecordsTopicResult(topic.name)
            response.topics.append(answer)
            for each in topic.partitions:
                result = m.DeleteRecordsPartitionResult(each.partition_index, low_watermark=-1)
                answer.partitions.append(result)

                async def delete(topic: str, partition: int, offset: int, result: Any) -> None:
                    log = await self._topics.opened_log(topic, partition)
                    result.low_watermark = await _in_thread(log.delete_records, offset)
                    self._topics.changed(log.partition)

                work = partial(delete, topic.name, each.partition_index, each.offset, result)
                await _answer(result, work, has_message=False)
        return response

    # --- settings ----------------------------------------------------------------------------------------------------

    async def describe_configs(self, request: m.DescribeConfigsRequest, version: int) -> m.DescribeConfigsResponse:
        """Return the settings of topics and of the broker."""
        response = m.DescribeConfigsResponse()
        for resource in request.resources:
            result = m.DescribeConfigsResult(
                error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            response.results.append(result)
            await _answer(result, partial(self._describe, resource, result, version))
        return response

    async def _describe(
        self, resource: m.DescribeConfigsResource, result: m.DescribeConfigsResult, version: int
    ) -> None:
        wanted = None if resource.configuration_keys is None else set(resource.configuration_keys)
        if resource.resource_type == _BROKER:
            self._describe_broker(resource.resource_name, wanted, result, version)
            return
        self._check_topic_resource(resource.resource_type, resource.resource_name)
        config = self._topics.directory.config_of(resource.resource_name)
        changed = self._topics.directory.settings_of(resource.resource_name)
        for name, value in config.properties().items():
            if wanted is None or name in wanted:
                source = _SOURCE_TOPIC if name in changed else _SOURCE_DEFAULT
                kind = type(getattr(DEFAULTS, name.replace(".", "_")))
                result.configs.append(_entry(name, value, source, kind, version))

    def _describe_broker(
        self, name: str, wanted: Collection[str] | None, result: m.DescribeConfigsResult, version: int
    ) -> None:
        """Add the effective settings of the broker. They change with a restart only, so that all are read-only."""
        if name not in ("", str(self._node_id)):
            raise Rejected(ErrorCode.INVALID_REQUEST, f"broker {name} is not here: the only broker is {self._node_id}")
        directory = self._topics.directory
        values = {
            **effective_broker_settings(self._defaults()),
            **directory.config.properties(),
            **values_of(self._settings),
            "log.dirs": directory.path,
        }
        for key, value in sorted(values.items()):
            if wanted is None or key in wanted:
                source = _SOURCE_BROKER if key in self._settings.given else _SOURCE_DEFAULT
                entry = _entry(key, value, source, _type_of(value), version)
                entry.read_only = True
                result.configs.append(entry)

    def _defaults(self) -> LogConfig:
        """Return the settings of a topic that sets none."""
        return self._topics.directory.inherited.layers.inherited().defaults

    def _check_topic_resource(self, kind: int, name: str) -> None:
        if kind != _TOPIC:
            raise Rejected(ErrorCode.INVALID_REQUEST, f"settings of resource type {kind} are not kept here")
        if name not in self._topics.all():
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")

    async def alter_configs(self, request: m.AlterConfigsRequest, version: int) -> m.AlterConfigsResponse:
        """Replace all settings of topics."""
        response = m.AlterConfigsResponse()
        for resource in request.resources:
            result = m.AlterConfigsResponseAlterConfigsResourceResponse(
                0, None, resource.resource_type, resource.resource_name
            )
            response.responses.append(result)

            async def replace(resource: Any) -> None:
                self._check_topic_resource(resource.resource_type, resource.resource_name)
                kept = self._topics.directory.settings_of(resource.resource_name)
                changes = {**dict.fromkeys(kept), **{each.name: each.value for each in resource.configs}}
                await self._configure(
                    resource.resource_type, resource.resource_name, changes, only_checks=request.validate_only
                )

            await _answer(result, partial(replace, resource))
        return response

    async def incremental_alter_configs(
        self, request: m.IncrementalAlterConfigsRequest, version: int
    ) -> m.IncrementalAlterConfigsResponse:
        """Change single settings of topics."""
        response = m.IncrementalAlterConfigsResponse()
        for resource in request.resources:
            result = m.IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                0, None, resource.resource_type, resource.resource_name
            )
            response.responses.append(result)

            async def change(resource: Any) -> None:
                self._check_topic_resource(resource.resource_type, resource.resource_name)
                changes = {each.name: self._changed(resource.resource_name, each) for each in resource.configs}
                await self._configure(
                    resource.resource_type, resource.resource_name, changes, only_checks=request.validate_only
                )

            await _answer(result, partial(change, resource))
        return response

    def _changed(self, topic: str, change: m.IncrementalAlterConfigsRequestAlterableConfig) -> str | None:
        """Return the value of a setting after a change; None for the default."""
        if change.config_operation == _DELETE:
            return None
        if change.config_operation == _SET:
            if change.value is None:
                raise Rejected(ErrorCode.INVALID_CONFIG, f"{change.name} has no value")
            return change.value
        if change.config_operation not in (_APPEND, _SUBTRACT):
            raise Rejected(ErrorCode.INVALID_REQUEST, f"{change.config_operation} is no operation")
        if change.name not in TOPIC_SETTING_NAMES or not isinstance(
            getattr(DEFAULTS, change.name.replace(".", "_"), None), tuple
        ):
            raise Rejected(ErrorCode.INVALID_CONFIG, f"{change.name} is no list: it can only be set or deleted")
        now = self._topics.directory.config_of(topic).properties()[change.name].split(",")
        given = [each for each in (change.value or "").split(",") if each]
        if change.config_operation == _APPEND:
            return ",".join([*now, *(each for each in given if each not in now)])
        return ",".join(each for each in now if each not in given)

    async def _configure(self, kind: int, topic: str, changes: Mapping[str, str | None], *, only_checks: bool) -> None:
        self._check_topic_resource(kind, topic)
        kept = dict(self._topics.directory.settings_of(topic))
        after = {name: value for name, value in {**kept, **changes}.items() if value is not None}
        LogConfig.from_properties(after)
        if not only_checks:
            await _in_thread(self._topics.directory.configure, topic, changes)


def _entry(name: str, value: str, source: int, kind: type, version: int) -> m.DescribeConfigsResourceResult:
    entry = m.DescribeConfigsResourceResult(name=name, value=value)
    if version >= 1:
        entry.config_source = source
    else:
        entry.is_default = source == _SOURCE_DEFAULT
    if version >= 3:
        entry.config_type = _TYPES.get(kind, 0)
    return entry


def _type_of(value: str) -> type:
    """Return the type of a setting of the broker, from its value."""
    if value in ("true", "false"):
        return bool
    return int if value.removeprefix("-").isdecimal() else str


async def _in_thread(work: Callable[..., Any], *arguments: object) -> Any:
    with trio.CancelScope(shield=True):  # a thread goes on when its task is cancelled
        return await trio.to_thread.run_sync(partial(work, *arguments))


async def _answer(result: Any, work: Callable[[], Any], *, has_message: bool = True) -> None:
    """Do `work`; put its error into `result`."""
    try:
        await work()
    except Rejected as error:
        result.error_code, message = error.code, str(error)
    except InvalidConfig as error:
        result.error_code, message = ErrorCode.INVALID_CONFIG, str(error)
    except InvalidName as error:
        result.error_code, message = ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)
    except (UnknownPartition, OffsetOutOfRange, ReadOnlyLog) as error:  # mistakes of the client, not ours to report
        result.error_code, message = code_of(error), str(error)
    except (StorageError, OSError, MemoryError) as error:
        _log.error("%s", error)
        result.error_code, message = code_of(error), str(error)
    else:
        return
    if has_message:
        result.error_message = message
