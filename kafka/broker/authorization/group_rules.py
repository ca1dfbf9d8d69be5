"""Rules of the requests for groups and committed offsets. Follows KafkaApis."""

from __future__ import annotations

import copy
from typing import Any

from offsetfs.kafka.broker.authorization.call import DENIED, MESSAGES, Call
from offsetfs.kafka.broker.operations import Operation, Resource, show_group_operations
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode

_NO_GROUP, _NO_TOPIC = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
_KEY_TYPES = {0: Resource.GROUP, 1: Resource.TRANSACTIONAL_ID}
_BATCHED_SINCE = 4  # FindCoordinator
_GROUPS_SINCE = 8  # OffsetFetch

_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


async def find_coordinator(call: Call) -> Any:
    """DESCRIBE of each group or transactional id."""
    request, kind = call.request, _KEY_TYPES.get(call.request.key_type)
    if kind is None:
        return await call.answer()
    code = DENIED[kind]
    if call.version < _BATCHED_SINCE:
        if call.allows(Operation.DESCRIBE, kind, request.key):
            return await call.answer()
        return m.FindCoordinatorResponse(error_code=code, error_message=MESSAGES[code], node_id=-1, port=-1)
    keys = request.coordinator_keys
    allowed, denied = await call.divided(keys, lambda key: call.allows(Operation.DESCRIBE, kind, key))
    response = await call.answer(call.changed(coordinator_keys=allowed))
    response.coordinators += [m.Coordinator(key, -1, "", -1, code, None) for key in denied]
    return response


async def membership(call: Call) -> Any:
    """READ of the group."""
    if call.allows(Operation.READ, Resource.GROUP, call.request.group_id):
        return await call.answer()
    return await call.failed(_NO_GROUP)


async def consumer_group_heartbeat(call: Call) -> Any:
    """READ of the group, and DESCRIBE of the topics that it names."""
    if not call.allows(Operation.READ, Resource.GROUP, call.request.group_id):
        return await call.failed(_NO_GROUP)
    topics = call.request.subscribed_topic_names or ()
    _, denied = await call.divided(topics, lambda name: call.allows(Operation.DESCRIBE, Resource.TOPIC, name))
    if denied:
        return await call.failed(_NO_TOPIC)
    return await call.answer()


async def offset_commit(call: Call) -> Any:
    """READ of the group and of each topic."""
    if not call.allows(Operation.READ, Resource.GROUP, call.request.group_id):
        return await call.failed(_NO_GROUP)
    return await call.answer_part(
        "topics", "topics", lambda topic: call.allows_topic(Operation.READ, topic.name), _NO_TOPIC
    )


async def offset_delete(call: Call) -> Any:
    """DELETE of the group, and READ of each topic. An error of the group comes before those of topics."""
    if not call.allows(Operation.DELETE, Resource.GROUP, call.request.group_id):
        return m.OffsetDeleteResponse(error_code=_NO_GROUP)
    topics = call.request.topics
    allowed, denied = await call.divided(topics, lambda topic: call.allows(Operation.READ, Resource.TOPIC, topic.name))
    response = await call.answer(call.changed(topics=allowed))
    if denied and not response.error_code:
        response.topics += (await call.failed(_NO_TOPIC, call.changed(topics=denied))).topics
    return response


async def offset_fetch(call: Call) -> Any:
    """DESCRIBE of each group and of each topic. Without names, other topics are hidden."""
    return await (_fetch_of_one(call) if call.version < _GROUPS_SINCE else _fetch_of_many(call))


