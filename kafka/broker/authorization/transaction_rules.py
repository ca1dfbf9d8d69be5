"""Rules of the requests for transactions. Follows KafkaApis."""

from __future__ import annotations

from typing import Any

from offsetfs.kafka.broker.authorization.call import Call
from offsetfs.kafka.broker.operations import Operation, Resource
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode

_NO_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_NO_CLUSTER, _NO_TOPIC = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
_BROKERS_SINCE = 4  # AddPartitionsToTxn: later versions are those of brokers


def _may_write(call: Call, transactional_id: str) -> bool:
    return call.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)


async def init_producer_id(call: Call) -> Any:
    """WRITE of the transactional id; without one, IDEMPOTENT_WRITE of the cluster or WRITE of any topic."""
    transactional_id = call.request.transactional_id
    if transactional_id is not None:
        return await call.answer() if _may_write(call, transactional_id) else await call.failed(_NO_ID)
    is_allowed = call.allows(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER) or call.allows_on_any(
        Operation.WRITE, Resource.TOPIC
    )
    return await call.answer() if is_allowed else await call.failed(_NO_CLUSTER)


async def add_partitions_to_txn(call: Call) -> Any:
    """WRITE of the transactional id and of each topic; brokers: CLUSTER_ACTION."""
    request = call.request
    if call.version >= _BROKERS_SINCE:
        is_allowed = call.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER)
        return await call.answer() if is_allowed else m.AddPartitionsToTxnResponse(error_code=_NO_CLUSTER)
    if not _may_write(call, request.v3_and_below_transactional_id):
        return await call.failed(_NO_ID)
    topics = request.v3_and_below_topics
    allowed, denied = await call.divided(topics, lambda topic: call.allows(Operation.WRITE, Resource.TOPIC, topic.name))
    if not denied:
        return await call.answer()
    response = await call.failed(_NO_TOPIC, call.changed(v3_and_below_topics=denied))
    others = call.changed(v3_and_below_topics=allowed)
    skipped = await call.failed(ErrorCode.OPERATION_NOT_ATTEMPTED, others)  # all partitions are added, or none
    response.results_by_topic_v3_and_below += skipped.results_by_topic_v3_and_below
    return response


async def add_offsets_to_txn(call: Call) -> Any:
    """WRITE of the transactional id, and READ of the group."""
    if not _may_write(call, call.request.transactional_id):
        return await call.failed(_NO_ID)
    if not call.allows(Operation.READ, Resource.GROUP, call.request.group_id):
        return await call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return await call.answer()


async def txn_offset_commit(call: Call) -> Any:
    """WRITE of the transactional id, READ of the group and of each topic."""
    if not _may_write(call, call.request.transactional_id):
        return await call.failed(_NO_ID)
    if not call.allows(Operation.READ, Resource.GROUP, call.request.group_id):
        return await call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return await call.answer_part(
        "topics", "topics", lambda topic: call.allows_topic(Operation.READ, topic.name), _NO_TOPIC
    )


async def end_txn(call: Call) -> Any:
    """WRITE of the transactional id."""
    return await call.answer() if _may_write(call, call.request.transactional_id) else await call.failed(_NO_ID)


async def write_txn_markers(call: Call) -> Any:
    """ALTER or CLUSTER_ACTION of the cluster."""
    is_allowed = call.allows(Operation.ALTER, Resource.CLUSTER) or call.allows(
        Operation.CLUSTER_ACTION, Resource.CLUSTER
    )
    return await call.answer() if is_allowed else await call.failed(_NO_CLUSTER)


async def describe_transactions(call: Call) -> Any:
    """DESCRIBE of each transactional id. Topics without DESCRIBE are hidden."""
    response = await call.answer_part(
        "transactional_ids",
        "transaction_states",
        lambda name: call.allows(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name),
        _NO_ID,
    )
    for state in response.transaction_states:
        state.topics, _ = await call.divided(
            state.topics, lambda topic: call.allows(Operation.DESCRIBE, Resource.TOPIC, topic.topic)
        )
    return response


async def list_transactions(call: Call) -> Any:
    """The transactional ids with DESCRIBE."""
    response = await call.answer()
    response.transaction_states, _ = await call.divided(
        response.transaction_states,
        lambda state: call.allows(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, state.transactional_id),
    )
    return response
