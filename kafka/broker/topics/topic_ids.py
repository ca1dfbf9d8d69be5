"""Names of topics for the requests for committed offsets that have topic ids, and ids for their responses.

Rules and handlers know topics by name. One whose id is not known has an empty name; handlers answer UNKNOWN_TOPIC_ID.
Follows KafkaApis (KIP-848, KIP-1319).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from offsetfs.kafka.broker.connections.connection import Api, Client
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID

_SINCE = {"OffsetCommit": 10, "OffsetFetch": 10, "TxnOffsetCommit": 6}


def has_topic_ids(api: str, version: int) -> bool:
    """Return whether requests of a version have the ids of topics and not their names."""
    return version >= _SINCE.get(api, version + 1)


def has_unknown_id(api: str, version: int, name: str) -> bool:
    """Return whether a topic, as `named` gives it to handlers, is one whose id is not known."""
    return not name and has_topic_ids(api, version)


def unknown_topic(api: str, version: int, name: str) -> ErrorCode:
    """Return the error for a partition that is not there, of a topic as `named` gives it to handlers."""
    is_of_id = has_unknown_id(api, version, name)
    return ErrorCode.UNKNOWN_TOPIC_ID if is_of_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def named(api: Api, topics: Topics) -> Api:
    """Return an API whose handler finds the names of topics where a request has only ids."""
    if api.name not in _SINCE:
        return api

    async def handle(request: Any, version: int, client: Client) -> Any:
        if not has_topic_ids(api.name, version):
            return await api.handle(request, version, client)
        ids = dict[str, bytes]()
        for each in _topics(request):
            each.name = topics.name_of(each.topic_id) or ""
            ids[each.name] = each.topic_id
        response = await api.handle(request, version, client)
        for each in _topics(response):
            if each.topic_id == NO_ID and each.name:
                each.topic_id = ids.get(each.name) or topics.topic_id(each.name)
        return response

    return replace(api, handle=handle)


def _topics(message: Any) -> Iterable[Any]:
    """Return the topics of a request or response; those of all groups of OffsetFetch."""
    holders = message.groups if hasattr(message, "groups") else [message]
    return [topic for each in holders for topic in each.topics or ()]
