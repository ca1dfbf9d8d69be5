"""The id of a message: the same record has the same id, however often it is loaded.

     0                   1                   2                   3
    +---------------------------------------------------------------+
    |                     hash, 48 bits                             |
    +                               +-------+-----------------------+
    |                               | 8     | hash, 12 bits         |
    +---+---------------------------+-------+-----------------------+
    |1 0| hash, 30 bits                                             |
    +---+-----------------------------------------------------------+
    | 0 | number, 31 bits                                           |
    +---+-----------------------------------------------------------+

A UUID of version 8 (RFC 9562). `number` is the sequence of the record where its producer was idempotent, otherwise its
offset, modulo 2³¹. The hash is SHA-256 of topic id, partition, producer id and epoch, and offset divided by 2³¹.
Sequences start again at 0 after 2³¹ records, and the offset is then in another range of 2³¹. Neighbors in the log are
neighbors in an index, so that inserts touch few of its pages.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Sequence

_ERA_BITS = 31
_MASK = (1 << _ERA_BITS) - 1
_SEED = struct.Struct(">16siqhq")
_NUMBER = struct.Struct(">I")
_NO_PRODUCER = -1


def origin_of(topic: str, topic_id: bytes | None) -> bytes:
    """Return 16 bytes that stand for a topic: its id, or a hash of its name where the directory has no id."""
    return topic_id or hashlib.sha256(b"topic name " + topic.encode()).digest()[:16]


def message_uuids(
    origin: bytes,
    partition: int,
    base_offset: int,
    deltas: Sequence[int],
    producer: tuple[int, int, int] | None,
) -> list[bytes]:
    """Return the ids of the records of a batch, 16 bytes each.

    `producer`: its id, its epoch and the sequence of the batch; None to use offsets.
    """
    producer_id, epoch, base_number = producer or (_NO_PRODUCER, -1, base_offset)
    first_era = base_offset >> _ERA_BITS
    if not deltas or (base_offset + deltas[-1]) >> _ERA_BITS == first_era:
        prefix = _prefix(origin, partition, producer_id, epoch, first_era)
        return [prefix + _NUMBER.pack((base_number + delta) & _MASK) for delta in deltas]
    return [
        _prefix(origin, partition, producer_id, epoch, (base_offset + delta) >> _ERA_BITS)
        + _NUMBER.pack((base_number + delta) & _MASK)
        for delta in deltas
    ]


@functools.lru_cache(maxsize=1024)
def _prefix(origin: bytes, partition: int, producer_id: int, epoch: int, era: int) -> bytes:
    found = bytearray(hashlib.sha256(_SEED.pack(origin, partition, producer_id, epoch, era)).digest()[:12])
    found[6] = found[6] & 0x0F | 0x80
    found[8] = found[8] & 0x3F | 0x80
    return bytes(found)
