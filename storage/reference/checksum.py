"""CRC-32C of the bytes of any buffer, by the package: the reference of the compiled `native/checksum.pyx`."""

from __future__ import annotations

from crc32c import crc32c

__all__ = ["crc32c"]
