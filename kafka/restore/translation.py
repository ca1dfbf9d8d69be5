"""Offsets of a log as those of its copy, for the few that are asked for: the committed offsets of groups.

Records get other offsets in the copy, since there are none for control batches, aborted transactions and gaps. An
offset becomes that of the first copied record at or behind it, so that a consumer goes on exactly where it was. Only
the offsets asked for are kept, however many records there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence


class OffsetTranslation:
    """The offsets of one partition."""

    def __init__(self, wanted: Iterable[int]) -> None:
        self._wanted = deque(sorted(set(wanted)))
        self._found: dict[int, int] = {}

    def note(self, offsets: Sequence[int], base_offset: int) -> None:
        """Records with these offsets are in the copy, from `base_offset` on. Called in the order of the log."""
        while self._wanted and self._wanted[0] <= offsets[-1]:
            offset = self._wanted.popleft()
            self._found[offset] = base_offset + bisect_left(offsets, offset)

    def finish(self, end_offset: int) -> Mapping[int, int]:
        """Return all translations; what lies behind the last record is `end_offset`, the end of the copy."""
        while self._wanted:
            self._found[self._wanted.popleft()] = end_offset
        return self._found
