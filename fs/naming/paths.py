"""The path of an inode in the tree, for messages in `.offsetfs/errors` and the log.

An inode number does not contain a whole name. For files that are found by a time, a key or a range the result is only
the directory, for a segment's file `segments`.
"""

from __future__ import annotations

from offsetfs.fs.naming.inodes import unpack
from offsetfs.fs.naming.tree_table import IN_PARTITION, Kind
from offsetfs.fs.partitions import MountedPartition, Partitions

_OFFSET = "<offset>"
_PATTERNS: dict[int, str] = {
    kind: kind.spec.paths[-1].removeprefix(IN_PARTITION).partition("/<")[0].strip("/") for kind in Kind
}
"""The last path of each kind up to its first part that varies, below the directory of the partition."""


def path_of(inode: int, partitions: Partitions, name: bytes = b"") -> str:
    """Return the path below the mount point, with `name` appended if it is given. A minus for the root."""
    kind, partition, number = unpack(inode)
    known = partitions.numbered(partition)
    parts = ["" if known is None else str(known.name), _within(kind, number, known)]
    parts.append(name.decode("utf-8", "backslashreplace"))
    return "/".join(part for part in parts if part) or "-"


def _within(kind: int, number: int, partition: MountedPartition | None) -> str:
    """Return the path below the mount point or the directory of the partition."""
    pattern = _PATTERNS.get(kind, "")
    if _OFFSET not in pattern:
        return pattern
    return "" if partition is None else pattern.replace(_OFFSET, str(partition.anchor + number))
