"""The options of a writer, and the topics that it writes to.

The columns are those of Spark's Kafka sink (`key value headers topic partition`), and `timestamp`. A Kafka broker
creates a topic at its first write; here the option `partitions` does, so that a misspelled name creates none.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from offsetfs.pipeline.journal import INTENT
from offsetfs.pipeline.publication import GRACE_SECONDS, open_when_published
from offsetfs.pipeline.read_options import KNOWN, WITHOUT_TABLES, OptionError, is_of_a_table, local_path
from offsetfs.pipeline.staging import TopicShape
from offsetfs.storage import INTERNAL_TOPICS, BatchLimit, LogDirectory, TopicPartition, check_topic, files
from offsetfs.storage.directory import writer_of
from offsetfs.storage.errors import LogDirectoryLocked, StorageError

_KNOWN = ("path", "topic", "partitions", "txnAppId", "txnVersion", "includeHeaders")
_OF_STREAMS = ("checkpointLocation", "queryName")
_OF_READERS = frozenset(name.lower() for name in KNOWN)
_TEXT = (BinaryType, StringType)
_COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": (StringType,),
    "partition": (IntegerType,),
    "timestamp": (TimestampType,),
    "headers": (ArrayType,),
}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write, checked."""

    path: str
    topic: str | None
    partitions: int | None
    """The number of partitions of a new topic; None: the topic must exist."""
    application: str | None
    version: int | None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
        """Read the options of a write. `OptionError` at the first that cannot be."""
        if is_of_a_table(options):
            raise OptionError(WITHOUT_TABLES)
        known = {name.lower(): name for name in (*_KNOWN, *(_OF_STREAMS if is_stream else ()))}
        values = {}
        for name, value in options.items():
            if name.lower() not in known:
                of_a_view = f". {WITHOUT_TABLES}" if name.lower() in _OF_READERS else ""
                raise OptionError(f"unknown option {name} of a write{of_a_view}")
            values[known[name.lower()]] = value
        path = values.get("path")
        if not path:
            raise OptionError(f"no log directory: pass its path to save(). {WITHOUT_TABLES}")
        if is_stream and "txnVersion" in values:
            raise OptionError("option txnVersion has no effect in a stream, which numbers its batches; remove it")
        if not is_stream and ("txnAppId" in values) != ("txnVersion" in values):
            raise OptionError("options txnAppId and txnVersion go together; give both or none")
        return cls(
            path=local_path(path, "a write"),
            topic=values.get("topic"),
            partitions=_number(values, "partitions", 1),
            application=values.get("txnAppId") or (_stream_name(values) if is_stream else None),
            version=_number(values, "txnVersion", 0),
        )


def _stream_name(values: Mapping[str, str]) -> str:
    checkpoint = values.get("checkpointLocation")
    if checkpoint is None:
        raise OptionError("a stream is known by its option checkpointLocation or txnAppId: give one of them")
    return f"stream {os.path.abspath(checkpoint.removeprefix('file://'))}"


def _number(values: Mapping[str, str], name: str, lowest: int) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()) or int(text) < lowest:
        raise OptionError(f"option {name}: {text!r} is not a whole number from {lowest} on")
    return int(text)


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Raise `OptionError` for a column that cannot be written, or a missing one."""
    names = schema.fieldNames()
    for field in schema.fields:
        allowed = _COLUMNS.get(field.name)
        if allowed is None:
            raise OptionError(f"column {field.name} cannot be written, only {', '.join(_COLUMNS)}")
        if not isinstance(field.dataType, allowed) or (field.name == "headers" and not _are_headers(field.dataType)):
            kinds = "array<struct<key:string,value:binary>>" if field.name == "headers" else _names_of(allowed)
            raise OptionError(f"column {field.name} is {field.dataType.simpleString()}; cast it to {kinds}")
    if "value" not in names:
        raise OptionError("there is no column value; select one, such as CAST(… AS BINARY) AS value")
    if options.topic is None and "topic" not in names:
        raise OptionError("the records have no topic; give the option topic, or a column topic")


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


def _names_of(kinds: tuple[type[DataType], ...]) -> str:
    return " or ".join(kind().simpleString() for kind in kinds)


def topic_shapes(options: WriteOptions) -> dict[str, TopicShape]:
    """Return the topics that may be written to; create the topic of the options if it is missing.

    Raises `LogDirectoryLocked` here, and not after the tasks, if another process holds the directory.
    """
    _check_free(options.path)
    if options.topic is not None and options.topic in INTERNAL_TOPICS:
        raise OptionError(f"option topic: {options.topic} is a broker's own")
    if options.topic is not None and options.partitions is not None:
        _make_topic(options.path, options.topic, options.partitions)
    directory = LogDirectory.open(options.path, read_only=True)
    try:
        names = {partition.topic for partition in directory.partitions()} - INTERNAL_TOPICS
        if options.topic is not None and options.topic not in names:
            raise OptionError(f"option topic: there is no topic {options.topic}; the option partitions creates it")
        wanted = names if options.topic is None else {options.topic}
        return {topic: _shape(directory, topic) for topic in wanted}
    finally:
        directory.close()


def _check_free(path: str) -> None:
    """Raise `LogDirectoryLocked` if a mount, a broker or a command holds the directory. A publication is waited for."""
    begun = time.monotonic()
    while (pid := writer_of(path)) is not None and not files.exists(os.path.join(path, INTENT)):
        if time.monotonic() - begun > GRACE_SECONDS:
            reason = f"in use by process {pid}: unmount it or stop the broker, or append through it"
            raise LogDirectoryLocked(reason, path=path, pid=pid)
        time.sleep(0.02)


def _make_topic(path: str, topic: str, partitions: int) -> None:
    check_topic(topic)
    os.makedirs(path, exist_ok=True)
    directory = open_when_published(path)
    try:
        if not directory.partitions_of(topic):
            directory.create_partitions([TopicPartition(topic, number) for number in range(partitions)])
    finally:
        directory.close()


def _shape(directory: LogDirectory, topic: str) -> TopicShape:
    numbers = tuple(partition.partition for partition in directory.partitions_of(topic))
    config = directory.config_of(topic)
    limit = BatchLimit.within(config.compression, config.max_message_bytes, config.segment_bytes)
    if numbers != tuple(range(len(numbers))):
        raise StorageError(f"{topic} lacks a partition: it has {', '.join(map(str, numbers))}", path=directory.path)
    needs_key = any(directory.log(TopicPartition(topic, number)).is_compacted for number in numbers)
    return TopicShape(numbers, limit, needs_key)
