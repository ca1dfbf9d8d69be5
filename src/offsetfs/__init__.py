"""offsetfs: a Kafka log directory, mounted as a file system; or opened by a Python program.

    with offsetfs.open("/var/lib/kafka/data") as data:
        for record in data.partition("orders-0").read(-10):
            print(record.offset, record.key, record.value)

What is not needed is not loaded: the names below come when they are first asked for. docs/use/library.md shows them
all.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from offsetfs.version import __version__

if TYPE_CHECKING:
    import os

    from offsetfs.appending import NewRecord
    from offsetfs.kafka.broker.embedded import EmbeddedBroker
    from offsetfs.open_directory import Directory
    from offsetfs.partition import Partition
    from offsetfs.storage import Batch, Record, errors
    from offsetfs.topic import Topic

__all__ = [
    "Batch",
    "Directory",
    "EmbeddedBroker",
    "NewRecord",
    "Partition",
    "Record",
    "Topic",
    "__version__",
    "errors",
    "open",
    "serve",
]

_HOMES = {
    "Batch": "offsetfs.storage",
    "Directory": "offsetfs.open_directory",
    "EmbeddedBroker": "offsetfs.kafka.broker.embedded",
    "NewRecord": "offsetfs.appending",
    "Partition": "offsetfs.partition",
    "Record": "offsetfs.storage",
    "Topic": "offsetfs.topic",
}


def open(
    path: str | os.PathLike[str],
    mode: Literal["r", "a"] = "r",
    *,
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Directory:
    """Open the log directory at `path`: "r" to read, also beside a running broker or a mount; "a" to append.

    With "r" nothing at all is written, and no lock is taken. With "a" the directory is locked as a broker locks it, and
    recovered when it was not closed cleanly; it may be empty. `isolation`: whether records of open and aborted
    transactions are shown. `settings`: topic settings by Kafka's names, for topics that say nothing themselves.

    Raises `errors.NotALogDirectory`, `errors.LogDirectoryLocked` (its `pid` is that of the holder),
    `errors.InvalidConfig`, OSError, and ValueError for another mode or isolation level.
    """
    home = importlib.import_module("offsetfs.open_directory")
    directory: Directory = home.open(path, mode, isolation=isolation, settings=settings)
    return directory


def serve(
    path: str | os.PathLike[str],
    *,
    listen: str = "127.0.0.1:0",
    settings: Mapping[str, str | int | bool] = MappingProxyType({}),
    read_only: bool = False,
    allow_anonymous: bool = False,
) -> EmbeddedBroker:
    """Serve the log directory at `path` over the Kafka protocol, from a thread of this process; return when it accepts.

        with offsetfs.serve(tmp_path) as broker:
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

    The directory is created if it is missing. `listen`: an address of this machine; port 0 is any free one. `settings`:
    by the names in Kafka's server.properties, such as `{"num.partitions": 4}`. With `read_only` nothing is written:
    over a backup, or beside a running broker. `allow_anonymous`: also listen on an address that other machines reach
    without authentication.

    Raises ValueError for such an address without it, `errors.NotALogDirectory`,
    `errors.LogDirectoryLocked`, `errors.InvalidConfig`, and OSError, also for an address that cannot be used.
    """
    home = importlib.import_module("offsetfs.kafka.broker.embedded")
    broker: EmbeddedBroker = home.serve(
        path, listen=listen, settings=settings, read_only=read_only, allow_anonymous=allow_anonymous
    )
    return broker


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("offsetfs.storage.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
