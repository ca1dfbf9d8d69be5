"""`.txnindex`: the aborted transactions whose abort marker lies in a segment.

    0     2               10              18              26              34
    +-----+---------------+---------------+---------------+---------------+
    | ver.| producer id   | first offset  | last offset   | last stable   |    big-endian, signed; one after the other,
    |     | (i64)         | (i64)         | (i64)         | offset (i64)  |    in the order of last offsets
    +-----+---------------+---------------+---------------+---------------+

An entry is written when the marker is appended, so the file is missing where nothing was aborted. The last offset is
the marker's; the last stable offset is the first one that was still undecided when the marker had been written. There
is no checksum: whoever reads an index checks it here, and believes an entry when the log agrees (`transactions`).
docs/format/transaction-index.md says the rest. Follows Kafka's TransactionIndex and AbortedTxn (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex

SUFFIX = ".txnindex"
VERSION = 0

_ENTRY = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """One aborted transaction: batches of `producer_id` in `[first_offset, last_offset]`, which is the marker's.

    `last_stable_offset`: below it everything was decided once the marker was written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    version: int = VERSION

    def pack(self) -> bytes:
        """Return the 34 bytes of the entry."""
        return _ENTRY.pack(self.version, *self[:4])


class TransactionIndex:
    """The entries of one file, in its order, as they are; `check` says whether they can be true."""

    __slots__ = ("base_offset", "entries", "path", "size")

    def __init__(
        self, base_offset: int, entries: Sequence[AbortedTransaction], *, size: int | None = None, path: str | None = None
    ) -> None:
        self.base_offset = base_offset
        self.entries = tuple(entries)
        self.size = len(self.entries) * _ENTRY.size if size is None else size
        self.path = path

    @classmethod
    def load(cls, data: bytes, base_offset: int, path: str | None = None) -> TransactionIndex:
        """Return what the bytes of a file say. Half an entry at the end is no entry, as for Kafka; see `check`."""
        whole = len(data) - len(data) % _ENTRY.size
        rows = _ENTRY.iter_unpack(memoryview(data)[:whole])
        entries = [AbortedTransaction(*fields, version=version) for version, *fields in rows]
        return cls(base_offset, entries, size=len(data), path=path)

    @classmethod
    def read(cls, path: str, base_offset: int) -> TransactionIndex:
        """Read the index of the segment that begins at `base_offset`; OSError, FileNotFoundError where there is none."""
        return cls.load(files.read_file(path), base_offset, path)

    def check(self) -> None:
        """Raise `CorruptIndex` unless all entries are whole, of a known version, in order, and about this segment."""
        if self.size % _ENTRY.size:
            self._refuse(f"{self.size} bytes are no whole number of {_ENTRY.size}-byte entries", len(self.entries))
        before = self.base_offset - 1
        for number, entry in enumerate(self.entries):
            if entry.version > VERSION:
                self._refuse(f"version {entry.version}, known is {VERSION}", number)
            if entry.last_offset <= before:
                self._refuse(f"last offset {entry.last_offset} cannot follow {before}", number)
            if entry.producer_id < 0 or not 0 <= entry.first_offset <= entry.last_offset:
                self._refuse(f"no transaction: {entry}", number)
            before = entry.last_offset

    def _refuse(self, reason: str, number: int) -> None:
        raise CorruptIndex(reason, path=self.path, position=number * _ENTRY.size)

    def collect(self, fetch_offset: int, upper: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that reach into `[fetch_offset, upper)`, and whether no later index has more.

        The latter is known once an entry says that everything below `upper` was decided; else the next segment's
        index is to be asked.
        """
        found = []
        for entry in self.entries:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper:
                found.append(entry)
            if entry.last_stable_offset >= upper:
                return found, True
        return found, False

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
