"""Appends records to one partition in batches; writes a batch when it is full or the call ends.

Durability: when a call returns, its records are in the segment file, so readers see them and they survive a crash of
the process; after `sync` they are on disk. Records of one call are consecutive. If a record is refused, the records
before it are in the log. Corresponds to Kafka's producer without `linger.ms`: pass many records in one call.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from offsetfs import arguments
from offsetfs.storage import INTERNAL_TOPICS, JSON_VALUES, BatchLimit, BatchWriter, Clock, Log, SealedBatch
from offsetfs.storage.errors import PolicyViolation

BATCH_BYTES = 1 << 20
"""Size at which a batch is written, before compression; `max.message.bytes` of the topic caps it."""

_NEEDS_KEY = "a compacted topic takes no record without a key"


class Appendable(Protocol):
    """An appendable record: a `NewRecord`, or a `Record` that was read elsewhere."""

    @property
    def value(self) -> bytes | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...
    @property
    def timestamp(self) -> int | datetime | None: ...


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to append. `timestamp`: milliseconds since 1970, or a datetime with its zone; None: now."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int | datetime | None = None


class Appender:
    """Appends to one log. Thread-safe; concurrent calls are serialized."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self.log = log
        self._clock = clock
        self._lock = threading.RLock()  # the iterator of records may append, too
        self._batches = BatchWriter(self._limit, BATCH_BYTES, self._append, log.path)

    def extend(self, records: Iterable[Appendable]) -> range:
        """Append records; return their offsets."""
        with self._lock:
            self._check()
            first = self.log.next_offset
            try:
                for record in records:
                    self._take(record)
            finally:
                self._batches.write()
            return range(first, self.log.next_offset)

    def lines(self, data: bytes | bytearray, timestamp: int | None) -> range:
        """Append each line as a value; return the offsets. Bytes after the last newline are a record as well."""
        whole = data if data.endswith(b"\n") or not data else bytes(data) + b"\n"
        with self._lock:
            self._check(has_keys=False)
            first, position = self.log.next_offset, 0
            now = self._clock.now_ms() if timestamp is None else timestamp
            try:
                while position < len(whole):
                    position = self._batches.split(whole, position, now)
            finally:
                self._batches.write()
            return range(first, self.log.next_offset)

    def ndjson(self, data: bytes | bytearray, json_values: str) -> range:
        """Append each line of JSON as a record; return the offsets. ValueError for an invalid line.

        The fields are those of `records.ndjson`; blank lines are skipped. `json_values` is one of `JSON_VALUES`.
        """
        if json_values not in JSON_VALUES:
            raise ValueError(f"json_values is {json_values!r}, but must be one of {', '.join(JSON_VALUES)}")
        whole = data if data.endswith(b"\n") or not data else bytes(data) + b"\n"
        with self._lock:
            self._check()
            first, position = self.log.next_offset, 0
            try:
                while position < len(whole):
                    split = self._batches.split_json(
                        *(whole, position, self._clock.now_ms()),
                        needs_key=self.log.is_compacted,
                        values_as_text=json_values == "text",
                    )
                    if split.fault is not None:
                        line = whole.count(b"\n", 0, split.start) + 1
                        raise ValueError(f"line {line}, byte {split.fault.position}: {split.fault.reason}")
                    position = split.start
            finally:
                self._batches.write()
            return range(first, self.log.next_offset)

    # --- batches -----------------------------------------------------------------------------------------------------

    def _check(self, *, has_keys: bool = True) -> None:
        topic = self.log.partition.topic
        if topic in INTERNAL_TOPICS:
            raise PermissionError(errno.EPERM, "a broker keeps its own state there", os.path.basename(self.log.path))
        if self.log.is_compacted and not has_keys:
            raise PolicyViolation(_NEEDS_KEY, path=self.log.path)

    def _take(self, record: Appendable) -> None:
        key, value, headers, timestamp = arguments.parts(record)
        if key is None and self.log.is_compacted:
            raise PolicyViolation(_NEEDS_KEY, path=self.log.path)
        self._batches.append(key, value, headers, self._clock.now_ms() if timestamp is None else timestamp)

    def _limit(self) -> BatchLimit:
        config = self.log.config
        return BatchLimit.within(config.compression, config.max_message_bytes, config.segment_bytes)

    def _append(self, sealed: SealedBatch) -> None:
        self.log.append(sealed)
        if self.log.must_flush:
            self.log.flush()
