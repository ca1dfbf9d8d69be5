"""The table of the tree: one row for each kind of file of a mount.

These derive from it: inode numbers (`inodes`), paths in messages (`fs/partitions`), names and listings of directories
(`mounting/directories`), which files accept writes, have extended attributes, or stay open after a deletion
(`mounting/operations`, `mounting/node_table`), and completion in shells (`cli/completion`). Tests compare it with the
README of a mount, with docs/use/semantics.md and with the paths of docs/evidence/conformance.md. The nodes are attached
by kind in `mounting/directories` (partition) and `mounting/node_table` (mount), because shell completion reads this
table and must load neither trio nor pyfuse3.

The order of the rows is the order of names in a listing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

IN_MOUNT = "/"
IN_PARTITION = "<partition>/"
IN_CONTROL = ".offsetfs/"
IN_TOPIC = "topics/<topic>/"
IN_DECODED = "<partition>/decoded/"

"""Directories that contain files with fixed names, as `fixed_names` takes them."""

KIND_SHIFT = 58
"""The position of the kind in an inode number. The bits below are 0 in a kind of many files."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """The declaration of one kind of file.

    `paths` begin at the mount point. `<name>` stands for what varies, and a directory ends with a slash. Messages use
    the last path, up to the first part that varies, for an inode number does not contain a whole name.
    """

    paths: tuple[str, ...]
    is_listed: bool = True
    """Whether readdir returns it. What blocks, or answers a query, is found by name only: `grep -r` must end."""
    is_link: bool = False
    is_writable: bool = False
    """Whether it can be opened for writing: its node is a `WritableFile`."""
    is_open_long: bool = False
    """Whether it is read over a time in which the records or the segment that it shows may be deleted."""
    has_xattrs: bool = False
    has_lookup_number: bool = False
    """Whether its number is assigned by a look-up (`LookupNumbers`)."""

    @property
    def is_directory(self) -> bool:
        return self.paths[0].endswith("/")


def _row(
    *paths: str,
    is_listed: bool = True,
    is_link: bool = False,
    is_writable: bool = False,
    is_open_long: bool = False,
    has_xattrs: bool = False,
    has_lookup_number: bool = False,
) -> NodeSpec:
    return NodeSpec(paths, is_listed, is_link, is_writable, is_open_long, has_xattrs, has_lookup_number)


def _many(kind: int) -> int:
    """Return the code of a kind with many files. At most 64 kinds: inode numbers have six bits for them.

    Those from 32 on have the odd codes, because the others had five bits before.
    """
    return (2 * kind if kind < 32 else 2 * (kind - 32) + 1) << KIND_SHIFT


class Kind(IntEnum):
    """The kinds of files. The value is the inode number of the kind with partition 0 and number 0.

    A kind whose value is small exists once in the mount or once in each partition, and needs no number. The comments
    say what the number of the others means. A value is never given to another kind, also after a kind was removed. The
    next free value: `_many(47)`.
    """

    spec: NodeSpec

    DIRECTORY = 1, _row("/", "<partition>/")  # the root, as FUSE requires, or the directory of a partition
    README = 2, _row("README")
    GROUPS = 12, _row("groups/")
    GROUP = _many(8), _row("groups/<group>/")  # the number of the group, in order of first access
    GROUP_LAG = _many(9), _row("groups/<group>/lag")  # the same
    GROUP_STATE = _many(21), _row("groups/<group>/state")  # the same
    # The group's number, and 20 bits for that of the partition.
    GROUP_COMMIT = _many(10), _row("groups/<group>/<partition>", is_writable=True)
    TOPICS = 18, _row("topics/")
    TOPIC = _many(18), _row("topics/<topic>/")  # the number of the topic, in order of first access
    # The number of the topic × 2, plus 1 for JSON lines.
    TOPIC_APPEND = _many(19), _row("topics/<topic>/append", "topics/<topic>/append.ndjson", is_writable=True)
    # Of its partition: the offset less the anchor × 4, plus the index of the link's depth.
    TOPIC_LINK = (
        _many(27),
        _row(
            "topics/<topic>/by-time/<T>",
            "topics/<topic>/by-time/<minute>",
            "topics/<topic>/first",
            "topics/<topic>/latest",
            is_link=True,
        ),
    )
    # The number that the look-up assigned.
    TOPIC_SNAPSHOT = (
        _many(23),
        _row("topics/<topic>/values", "topics/<topic>/records.ndjson", has_lookup_number=True),
    )
    # The number of topic and time span, in order of first access.
    TOPIC_TIMES = (
        _many(26),
        _row("topics/<topic>/by-time/<year, month, day or hour>/", "topics/<topic>/by-time/"),
    )
    # The number of the topic × 2, plus 1 for `last`.
    TOPIC_RANGES = _many(25), _row("topics/<topic>/range/", "topics/<topic>/last/")
    # The number that the look-up assigned.
    TOPIC_RANGE = (
        _many(24),
        _row("topics/<topic>/last/<N>", "topics/<topic>/range/<A..B>", is_listed=False, has_lookup_number=True),
    )
    # The number of the topic. The files in it have inode numbers of their partition.
    TOPIC_KEYS = _many(20), _row("topics/<topic>/by-key/", is_listed=False)
    # The number that the look-up assigned.
    TOPIC_FOLLOW = (
        _many(22),
        _row("topics/<topic>/follow@<A>", "topics/<topic>/follow", is_listed=False, has_lookup_number=True),
    )

    SCHEMAS = 28, _row("schemas/")
    SCHEMA_IDS = 29, _row("schemas/ids/")
    SCHEMA_SUBJECT = _many(40), _row("schemas/<subject>/")  # the number of the subject, in order of first access
    SCHEMA_FILE = _many(41), _row("schemas/<subject>/<version>")  # the number of the text
    SCHEMA_LINK = _many(42), _row("schemas/ids/<id>", "schemas/<subject>/latest", is_link=True)  # that of the target

    CONTROL = 3, _row(".offsetfs/", is_listed=False)
    ERRORS = 4, _row(".offsetfs/errors", is_listed=False)
    VERSION = 5, _row(".offsetfs/version", is_listed=False)
    STATS = 19, _row(".offsetfs/stats", is_listed=False)
    METRICS = 20, _row(".offsetfs/metrics", is_listed=False)
    CONFIG = 21, _row(".offsetfs/config", is_listed=False)
    FLUSH = 22, _row(".offsetfs/flush", is_listed=False, is_writable=True)
    LOG_LEVEL = 23, _row(".offsetfs/log-level", is_listed=False, is_writable=True)

    # The offset that it points to. So an inode never changes its target.
    LINK = (
        _many(4),
        _row(
            *("<partition>/decoded/first", "<partition>/decoded/latest", "<partition>/first", "<partition>/latest"),
            is_link=True,
        ),
    )
    START = 6, _row("<partition>/start", is_writable=True)
    NEXT = 7, _row("<partition>/next")
    INFO = 8, _row("<partition>/info")
    APPEND = 9, _row("<partition>/append", is_writable=True)
    APPEND_NDJSON = 13, _row("<partition>/append.ndjson", is_writable=True)
    APPEND_RAW = 14, _row("<partition>/append.raw", is_writable=True)
    # The generation: retention and compaction start a new one.
    VALUES = _many(2), _row("<partition>/values", is_open_long=True)
    RECORDS = _many(11), _row("<partition>/records.ndjson", is_open_long=True)
    BY_TIME = 11, _row("<partition>/by-time/")
    # Minutes since 1970 × 4 + level.
    TIME_DIRECTORY = _many(7), _row("<partition>/by-time/<year, month, day or hour>/")
    # The offset that it points to.
    MINUTE_LINK = _many(6), _row("<partition>/by-time/<minute>", is_link=True)
    TIME_LINK = _many(5), _row("<partition>/by-time/<T>", is_link=True, is_listed=False)
    SEGMENTS = 10, _row("<partition>/segments/")
    # In order of first access. The name does not suffice: compaction and retention replace files by others with the
    # same names.
    SEGMENT = _many(3), _row("<partition>/segments/<file>", is_open_long=True)
    RANGES = 15, _row("<partition>/range/", is_listed=False)
    LAST = 16, _row("<partition>/last/", is_listed=False)
    # The number that the look-up assigned.
    RANGE = (
        _many(15),
        _row(
            "<partition>/last/<N>",
            "<partition>/range/<A..B>",
            is_listed=False,
            is_open_long=True,
            has_lookup_number=True,
        ),
    )
    BY_KEY = 17, _row("<partition>/by-key/", is_listed=False)
    # The number that the look-up assigned.
    KEYED = (
        _many(17),
        _row("<partition>/by-key/<key>", is_listed=False, is_open_long=True, has_xattrs=True, has_lookup_number=True),
    )
    # The number that the look-up assigned.
    FOLLOW = (
        _many(16),
        _row(
            "<partition>/follow@<A>",
            "<partition>/follow",
            is_listed=False,
            is_open_long=True,
            has_lookup_number=True,
        ),
    )
    # The offset less the partition's anchor, as for the next three.
    RECORD = _many(1), _row("<partition>/<offset>", is_open_long=True, has_xattrs=True)
    RECORD_JSON = _many(12), _row("<partition>/<offset>.json", is_listed=False, is_open_long=True)
    RECORD_KEY = _many(13), _row("<partition>/<offset>.key", is_listed=False, is_open_long=True)
    RECORD_HEADERS = _many(14), _row("<partition>/<offset>.headers", is_listed=False, is_open_long=True)

    # Values by the schemas that they name. The numbers are those of the files beside `decoded/`.
    DECODED = 24, _row("<partition>/decoded/", is_listed=False)
    DECODED_VALUES = _many(28), _row("<partition>/decoded/values", is_open_long=True)
    DECODED_RECORDS = _many(29), _row("<partition>/decoded/records.ndjson", is_open_long=True)
    DECODED_RANGES = 25, _row("<partition>/decoded/range/", is_listed=False)
    DECODED_LAST = 26, _row("<partition>/decoded/last/", is_listed=False)
    DECODED_RANGE = (
        _many(30),
        _row(
            *("<partition>/decoded/last/<N>", "<partition>/decoded/range/<A..B>"),
            is_listed=False,
            is_open_long=True,
            has_lookup_number=True,
        ),
    )
    DECODED_FOLLOW = (
        _many(31),
        _row(
            *("<partition>/decoded/follow@<A>", "<partition>/decoded/follow"),
            is_listed=False,
            is_open_long=True,
            has_lookup_number=True,
        ),
    )
    DECODED_BY_KEY = 31, _row("<partition>/decoded/by-key/", is_listed=False)
    # Also `decoded/by-key/<key>`.
    DECODED_RECORD = _many(32), _row("<partition>/decoded/<offset>", is_listed=False, is_open_long=True)
    DECODED_LINE = _many(33), _row("<partition>/decoded/<offset>.json", is_listed=False, is_open_long=True)
    DECODED_BY_TIME = 27, _row("<partition>/decoded/by-time/")
    DECODED_TIME_DIRECTORY = _many(34), _row("<partition>/decoded/by-time/<year, month, day or hour>/")
    DECODED_APPEND = 30, _row("<partition>/decoded/append.ndjson", is_writable=True)
    TOPIC_DECODED = _many(35), _row("topics/<topic>/decoded/", is_listed=False)
    TOPIC_DECODED_APPEND = _many(43), _row("topics/<topic>/decoded/append.ndjson", is_writable=True)
    # As TOPIC_LINK and TOPIC_TIMES.
    TOPIC_DECODED_LINK = (
        _many(44),
        _row(
            "topics/<topic>/decoded/by-time/<T>",
            "topics/<topic>/decoded/by-time/<minute>",
            "topics/<topic>/decoded/first",
            "topics/<topic>/decoded/latest",
            is_link=True,
        ),
    )
    TOPIC_DECODED_TIMES = (
        _many(45),
        _row("topics/<topic>/decoded/by-time/<year, month, day or hour>/", "topics/<topic>/decoded/by-time/"),
    )
    # As TOPIC_KEYS.
    TOPIC_DECODED_KEYS = _many(46), _row("topics/<topic>/decoded/by-key/", is_listed=False)
    TOPIC_DECODED_RANGES = (
        _many(36),
        _row("topics/<topic>/decoded/range/", "topics/<topic>/decoded/last/", is_listed=False),
    )
    TOPIC_DECODED_SNAPSHOT = (
        _many(37),
        _row("topics/<topic>/decoded/values", "topics/<topic>/decoded/records.ndjson", has_lookup_number=True),
    )
    TOPIC_DECODED_RANGE = (
        _many(38),
        _row(
            *("topics/<topic>/decoded/last/<N>", "topics/<topic>/decoded/range/<A..B>"),
            is_listed=False,
            has_lookup_number=True,
        ),
    )
    TOPIC_DECODED_FOLLOW = (
        _many(39),
        _row(
            *("topics/<topic>/decoded/follow@<A>", "topics/<topic>/decoded/follow"),
            is_listed=False,
            has_lookup_number=True,
        ),
    )

    def __new__(cls, code: int, spec: NodeSpec) -> Kind:
        kind = int.__new__(cls, code)
        kind._value_ = code
        kind.spec = spec
        return kind

    @property
    def exists_once(self) -> bool:
        """Whether the mount, or each partition, has one file of this kind."""
        return self < 1 << KIND_SHIFT

    @property
    def file_names(self) -> tuple[bytes, ...]:
        """The last part of each path."""
        return tuple(path.removesuffix("/").rpartition("/")[2].encode() for path in self.spec.paths)

    @property
    def file_name(self) -> bytes:
        """The last part of the only path."""
        (name,) = self.file_names
        return name


def fixed_names(directory: str) -> Iterator[tuple[str, Kind]]:
    """Yield the names in a directory of the table that do not vary, with their kinds. Subdirectories have no slash."""
    parent = directory.removeprefix(IN_MOUNT)
    for kind in Kind:
        for path in kind.spec.paths:
            name = path.removeprefix(parent).removesuffix("/")
            if path.startswith(parent) and name and not set(name) & set("/<"):
                yield name, kind


RECORD_PARTS = {
    path.removeprefix("<partition>/<offset>").encode(): kind
    for kind in Kind
    for path in kind.spec.paths
    if path.startswith("<partition>/<offset>.")
}
"""The kinds of the parts of a record, by what follows the offset in their names."""
