"""The transactions that a scan of compaction is inside of: which batches are aborted, which markers are obsolete.

Data of an aborted transaction is removed, whatever its keys. A marker is removed if the scan met no records of its
transaction, but only after `delete.retention.ms`, because a consumer may be between the two. The scan begins at the
start of the log or, when it builds the map, at the first dirty offset. Follows Kafka's CleanedTransactionMetadata.
"""

from __future__ import annotations

import heapq

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.format.batch import Batch, BatchHeader
from offsetfs.storage.segments.transaction_index import AbortedTransaction


class CleanedTransactions:
    """The transactions at the current position of a scan. Batches must come in log order."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._span: tuple[int, int] | None = None
        self._coming: list[tuple[int, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_data: set[int] = set()
        self._committed: set[int] = set()
        self.seen_aborted: list[AbortedTransaction] = []
        """Aborted transactions with records met so far, in the order of their markers, for the new transaction
        index.
        """

    def enter(self, offset_from: int, offset_to: int) -> None:
        """Continue with the batches of `[offset_from, offset_to)`.

        Aborted transactions are looked up when they are needed, because most logs have none.
        """
        self._span = (offset_from, offset_to)

    def discards(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._reach(header.last_offset)
        if header.producer_id in self._aborted:
            self._with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def discards_marker(self, batch: Batch) -> bool:
        """Whether a control batch is obsolete: no records of its transaction are left, or it is empty."""
        header = batch.header
        self._reach(header.last_offset)
        kind = _kind_of(batch)
        if kind == ABORT:
            aborted = self._aborted.pop(header.producer_id, None)
            # A marker without records below it may go; while records exist, consumers need it.
            if aborted is None or header.producer_id not in self._with_data:
                return True
            self._with_data.discard(header.producer_id)
            self.seen_aborted.append(aborted)
            return False
        if kind == COMMIT:
            is_unknown = header.producer_id not in self._committed
            self._committed.discard(header.producer_id)
            return is_unknown
        return kind is None

    def _reach(self, offset: int) -> None:
        """Open the aborted transactions that begin at or before `offset`."""
        if self._span is not None:
            for transaction in self._log.transactions.aborted(*self._span):
                heapq.heappush(self._coming, (transaction.first_offset, transaction))
            self._span = None
        while self._coming and self._coming[0][0] <= offset:
            _, aborted = heapq.heappop(self._coming)
            self._aborted.setdefault(aborted.producer_id, aborted)


def _kind_of(batch: Batch) -> int | None:
    """Return the type of a control batch's record; None if the batch is empty."""
    records = batch.records()
    if not records:
        return None
    key = records[0].key or b""
    if len(key) < 4:
        raise MalformedBatch("a control record too short", path=batch.path, position=batch.position)
    return int.from_bytes(key[2:4], "big", signed=True)
