"""Comparison of batches and records, compiled or in Python. `storage.reference.comparison` has the docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.batch_header import APPEND_TIME_FLAG, MAGIC
from offsetfs.storage.reference.comparison import (
    LATEST_COLUMNS,
    NO_KEY,
    NULL_VALUE,
    EqualBatches,
    LatestDiff,
    Merged,
    RecordDigests,
)

if TYPE_CHECKING:
    from offsetfs.storage.reference import comparison as _comparison
else:
    _comparison = select("comparison")

equal_batches = _comparison.equal_batches
digest_records = _comparison.digest_records
merge_digests = _comparison.merge_digests
keep_latest = _comparison.keep_latest
compare_latest = _comparison.compare_latest

__all__ = [
    "LATEST_COLUMNS",
    "NO_KEY",
    "NULL_VALUE",
    "EqualBatches",
    "LatestDiff",
    "Merged",
    "RecordDigests",
    "batch_digests",
    "compare_latest",
    "digest_records",
    "equal_batches",
    "keep_latest",
    "merge_digests",
]


def batch_digests(batch: Batch, seed: bytes, *, times: bool = True, headers: bool = True) -> RecordDigests:
    """Return the digests of the records of a batch of any format, as readers see them. Raises as `Batch.rows`."""
    header = batch.header
    is_stamped = header.attributes & APPEND_TIME_FLAG and header.magic == MAGIC
    return digest_records(
        batch.payload(),
        batch.rows(),
        header.base_offset,
        header.base_timestamp,
        seed,
        append_time=header.max_timestamp if is_stamped else None,
        times=times,
        headers=headers,
    )
