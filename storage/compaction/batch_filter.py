"""Filters v2 batches that the compiled code leaves to the caller: compressed batches, transactions, markers.

    aborted data       removed, whatever its keys
    marker             kept while records of its transaction exist; then gets a delete horizon, and is removed after it
    data               keeps the latest record of each key; a tombstone gets a horizon, and is removed after it
    without records    removed, unless it is the last batch of an active producer or of the round: then 61 bytes stay

Follows Kafka's Cleaner.cleanInto and MemoryRecords.filterTo (KIP-534 for the horizon).
"""

from __future__ import annotations

from collections.abc import Mapping

from offsetfs.storage.compaction.cleaned_transactions import CleanedTransactions
from offsetfs.storage.compaction.offset_map import Filter, rebase
from offsetfs.storage.compaction.rewritten_batch import empty_batch, horizon_of, rebuilt
from offsetfs.storage.partition.producers import NONE, ProducerEntry
from offsetfs.storage.records.compression.compression import compress
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.batch_header import BatchHeader, Buffer


class BatchFilter:
    """Filters the batches of one round, one at a time."""

    def __init__(
        self,
        records: Filter,
        transactions: CleanedTransactions,
        producers: Mapping[int, ProducerEntry],
        now_ms: int,
        new_horizon_ms: int,
    ) -> None:
        self._records = records
        self._transactions = transactions
        self._now_ms = now_ms
        self._new_horizon_ms = new_horizon_ms
        self._marker_epochs = {
            producer_id: entry.producer_epoch for producer_id, entry in producers.items() if entry.last_offset == NONE
        }
        """Producers of which only the epoch of a marker is known."""

    def filtered(self, batch: Batch) -> Buffer:
        """Return what remains of a batch; b"" if it is removed. Raises as `Batch.payload` and `Filter.retain` do."""
        header = batch.header
        if header.is_control:
            return self._marker(batch)
        if self._transactions.discards(header):
            return self._without_records(header)
        return self._data(batch)

    def _marker(self, batch: Batch) -> Buffer:
        header = batch.header
        is_discardable = self._transactions.discards_marker(batch)
        # KIP-534: the horizon is stored in the base timestamp of the batch, so that a delete is not postponed by each
        # round.
        is_due = header.has_delete_horizon and header.base_timestamp <= self._now_ms
        if (is_discardable and is_due) or header.count == 0:
            return self._without_records(header)
        if not is_discardable or header.has_delete_horizon:
            return batch.data
        return self._with_horizon(header, batch.payload(), header.count, header.max_timestamp)

    def _data(self, batch: Batch) -> Buffer:
        header, payload = batch.header, batch.payload()
        count, max_timestamp, has_tombstone, records = self._records.retain(
            payload,
            header.count,
            header.base_offset,
            header.last_offset_delta,
            header.base_timestamp,
            header.has_delete_horizon,
        )
        if count == 0:
            return self._without_records(header)
        # The first round that keeps the tombstone as the latest record sets the horizon.
        if has_tombstone and not header.has_delete_horizon:
            return self._with_horizon(header, payload if records is None else records, count, max_timestamp)
        if records is None:
            return batch.data
        return rebuilt(header, compress(header.codec_name, records), count, max_timestamp)

    def _with_horizon(self, header: BatchHeader, records: Buffer, count: int, max_timestamp: int) -> Buffer:
        horizon, shift, is_append_time = horizon_of(header, self._new_horizon_ms)
        records = rebase(records, count, shift, is_append_time)
        return rebuilt(horizon, compress(header.codec_name, records), count, max_timestamp)

    def _without_records(self, header: BatchHeader) -> Buffer:
        # The last sequence of an active producer must stay: otherwise its next batch would look like a new producer,
        # and duplicates would not be detected (as Cleaner.cleanInto, RETAIN_EMPTY).
        return empty_batch(header) if self._is_last(header) else b""

    def _is_last(self, header: BatchHeader) -> bool:
        if self._records.is_last(header.producer_id, header.last_offset):
            return True
        return header.is_control and self._marker_epochs.get(header.producer_id) == header.producer_epoch
