"""The table and the table of its progress: names of columns, and what every database has in common.

messages            id, message_uuid, topic_name, partition_id, message_offset, message_key, payload, headers,
                    producer_id, created_at; unique: message_uuid, and topic, partition, offset
messages_progress   topic_name, partition_id, topic_id (32 hex digits or null), next_offset; a row for each partition
"""

from __future__ import annotations

from offsetfs.tables.databases.errors import TableError

TOPIC, PARTITION, OFFSET = "topic_name", "partition_id", "message_offset"
UUID, MESSAGE_KEY, PAYLOAD, HEADERS = "message_uuid", "message_key", "payload", "headers"
PRODUCER, TIME = "producer_id", "created_at"

COLUMNS = (UUID, TOPIC, PARTITION, OFFSET, MESSAGE_KEY, PAYLOAD, HEADERS, PRODUCER, TIME)
"""All columns but `id`, which the database fills, in the order of the table."""
PLACE = (TOPIC, PARTITION, OFFSET)
"""The columns that every table has: where a record is."""
CONTENT = (OFFSET, MESSAGE_KEY, PAYLOAD, HEADERS, TIME)
"""The columns that a log is made of again."""
PROGRESS_COLUMNS = (TOPIC, PARTITION, "topic_id", "next_offset")

TOPIC_LENGTH_MAX = 249


def columns_of_names(names: str | None) -> tuple[str, ...]:
    """Return the columns of a comma-separated list, in the order of the table; all without one. TableError."""
    if names is None:
        return COLUMNS
    wanted = {each.strip() for each in names.split(",")}
    unknown = sorted(wanted - set(COLUMNS) - {"id"})
    if unknown:
        raise TableError(f"there is no column {', '.join(unknown)}; the columns are {', '.join(COLUMNS)}")
    return tuple(each for each in COLUMNS if each in wanted or each in PLACE)
