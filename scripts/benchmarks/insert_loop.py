"""`insert_loop.py LOGDIR URL`: the loop that one would write to put records into a table.

Reads with the library, and inserts as sqlite3 and psycopg recommend it for many rows: `executemany`, a transaction for
each chunk.
"""

from __future__ import annotations

import itertools
import sqlite3
import sys
import uuid
from datetime import UTC, datetime
from typing import Any

import offsetfs

CHUNK = 10_000
COLUMNS = "message_uuid, topic_name, partition_id, message_offset, message_key, payload, created_at"


def main(log: str, url: str) -> None:
    is_sqlite = url.startswith("sqlite")
    connection: Any
    if is_sqlite:
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    else:
        import psycopg

        connection = psycopg.connect(url)
    marks = ", ".join(["?" if is_sqlite else "%s"] * 7)
    with offsetfs.open(log) as data:
        (partition,) = data.partitions()
        records = partition.read()
        while chunk := list(itertools.islice(records, CHUNK)):
            rows = [
                (
                    uuid.uuid4().bytes if is_sqlite else uuid.uuid4(),
                    *(partition.topic, partition.number, each.offset, each.key, each.value),
                    each.timestamp if is_sqlite else datetime.fromtimestamp(each.timestamp / 1000, UTC),
                )
                for each in chunk
            ]
            connection.cursor().executemany(f"INSERT INTO messages ({COLUMNS}) VALUES ({marks})", rows)
            connection.commit()
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
