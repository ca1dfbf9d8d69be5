"""The partition of a key, by the partitioner of the client that produced it.

murmur2   Java, and clients that follow it: kafka-python, librdkafka with partitioner=murmur2_random
crc32     librdkafka's default, consistent_random: kcat, confluent-kafka-python, -go, -dotnet; rdkafka of Ruby
fnv1a     Sarama's default, NewHashPartitioner; librdkafka with partitioner=fnv1a_random
"""

from __future__ import annotations

import zlib
from enum import StrEnum

from offsetfs.storage.records import partition_of

_FNV_BASIS, _FNV_PRIME = 0x811C9DC5, 0x01000193
_MASK = 0xFFFFFFFF


class Partitioner(StrEnum):
    """The hash by which a producer chooses the partition of a key."""

    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    FNV1A = "fnv1a"
    ANY = "any"
    """Not known: the key may be in any partition."""

    def partition_of(self, key: bytes, partitions: int) -> int | None:
        """Return the partition, of so many, of a key; None if it may be in any of them."""
        match self:
            case Partitioner.MURMUR2:
                return partition_of(key, partitions)
            case Partitioner.CRC32:
                # librdkafka takes an empty key for none, and puts it anywhere.
                return zlib.crc32(key) % partitions if key else None
            case Partitioner.FNV1A:
                return abs(_signed(_fnv1a(key))) % partitions
            case Partitioner.ANY:
                return None


def _fnv1a(key: bytes) -> int:
    hashed = _FNV_BASIS
    for byte in key:
        hashed = (hashed ^ byte) * _FNV_PRIME & _MASK
    return hashed


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number
