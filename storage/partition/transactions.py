"""Which transactions of a log were aborted, and which are still open: the last stable offset, the fate of a batch.

What is known of a segment is where each aborted transaction in it began and ended, and which transactions are open
behind its last batch. It comes

* from the `.txnindex` and the producer snapshot at its end, as far as both lie below the recovery point, where they
  were synced, and the log has the abort markers that the index tells of;
* else from the log itself: a walk over the headers from the open transactions that the snapshot at the segment's base
  knows, or that a walk over the segments before it finds.

So an index that is missing, damaged or lying costs a walk. Segments are looked at when somebody asks for something in
them; what a writer appends later is walked over as it comes. Follows Kafka's ProducerStateManager (the first unstable
offset), TransactionIndex and, for the fate of a batch, the consumer's CompletedFetch (KIP-98). The high watermark is
`Log.next_offset`.

Threads: any; everything happens under one lock, which `nowait` does not wait for.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex, InvalidSnapshot, StorageError, WouldBlock
from offsetfs.storage.files import File
from offsetfs.storage.names import parse_segment_name, segment_name
from offsetfs.storage.partition.producers import ABORT, COMMIT, NONE, ProducerState, end_marker
from offsetfs.storage.records import row_walk
from offsetfs.storage.records.batch import Batch, BatchHeader, read_batch
from offsetfs.storage.records.batch_header import TRANSACTIONAL_FLAG
from offsetfs.storage.segments import segment_indexes
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.segments.transaction_index import SUFFIX, AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log

SEGMENTS_KEPT_MAX = 128
"""Segments whose transactions are kept in mind: bounds the memory of a log with ten thousand of them."""

NOWAIT_BYTES_MAX = 1 << 20
"""How much of a log may be walked over where nothing may wait."""


class Transactions:
    """The transactions of one log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: OrderedDict[int, SegmentTransactions] = OrderedDict()
        self._lock = Lock()

    def last_stable_offset(self, *, nowait: bool = False) -> int:
        """Return the offset below which every transaction is decided: the first of an open one, or the log end."""
        with self._locked(nowait):
            end, segments = self._log.next_offset, self._log.snapshot()
            first_open = self._of(segments.active, segments, nowait).first_open
            return end if first_open is None else max(min(first_open, end), self._log.log_start_offset)

    def open(self, *, nowait: bool = False) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of each transaction that is not decided, by offset."""
        with self._locked(nowait):
            segments = self._log.snapshot()
            found = self._of(segments.active, segments, nowait).open
            return sorted(found.items(), key=lambda item: item[1])

    def is_committed(self, header: BatchHeader, *, nowait: bool = False) -> bool:
        """Whether a batch is of no transaction, or of a committed one; not of an aborted one, nor of one still open."""
        if not header.is_transactional:
            return True
        with self._locked(nowait):
            segments = self._log.snapshot()
            for segment in segments.from_floor(header.base_offset):
                is_aborted = self._of(segment, segments, nowait).is_aborted(header.producer_id, header.base_offset)
                if is_aborted is not None:
                    return not is_aborted
            return False

    def aborted(self, offset_from: int, offset_to: int, *, nowait: bool = False) -> list[AbortedTransaction]:
        """Return the aborted transactions that reach into `[offset_from, offset_to)`, by the offsets of their markers.

        Looks as far beyond `offset_to` as transactions reach that were open there.
        """
        found: list[AbortedTransaction] = []
        with self._locked(nowait):
            segments, reaches_on = self._log.snapshot(), False
            for segment in segments.from_floor(offset_from):
                if segment.base_offset >= offset_to and not reaches_on:
                    break
                known = self._of(segment, segments, nowait)
                found += [each for each in known.aborted if _reaches_into(each, offset_from, offset_to)]
                reaches_on = any(first < offset_to for first in known.open.values())
        return found

    def rebuild_indexes(self, offset_from: int) -> None:
        """Write the index of each segment from that of `offset_from` on anew, from the log, where it says otherwise."""
        with self._lock:
            segments = self._log.snapshot()
            for segment in segments.from_floor(offset_from):
                _write_index(segment, self._replayed(segment, segments).aborted)

    @contextlib.contextmanager
    def _locked(self, nowait: bool) -> Iterator[None]:
        if not self._lock.acquire(blocking=not nowait):
            raise WouldBlock("transactions are being looked at", path=self._log.path)
        try:
            yield
        finally:
            self._lock.release()

    # --- what is known of a segment ----------------------------------------------------------------------------------

    def _of(self, segment: Segment, segments: Segments, nowait: bool) -> SegmentTransactions:
        """Return what is known of a segment, up to its end as it is now."""
        known = self._known.get(segment.base_offset)
        if known is None or known.segment is not segment:
            if nowait:
                raise WouldBlock("the transactions of a segment are not known yet", path=segment.log_path)
            known = self._from_indexes(segment, segments) or self._replayed(segment, segments)
        self._keep(known)
        known.extend(segment.size, nowait=nowait)
        return known

    def _keep(self, known: SegmentTransactions) -> None:
        base = known.segment.base_offset
        self._known[base] = known
        self._known.move_to_end(base)
        while len(self._known) > SEGMENTS_KEPT_MAX:
            self._known.popitem(last=False)

    def _from_indexes(self, segment: Segment, segments: Segments) -> SegmentTransactions | None:
        """Return what the index says up to the last snapshot in the segment; None when that is not to be believed."""
        later = (each for each in segments.from_floor(segment.base_offset) if each.base_offset > segment.base_offset)
        following = next(later, None)
        end = self._log.next_offset if following is None else following.base_offset
        found = self._last_snapshot(segment.base_offset, min(end, self._log.recovery_point))
        if found is None:
            return None
        offset, open_transactions = found
        try:
            index = TransactionIndex.read(segment_indexes.path(segment, SUFFIX), segment.base_offset)
        except (OSError, CorruptIndex):
            return None
        # An emptied file looks like one without entries: it is as good as missing.
        if not index.entries or index.entries[-1].last_offset >= end:
            return None
        aborted = [entry for entry in index.entries if entry.last_offset < offset]
        if not all(_has_marker(segment, entry) for entry in aborted):
            return None
        position = segment.size if following is not None and offset == end else segment.position_of(offset)
        return SegmentTransactions(segment, position, open_transactions, aborted)

    def _replayed(self, segment: Segment, segments: Segments) -> SegmentTransactions:
        """Return what the log itself says of the segment; walks over those before it that nothing is known of."""
        to_walk: list[Segment] = []
        open_transactions: dict[int, int] = {}
        for each in reversed([s for s in segments if s.base_offset <= segment.base_offset]):
            before = self._known.get(each.base_offset)
            if before is not None and before.segment is each and each is not segment:
                before.extend(each.size)
                open_transactions = before.open
                break
            to_walk.append(each)
            snapshot = self._snapshot(each.base_offset)
            if snapshot is not None:
                open_transactions = snapshot
                break
        for each in reversed(to_walk):
            known = SegmentTransactions(each, 0, dict(open_transactions), [])
            known.extend(each.size)
            self._keep(known)
            open_transactions = known.open
        return known

    def _last_snapshot(self, above: int, offset_max: int) -> tuple[int, dict[int, int]] | None:
        """Return offset and open transactions of the last sound snapshot in `(above, offset_max]`."""
        parsed = (parse_segment_name(name) for name in files.names(self._log.path))
        offsets = [base for base, suffix in filter(None, parsed) if suffix == ".snapshot"]
        for offset in sorted((o for o in offsets if above < o <= offset_max), reverse=True):
            found = self._snapshot(offset)
            if found is not None:
                return offset, found
        return None

    def _snapshot(self, offset: int) -> dict[int, int] | None:
        """Return the first offsets of the transactions that were open before `offset`; None when no snapshot says."""
        path = os.path.join(self._log.path, segment_name(offset, ".snapshot"))
        try:
            state = ProducerState.load(files.read_file(path), path)
        except (OSError, InvalidSnapshot):
            return None
        firsts = {producer_id: entry.current_txn_first_offset for producer_id, entry in state.entries.items()}
        return {producer_id: first for producer_id, first in firsts.items() if first != NONE}


class SegmentTransactions:
    """The transactions of one segment up to byte `position`; `open` has the first offset of each open one."""

    __slots__ = ("_by_producer", "aborted", "first_open", "open", "position", "segment")

    def __init__(
        self, segment: Segment, position: int, open_transactions: dict[int, int], aborted: list[AbortedTransaction]
    ) -> None:
        self.segment = segment
        self.position = position
        self.open = open_transactions
        self.first_open = min(open_transactions.values(), default=None)
        self.aborted: list[AbortedTransaction] = []
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for entry in aborted:
            self._add(entry)

    def is_aborted(self, producer_id: int, offset: int) -> bool | None:
        """Return the fate of the producer's transaction at `offset`; None when it is not decided in this segment."""
        entries = self._by_producer.get(producer_id, [])
        place = bisect_left(entries, offset, key=lambda entry: entry.last_offset)
        if place < len(entries) and entries[place].first_offset <= offset:
            return True
        first_open = self.open.get(producer_id)
        return None if first_open is not None and first_open <= offset else False

    def extend(self, end: int, *, nowait: bool = False) -> None:
        """Walk on to byte `end`. With `nowait` `WouldBlock` when that is far, or needs the disk; nothing is lost."""
        if self.position >= end:
            return
        if nowait and end - self.position > NOWAIT_BYTES_MAX:
            raise WouldBlock("a long stretch was not looked at for transactions", path=self.segment.log_path)
        log = self.segment.open_files(nowait=nowait).log
        for rows in row_walk.header_rows(log, self.position, end, nowait=nowait):
            for row in rows.flagged(TRANSACTIONAL_FLAG):
                self.position, header, seen = rows.batch(row)
                self._take(log, self.position, header, seen, nowait)
            self.position = rows.end
        self.position = end

    def _take(self, log: File, place: int, header: BatchHeader, seen: memoryview, nowait: bool) -> None:
        """Take note of a batch. One that opens a transaction, or ends it, is checked: what a damaged header says of an
        open transaction would hide everything behind it."""
        producer_id = header.producer_id
        if (producer_id in self.open) != header.is_control:
            return  # goes on, or ends what never began
        try:
            batch = _load(log, place, header, seen, nowait)
            marker = end_marker(batch) if header.is_control else None
        except WouldBlock:
            raise
        except StorageError:
            return
        if not header.is_control:
            self.open[producer_id] = header.base_offset
        elif marker is not None and marker[0] in (ABORT, COMMIT):
            first = self.open.pop(producer_id)
            if marker[0] == ABORT:
                stable = min(self.open.values(), default=header.next_offset)
                self._add(AbortedTransaction(producer_id, first, header.base_offset, stable))
        self.first_open = min(self.open.values(), default=None)

    def _add(self, entry: AbortedTransaction) -> None:
        self.aborted.append(entry)
        self._by_producer.setdefault(entry.producer_id, []).append(entry)


