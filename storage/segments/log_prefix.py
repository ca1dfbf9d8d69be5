"""The beginning of a log file that ends before an offset: its whole batches, and the indexes of a segment of them.

For a log file that is in no log directory. Follows Kafka's LogSegment.truncateTo for where the file ends, and
LogSegment.recover for the indexes.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.files import File
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.segments.segment_indexes import IndexBuilder
from offsetfs.storage.units import Timestamp


@dataclass(frozen=True, slots=True)
class LogPrefix:
    """Whole batches at the beginning of a log file, and the content of the index files of a sealed segment of them."""

    size: int
    """The size in bytes; 0 if no batch is before the offset."""
    max_timestamp: Timestamp
    """The largest record timestamp, in milliseconds since 1970; -1 if there is none."""
    offset_index: bytes
    time_index: bytes


def measure_prefix(log: File, size: int, base_offset: int, end: int, *, interval_bytes: int) -> LogPrefix:
    """Return what the first `size` bytes of a log file have before the offset `end`: the batches [base_offset, end).

    `interval_bytes`: `index.interval.bytes`. All batches before `end` are read. `MalformedBatch` if a batch has
    offsets on both sides of `end`, or has a header that cannot be true; and what `log` raises.
    """
    builder, kept = IndexBuilder(base_offset, interval_bytes), 0
    for position, header, seen in batch_chain.headers(log, 0, size, block_bytes=batch_chain.BLOCK_BYTES):
        if header.last_offset >= end:
            first = (
                batch_chain.check(log, position, header, seen).base_offset if header.is_wrapper else header.base_offset
            )
            if first < end:
                reason = f"the batch has offsets {first} to {header.last_offset}, on both sides of {end}"
                raise MalformedBatch(reason, path=log.path, position=position, offset=first)
            break
        builder.add(position, header)
        kept = position + header.size
    builder.finish()
    return LogPrefix(kept, Timestamp(builder.max_timestamp[0]), bytes(builder.offsets), bytes(builder.times))
