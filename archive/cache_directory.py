"""The directory of the cache of archives: none that has other files is used, and only files of the cache are removed.

<directory>/.offsetfs-cache     marks it; written when it is used first
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

from offsetfs.archive.block_cache import BlockCache
from offsetfs.storage import files

MARK = ".offsetfs-cache"
_TEXT = b"Copies of blocks of archives that offsetfs reads. The least recently used ones are removed.\n"
_FOLDER = re.compile(r"[0-9a-f]{2}")
_BLOCK = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{16}\.tmp)?")
_OTHERS = ("lost+found",)


class CacheDirectory(BlockCache):
    """The blocks in a directory that is the cache's own."""

    def __init__(self, directory: str, size_max: int) -> None:
        """Create and mark the directory if it is missing or empty. `size_max` in bytes.

        OSError ENOTEMPTY, and nothing is changed, for a directory that has something else; as of `BlockCache`.
        """
        found = _foreign(directory)
        if found is not None:
            reason = f"is not a cache of offsetfs, and holds {found!r}; give an empty or a new directory"
            raise OSError(errno.ENOTEMPTY, reason, directory)
        super().__init__(directory, size_max)
        path = os.path.join(self.directory, MARK)
        if not files.exists(path):
            files.put_private(path, _TEXT)

    def _blocks(self) -> Iterator[tuple[float, int, str]]:
        for each in super()._blocks():
            if _is_block(each[2]):
                yield each


def _is_block(path: str) -> bool:
    folder, name = os.path.split(path)
    return bool(_FOLDER.fullmatch(os.path.basename(folder)) and _BLOCK.fullmatch(name))


def _foreign(directory: str) -> str | None:
    """Return a name in the directory that is not of a cache; None if all are, or the directory is missing or marked."""
    try:
        names = files.names(directory)
    except FileNotFoundError:
        return None
    if MARK in names:
        return None
    for name in sorted(each for each in names if each not in _OTHERS and not each.startswith(f"{MARK}.")):
        folder = os.path.join(directory, name)
        if not _FOLDER.fullmatch(name) or not files.is_directory(folder):
            return name
        for each in files.names(folder):
            if not _BLOCK.fullmatch(each):
                return os.path.join(name, each)
    return None
