"""A log as a list of batches: what the engine is held against, operation by operation.

The model knows every batch that was appended and not cut, and where the log begins. It says which records must be
there, which may be, how transactions ended, and where a time is found. Of compaction it knows what is promised and no
more: up to where a round went, the latest record of each key is there, and older ones are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT
from offsetfs.storage.records.format.batch import build, set_append_time
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.records.format.record import CREATE_TIME, LOG_APPEND_TIME, Record
from offsetfs.storage.units import Offset, Timestamp

Fields = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
"""Key, value, headers and timestamp of a record that is to be appended."""


@dataclass(frozen=True, slots=True)
class Written:
    """A batch as it must lie in the log. `marker`: ABORT or COMMIT, the end of a transaction, which has no record."""

    base_offset: int
    records: tuple[Record, ...]
    producer_id: int = -1
    is_transactional: bool = False
    marker: int | None = None

    @property
    def next_offset(self) -> int:
        return self.base_offset + (len(self.records) if self.marker is None else 1)


@dataclass
class LogModel:
    """One partition. `replaced`: offsets of records that compaction may have taken.

    `was_cut_inside`: a truncation left last offsets that belonged to no batch: it took one that began below it, or
    compaction had taken the last one that did.
    """

    batches: list[Written] = field(default_factory=list)
    start: int = 0
    next_offset: int = 0
    replaced: set[int] = field(default_factory=set)
    was_cut_inside: bool = False

    # --- what changes it ---------------------------------------------------------------------------------------------

    def append(
        self,
        rows: Iterable[Fields],
        append_time: int | None,
        *,
        producer_id: int = -1,
        is_transactional: bool = False,
    ) -> None:
        """Take in a batch that was appended; `append_time` where the topic has LogAppendTime."""
        kind = CREATE_TIME if append_time is None else LOG_APPEND_TIME
        records = tuple(
            Record(
                Offset(self.next_offset + place),
                Timestamp(time if append_time is None else append_time),
                kind,
                key,
                value,
                headers,
            )
            for place, (key, value, headers, time) in enumerate(rows)
        )
        self._add(Written(self.next_offset, records, producer_id, is_transactional))

    def end_transaction(self, producer_id: int, marker: int) -> None:
        """Take in a marker that was appended."""
        self._add(Written(self.next_offset, (), producer_id, is_transactional=True, marker=marker))

    def _add(self, batch: Written) -> None:
        self.batches.append(batch)
        self.next_offset = batch.next_offset

    def truncate_to(self, offset: int, first_base_offset: int) -> None:
        """Cut the batches that end at `offset` or above; the log ends at `offset`, or begins there again."""
        if offset >= self.next_offset:
            return
        if offset < first_base_offset:
            self.truncate_fully(offset)
            return
        self.batches = [batch for batch in self.batches if batch.next_offset <= offset]
        ends = max((batch.next_offset for batch in self.batches), default=0)
        self.was_cut_inside = self.was_cut_inside or offset > ends or bool(self.replaced)
        self.next_offset, self.start = offset, min(self.start, offset)
        self.replaced = {each for each in self.replaced if each < offset}

    def truncate_fully(self, offset: int) -> None:
        """Begin again at `offset`, with nothing."""
        self.batches, self.start, self.next_offset = [], offset, offset
        self.replaced = set()

    def compact(self, clean_end: int, rewritten_end: int) -> None:
        """Take note of a round that knew the keys below `clean_end`, and rewrote what lies below `rewritten_end`.

        The latest record of each key stays. A tombstone may go, and what was aborted or has no key.
        """
        fates, latest = self.fates(), dict[bytes | None, int]()
        rewritten = [record for record in self._data() if record.offset < rewritten_end]
        for record in rewritten:
            if record.offset < clean_end and fates[record.offset]:
                latest[record.key] = record.offset
        for record in rewritten:
            is_value = record.key is not None and record.value is not None and fates[record.offset]
            if not is_value or record.offset < latest.get(record.key, 0):
                self.replaced.add(record.offset)

    # --- what it says ------------------------------------------------------------------------------------------------

    def records(self) -> dict[int, Record]:
        """Return every record that may be there, by offset."""
        return {
            record.offset: record for batch in self.batches for record in batch.records if record.offset >= self.start
        }

    def required(self) -> set[Offset]:
        """Return the offsets of the records that must be there."""
        return {record.offset for record in self._data() if record.offset >= self.start} - self.replaced

    def _data(self) -> Iterator[Record]:
        return (record for batch in self.batches for record in batch.records)

    def fates(self) -> dict[int, bool]:
        """Say of the records, by offset, whether they are committed or of no transaction; False: aborted or open."""
        fates: dict[int, bool] = {}
        undecided: dict[int, list[int]] = {}
        for batch in self.batches:
            if batch.marker is not None:
                for offset in undecided.pop(batch.producer_id, []):
                    fates[offset] = batch.marker != ABORT
            else:
                fates |= {record.offset: not batch.is_transactional for record in batch.records}
                if batch.is_transactional:
                    undecided.setdefault(batch.producer_id, []).extend(record.offset for record in batch.records)
        return fates

    def open_transactions(self) -> dict[int, int]:
        """Return the first offsets of the transactions that are open at the end, by producer."""
        begun: dict[int, int] = {}
        for batch in self.batches:
            if batch.marker is not None:
                begun.pop(batch.producer_id, None)
            elif batch.is_transactional:
                begun.setdefault(batch.producer_id, batch.base_offset)
        return begun


def sealed(rows: list[Fields], codec: str, append_time: int | None = None, **fields: Any) -> SealedBatch:
    """Return a batch of these records, ready to be appended; its largest timestamp as the engine will store it."""
    data = build(rows, codec=codec, **fields)
    if append_time is not None:
        set_append_time(data, append_time)
    values_bytes = sum(len(value or b"") + 1 for _, value, _, _ in rows)
    return SealedBatch(memoryview(data), len(rows), values_bytes, Timestamp(max(row[3] for row in rows)), len(data))


def present(log: Log) -> dict[int, Record]:
    """Return the records that a reader of `log` finds when it goes from one batch to the next, by offset."""
    found: dict[int, Record] = {}
    offset = log.log_start_offset
    while (batch := log.batch_at(offset)) is not None:
        assert batch.header.last_offset >= offset, "a batch that lies before what was asked for"
        if not batch.header.is_control:
            found |= {record.offset: record for record in batch.records() if record.offset >= offset}
        offset = batch.header.next_offset
    assert offset == log.next_offset or not found or offset <= log.next_offset
    return found
