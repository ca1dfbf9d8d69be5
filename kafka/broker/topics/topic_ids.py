"""Names of topics for the requests for committed offsets that have topic ids, and ids for their responses.

Rules and handlers know topics by name. One whose id is not known has an empty name; handlers answer UNKNOWN_TOPIC_ID.
Follows KafkaApis (KIP-848, KIP-1319).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID

IDS_SINCE_OFFSET_COMMIT = 10
IDS_SINCE_OFFSET_FETCH = 10
IDS_SINCE_TXN_OFFSET_COMMIT = 6
"""From these versions on, requests have the ids of topics and not their names."""


def unknown_topic(name: str, *, has_ids: bool) -> ErrorCode:
    """Return the error for a partition that is not there, of a topic as handlers get it."""
    is_of_id = has_ids and not name
    return ErrorCode.UNKNOWN_TOPIC_ID if is_of_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def named(request: Any, topics: Topics, answer: Callable[[], Awaitable[Any]]) -> Any:
    """Return `answer()` for a request of which the topics have only ids: it finds their names in the request."""
    ids = dict[str, bytes]()
    for each in _topics(request):
        each.name = topics.name_of(each.topic_id) or ""
        ids[each.name] = each.topic_id
    response = await answer()
    for each in _topics(response):
        if each.topic_id == NO_ID and each.name:
            each.topic_id = ids.get(each.name) or topics.topic_id(each.name)
    return response


def _topics(message: Any) -> Iterable[Any]:
    """Return the topics of a request or response; those of all groups of OffsetFetch."""
    holders = message.groups if hasattr(message, "groups") else [message]
    return [topic for each in holders for topic in each.topics or ()]
