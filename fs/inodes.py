"""Inode numbers that encode which file they belong to, so that no table grows with the look-ups.

    63      59 58              40 39                                     0
    +---------+------------------+----------------------------------------+
    |  kind   |    partition     |                 number                 |
    +---------+------------------+----------------------------------------+

`partition` is the number of a partition in order of first access, from 1 on and never reused; 0 is the mount itself.
`number` depends on the kind: for a record it is the offset minus the partition's anchor, the base offset of its first
segment at the first open. An inode always belongs to the same file: that of a symbolic link encodes its target, that
of a growing file its generation.

The root is 1, as FUSE requires: kind `FIXED`, partition 0, number `Fixed.DIRECTORY`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

NUMBER_BITS = 40
PARTITION_BITS = 19
NUMBER_MAX = (1 << NUMBER_BITS) - 1
PARTITION_MAX = (1 << PARTITION_BITS) - 1

_PARTITION_SHIFT = NUMBER_BITS
_KIND_SHIFT = NUMBER_BITS + PARTITION_BITS


class Kind(IntEnum):
    """The kind of a file, which defines the meaning of the number. At most 32 kinds."""

    FIXED = 0
    """One of `Fixed`: there is one in the mount, or one in each partition."""
    RECORD = 1
    """The offset of a record."""
    VALUES = 2
    """The generation of `values`: retention and compaction start a new one."""
    SEGMENT = 3
    """The number of a segment's file, in order of first access. The name would not suffice: compaction and retention
    replace files by others with the same names."""
    LINK = 4
    """`first`, `latest`: the offset they point to."""
    TIME_LINK = 5
    """`by-time/<T>`: the offset it points to."""
    MINUTE_LINK = 6
    """`by-time/2026/11/21/13/05`: the offset it points to."""
    TIME_DIRECTORY = 7
    """A year, month, day or hour: minutes since 1970 × 4 + level."""
    GROUP = 8
    """`groups/<group>`: the number of the group, in order of first access. Partition 0, as the next two."""
    GROUP_LAG = 9
    """`groups/<group>/lag`: the same."""
    GROUP_COMMIT = 10
    """`groups/<group>/<partition>`: the group's number, and 20 bits for that of the partition."""
    RECORDS = 11
    """The generation of `records.ndjson`, as for `values`."""
    RECORD_JSON = 12
    """`<offset>.json`: the offset."""
    RECORD_KEY = 13
    """`<offset>.key`: the offset."""
    RECORD_HEADERS = 14
    """`<offset>.headers`: the offset."""
    RANGE = 15
    """`range/A..B`, `last/N`: the number that the look-up assigned (`lookup_numbers`)."""
    FOLLOW = 16
    """`follow@A`: the same."""
    KEYED = 17
    """`by-key/<key>`: the same."""
    TOPIC = 18
    """`topics/<topic>`: the number of the topic, in order of first access. Partition 0, as the next."""
    TOPIC_APPEND = 19
    """`topics/<topic>/append[.ndjson]`: the number of the topic × 2, plus 1 for JSON lines."""
    TOPIC_KEYS = 20
    """`topics/<topic>/by-key`: the number of the topic. The files in it have inodes of their partition."""
    GROUP_STATE = 21
    """`groups/<group>/state`: the number of the group."""
    TOPIC_FOLLOW = 22
    """`topics/<topic>/follow[@A]`: the number that the look-up assigned (`lookup_numbers`)."""
    TOPIC_SNAPSHOT = 23
    """`topics/<topic>/values`, `records.ndjson`: the same."""


class Fixed(IntEnum):
    """Files that exist once. The first one is the root, or the partition's directory."""

    DIRECTORY = 1
    README = 2
    CONTROL = 3
    ERRORS = 4
    VERSION = 5
    START = 6
    NEXT = 7
    INFO = 8
    APPEND = 9
    SEGMENTS = 10
    BY_TIME = 11
    GROUPS = 12
    APPEND_NDJSON = 13
    APPEND_RAW = 14
    RANGES = 15
    LAST = 16
    BY_KEY = 17
    TOPICS = 18
    STATS = 19
    METRICS = 20
    CONFIG = 21
    FLUSH = 22
    LOG_LEVEL = 23


class Inode(NamedTuple):
    """The parts of an inode number. `kind` is a plain int: a number from the kernel may have an unknown kind."""

    kind: int
    partition: int
    number: int


def pack(kind: int, partition: int, number: int) -> int:
    """Return the inode number. OverflowError if a part is too large (a partition of over 10¹² records)."""
    if not (0 <= number <= NUMBER_MAX and 0 <= partition <= PARTITION_MAX):
        raise OverflowError(f"no inode number for partition {partition}, number {number}")
    return kind << _KIND_SHIFT | partition << _PARTITION_SHIFT | number


def unpack(inode: int) -> Inode:
    """Return the parts of an inode number, the inverse of `pack`."""
    return Inode(inode >> _KIND_SHIFT, inode >> _PARTITION_SHIFT & PARTITION_MAX, inode & NUMBER_MAX)


ROOT = pack(Kind.FIXED, 0, Fixed.DIRECTORY)
