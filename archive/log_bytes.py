"""The bytes of an archived log file, which are read in blocks with checksums."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from crc32c import crc32c

from offsetfs.archive.manifest import ArchivedObject

_IDENTITIES_MAX = 256
"""Identities of blocks of a log that are remembered: a reader needs each several times, also ahead of the block."""


@dataclass(frozen=True, slots=True)
class LogBytes:
    """The bytes of an archived log file: where they are, and the checksums of their blocks."""

    parts: tuple[ArchivedObject, ...]
    size: int
    block_bytes: int
    checksums: array[int]
    _identities: dict[int, tuple[object, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def count(self) -> int:
        """The number of blocks."""
        return -(-self.size // self.block_bytes)

    def range_of(self, block: int) -> tuple[int, int]:
        """Return the bytes [start, stop) of a block."""
        return block * self.block_bytes, min(self.size, (block + 1) * self.block_bytes)

    def pieces(self, start: int, stop: int) -> Iterator[tuple[ArchivedObject, int, int]]:
        """Yield the parts of the bytes [start, stop), with the range in each."""
        position = 0
        for part in self.parts:
            low, high = max(start, position), min(stop, position + part.size)
            if low < high:
                yield part, low - position, high - position
            position += part.size

    def identity(self, block: int) -> tuple[object, ...]:
        """Return the identity of the content of a block: hashes of the parts, and the ranges in them."""
        identity = self._identities.get(block)
        if identity is None:
            identity = tuple((part.sha256, low, high) for part, low, high in self.pieces(*self.range_of(block)))
            if len(self._identities) >= _IDENTITIES_MAX:
                self._identities.clear()
            self._identities[block] = identity
        return identity

    def is_sound(self, block: int, data: bytes) -> bool:
        """Whether `data` is the content of a block."""
        low, high = self.range_of(block)
        return len(data) == high - low and crc32c(data) == self.checksums[block]
