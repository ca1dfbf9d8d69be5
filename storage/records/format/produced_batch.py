"""A stored batch as a producer sends it: what a broker takes from a client.

    stored                                          produced
    whole, CreateTime ─────────────────────────────► the same records, the header of a producer
    gaps, a part of it, LogAppendTime, v0, v1 ─────► its records in a new batch, with the codec of the old one

Base offset and leader epoch are those that the broker assigns; transactional batches become ordinary ones. A batch of a
client has no gaps and no LogAppendTime (LogValidator). Follows ProducerBatch for the header.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format.batch import Batch, build
from offsetfs.storage.records.format.batch_header import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    MAGIC,
    seal_checksum,
    write_header,
)
from offsetfs.storage.units import NO_TIMESTAMP, Offset


@dataclass(frozen=True, slots=True)
class BatchProducer:
    """An idempotent producer: the id and the epoch that a broker has given it."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ProducedBatch:
    """A batch that can be sent, and the offsets that its records had."""

    data: bytearray
    offsets: Sequence[int]


def produced_batch(
    batch: Batch, first: int, stop: int, *, producer: BatchProducer, sequence: int
) -> ProducedBatch | None:
    """Return the records of a batch with offsets in `[first, stop)`; None without any.

    `sequence`: that of the first record. Raises as `Batch.records`, where the records are taken apart.
    """
    header = batch.header
    if _is_whole(batch, first, stop):
        data = bytearray(batch.data)
        attributes = header.attributes & CODEC_MASK
        changed = replace(
            header,
            base_offset=Offset(0),
            leader_epoch=-1,
            attributes=attributes,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
        )
        write_header(data, changed)
        seal_checksum(data)
        return ProducedBatch(data, range(header.base_offset, header.next_offset))
    records = [record for record in batch.records() if first <= record.offset < stop] if header.count else []
    if not records:
        return None
    for record in records:
        if record.timestamp < NO_TIMESTAMP:
            reason = f"a record with the time {record.timestamp}, which no new batch can have"
            raise MalformedBatch(reason, path=batch.path, offset=record.offset)
    data = build(
        [(record.key, record.value, record.headers, record.timestamp) for record in records],
        codec=header.codec_name,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
    )
    return ProducedBatch(data, tuple(record.offset for record in records))


def _is_whole(batch: Batch, first: int, stop: int) -> bool:
    """Return whether all records are wanted, without gaps, and with the timestamps of their producer."""
    header = batch.header
    return (
        header.magic == MAGIC
        and not header.attributes & APPEND_TIME_FLAG
        and 0 < header.count == header.last_offset_delta + 1
        and first <= header.base_offset
        and header.next_offset <= stop
    )
