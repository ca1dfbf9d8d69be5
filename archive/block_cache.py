"""A directory with blocks of archived logs, shared by the processes of one user, and bounded in bytes.

    <directory>/.offsetfs-cache     marks the directory; written when it is used first
    <directory>/3f/3f09…e1          a block, or a side object; the name is a hash of what it is a copy of

A block appears under its name by a rename, so that no process sees a part of one. The least recently used blocks are
removed: each process counts what it writes, and when that is a share of the bound it lists the directory. The content
is not trusted: callers verify a block with the checksum of the archive, and discard a damaged one. A directory that has
other files is refused; only blocks are removed.

An error of the disk costs speed: it is logged once, and the block is fetched from the archive.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping

from offsetfs.common.user_directories import cache_directory
from offsetfs.storage import files
from offsetfs.storage.files import File

SIZE_MAX = 10 << 30
"""The default bound in bytes."""

SHARE = 32
"""A process looks at the size of the directory after it has written this fraction of the bound."""

MARK = ".offsetfs-cache"
_TEXT = b"Copies of blocks of archives that offsetfs reads. The least recently used ones are removed.\n"
_FOLDER = re.compile(r"[0-9a-f]{2}")
_BLOCK = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{16}\.tmp)?")
_OTHERS = ("lost+found",)

_USED_AGAIN_S = 60.0
"""A block that is read more often is marked as used only once in this time: a mark is a write of its inode."""

_log = logging.getLogger(__name__)


class BlockCache:
    """The blocks below a directory of their own. Thread-safe; any number of processes may share the directory."""

    def __init__(self, directory: str, size_max: int = SIZE_MAX) -> None:
        """Create the directory if it is missing, for its owner only, and mark it. `size_max` in bytes.

        OSError if that fails; ENOTEMPTY, and nothing is changed, for a directory that has other files.
        """
        foreign = _foreign(directory)
        if foreign is not None:
            reason = f"is not a cache of offsetfs, and holds {foreign!r}; give an empty or a new directory"
            raise OSError(errno.ENOTEMPTY, reason, directory)
        self.directory = os.path.abspath(directory)
        self.size_max = size_max
        self._lock = threading.Lock()
        self._written = size_max  # so that what earlier processes have left is bounded with the first block
        self._has_failed = False
        files.make_private_directory(self.directory)
        mark = os.path.join(self.directory, MARK)
        if not files.exists(mark):
            files.put_private(mark, _TEXT)

    def begin_child(self) -> None:
        """Take a lock of its own in a forked child: a thread of the parent may have held that of the parent."""
        self._lock = threading.Lock()

    @staticmethod
    def name(*identity: object) -> str:
        """Return the name of a block that is a copy of what `identity` describes."""
        return hashlib.sha256("|".join(map(str, identity)).encode()).hexdigest()

    def get(self, name: str) -> bytes | None:
        """Return a block, not verified; None if it is not in the directory."""
        file = self.opened(name)
        if file is None:
            return None
        try:
            return bytes(file.read(0, file.size()))
        except OSError as error:
            self.failed(error)
            return None
        finally:
            file.close()

    def has(self, name: str) -> bool:
        """Whether a block is in the directory."""
        return files.exists(self._path(name))

    def opened(self, name: str) -> File | None:
        """Return the open file of a block, to be read in place; None if it is not in the directory.

        No process writes into it: a block that is removed stays readable. It is closed with the last reference.
        """
        path = self._path(name)
        try:
            file = files.open_file(path)
            if time.time() - file.stat().st_mtime > _USED_AGAIN_S:
                os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.failed(error)
            return None
        return file

    def put(self, name: str, data: bytes) -> None:
        """Store a block, unless the disk refuses it. Other processes see it on return. Not synced."""
        if len(data) * SHARE > self.size_max:
            return
        path = self._path(name)
        try:
            files.make_private_directory(os.path.dirname(path))
            files.put_private(path, data)
        except OSError as error:
            self.failed(error)
            return
        with self._lock:
            self._written += len(data)
            is_due = self._written * SHARE >= self.size_max
            if is_due:
                self._written = 0
        if is_due:
            self._evict()

    def discard(self, name: str) -> None:
        """Remove a block that is damaged. No error if it is gone."""
        with contextlib.suppress(OSError):
            files.remove_file(self._path(name))

    def size(self) -> int:
        """Return the bytes of all blocks; lists the directory."""
        return sum(size for _, size, _ in self._blocks())

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name[:2], name)

    def _blocks(self) -> Iterator[tuple[float, int, str]]:
        """Yield the last use, the size and the path of each block; also of parts that a killed process left."""
        for folder in files.directory_names(self.directory):
            directory = os.path.join(self.directory, folder)
            for name in files.names(directory):
                path = os.path.join(directory, name)
                if not _is_block(path):
                    continue
                with contextlib.suppress(FileNotFoundError):  # another process has removed it
                    status = files.status(path)
                    yield status.st_mtime, status.st_size, path

    def _evict(self) -> None:
        # Below the bound by a share, so that this process stays below it until it looks again.
        bound = self.size_max - self.size_max // SHARE
        try:
            blocks = sorted(self._blocks())
            size = sum(block_size for _, block_size, _ in blocks)
            for _, block_size, path in blocks:
                if size <= bound:
                    break
                with contextlib.suppress(FileNotFoundError):
                    files.remove_file(path)
                size -= block_size
        except OSError as error:
            self.failed(error)

    def failed(self, error: OSError) -> None:
        """Log an error of the disk, the first one only."""
        if not self._has_failed:
            self._has_failed = True
            _log.warning("%s: %s; blocks that cannot be stored are fetched again", self.directory, error)


def default_directory(environment: Mapping[str, str]) -> str:
    """Return the directory of the cache of this user."""
    return os.path.join(cache_directory(environment) or "/.cache/offsetfs", "archive")


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
    for name in sorted(name for name in names if name not in _OTHERS and not name.startswith(f"{MARK}.")):
        folder = os.path.join(directory, name)
        if not _FOLDER.fullmatch(name) or not files.is_directory(folder):
            return name
        for block in files.names(folder):
            if not _BLOCK.fullmatch(block):
                return os.path.join(name, block)
    return None
