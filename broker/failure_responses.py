"""Responses to requests whose handler failed by a bug: UNKNOWN_SERVER_ERROR for everything that was asked.

Kafka's `AbstractRequest.getErrorResponse` does the same. A client retries or reports the error; after a closed
connection it would send the same request forever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsetfs.broker.error_codes import ErrorCode
from offsetfs.protocol import messages as m
from offsetfs.protocol.schemas import schema

_CODE = ErrorCode.UNKNOWN_SERVER_ERROR


def failure_response(api: str, request: Any, version: int) -> Any | None:
    """Return the response; None where the client expects none or the response has no place for an error."""
    special = _SPECIAL.get(api)
    if special is not None:
        return special(request, version)
    name = f"{api}Response"
    if all(field.name != "error_code" for field in schema(name).layout(version).fields):
        return None
    return getattr(m, name)(error_code=_CODE)


def _produce(request: m.ProduceRequest, version: int) -> m.ProduceResponse | None:
    if not request.acks:
        return None
    response = m.ProduceResponse()
    for topic in request.topic_data:
        failed = [
            m.PartitionProduceResponse(index=each.index, error_code=_CODE, base_offset=-1, log_append_time_ms=-1)
            for each in topic.partition_data
        ]
        response.responses.append(
            m.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=failed)
        )
    return response


def _fetch(request: m.FetchRequest, version: int) -> m.FetchResponse:
    response = m.FetchResponse()
    for topic in request.topics:
        failed = [
            m.FetchResponsePartitionData(
                partition_index=each.partition, error_code=_CODE, high_watermark=-1, records=b""
            )
            for each in topic.partitions
        ]
        response.responses.append(
            m.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=failed)
        )
    return response


def _list_offsets(request: m.ListOffsetsRequest, version: int) -> m.ListOffsetsResponse:
    response = m.ListOffsetsResponse()
    for topic in request.topics:
        failed = [m.ListOffsetsPartitionResponse(each.partition_index, _CODE) for each in topic.partitions]
        response.topics.append(m.ListOffsetsTopicResponse(topic.name, failed))
    return response


def _metadata(request: m.MetadataRequest, version: int) -> m.MetadataResponse:
    response = m.MetadataResponse()
    response.topics = [
        m.MetadataResponseTopic(_CODE, name=each.name or "", topic_id=each.topic_id) for each in request.topics or ()
    ]
    return response


def _offset_commit(request: m.OffsetCommitRequest, version: int) -> m.OffsetCommitResponse:
    response = m.OffsetCommitResponse()
    for topic in request.topics:
        failed = [m.OffsetCommitResponsePartition(each.partition_index, _CODE) for each in topic.partitions]
        response.topics.append(m.OffsetCommitResponseTopic(name=topic.name, partitions=failed))
    return response


_SPECIAL: dict[str, Callable[[Any, int], Any | None]] = {
    "Produce": _produce,
    "Fetch": _fetch,
    "ListOffsets": _list_offsets,
    "Metadata": _metadata,
    "OffsetCommit": _offset_commit,
}
