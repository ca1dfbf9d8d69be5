"""Inode numbers that encode which file they belong to, so that no table grows with the look-ups.

    63      58 57              40 39                                     0
    +---------+------------------+----------------------------------------+
    |  kind   |    partition     |                 number                 |
    +---------+------------------+----------------------------------------+

`partition` is the number of a partition in order of first access, from 1 on and never reused; 0 is the mount itself.
The meaning of `number` depends on the kind (`tree_table`): for a record it is the offset minus the partition's anchor,
the base offset of its first segment at the first open. Kind 0 contains what exists once, with one number each. An inode
always belongs to the same file: that of a symbolic link encodes its target, that of a growing file its generation.

The root is 1, as FUSE requires: `Kind.DIRECTORY` in partition 0.

Groups and topics have `PermanentNumbers`. Files that exist by name only (`range/A..B`, `follow@A`, `by-key/<key>`) have
`LookupNumbers`: a look-up assigns a number. It is kept until the kernel has sent FORGET for as many look-ups as it got
replies, so that unused names take no memory. Numbers are never reused.
"""

from __future__ import annotations

import errno
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from offsetfs.fs.fuse_types import FUSEError
from offsetfs.fs.naming.tree_table import KIND_SHIFT, Kind

NUMBER_BITS = 40
PARTITION_BITS = KIND_SHIFT - NUMBER_BITS
NUMBER_MAX = (1 << NUMBER_BITS) - 1
PARTITION_MAX = (1 << PARTITION_BITS) - 1

_KIND_MASK = -1 << KIND_SHIFT

K = TypeVar("K", bound=Hashable)


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


@dataclass(slots=True)
class _Known(Generic[K]):
    file: K
    lookups: int


class LookupNumbers(Generic[K]):
    """The files of one kind that the kernel knows, by number. For the event loop only."""

    def __init__(self) -> None:
        self._known: dict[int, _Known[K]] = {}
        self._numbers: dict[K, int] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._known)

    def look_up(self, file: K) -> int:
        """Return the number of `file` and count one look-up. Only for replies to LOOKUP: the kernel counts no other."""
        number = self._numbers.get(file)
        if number is None:
            self._last = number = self._last + 1
            self._numbers[file] = number
            self._known[number] = _Known(file, 0)
        self._known[number].lookups += 1
        return number

    def at(self, number: int) -> K:
        """Return the file with this number. ESTALE for a number that was never assigned, or is forgotten."""
        known = self._known.get(number)
        if known is None:
            raise FUSEError(errno.ESTALE)
        return known.file

    def forget(self, number: int, lookups: int) -> None:
        """Count FORGET for `lookups` look-ups; drop the number after the last one."""
        known = self._known.get(number)
        if known is None:
            return
        known.lookups -= lookups
        if known.lookups <= 0:
            del self._known[number], self._numbers[known.file]


class PermanentNumbers(Generic[K]):
    """Items by number, from 0 on. None is forgotten: their count is bounded by the content of the log directory."""

    def __init__(self) -> None:
        self._seen: list[K] = []
        self._numbers: dict[K, int] = {}

    def of(self, item: K) -> int:
        """Return the number of `item`; assign one at the first call."""
        number = self._numbers.setdefault(item, len(self._seen))
        if number == len(self._seen):
            self._seen.append(item)
        return number

    def at(self, number: int) -> K:
        """Return the item with this number. ESTALE for a number that was never assigned."""
        if number >= len(self._seen):
            raise FUSEError(errno.ESTALE)
        return self._seen[number]
