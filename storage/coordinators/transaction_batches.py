"""Batches that a coordinator writes for a transaction: the marker that ends it, and records that wait for the marker.

Follows EndTransactionMarker, ControlRecordType and MemoryRecords.withEndTransactionMarker (KIP-98).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0


def end_marker_batch(
    producer_id: int, epoch: int, *, is_commit: bool, coordinator_epoch: int, now_ms: int
) -> SealedBatch:
    """Return the control batch that ends the transaction of a producer in a partition."""
    kind = COMMIT if is_commit else ABORT
    record = _KEY.pack(_VERSION, kind), _VALUE.pack(_VERSION, coordinator_epoch), (), now_ms
    data = build([record], producer_id=producer_id, producer_epoch=epoch, transactional=True, control=True)
    return _sealed(data, 1, now_ms)


def transactional_batch(
    records: Sequence[tuple[bytes, bytes | None]], producer_id: int, epoch: int, now_ms: int
) -> SealedBatch:
    """Return keys and values of a coordinator's records, which count when the transaction of a producer commits.

    As a coordinator of Kafka, each such batch begins with the sequence 0.
    """
    timed = [(key, value, (), now_ms) for key, value in records]
    data = build(timed, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
    return _sealed(data, len(timed), now_ms)


def _sealed(data: bytearray, count: int, now_ms: int) -> SealedBatch:
    return SealedBatch(memoryview(data), count, 0, Timestamp(now_ms), len(data))
