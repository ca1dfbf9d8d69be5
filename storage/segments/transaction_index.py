"""The transaction index of a segment, `<base offset>.txnindex`: the transactions that were aborted in it.

An entry is written with each abort marker, so the file exists only if there is one. A consumer of committed data skips
the producer's records between the first offset and the marker. There is no checksum: `check` tests whether an index can
be correct, and `transactions` uses it if the log agrees. Follows Kafka's `TransactionIndex` and `AbortedTxn` (KIP-98);
see docs/internals/format/transaction-index.md.

    0       2               10              18              26              34
    +-------+---------------+---------------+---------------+---------------+
    | ver-  | producer id   | first offset  | last offset   | last stable   |    big-endian
    | sion 0| (i64)         | (i64)         | (the marker)  | offset (i64)  |
    +-------+---------------+---------------+---------------+---------------+
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex

SUFFIX = ".txnindex"
VERSION = 0

TRANSACTION_ENTRY = Struct(">bxqqqq")  # the second byte of the version is ignored, as in Kafka
_BLOCK_ENTRIES = 4096


class AbortedTransaction(NamedTuple):
    """An aborted transaction: the records of its producer in `[first_offset, last_offset]`.

    `last_offset` is that of its marker. `last_stable_offset`: the first undecided offset after the marker was written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    version: int = VERSION

    def pack(self) -> bytes:
        """Return the 34 bytes of the entry."""
        return TRANSACTION_ENTRY.pack(self.version, *self[:4])


def entries(path: str) -> Iterator[AbortedTransaction]:
    """Yield the entries of the file, in the order of their markers.

    A trailing partial entry is ignored, as in Kafka. `CorruptIndex` for an unknown version; OSError.
    """
    with files.open_file(path) as file:
        position, size = 0, _BLOCK_ENTRIES * TRANSACTION_ENTRY.size
        while block := file.read(position, size):
            whole = len(block) // TRANSACTION_ENTRY.size * TRANSACTION_ENTRY.size
            for version, producer_id, first, last, stable in TRANSACTION_ENTRY.iter_unpack(memoryview(block)[:whole]):
                if version > VERSION:
                    raise CorruptIndex(f"an entry of version {version}, known is {VERSION}", path=path)
                yield AbortedTransaction(producer_id, first, last, stable, version)
            position += size


class TransactionIndex:
    """The entries of one file. Use `read`."""

    __slots__ = ("base_offset", "entries", "path", "size")

    def __init__(
        self, base_offset: int, entries: Sequence[AbortedTransaction], size: int, path: str | None = None
    ) -> None:
        self.base_offset = base_offset
        self.entries = tuple(entries)
        self.size = size
        self.path = path

    @classmethod
    def read(cls, path: str, base_offset: int) -> TransactionIndex:
        """Read the index of the segment that begins at `base_offset`, and `check` it.

        Raises `CorruptIndex`, or FileNotFoundError if there is none.
        """
        with files.open_file(path) as file:
            size = file.size()
        index = cls(base_offset, list(entries(path)), size, path)
        index.check()
        return index

    def check(self) -> None:
        """Raise `CorruptIndex` unless all entries are whole, sorted, and possible for this segment."""
        if self.size != len(self.entries) * TRANSACTION_ENTRY.size:
            self._refuse(
                f"{self.size} bytes are no whole number of {TRANSACTION_ENTRY.size}-byte entries", len(self.entries)
            )
        before = self.base_offset - 1
        for number, entry in enumerate(self.entries):
            if entry.last_offset <= before:
                self._refuse(f"last offset {entry.last_offset} cannot follow {before}", number)
            if entry.producer_id < 0 or not 0 <= entry.first_offset <= entry.last_offset:
                self._refuse(f"no transaction: {entry}", number)
            before = entry.last_offset

    def _refuse(self, reason: str, number: int) -> None:
        raise CorruptIndex(reason, path=self.path, position=number * TRANSACTION_ENTRY.size)

    def collect(self, fetch_offset: int, upper: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that overlap `[fetch_offset, upper)`, and whether no later index has more.

        That is known once an entry shows that everything below `upper` was decided; otherwise the next segment's index
        must be read as well.
        """
        overlapping = []
        for entry in self.entries:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper:
                overlapping.append(entry)
            # KIP-98: everything below the last stable offset was decided when the entry was written, so no later index
            # has more.
            if entry.last_stable_offset >= upper:
                return overlapping, True
        return overlapping, False
