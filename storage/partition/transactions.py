"""The transactions of a log: which were aborted, which are open, and the last stable offset.

The state of a segment is the range of each aborted transaction in it, and the transactions open after its last batch.
It comes

* from the `.txnindex` and the producer snapshot at its end, if both lie below the recovery point, where they were
synced, and the log has the abort markers of the index;
* otherwise from a scan of the headers in the log, starting with the open transactions in the snapshot at the segment's
base offset, or from a scan of the earlier segments.

So a missing, damaged or wrong index costs a scan. Segments are read on demand; later appends are scanned as they come.
Follows Kafka's ProducerStateManager (the first unstable offset), TransactionIndex and, for the state of a batch, the
consumer's CompletedFetch (KIP-98). The high watermark is `Log.next_offset`.

Threads: any; one lock protects everything, and `nowait` does not wait for it.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex, InvalidSnapshot, StorageError, WouldBlock
from offsetfs.storage.files import File
from offsetfs.storage.names import parse_segment_name, segment_name
from offsetfs.storage.partition.producers import ABORT, COMMIT, NONE, ProducerState, end_marker
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.format.batch import Batch, BatchHeader, read_batch
from offsetfs.storage.records.format.batch_header import TRANSACTIONAL_FLAG
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.segments.transaction_index import SUFFIX, AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log

SEGMENTS_KEPT_MAX = 128
"""The number of segments whose transactions are cached. Limits memory for a log with ten thousand segments."""

NOWAIT_BYTES_MAX = 1 << 20
"""The log bytes that may be scanned on the event loop."""


class _Release:
    """A context that begins with a lock that is held, and releases it."""

    __slots__ = ("_lock",)

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class Transactions:
    """The transactions of one log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: OrderedDict[int, SegmentTransactions] = OrderedDict()
        self._lock = Lock()
        self._release = _Release(self._lock)

    def last_stable_offset(self, *, nowait: bool = False) -> int:
        """Return the offset below which all transactions are decided: the first offset of an open one, or the log
        end.
        """
        with self._locked(nowait):
            end, segments = self._log.next_offset, self._log.snapshot()
            first_open = self._of(segments.active, segments, nowait).first_open
            return end if first_open is None else max(min(first_open, end), self._log.log_start_offset)

    def open(self, *, nowait: bool = False) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of each undecided transaction, by offset."""
        with self._locked(nowait):
            segments = self._log.snapshot()
            undecided = self._of(segments.active, segments, nowait).open
            return sorted(undecided.items(), key=lambda item: item[1])

    def is_committed(self, header: BatchHeader, *, nowait: bool = False) -> bool:
        """Whether a batch belongs to no transaction, or to a committed one; not to an aborted or open one."""
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
        """Return the aborted transactions that overlap `[offset_from, offset_to)`, by the offsets of their markers.

        Reads beyond `offset_to` as far as transactions extend that were open there.
        """
        overlapping: list[AbortedTransaction] = []
        with self._locked(nowait):
            segments, reaches_on = self._log.snapshot(), False
            for segment in segments.from_floor(offset_from):
                if segment.base_offset >= offset_to and not reaches_on:
                    break
                known = self._of(segment, segments, nowait)
                overlapping += [
                    transaction for transaction in known.aborted if _reaches_into(transaction, offset_from, offset_to)
                ]
                reaches_on = any(first < offset_to for first in known.open.values())
        return overlapping

    def aborted_in_indexes(self, offset_from: int, offset_to: int) -> list[AbortedTransaction]:
        """Return as `aborted`, by the transaction indexes: a sealed segment without one counts as free of any.

        Kafka writes no index for a segment without aborted transactions, and `aborted` reads such a segment.
        """
        overlapping: list[AbortedTransaction] = []
        with self._lock:
            segments = self._log.snapshot()
            for segment in segments.from_floor(offset_from):
                if segment.base_offset >= offset_to:
                    break
                entries = None if segment is segments.active else _indexed(segment)
                if entries is None:
                    entries = self._of(segment, segments, nowait=False).aborted
                overlapping += [entry for entry in entries if _reaches_into(entry, offset_from, offset_to)]
        return overlapping

    def rebuild_indexes(self, offset_from: int) -> None:
        """Rewrite the index of each segment from that of `offset_from` on, from the log, if it differs."""
        with self._lock:
            segments = self._log.snapshot()
            for segment in segments.from_floor(offset_from):
                _write_index(segment, self._replayed(segment, segments).aborted)

    def _locked(self, nowait: bool) -> AbstractContextManager[object]:
        """Return the lock; with `nowait`, a context that has it already: each Fetch comes here."""
        if not nowait:
            return self._lock
        if not self._lock.acquire(blocking=False):
            raise WouldBlock("transactions are being read", path=self._log.path)
        return self._release

    # --- what is known of a segment ----------------------------------------------------------------------------------

    def _of(self, segment: Segment, segments: Segments, nowait: bool) -> SegmentTransactions:
        """Return the transactions of a segment, up to its current end."""
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
        """Return the transactions that the index has up to the last snapshot in the segment; None if it is not
        valid.
        """
        later = (
            successor
            for successor in segments.from_floor(segment.base_offset)
            if successor.base_offset > segment.base_offset
        )
        following = next(later, None)
        end = self._log.next_offset if following is None else following.base_offset
        # Beyond the recovery point the index or the snapshot may be from before a crash, and aborted records would be
        # shown as committed.
        snapshot = self._last_snapshot(segment.base_offset, min(end, self._log.recovery_point))
        if snapshot is None:
            return None
        offset, open_transactions = snapshot
        try:
            index = TransactionIndex.read(segment.path(SUFFIX), segment.base_offset)
        except (OSError, CorruptIndex):
            return None
        # An emptied file looks like one without entries, so it counts as missing.
        if not index.entries or index.entries[-1].last_offset >= end:
            return None
        aborted = [entry for entry in index.entries if entry.last_offset < offset]
        # The index has no checksum. An entry without a marker in the log would hide committed records.
        if not all(_has_marker(segment, entry) for entry in aborted):
            return None
        position = segment.size if following is not None and offset == end else segment.position_of(offset)
        return SegmentTransactions(segment, position, open_transactions, aborted)

    def _replayed(self, segment: Segment, segments: Segments) -> SegmentTransactions:
        """Return the transactions in the log of the segment; scans earlier segments whose transactions are unknown."""
        to_walk: list[Segment] = []
        open_transactions: dict[int, int] = {}
        for walked in reversed([s for s in segments if s.base_offset <= segment.base_offset]):
            before = self._known.get(walked.base_offset)
            if before is not None and before.segment is walked and walked is not segment:
                before.extend(walked.size)
                open_transactions = before.open
                break
            to_walk.append(walked)
            snapshot = self._snapshot(walked.base_offset)
            if snapshot is not None:
                open_transactions = snapshot
                break
        for walked in reversed(to_walk):
            known = SegmentTransactions(walked, 0, dict(open_transactions), [])
            known.extend(walked.size)
            self._keep(known)
            open_transactions = known.open
        return known

    def _last_snapshot(self, above: int, offset_max: int) -> tuple[int, dict[int, int]] | None:
        """Return offset and open transactions of the last valid snapshot in `(above, offset_max]`."""
        parsed = (parse_segment_name(name) for name in files.names(self._log.path))
        offsets = [base for base, suffix in filter(None, parsed) if suffix == ".snapshot"]
        for offset in sorted((o for o in offsets if above < o <= offset_max), reverse=True):
            snapshot = self._snapshot(offset)
            if snapshot is not None:
                return offset, snapshot
        return None

    def _snapshot(self, offset: int) -> dict[int, int] | None:
        """Return the first offsets of the transactions that were open before `offset`; None without a snapshot."""
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
        """Return whether the producer's transaction at `offset` was aborted; None if it is undecided in this
        segment.
        """
        entries = self._by_producer.get(producer_id, [])
        index = bisect_left(entries, offset, key=lambda entry: entry.last_offset)
        if index < len(entries) and entries[index].first_offset <= offset:
            return True
        first_open = self.open.get(producer_id)
        return None if first_open is not None and first_open <= offset else False

    def extend(self, end: int, *, nowait: bool = False) -> None:
        """Scan up to byte `end`. With `nowait`, `WouldBlock` if that is far, or needs the disk; progress is kept."""
        if self.position >= end:
            return
        if nowait and end - self.position > NOWAIT_BYTES_MAX:
            raise WouldBlock("a long range must be scanned for transactions", path=self.segment.log_path)
        log = self.segment.open_files(nowait=nowait).log
        for rows in row_walk.header_rows(log, self.position, end, nowait=nowait):
            for row in rows.flagged(TRANSACTIONAL_FLAG):
                self.position, header, seen = rows.batch(row)
                self._take(log, self.position, header, seen, nowait)
            self.position = rows.end
        self.position = end

    def _take(self, log: File, batch_position: int, header: BatchHeader, seen: memoryview, nowait: bool) -> None:
        """Process a batch. One that opens or ends a transaction is verified.

        Otherwise a damaged header could seem to open a transaction, which would hide all later records.
        """
        producer_id = header.producer_id
        # Only the first batch and the marker of a transaction matter, so the batches between are not read.
        if (producer_id in self.open) != header.is_control:
            return  # continues a transaction, or ends none
        try:
            batch = _load(log, batch_position, header, seen, nowait)
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
                # As ProducerStateManager.completeTxn: the last stable offset after the marker, which shows a consumer
                # how far the index must be read.
                stable = min(self.open.values(), default=header.next_offset)
                self._add(AbortedTransaction(producer_id, first, header.base_offset, stable))
        self.first_open = min(self.open.values(), default=None)

    def _add(self, entry: AbortedTransaction) -> None:
        self.aborted.append(entry)
        self._by_producer.setdefault(entry.producer_id, []).append(entry)


def _load(log: File, batch_position: int, header: BatchHeader, seen: memoryview, nowait: bool) -> Batch:
    data = seen[: header.size]
    if len(data) < header.size:
        data = memoryview(log.read(batch_position, header.size, nowait=nowait))
    return read_batch(data, path=log.path, file_position=batch_position)


def _indexed(segment: Segment) -> Sequence[AbortedTransaction] | None:
    """Return the entries of the index of a segment, none without one; None if it cannot be read."""
    try:
        return TransactionIndex.read(segment.path(SUFFIX), segment.base_offset).entries
    except FileNotFoundError:
        return ()
    except (OSError, CorruptIndex):
        return None


def _reaches_into(transaction: AbortedTransaction, offset_from: int, offset_to: int) -> bool:
    return transaction.last_offset >= offset_from and transaction.first_offset < offset_to


def _has_marker(segment: Segment, entry: AbortedTransaction) -> bool:
    """Whether the log has the abort marker of an entry. A damaged marker does not contradict the entry."""
    try:
        batch = segment.find(entry.last_offset)
        if batch is None or batch.header.base_offset != entry.last_offset or not batch.header.is_control:
            return False
        marker = end_marker(batch)
    except StorageError:
        return True
    return batch.header.producer_id == entry.producer_id and marker is not None and marker[0] == ABORT


def _write_index(segment: Segment, aborted: list[AbortedTransaction]) -> None:
    path = segment.path(SUFFIX)
    content = b"".join(entry.pack() for entry in aborted)
    try:
        before = files.read_file(path)
    except FileNotFoundError:
        before = b""
    if content != before:
        files.replace_file(path, content)
