"""Inode numbers that encode which file they belong to, so that no table grows with the look-ups.

    63      59 58              40 39                                     0
    +---------+------------------+----------------------------------------+
    |  kind   |    partition     |                 number                 |
    +---------+------------------+----------------------------------------+

`partition` is the number of a partition in order of first access, from 1 on and never reused; 0 is the mount itself.
The meaning of `number` depends on the kind (`tree_table`): for a record it is the offset minus the partition's anchor,
the base offset of its first segment at the first open. Kind 0 contains what exists once, with one number each. An inode
always belongs to the same file: that of a symbolic link encodes its target, that of a growing file its generation.

The root is 1, as FUSE requires: `Kind.DIRECTORY` in partition 0.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from offsetfs.fs.naming.tree_table import KIND_SHIFT, Kind

NUMBER_BITS = 40
PARTITION_BITS = KIND_SHIFT - NUMBER_BITS
NUMBER_MAX = (1 << NUMBER_BITS) - 1
PARTITION_MAX = (1 << PARTITION_BITS) - 1

_KIND_MASK = -1 << KIND_SHIFT


class Inode(NamedTuple):
    """The parts of an inode number. `kind` is a plain int: a number from the kernel may have an unknown kind."""

    kind: int
    partition: int
    number: int


def pack(kind: int, partition: int = 0, number: int = 0) -> int:
    """Return the inode number. OSError EOVERFLOW if a part is too large (a record over 10¹² offsets after the first).

    `number` is 0 for a kind that exists once: its value contains the number.
    """
    if not (0 <= number <= NUMBER_MAX and 0 <= partition <= PARTITION_MAX):
        raise OSError(errno.EOVERFLOW, f"no inode number for partition {partition}, number {number}")
    return kind | partition << NUMBER_BITS | number


def unpack(inode: int) -> Inode:
    """Return the parts of an inode number, the inverse of `pack`; for what exists once, `number` is its kind."""
    number = inode & NUMBER_MAX
    return Inode(inode & _KIND_MASK or number, inode >> NUMBER_BITS & PARTITION_MAX, number)


ROOT = pack(Kind.DIRECTORY)
