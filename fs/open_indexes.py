"""Which indexes of keys a mount holds open: each has a file, and memory for it."""

from __future__ import annotations

from collections import OrderedDict

from offsetfs.storage.views.key_index import KeyIndex

OPEN_MAX = 16


class OpenIndexes:
    """The indexes that were used last; the others are closed, and opened again when they are needed.

    On the event loop alone.
    """

    def __init__(self) -> None:
        self._used: OrderedDict[int, KeyIndex] = OrderedDict()

    def use(self, index: KeyIndex) -> KeyIndex | None:
        """Note that an index is used; return one to be closed for it, that which was used longest ago."""
        self._used[id(index)] = index
        self._used.move_to_end(id(index))
        return self._used.popitem(last=False)[1] if len(self._used) > OPEN_MAX else None
