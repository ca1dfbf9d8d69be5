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
        self._used: OrderedDict[KeyIndex, None] = OrderedDict()

    def use(self, index: KeyIndex) -> list[KeyIndex]:
        """Note that an index is used; return those to be closed for it: of deleted partitions, and used longest ago."""
        closing = self.take_gone()
        self._used[index] = None
        self._used.move_to_end(index)
        if len(self._used) > OPEN_MAX:
            closing.append(self._used.popitem(last=False)[0])
        return closing

    def take_gone(self) -> list[KeyIndex]:
        """Return those to be closed because their partition was deleted: the room of an open file is not free."""
        gone = [index for index in self._used if index.is_gone]
        for index in gone:
            del self._used[index]
        return gone
