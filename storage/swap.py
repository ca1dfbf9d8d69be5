"""Putting a new version of a segment in the place of the old one, so that a crash shows the one or the other.

Kafka's LocalLog.replaceSegments, with a sync of the directory where Kafka leaves the order to the file system:

    1. the new files are written as `.cleaned`, synced    crash: removed when the log is opened
    2. `.cleaned` → `.swap`                                 crash: undone while a `.cleaned` is left, else finished
    3. the old files → `.deleted`                           crash: finished
    4. `.swap` → their names                                crash: finished
    5. `.deleted` files are removed

What is left half done is undone or finished by `log_loader.finish_swaps`, by a broker too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from offsetfs.storage import files
from offsetfs.storage.names import segment_name

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"
_ORDER = (".log", ".index", ".timeindex", ".txnindex")
"""In which Kafka renames: the log first, so that indexes without a log are never taken for a segment."""


def write_cleaned(directory: str, base_offset: int, content: Mapping[str, bytes]) -> None:
    """Write files of a new segment version, by suffix, as `.cleaned`; on disk after return, their names too."""
    for suffix, data in content.items():
        path = os.path.join(directory, segment_name(base_offset, suffix + CLEANED))
        with files.opened(path, create=True) as file:
            file.truncate(0)
            file.write(0, data)
            file.sync()
    files.sync_directory(directory)


def swap_in(directory: str, base_offset: int) -> None:
    """Put the `.cleaned` files of a segment in the place of its files. The new version is on disk after return."""

    def path(suffix: str) -> str:
        return os.path.join(directory, segment_name(base_offset, suffix))

    new = [suffix for suffix in _ORDER if files.exists(path(suffix + CLEANED))]
    old = [suffix for suffix in _ORDER if files.exists(path(suffix))]
    for suffix in new:
        files.rename(path(suffix + CLEANED), path(suffix + SWAP))
    files.sync_directory(directory)
    for suffix in old:
        files.rename(path(suffix), path(suffix + DELETED))
    for suffix in new:
        files.rename(path(suffix + SWAP), path(suffix))
    files.sync_directory(directory)
    for suffix in old:
        files.remove_file(path(suffix + DELETED))
