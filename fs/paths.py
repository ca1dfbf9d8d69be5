"""The path of an inode in the tree, for messages in `.offsetfs/errors` and the log.

An inode number does not contain a whole name. For files that are found by a time, a key or a range the result is only
the directory, for a segment's file `segments`.
"""

from __future__ import annotations

from offsetfs.fs.inodes import Fixed, Kind, unpack
from offsetfs.fs.partitions import Partition, Partitions

_CONTROL = frozenset(
    {Fixed.ERRORS, Fixed.VERSION, Fixed.STATS, Fixed.METRICS, Fixed.CONFIG, Fixed.FLUSH, Fixed.LOG_LEVEL}
)
_NAMES = {
    Fixed.DIRECTORY: "",
    Fixed.README: "README",
    Fixed.CONTROL: ".offsetfs",
    Fixed.APPEND_NDJSON: "append.ndjson",
    Fixed.APPEND_RAW: "append.raw",
    Fixed.RANGES: "range",
}
_SUFFIXES = {Kind.RECORD: "", Kind.RECORD_JSON: ".json", Kind.RECORD_KEY: ".key", Kind.RECORD_HEADERS: ".headers"}
_PLACES = {
    Kind.VALUES: "values",
    Kind.RECORDS: "records.ndjson",
    Kind.SEGMENT: "segments",
    Kind.LINK: "latest",
    Kind.TIME_LINK: "by-time",
    Kind.MINUTE_LINK: "by-time",
    Kind.TIME_DIRECTORY: "by-time",
    Kind.GROUP: "groups",
    Kind.GROUP_LAG: "groups",
    Kind.GROUP_COMMIT: "groups",
    Kind.GROUP_STATE: "groups",
    Kind.RANGE: "range",
    Kind.FOLLOW: "follow",
    Kind.KEYED: "by-key",
    Kind.TOPIC: "topics",
    Kind.TOPIC_APPEND: "topics",
    Kind.TOPIC_KEYS: "topics",
    Kind.TOPIC_FOLLOW: "topics",
    Kind.TOPIC_SNAPSHOT: "topics",
}


def path_of(inode: int, partitions: Partitions, name: bytes = b"") -> str:
    """Return the path below the mount point, with `name` appended if it is given. A minus for the root."""
    kind, partition, number = unpack(inode)
    known = partitions.numbered(partition)
    parts = ["" if known is None else str(known.name), _within(kind, number, known)]
    parts.append(name.decode("utf-8", "backslashreplace"))
    return "/".join(part for part in parts if part) or "-"


def _within(kind: int, number: int, partition: Partition | None) -> str:
    if kind == Kind.FIXED:
        return _fixed(number)
    if kind in _SUFFIXES and partition is not None:
        return f"{partition.anchor + number}{_SUFFIXES[Kind(kind)]}"
    return _PLACES.get(Kind(kind), "") if kind in _PLACES else ""


def _fixed(number: int) -> str:
    try:
        fixed = Fixed(number)
    except ValueError:
        return ""
    name = _NAMES.get(fixed, fixed.name.lower().replace("_", "-"))
    return f".offsetfs/{name}" if fixed in _CONTROL else name
