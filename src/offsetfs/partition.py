"""Partitions and topics of an open directory: reading, appending and following. pyarrow is loaded by `arrow`.

A position in the log can be given in five ways:

    42                  an offset
    -10                 the tenth record from the end
    datetime(…, UTC)    the first record at or after a time
    "-1h"               the same, with a time as in names of a mount (`common.quantities`)
    None                the beginning, or the end

A value of another type is a TypeError, an invalid one a ValueError, that name the argument. Thread-safe.
"""

from __future__ import annotations

import heapq
import itertools
import operator
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from offsetfs import arguments
from offsetfs.appending import Appendable, Appender, NewRecord
from offsetfs.arguments import Place
from offsetfs.common.extras import install_command
from offsetfs.directory_schemas import directory_schemas, renewed
from offsetfs.storage import Batch, LogDirectory, LogReader, LogView, Record, TopicPartition
from offsetfs.storage.errors import OffsetOutOfRange, ReadOnlyLog, counted

if TYPE_CHECKING:
    import pyarrow

    from offsetfs.schemas.decoding import DirectorySchemas, RecordDecoder

POLL_S = 0.005
"""The interval in which a waiting reader looks for new records: writes of other processes are not announced."""

_OFFSET = "an offset"


class Partition:
    """A partition. Use `Directory.partition`. The log is opened on first use."""

    def __init__(self, directory: LogDirectory, name: TopicPartition, *, is_committed_only: bool) -> None:
        self._directory = directory
        self._name = name
        self._is_committed_only = is_committed_only
        self._view: LogView | None = None
        self._mutex = threading.Lock()
        """Held while the log is asked for, so that all threads share one view and one appender."""
        self._appender: Appender | None = None

    def __repr__(self) -> str:
        return f"<Partition {self._name} of {self._directory.path}>"

    @property
    def topic(self) -> str:
        return self._name.topic

    @property
    def number(self) -> int:
        return self._name.partition

    @property
    def name(self) -> str:
        """Topic and number, as the directory is called: orders-0."""
        return str(self._name)

    @property
    def start_offset(self) -> int:
        """The offset of the oldest record there may be."""
        return self._now().log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset below which everything is shown: the next to be given; with read_committed the last stable one."""
        return self._now().end_offset()

    def offset_at(self, when: datetime | str) -> int:
        """Return the offset of the first record at or after a time, `end_offset` when there is none.

        ValueError for a datetime without a zone, which is ambiguous, and a text that is no time.
        """
        return self._offset_at(arguments.time_ms("when", when, self._directory.clock))

    def _offset_at(self, timestamp: int) -> int:
        view = self._now()
        first = view.find_timestamp(timestamp)
        return view.end_offset() if first is None else first[0]

    # --- reading -----------------------------------------------------------------------------------------------------

    def record(self, offset: int) -> Record | None:
        """Return the record at `offset`; None where there is none: compaction, markers, open transactions leave gaps.

        Raises `OffsetOutOfRange` outside of the log, `CorruptBatch` and the like.
        """
        offset = arguments.number("offset", offset, _OFFSET)
        view = self._now()
        batch = view.log.batch_at(offset)
        if batch is None or offset >= view.end_offset() or not view.shows(batch.header):
            return None
        return batch.record(offset)

    def read(
        self,
        start: Place = None,
        stop: Place = None,
        *,
        decode: bool = False,
        schemas: Sequence[str] = (),
        mask: Sequence[str] = (),
        schema_registry: str | None = None,
    ) -> Iterator[Record]:
        """Yield the records from `start` to before `stop`, as far as there are any now.

        `decode`: yield `DecodedRecord`s, with values and keys decoded, a batch at a time. The others as `arrow`.

        Goes on through rolls, retention and compaction, also by another process. Raises `OffsetOutOfRange` when the log
        begins above `start`, or meanwhile above what is to come; `UnknownPartition` when the partition was deleted;
        `CorruptBatch`, `MalformedBatch`, `UnsupportedFormat`, `DecompressionLimit` at damage; OSError.
        """
        decoder = _decoder([self], decode, schemas, mask, schema_registry)
        name, reader = self.range_reader(start, stop)
        return reader.records() if decoder is None else _decoded_records(name.partition, reader, decoder)

    def batches(self, start: Place = None, stop: Place = None) -> Iterator[Batch]:
        """Yield the whole batches that reach into the range; `data` of each is its bytes as they are in the log.

        Raises as `read`. `values` and `ndjson` do, too.
        """
        return self._reader(start, stop).batches()

    def values(self, start: Place = None, stop: Place = None) -> Iterator[bytes | bytearray]:
        """Yield the bytes that `values` of a mount shows of the range, a batch at a time: value, newline."""
        return self._reader(start, stop).values()

    def ndjson(self, start: Place = None, stop: Place = None) -> Iterator[bytes | bytearray]:
        """Yield the bytes that `records.ndjson` of a mount shows of the range, a batch at a time: lines of JSON."""
        return self._reader(start, stop).ndjson()

    def arrow(
        self,
        start: Place = None,
        stop: Place = None,
        *,
        columns: Sequence[str] | None = None,
        decode: bool = False,
        schemas: Sequence[str] = (),
        mask: Sequence[str] = (),
        schema_registry: str | None = None,
    ) -> pyarrow.RecordBatchReader:
        """Return a reader of the records from `start` to before `stop` as Arrow record batches of about 1 MiB.

        `columns`: those of the Spark source (`key`, `value`, `topic`, `partition`, `offset`, `timestamp`,
        `timestampType`, `headers`), in the order given; None: all. Columns that are left out cost nothing.

        `decode`: `value` has the type of the topic's schema, `key` that of its schema for keys, if there is one, and a
        column `error` says why a value, or a key (`key: …`), is null that is not decoded. Schemas come from the topic
        `_schemas`, and from `schemas`: `NAME=FILE` or folders, as `offsetfs schemas` takes them. ValueError if none is
        known for the topic.

        `schema_registry`: the URL of a registry, or a properties file with `schema.registry.url`, for schemas that are
        in neither. `InvalidConfig` if it is wrong. A registry that cannot be asked is a reason in `error`.

        `mask`: fields that become null, as `TOPIC:FIELD[,FIELD]`: a path such as `customer.email`, `*.email` for all
        fields of that name, `#PII` for all with that tag. ValueError for a topic or field that is not there.

        The range is fixed now; records are read as the reader is iterated, which raises as `read`. Needs the extra
        `arrow`: ImportError without it. ValueError for an unknown column.
        """
        return _partitions_reader([self], start, stop, columns, decode, schemas, mask, schema_registry)

    def range_reader(self, start: Place, stop: Place) -> tuple[TopicPartition, LogReader]:
        """Return the reader of a range that is fixed now, and the name of the log. Raises as `read`."""
        view, first, last = self._range(start, stop)
        return self._name, LogReader(view.log, start=first, stop=last, isolation=view.isolation)

    def _reader(self, start: Place, stop: Place) -> LogReader:
        return self.range_reader(start, stop)[1]

    def _range(self, start: Place, stop: Place) -> tuple[LogView, int, int]:
        view = self._now()
        first = self._offset(view, "start", start, view.log.log_start_offset)
        last = self._offset(view, "stop", stop, view.end_offset())
        if not view.log.log_start_offset <= first <= view.log.next_offset:
            raise OffsetOutOfRange(first, view.log.log_start_offset, view.log.next_offset, view.log.path)
        return view, first, last

    def _offset(self, view: LogView, name: str, place: Place, default: int) -> int:
        given = arguments.offset_or_time(name, place, self._directory.clock)
        if given is None:
            return default
        number, is_time = given
        if is_time:
            return self._offset_at(number)
        return number if number >= 0 else max(view.end_offset() + number, view.log.log_start_offset)

    def _now(self) -> LogView:
        """Return the log after a check for changes by other processes; reopened if it was created again."""
        with self._mutex:
            log = self._directory.log(self._name)
            log.refresh()
            if log.is_gone:
                log = self._directory.log(self._name)
            view = self._view
            if view is None or view.log is not log:
                view = self._view = LogView(log, is_committed_only=self._is_committed_only)
            return view

    # --- following ---------------------------------------------------------------------------------------------------

    def wait(self, offset: int, timeout: float | None = None) -> bool:
        """Return True as soon as `end_offset` is above `offset`, False after `timeout` seconds.

        None waits without a limit. Raises `OffsetOutOfRange` if the log ends below `offset`, because it was truncated.
        """
        offset, timeout = arguments.number("offset", offset, _OFFSET), arguments.seconds("timeout", timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while (view := self._now()).end_offset() <= offset:
            if view.log.next_offset < offset:
                raise OffsetOutOfRange(offset, view.log.log_start_offset, view.log.next_offset, view.log.path)
            pause = POLL_S if deadline is None else min(POLL_S, deadline - time.monotonic())
            if pause <= 0:
                return False
            time.sleep(pause)
        return True

    def follow(
        self,
        start: Place = None,
        timeout: float | None = None,
        *,
        decode: bool = False,
        schemas: Sequence[str] = (),
        mask: Sequence[str] = (),
        schema_registry: str | None = None,
    ) -> Iterator[Record]:
        """Yield records from `start` (None: the end) on, waiting for those to come.

        `decode`: as of `read`, with the fields of the version that is the newest when a record comes.

        Ends when none came for `timeout` seconds; None: never. Raises as `read`: `OffsetOutOfRange` when retention was
        faster than the reader, or the log was cut below the offset of the reader.
        """
        timeout = arguments.seconds("timeout", timeout)
        found = directory_schemas(self._directory, decode, schemas, mask, schema_registry)
        decoder = None if found is None else found.record_decoder(self.topic)
        offset = self.end_offset if start is None else self._range(start, None)[1]
        return self._follow(offset, timeout, found, decoder)

    def _follow(
        self, offset: int, timeout: float | None, schemas: DirectorySchemas | None, decoder: RecordDecoder | None
    ) -> Iterator[Record]:
        while self.wait(offset, timeout):
            view, first, end = self._range(offset, None)
            reader = LogReader(view.log, start=first, stop=end, isolation=view.isolation)
            if schemas is None or decoder is None:
                yield from reader.records()
            else:
                if schemas.refresh():  # a producer registers a schema before it sends a record with it
                    decoder = renewed(schemas, self.topic, decoder)
                decoder.forget_failures()  # a registry may have the schemas now
                yield from _decoded_records(self.number, reader, decoder)
            offset = end

    # --- appending ---------------------------------------------------------------------------------------------------

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | datetime | None = None,
    ) -> int:
        """Append one record and return its offset. It makes a batch of its own: many go faster through `extend`.

        After return it is in the segment file, seen by every reader; on disk after `sync`. `timestamp`: milliseconds
        since 1970, or a time with its zone; now if left out. Raises `ReadOnlyLog`, `RecordTooLarge`, `PolicyViolation`
        (a compacted topic, and no key), PermissionError (a broker's own topic), `LogFailed`, OSError: then nothing of
        it is in the log.
        """
        return self.extend([NewRecord(value, key, headers, timestamp)]).start

    def extend(self, records: Iterable[Appendable]) -> range:
        """Append records, in batches; return their offsets. Raises as `append`: what came before it is in the log.

        Takes `NewRecord`s, and `Record`s that were read elsewhere.
        """
        return self._appending().extend(arguments.records(records))

    def append_lines(self, data: bytes | bytearray | memoryview, timestamp: int | datetime | None = None) -> range:
        """Append each line of `data` as a value, as `append` of a mount does; return the offsets.

        Raises as `extend`.
        """
        return self._appending().lines(arguments.lines(data), arguments.timestamp(timestamp))

    def append_ndjson(self, data: bytes | bytearray | memoryview, *, json_values: str = "refuse") -> range:
        """Append each line of `data` as a record, as `append.ndjson` of a mount does; return the offsets.

        With `json_values="text"` a `value` that is a number, a boolean, an object or a list is taken as its text, byte
        by byte as it stands in the line; with "refuse" the line is invalid.

        Raises as `extend`, and ValueError for an invalid line, with its number and the fault.
        """
        return self._appending().ndjson(arguments.lines(data), json_values)

    def sync(self) -> None:
        """Return when everything appended so far is on disk. After a failure the log accepts no more writes."""
        self._appending().log.flush()

    def _appending(self) -> Appender:
        if self._directory.read_only:
            state = "closed" if self._directory.is_closed else "opened for reading"
            raise ReadOnlyLog(f"{state}; to append, open it with offsetfs.open(path, 'a')", path=self._directory.path)
        self._directory.refresh_config()
        with self._mutex:
            log = self._directory.writable_log(self._name)
            if self._appender is None or self._appender.log is not log:
                self._appender = Appender(log, self._directory.clock)
            return self._appender


@dataclass(frozen=True, slots=True)
class PartitionRecord(Record):
    """A record with the number of its partition."""

    partition: int = 0


@dataclass(frozen=True, slots=True)
class DecodedRecord(PartitionRecord):
    """A record whose value, and key, are decoded by the schemas that they name."""

    decoded: Any = None
    """The value as a dict, list, str, Decimal and so on; None if it is null or not decoded."""
    decoded_error: str | None = None
    """Why the value is not decoded; of a decoded value why the key is not, as `key: …`."""
    decoded_key: Any = None
    """The key; None also if the topic has no schema for keys."""


class Topic:
    """A topic, with the partitions that it had when it was asked for. Use `Directory.topic`."""

    def __init__(self, name: str, partitions: Sequence[Partition]) -> None:
        self.name = name
        self.partitions = tuple(partitions)
        """Sorted by number."""

    def __repr__(self) -> str:
        return f"<Topic {self.name}, {counted(len(self.partitions), 'partition')}>"

    def read(
        self,
        start: Place = None,
        stop: Place = None,
        *,
        decode: bool = False,
        schemas: Sequence[str] = (),
        mask: Sequence[str] = (),
        schema_registry: str | None = None,
    ) -> Iterator[PartitionRecord]:
        """Yield the records of all partitions from `start` to before `stop`, as far as there are any now, by time.

        The order is that of `topics/<topic>/range` in a mount (`storage.views.LineMerge`, which merges lines). Each
        partition stays in the order of its offsets: a record counts as late as the latest before it. Of records of the
        same time, those of the lower partition come first. A batch of each partition is in memory.

        `start` and `stop` count in each partition: a time, or -10 for its last ten records. With `decode`, it yields
        `DecodedRecord`s. Raises as `Partition.read`.
        """
        decoder = _decoder(self.partitions, decode, schemas, mask, schema_registry)
        readers = [partition.range_reader(start, stop) for partition in self.partitions]
        records: Iterable[Iterator[PartitionRecord]] = (
            _placed_records(name.partition, reader)
            if decoder is None
            else _decoded_records(name.partition, reader, decoder)
            for name, reader in readers
        )
        merged = heapq.merge(*map(_by_time, records), key=_PLACE_IN_TIME)
        return (record for _, _, record in merged)

    def arrow(
        self,
        start: Place = None,
        stop: Place = None,
        *,
        columns: Sequence[str] | None = None,
        decode: bool = False,
        schemas: Sequence[str] = (),
        mask: Sequence[str] = (),
        schema_registry: str | None = None,
    ) -> pyarrow.RecordBatchReader:
        """Return a reader of all partitions, one after the other, as Arrow record batches; see `Partition.arrow`.

        `start` and `stop` count in each partition: a time, or -10 for its last ten records.
        """
        return _partitions_reader(self.partitions, start, stop, columns, decode, schemas, mask, schema_registry)


_PLACE_IN_TIME = operator.itemgetter(0, 1)


def _by_time(records: Iterable[PartitionRecord]) -> Iterator[tuple[int, int, PartitionRecord]]:
    """Yield records with their place among those of other partitions: the latest timestamp up to them, the number."""
    latest = -1  # of a record without a timestamp
    for record in records:
        latest = max(latest, record.timestamp)
        yield latest, record.partition, record


def _placed_records(partition: int, reader: LogReader) -> Iterator[PartitionRecord]:
    for record in reader.records():
        yield PartitionRecord(
            record.offset,
            record.timestamp,
            record.timestamp_type,
            record.key,
            record.value,
            record.headers,
            partition,
        )


def _decoded_records(partition: int, reader: LogReader, decoder: RecordDecoder) -> Iterator[DecodedRecord]:
    """Yield the records of a reader with values and keys decoded, those of a batch together."""
    import pyarrow

    from offsetfs.schemas.python_values import python_values
    from offsetfs.tables.arrow import header_column

    for batch, first, stop in reader.slices():
        records = [record for record in batch.records() if first <= record.offset < stop]
        headers = header_column(record.headers for record in records)
        values = decoder.values.decode(pyarrow.array([record.value for record in records], pyarrow.binary()), headers)
        keys: Iterable[tuple[Any, str | None]] = itertools.repeat((None, None), len(records))
        if decoder.keys is not None:
            column = pyarrow.array([record.key for record in records], pyarrow.binary())
            keys = python_values(decoder.keys.decode(column, headers))
        for record, (decoded, error), (key, key_error) in zip(records, python_values(values), keys, strict=True):
            if error is None and key_error is not None:
                error = f"key: {key_error}"
            yield DecodedRecord(
                record.offset,
                record.timestamp,
                record.timestamp_type,
                record.key,
                None if decoder.values.is_masked else record.value,
                record.headers,
                partition,
                decoded,
                error,
                key,
            )


def _partitions_reader(
    partitions: Sequence[Partition],
    start: Place,
    stop: Place,
    columns: Sequence[str] | None,
    decode: bool,
    schema_words: Sequence[str],
    masks: Sequence[str],
    registry_word: str | None,
) -> pyarrow.RecordBatchReader:
    """Return a reader of the ranges of several partitions, one after the other; see `Partition.arrow`."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"Arrow needs pyarrow and numpy: {install_command('arrow')}") from error
    from offsetfs.tables.arrow import record_batches, schema_of

    schema = schema_of(arguments.columns(columns))
    decoder = _decoder(partitions, decode, schema_words, masks, registry_word)
    has_keys = decoder is not None and decoder.keys is not None
    is_decoded = decoder is not None and ("value" in schema.names or (has_keys and "key" in schema.names))
    scanned = schema_of((*schema.names, "headers")) if is_decoded and "headers" not in schema.names else schema
    readers = [partition.range_reader(start, stop) for partition in partitions]
    batches = (batch for name, reader in readers for batch in record_batches(reader.slices(), name, scanned))
    reader = pyarrow.RecordBatchReader.from_batches(scanned, batches)
    if decoder is None or not is_decoded:
        return reader
    from offsetfs.schemas.decoding import decoded_batches

    return decoded_batches(reader, decoder, schema)


def _decoder(
    partitions: Sequence[Partition],
    decode: bool,
    schema_words: Sequence[str],
    mask_words: Sequence[str],
    registry_word: str | None,
) -> RecordDecoder | None:
    """Return the decoder of the records of a topic; None without `decode`. ValueError if there is no schema."""
    schemas = directory_schemas(partitions[0]._directory, decode, schema_words, mask_words, registry_word)
    return None if schemas is None else schemas.record_decoder(partitions[0].topic)
