"""Rules of the requests for topics and their records. Follows KafkaApis and ControllerApis."""

from __future__ import annotations

from typing import Any

from offsetfs.kafka.broker.authorization.call import MESSAGES, Call
from offsetfs.kafka.broker.operations import UNKNOWN_OPERATIONS, Operation, Resource
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID, TOPIC_IDS_VERSION
from offsetfs.storage.records import is_transactional

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_METADATA_IDS_SINCE = 12
_CONFIGS_SINCE = 5  # CreateTopics
_DELETE_STATES_SINCE = 6


async def produce(call: Call) -> Any:
    """WRITE of each topic; a transactional batch also WRITE of the transactional id."""
    request = call.request
    transactional_id = request.transactional_id
    if _has_transactional_batch(request) and (
        transactional_id is None or not call.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
    ):
        return await call.failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    def is_allowed(topic: m.TopicProduceData) -> bool:
        name = topic.name if call.version < TOPIC_IDS_VERSION else call.topics.name_of(topic.topic_id)
        return name is None or call.allows(Operation.WRITE, Resource.TOPIC, name)

    return await call.answer_part("topic_data", "responses", is_allowed, _DENIED)


def _has_transactional_batch(request: m.ProduceRequest) -> bool:
    """Return whether a batch is transactional. Data that is not a batch does not count: the handler refuses it."""
    batches = (partition.records for topic in request.topic_data for partition in topic.partition_data)
    return any(data is not None and is_transactional(data) for data in batches)


async def list_offsets(call: Call) -> Any:
    """DESCRIBE of each topic."""
    return await call.answer_part(
        "topics", "topics", lambda topic: call.allows(Operation.DESCRIBE, Resource.TOPIC, topic.name), _DENIED
    )


async def offset_for_leader_epoch(call: Call) -> Any:
    """DESCRIBE of each topic; CLUSTER_ACTION is enough for all of them."""
    if call.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER):
        return await call.answer()
    return await call.answer_part(
        "topics", "topics", lambda topic: call.allows(Operation.DESCRIBE, Resource.TOPIC, topic.topic), _DENIED
    )


async def metadata(call: Call) -> Any:
    """DESCRIBE of each topic; CREATE of the cluster or of the topic where the request would create it."""
    request, version = call.request, call.version
    if request.topics is None or (version == 0 and not request.topics):
        response = await call.answer()
        response.topics, _ = await call.divided(response.topics, lambda topic: _is_visible(call, topic.name))
    else:
        allowed, refused, slices = [], dict[tuple[str | None, bytes], m.MetadataResponseTopic](), Slices()
        for wanted in request.topics:
            await slices.step()
            row = _denied_metadata(call, wanted)
            if row is None:
                allowed.append(wanted)
            else:
                refused.setdefault((row.name, row.topic_id), row)
        response = await call.answer(call.changed(topics=allowed))
        if not allowed:  # all topics, in version 0
            response.topics = []
        response.topics += refused.values()
    await _set_operations(call, response)
    _set_cluster_operations(call, response)
    return response


def _is_visible(call: Call, topic: str) -> bool:
    return call.allows(Operation.DESCRIBE, Resource.TOPIC, topic)


def _denied_metadata(call: Call, wanted: m.MetadataRequestTopic) -> m.MetadataResponseTopic | None:
    """Return the row of a topic that may not be described or created; None for others."""
    has_id = wanted.name is None or (call.version >= _METADATA_IDS_SINCE and wanted.topic_id != NO_ID)
    name = call.topics.name_of(wanted.topic_id) if has_id else wanted.name
    if name is None:
        return None
    if not _is_visible(call, name):
        if has_id:  # an id says nothing of the name
            return m.MetadataResponseTopic(_DENIED, name=None, topic_id=wanted.topic_id)
        return m.MetadataResponseTopic(_DENIED, name=name)
    creates = call.topics.creates and (call.version < 4 or call.request.allow_auto_topic_creation)
    if creates and name not in call.topics.all() and not _may_create(call, name):
        return m.MetadataResponseTopic(_DENIED, name=name)
    return None


