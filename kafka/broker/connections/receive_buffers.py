"""The buffers that large requests are received into, kept for the next ones.

A new buffer costs more than its bytes: the kernel clears each page at the first access, half a second of processor time
for each GB. A buffer is kept only if no object refers to its bytes any more, which `bytearray` itself checks.
"""

from __future__ import annotations

KEPT_BYTES_MAX = 16 << 20
"""The sum of all buffers that are kept."""

KEPT_SIZE_MAX = 4 << 20
"""Larger buffers are not kept: a few of them would take the place of all others."""


class ReceiveBuffers:
    """The kept buffers of one broker. Used by the event loop only."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []  # the last used comes last: it is in the processor's cache
        self._bytes = 0

    def take(self, size: int) -> bytearray | None:
        """Return a buffer of at least `size` bytes, with any content; None if there is none."""
        for index in range(len(self._kept) - 1, -1, -1):
            if len(self._kept[index]) >= size:
                found = self._kept.pop(index)
                self._bytes -= len(found)
                return found
        return None

    def keep(self, buffer: bytearray) -> None:
        """Keep a buffer for another request, if there is space for it and nothing refers to its bytes."""
        size = len(buffer)
        if size > KEPT_SIZE_MAX or self._bytes + size > KEPT_BYTES_MAX or _is_referred_to(buffer):
            return
        self._kept.append(buffer)
        self._bytes += size


def _is_referred_to(buffer: bytearray) -> bool:
    """Return whether there is a memoryview, or another export, of a buffer that is not empty."""
    try:
        last = buffer.pop()
    except BufferError:  # it cannot be resized then
        return True
    buffer.append(last)
    return False
