"""The file that says which topics a load has begun, so that the next call goes on with them.

    .offsetfs-table-load.json    {"source": "sqlite:///orders.db messages", "topics": ["orders", "users"]}

It is written and synced before the first partition is created, and removed when all rows are on disk. A topic that is
not in it belongs to another origin and is never written to.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from offsetfs.storage import files
from offsetfs.storage.directory import LOAD_JOURNAL
from offsetfs.tables.databases.errors import TableError

BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True)
class LoadJournal:
    """What a load has begun."""

    source: str
    """The URL without its password, and the table."""
    topics: tuple[str, ...]


def read_journal(directory: str) -> LoadJournal | None:
    """Return what a load before has begun and not completed; None if there is none. TableError, OSError."""
    path = os.path.join(directory, LOAD_JOURNAL)
    try:
        found = json.loads(files.read_file(path, BYTES_MAX))
        source, topics = found["source"], found["topics"]
        if not isinstance(source, str) or not all(isinstance(each, str) for each in topics):
            raise ValueError("it has other values")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise TableError(
            f"{path} is no journal of a load: {error}; remove it, and the topics that were loaded"
        ) from None
    return LoadJournal(source, tuple(topics))


def write_journal(directory: str, source: str, topics: Sequence[str]) -> None:
    """Record what is begun; on disk after return. OSError."""
    files.replace_file(os.path.join(directory, LOAD_JOURNAL), json.dumps({"source": source, "topics": topics}).encode())


def remove_journal(directory: str) -> None:
    """Record that the load is complete; on disk after return. OSError."""
    files.remove_file(os.path.join(directory, LOAD_JOURNAL))
    files.sync_directory(directory)