def _may_create(call: Call, topic: str) -> bool:
    return call.allows(Operation.CREATE, Resource.CLUSTER) or call.allows(Operation.CREATE, Resource.TOPIC, topic)


async def _set_operations(call: Call, response: Any) -> None:
    slices = Slices()
    for topic in response.topics:
        await slices.step()
        if topic.topic_authorized_operations != UNKNOWN_OPERATIONS:
            topic.topic_authorized_operations = call.operations(Resource.TOPIC, topic.name)


def _set_cluster_operations(call: Call, response: Any) -> None:
    if response.cluster_authorized_operations != UNKNOWN_OPERATIONS:
        is_visible = call.allows(Operation.DESCRIBE, Resource.CLUSTER)
        response.cluster_authorized_operations = call.operations(Resource.CLUSTER) if is_visible else 0


async def describe_cluster(call: Call) -> Any:
    """Nothing; the operations on the cluster are shown with DESCRIBE."""
    response = await call.answer()
    _set_cluster_operations(call, response)
    return response


async def describe_topic_partitions(call: Call) -> Any:
    """DESCRIBE of each topic. Without names, other topics are hidden."""
    request = call.request
    names = [topic.name for topic in request.topics] or list(call.topics.all())
    visible, others = await call.divided(names, lambda name: _is_visible(call, name))
    # The handler pages through what is visible: a page of hidden topics would be empty, and lead to no next one.
    if visible:
        wanted = [m.DescribeTopicPartitionsRequestTopicRequest(name) for name in visible]
        response = await call.answer(call.changed(topics=wanted))
    else:
        response = m.DescribeTopicPartitionsResponse()
    if request.topics:
        begin = "" if request.cursor is None else request.cursor.topic_name
        hidden = sorted({name for name in others if name >= begin})
        response.topics += [m.DescribeTopicPartitionsResponseTopic(_DENIED, name) for name in hidden]
    await _set_operations(call, response)
    return response


async def describe_producers(call: Call) -> Any:
    """READ of each topic."""
    return await call.answer_part(
        "topics", "topics", lambda topic: call.allows(Operation.READ, Resource.TOPIC, topic.name), _DENIED
    )


async def delete_records(call: Call) -> Any:
    """DELETE of each topic."""
    return await call.answer_part(
        "topics", "topics", lambda topic: call.allows(Operation.DELETE, Resource.TOPIC, topic.name), _DENIED
    )


async def create_topics(call: Call) -> Any:
    """CREATE of the cluster, or of each topic; DESCRIBE_CONFIGS of a topic to see its settings."""
    response = await call.answer_part("topics", "topics", lambda topic: _may_create(call, topic.name), _DENIED)
    slices = Slices()
    for topic in response.topics if call.version >= _CONFIGS_SINCE else ():
        await slices.step()
        is_created = topic.error_code == ErrorCode.NONE
        if is_created and not call.allows(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name):
            topic.topic_config_error_code = _DENIED
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []
    return response


async def create_partitions(call: Call) -> Any:
    """ALTER of each topic."""
    return await call.answer_part(
        "topics", "results", lambda topic: call.allows(Operation.ALTER, Resource.TOPIC, topic.name), _DENIED
    )


async def delete_topics(call: Call) -> Any:
    """DELETE of each topic. The name behind an id is shown with DESCRIBE only."""
    if call.version < _DELETE_STATES_SINCE:
        return await call.answer_part(
            "topic_names", "responses", lambda name: call.allows(Operation.DELETE, Resource.TOPIC, name), _DENIED
        )
    allowed, denied, slices = [], [], Slices()
    for topic in call.request.topics:
        await slices.step()
        name = topic.name if topic.name is not None else call.topics.name_of(topic.topic_id)
        if name is None or call.allows(Operation.DELETE, Resource.TOPIC, name):
            allowed.append(topic)
        else:
            shown = name if topic.name is not None or _is_visible(call, name) else None
            denied.append(m.DeletableTopicResult(shown, topic.topic_id, _DENIED, MESSAGES[_DENIED]))
    response = await call.answer(call.changed(topics=allowed))
    response.responses += denied
    return response
