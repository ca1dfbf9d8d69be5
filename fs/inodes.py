"""Inode numbers that say what they name, so that no table grows with what was looked up.

    63      59 58              40 39                                     0
    +---------+------------------+----------------------------------------+
    |  kind   |    partition     |                 number                 |
    +---------+------------------+----------------------------------------+

`partition` is the place of a partition in the list of those seen so far, from 1 on and never given again; 0 is the
mount itself. `number` depends on the kind: for a record it is the offset less the partition's anchor, the base offset
of its first segment when it was first opened. An inode never changes what it means: a symbolic link's carries its
target, a growing view's its generation.

The root is 1, because FUSE says so: kind `FIXED`, partition 0, number `Fixed.DIRECTORY`.
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
    """What a number means. At most 32."""

    FIXED = 0
    """One of `Fixed`: there is one in the mount, or one in each partition."""
    RECORD = 1
    """The offset of a record."""
    VALUES = 2
    """The generation of `values`: retention and compaction begin a new one."""
    SEGMENT = 3
    """The place of a file among those of this partition's segments that were seen so far: compaction and retention put
    other files under the same names."""
    LINK = 4
    """`first`, `latest`: the offset they point to."""
    TIME_LINK = 5
    """`by-time/<T>`: the offset it points to."""
    MINUTE_LINK = 6
    """`by-time/2026/11/21/13/05`: the offset it points to."""
    TIME_DIRECTORY = 7
    """A year, month, day or hour: minutes since 1970 × 4 + level."""
    GROUP = 8
    """`groups/<group>`: the place of the group among those seen so far. Partition 0, as the next two."""
    GROUP_LAG = 9
    """`groups/<group>/lag`: the same."""
    GROUP_COMMIT = 10
    """`groups/<group>/<partition>`: the group's place, and 20 bits for that of the partition among those committed."""
    RECORDS = 11
    """The generation of `records.ndjson`, as for `values`."""
    RECORD_JSON = 12
    """`<offset>.json`: the offset."""
    RECORD_KEY = 13
    """`<offset>.key`: the offset."""
    RECORD_HEADERS = 14
    """`<offset>.headers`: the offset."""
    RANGE = 15
    """`range/A..B`, `last/N`: the place among those that the kernel still knows (see `lookup_numbers`)."""
    FOLLOW = 16
    """`follow@A`: the same."""
    KEYED = 17
    """`by-key/<key>`: the same."""
    TOPIC = 18
    """`topics/<topic>`: the place of the topic among those seen so far. Partition 0, as the next."""
    TOPIC_APPEND = 19
    """`topics/<topic>/append[.ndjson]`: the place of the topic × 2, and 1 for lines of JSON."""
    TOPIC_KEYS = 20
    """`topics/<topic>/by-key`: the place of the topic. What is found there has an inode of its partition."""
    GROUP_STATE = 21
    """`groups/<group>/state`: the place of the group."""
    TOPIC_FOLLOW = 22
    """`topics/<topic>/follow[@A]`: the place among those that the kernel still knows (see `lookup_numbers`)."""
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
    """The parts of an inode number. `kind` is a plain int: the number may come from anywhere."""

    kind: int
    partition: int
    number: int


def pack(kind: int, partition: int, number: int) -> int:
    """Return the inode number; OverflowError when a part has no room (a partition of over 10¹² records)."""
    if not (0 <= number <= NUMBER_MAX and 0 <= partition <= PARTITION_MAX):
        raise OverflowError(f"no inode number for partition {partition}, number {number}")
    return kind << _KIND_SHIFT | partition << _PARTITION_SHIFT | number


def unpack(inode: int) -> Inode:
    """Return what `pack` was given."""
    return Inode(inode >> _KIND_SHIFT, inode >> _PARTITION_SHIFT & PARTITION_MAX, inode & NUMBER_MAX)


ROOT = pack(Kind.FIXED, 0, Fixed.DIRECTORY)
