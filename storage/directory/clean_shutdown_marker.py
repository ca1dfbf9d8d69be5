"""The mark of a clean shutdown of an open directory: it goes with the first change, and returns with an orderly end.

See docs/internals/decisions/0001. Safe to use from any thread; logs ask for its removal while they are held.
"""

from __future__ import annotations

import threading

from offsetfs.storage.checkpoint import CleanShutdown


class CleanShutdownMarker:
    """The mark of the directory at `path`, as it was found there."""

    def __init__(self, path: str) -> None:
        self.is_changed = False
        """Whether anything was changed since, so that the mark is away."""
        self._path = path
        self._found = CleanShutdown.read(path)
        self._lock = threading.Lock()

    @property
    def was_there(self) -> bool:
        """Whether the directory was left in order."""
        return self._found is not None

    def before_change(self) -> None:
        """Take the mark away, on disk after return, before the first change."""
        if self.is_changed:
            return
        with self._lock:
            if not self.is_changed:
                if self._found is not None:
                    CleanShutdown.remove(self._path)
                self.is_changed = True

    def put_back(self) -> None:
        """Leave the mark, the last thing that a clean shutdown does; a broker finds its own epoch in it again."""
        (self._found or CleanShutdown()).write(self._path)
