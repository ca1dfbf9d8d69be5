"""CRC-32C (Castagnoli), the checksum of batches and of most other files of a log, compiled or of the package.

The package takes 20 ms to import, because it asks importlib.metadata for its own version; most commands do without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select

if TYPE_CHECKING:
    from offsetfs.storage.files import Buffer

    def crc32c(data: Buffer, value: int = 0) -> int:
        """Return the checksum of `data` that follows bytes with the checksum `value`; 0: of nothing."""

else:
    crc32c = select("checksum").crc32c

__all__ = ["crc32c"]
