"""The open key indexes of a mount: each takes a file descriptor and memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsetfs.storage.views import KeyIndex

OPEN_MAX = 16


class OpenIndexes:
    """The most recently used key indexes. Others are closed, and opened again at their next use.

    For the event loop only.
    """

    def __init__(self) -> None:
        self._used: OrderedDict[KeyIndex, None] = OrderedDict()

    def use(self, index: KeyIndex) -> list[KeyIndex]:
        """Record the use of an index; return those to close: of deleted partitions, and the least recently used one."""
        closing = self.take_gone()
        self._used[index] = None
        self._used.move_to_end(index)
        if len(self._used) > OPEN_MAX:
            closing.append(self._used.popitem(last=False)[0])
        return closing

    def take_gone(self) -> list[KeyIndex]:
        """Return the indexes of deleted partitions, to be closed: an open file keeps its disk space."""
        gone = [index for index in self._used if index.is_gone]
        for index in gone:
            del self._used[index]
        return gone
