"""Formats records of `__cluster_metadata` for a dump.

    payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"orders","topicId":"mcRcJ8sVSDWZSLzHLpZs5Q"}}

An unreadable record is shown as an error with Kafka's text. Follows the parser of DumpLogSegments.
"""

from __future__ import annotations

import functools
import re

from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.json_text import json_writer
from offsetfs.storage.cluster.cluster_metadata import Buffer, read_head, read_message
from offsetfs.storage.coordinators.coordinator_records import RecordTexts


def show(offset: int, value: Buffer | None) -> RecordTexts:
    """Return the texts of a record: None for the key, the value as JSON."""
    try:
        return None, _text(b"" if value is None else value)
    except InvalidMessage as error:
        return None, f"Error at {offset}, skipping. {error}"


def _text(value: Buffer) -> str:
    head = read_head(value)
    fields = json_writer(head.name, head.version)(read_message(value, head))
    return f'{{"type":"{_type_text(head.name)}","version":{head.version},"data":{fields}}}'


@functools.cache
def _type_text(name: str) -> str:
    """Return the type of a record as Kafka prints it, such as TOPIC_RECORD for TopicRecord."""
    return re.sub("(?<!^)(?=[A-Z])", "_", name).upper()
