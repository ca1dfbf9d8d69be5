"""The table and the table of its progress: names of columns, and errors, which every database has in common.

messages            id, message_uuid, topic_name, partition_id, message_offset, message_key, payload, headers,
                    producer_id, created_at; unique: message_uuid, and topic, partition, offset
messages_progress   topic_name, partition_id, topic_id (32 hex digits or null), next_offset; a row for each partition
"""

from __future__ import annotations

from typing import Any

TOPIC, PARTITION, OFFSET = "topic_name", "partition_id", "message_offset"
UUID, MESSAGE_KEY, PAYLOAD, HEADERS = "message_uuid", "message_key", "payload", "headers"
PRODUCER, TIME = "producer_id", "created_at"

COLUMNS = (UUID, TOPIC, PARTITION, OFFSET, MESSAGE_KEY, PAYLOAD, HEADERS, PRODUCER, TIME)
"""All columns but `id`, which the database fills, in the order of the table."""
PLACE = (TOPIC, PARTITION, OFFSET)
"""The columns that every table has: where a record is."""
CONTENT = (OFFSET, MESSAGE_KEY, PAYLOAD, HEADERS, TIME)
"""The columns that a log is made of again."""
DECODING_ERROR = "value_error"
"""The column of tables of decoded values only: why a value is in none of their columns, or a key is not decoded."""
DECODED_KEY = "decoded_key"
"""The column of tables of decoded values of topics that have a schema for keys."""
VALUE_BYTES = "value_bytes"
"""The column of tables of decoded values of which a log can be made again: each value as the record has it."""
PROGRESS_COLUMNS = (TOPIC, PARTITION, "topic_id", "next_offset")

TOPIC_LENGTH_MAX = 249

Row = tuple[Any, ...]
"""A row of a result."""


class TableError(Exception):
    """The database or its table cannot be used; the message is one sentence with the remedy, without passwords."""


class SyncRefused(Exception):
    """A partition cannot be synchronized, for this reason; the message has the remedy."""


class UnstorableRecord(TableError):
    """The database has no value for a field of a record; the message names partition, offset and remedy."""


def schema_error(error: Exception) -> TableError:
    """Return the error for a `NoSchema`, with its remedy, or for a `MaskError`."""
    reason, word = getattr(error, "reason", str(error)), getattr(error, "word", "")
    return TableError(f"{reason}; --schema {word} gives a schema" if word else reason)


def columns_of_names(names: str | None) -> tuple[str, ...]:
    """Return the columns of a comma-separated list, in the order of the table; all without one. TableError."""
    if names is None:
        return COLUMNS
    wanted = {name.strip() for name in names.split(",")}
    unknown = sorted(wanted - set(COLUMNS) - {"id"})
    if unknown:
        raise TableError(f"there is no column {', '.join(unknown)}; the columns are {', '.join(COLUMNS)}")
    return tuple(column for column in COLUMNS if column in wanted or column in PLACE)
