"""The partition of a key, as in Kafka's own producer: murmur2 of its bytes, modulo.

Records of one key keep their order because they lie in one partition; a writer that hashes otherwise than Kafka's
clients would tear keys apart. Follows BuiltInPartitioner.partitionForKey and Utils.murmur2 and toPositive. What is
here is the specification; lines of JSON are hashed by its compiled copy in `native/json_lines.pyx`.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition, of so many, to which records of `key` belong. No bytes at all are a key, too."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the hash as 32 bits without sign."""
    hashed = _SEED ^ len(data) & _MASK
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        hashed = (hashed * _M & _MASK) ^ word
    if whole < len(data):
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15