async def _fetch_of_one(call: Call) -> Any:
    request = call.request
    if not call.allows(Operation.DESCRIBE, Resource.GROUP, request.group_id):
        response = await call.failed(_NO_GROUP)
        if call.version >= 2:  # the response has an error of its own
            response.topics = []
        return response
    allowed, denied = await _visible(call, request.topics)
    response = await call.answer(call.changed(topics=allowed))
    if request.topics is None:
        response.topics, _ = await _visible(call, response.topics)
    elif response.error_code == ErrorCode.NONE:
        for topic in denied:
            partitions = [
                m.OffsetFetchResponsePartition(index, -1, -1, "", _NO_TOPIC) for index in topic.partition_indexes
            ]
            response.topics.append(m.OffsetFetchResponseTopic(topic.name, partitions))
    return response


async def _fetch_of_many(call: Call) -> Any:
    allowed, hidden, refused = [], [], []
    slices = Slices()
    for group in call.request.groups:
        await slices.step()
        if not call.allows(Operation.DESCRIBE, Resource.GROUP, group.group_id):
            refused.append(m.OffsetFetchResponseGroup(group.group_id, error_code=_NO_GROUP))
            continue
        visible = copy.copy(group)
        visible.topics, denied = await _visible(call, group.topics)
        allowed.append(visible)
        hidden.append(denied)
    response = await call.answer(call.changed(groups=allowed))
    for group, answered, denied in zip(allowed, response.groups, hidden, strict=True):
        if group.topics is None:
            answered.topics, _ = await _visible(call, answered.topics)
        elif answered.error_code == ErrorCode.NONE:
            for topic in denied:
                rows = [
                    m.OffsetFetchResponsePartitions(index, -1, -1, "", _NO_TOPIC) for index in topic.partition_indexes
                ]
                answered.topics.append(m.OffsetFetchResponseTopics(name=topic.name, partitions=rows))
    response.groups += refused
    return response


async def _visible(call: Call, topics: list[Any] | None) -> tuple[Any, list[Any]]:
    """Return the topics that may be described, None for all of them, and the others."""
    if topics is None:
        return None, []
    return await call.divided(topics, lambda topic: call.allows_topic(Operation.DESCRIBE, topic.name))


# --- administration --------------------------------------------------------------------------------------------------


async def describe_groups(call: Call) -> Any:
    """DESCRIBE of each group."""
    response = await call.answer_part(
        "groups", "groups", lambda name: call.allows(Operation.DESCRIBE, Resource.GROUP, name), _NO_GROUP
    )
    _set_operations(call, response)
    return response


async def consumer_group_describe(call: Call) -> Any:
    """DESCRIBE of each group, and of each topic of its members."""
    response = await call.answer_part(
        "group_ids", "groups", lambda name: call.allows(Operation.DESCRIBE, Resource.GROUP, name), _NO_GROUP
    )
    slices = Slices()
    for group in response.groups:
        await slices.step()
        topics = {name for member in group.members for name in _topics_of(member)}
        if not all(call.allows(Operation.DESCRIBE, Resource.TOPIC, topic) for topic in topics):
            group.error_code, group.error_message, group.members = _NO_TOPIC, _HIDDEN_TOPICS, []
    _set_operations(call, response)
    return response


def _topics_of(member: m.ConsumerGroupDescribeResponseMember) -> set[str]:
    assigned = [*member.assignment.topic_partitions, *member.target_assignment.topic_partitions]
    return {*member.subscribed_topic_names, *(partitions.topic_name for partitions in assigned)}


def _set_operations(call: Call, response: Any) -> None:
    show_group_operations(call.request, response, lambda name: call.operations(Resource.GROUP, name))


async def list_groups(call: Call) -> Any:
    """DESCRIBE of the cluster to see all groups; otherwise those with DESCRIBE."""
    response = await call.answer()
    if not call.allows(Operation.DESCRIBE, Resource.CLUSTER):
        response.groups, _ = await call.divided(
            response.groups, lambda group: call.allows(Operation.DESCRIBE, Resource.GROUP, group.group_id)
        )
    return response


async def delete_groups(call: Call) -> Any:
    """DELETE of each group."""
    return await call.answer_part(
        "groups_names", "results", lambda name: call.allows(Operation.DELETE, Resource.GROUP, name), _NO_GROUP
    )