def _load(log: File, place: int, header: BatchHeader, seen: memoryview, nowait: bool) -> Batch:
    data = seen[: header.size]
    if len(data) < header.size:
        data = memoryview(log.read(place, header.size, nowait=nowait))
    return read_batch(data, path=log.path, file_position=place)


def _reaches_into(transaction: AbortedTransaction, offset_from: int, offset_to: int) -> bool:
    return transaction.last_offset >= offset_from and transaction.first_offset < offset_to


def _has_marker(segment: Segment, entry: AbortedTransaction) -> bool:
    """Whether the log has the abort marker that an entry tells of. One that is damaged says nothing against it."""
    try:
        batch = segment.find(entry.last_offset)
        if batch is None or batch.header.base_offset != entry.last_offset or not batch.header.is_control:
            return False
        marker = end_marker(batch)
    except StorageError:
        return True
    return batch.header.producer_id == entry.producer_id and marker is not None and marker[0] == ABORT


def _write_index(segment: Segment, aborted: list[AbortedTransaction]) -> None:
    path = segment_indexes.path(segment, SUFFIX)
    content = b"".join(entry.pack() for entry in aborted)
    try:
        before = files.read_file(path)
    except FileNotFoundError:
        before = b""
    if content != before:
        files.replace_file(path, content)
