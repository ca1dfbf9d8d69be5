"""One partition of an open directory: reading, appending and following.

A position in the log can be given in four ways:

    42                  an offset
    -10                 the tenth record from the end
    datetime(…, UTC)    the first record at or after a time
    None                the beginning, or the end

Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from offsetfs.appending import Appendable, Appender, NewRecord
from offsetfs.arrow_columns import partitions_reader
from offsetfs.storage import Batch, LogDirectory, LogReader, LogView, Record, TopicPartition
from offsetfs.storage.errors import OffsetOutOfRange, ReadOnlyLog

if TYPE_CHECKING:
    import pyarrow

POLL_S = 0.005
"""So often a waiting reader looks whether the log has grown: writes of other processes are not announced."""

Place = int | datetime | None


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

    def offset_at(self, when: datetime) -> int:
        """Return the offset of the first record at or after a time, `end_offset` when there is none.

        ValueError for a time without a zone, which is ambiguous.
        """
        view = self._now()
        found = view.find_timestamp(_milliseconds(when))
        return view.end_offset() if found is None else found[0]

    # --- reading -----------------------------------------------------------------------------------------------------

    def record(self, offset: int) -> Record | None:
        """Return the record at `offset`; None where there is none: compaction, markers, open transactions leave gaps.

        Raises `OffsetOutOfRange` outside of the log, `CorruptBatch` and the like.
        """
        view = self._now()
        batch = view.log.batch_at(offset)
        if batch is None or offset >= view.end_offset() or not view.shows(batch.header):
            return None
        return batch.record(offset)

    def read(self, start: Place = None, stop: Place = None) -> Iterator[Record]:
        """Yield the records from `start` to before `stop`, as far as there are any now.

        Goes on through rolls, retention and compaction, also by another process. Raises `OffsetOutOfRange` when the log
        begins above `start`, or meanwhile above what is to come; `UnknownPartition` when the partition was deleted;
        `CorruptBatch`, `MalformedBatch`, `UnsupportedFormat`, `DecompressionLimit` at damage; OSError.
        """
        return self._reader(start, stop).records()

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
        self, start: Place = None, stop: Place = None, *, columns: Sequence[str] | None = None
    ) -> pyarrow.RecordBatchReader:
        """Return a reader of the records from `start` to before `stop` as Arrow record batches of about 1 MiB.

        `columns`: those of the Spark source (`key`, `value`, `topic`, `partition`, `offset`, `timestamp`,
        `timestampType`, `headers`), in the order given; None: all. Columns that are left out cost nothing.

        The range is fixed now; records are read as the reader is iterated, which raises as `read`. Needs the extra
        `arrow`: ImportError without it. ValueError for an unknown column.
        """
        return partitions_reader([self], start, stop, columns)

    def range_reader(self, start: Place, stop: Place) -> tuple[TopicPartition, LogReader]:
        """Return the reader of a range that is fixed now, and the name of the log. Raises as `read`."""
        view, first, last = self._range(start, stop)
        return self._name, LogReader(view.log, start=first, stop=last, isolation=view.isolation)

    def _reader(self, start: Place, stop: Place) -> LogReader:
        return self.range_reader(start, stop)[1]

    def _range(self, start: Place, stop: Place) -> tuple[LogView, int, int]:
        view = self._now()
        first = view.log.log_start_offset if start is None else self._offset(view, start)
        last = view.end_offset() if stop is None else self._offset(view, stop)
        if not view.log.log_start_offset <= first <= view.log.next_offset:
            raise OffsetOutOfRange(first, view.log.log_start_offset, view.log.next_offset, view.log.path)
        return view, first, last

    def _offset(self, view: LogView, start: int | datetime) -> int:
        if isinstance(start, datetime):
            return self.offset_at(start)
        return start if start >= 0 else max(view.end_offset() + start, view.log.log_start_offset)

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
        deadline = None if timeout is None else time.monotonic() + timeout
        while (view := self._now()).end_offset() <= offset:
            if view.log.next_offset < offset:
                raise OffsetOutOfRange(offset, view.log.log_start_offset, view.log.next_offset, view.log.path)
            pause = POLL_S if deadline is None else min(POLL_S, deadline - time.monotonic())
            if pause <= 0:
                return False
            time.sleep(pause)
        return True

    def follow(self, start: Place = None, timeout: float | None = None) -> Iterator[Record]:
        """Yield records from `start` (None: the end) on, waiting for those to come.

        Ends when none came for `timeout` seconds; None: never. Raises as `read`: `OffsetOutOfRange` when retention was
        faster than the reader, or the log was cut below what it has read.
        """
        offset = self.end_offset if start is None else self._range(start, None)[1]
        return self._follow(offset, timeout)

    def _follow(self, offset: int, timeout: float | None) -> Iterator[Record]:
        while self.wait(offset, timeout):
            view, first, end = self._range(offset, None)
            yield from LogReader(view.log, start=first, stop=end, isolation=view.isolation).records()
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
        when = _milliseconds(timestamp) if isinstance(timestamp, datetime) else timestamp
        return self.extend([NewRecord(value, key, headers, when)]).start

    def extend(self, records: Iterable[Appendable]) -> range:
        """Append records, in batches; return their offsets. Raises as `append`: what came before it is in the log.

        Takes `NewRecord`s, and `Record`s that were read elsewhere.
        """
        return self._appending().extend(records)

    def append_lines(self, data: bytes | bytearray, timestamp: int | None = None) -> range:
        """Append each line of `data` as a value, as `append` of a mount does; return the offsets.

        Raises as `extend`.
        """
        return self._appending().lines(data, timestamp)

    def append_ndjson(self, data: bytes | bytearray, *, json_values: str = "refuse") -> range:
        """Append each line of `data` as a record, as `append.ndjson` of a mount does; return the offsets.

        With `json_values="text"` a `value` that is a number, a boolean, an object or a list is taken as its text, byte
        by byte as it stands in the line; with "refuse" such a line is wrong.

        Raises as `extend`, and ValueError at a line that is wrong, with its number and what is wrong.
        """
        return self._appending().ndjson(data, json_values)

    def sync(self) -> None:
        """Return when everything appended so far is on disk. After a failure the log accepts no more writes."""
        self._appending().sync()

    def _appending(self) -> Appender:
        if self._directory.read_only:
            raise ReadOnlyLog("opened for reading: offsetfs.open(path, 'a') appends", path=self._directory.path)
        self._directory.refresh_config()
        with self._mutex:
            log = self._directory.writable_log(self._name)
            if self._appender is None or self._appender.log is not log:
                self._appender = Appender(log, self._directory.clock)
            return self._appender


def _milliseconds(when: datetime) -> int:
    if when.tzinfo is None:
        raise ValueError(f"{when} has no zone: datetime.now(UTC), or datetime(…, tzinfo=UTC)")
    return int(when.timestamp() * 1000)
