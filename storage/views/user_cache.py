"""The user cache (XDG cache): stores indexes of logs whose directories are read-only.

Only its owner has access: directories have mode 0700, files 0600. Links are not followed, and a directory of another
user is not used. Files that were not used for a month are removed, because their logs may be gone. Cached content is
not trusted: readers compare it with the log.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat

from offsetfs.storage import files
from offsetfs.storage.clock import SYSTEM
from offsetfs.storage.partition.log import Log

KEPT_MS = 30 * 86_400_000
"""The milliseconds for which a file may be unused."""


def name_of(log: Log) -> str:
    """Return the directory name of a log in the cache: a hash of its path."""
    path = files.real_path(log.path)
    return hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def prepare(cache: str, *below: str) -> str:
    """Return the directory `below` the cache, creating it if it is missing. OSError if that fails."""
    path = cache
    files.make_private_directory(path)
    for name in below:
        path = os.path.join(path, name)
        files.make_private_directory(path)
    return path


def is_usable(cache: str, *below: str) -> bool:
    """Whether the directory `below` the cache exists, and its path has no links."""
    path = cache
    for name in below:
        if not files.is_directory(path):
            return False
        path = os.path.join(path, name)
    return files.is_directory(path)


def sweep(directory: str) -> None:
    """Remove files, and directories of files, that were not used for long. OSError if that fails."""
    before_ms = SYSTEM.now_ms() - KEPT_MS
    for name in files.names(directory):
        path = os.path.join(directory, name)
        with contextlib.suppress(FileNotFoundError):
            status = files.status(path)
            if status.st_mtime_ns // 1_000_000 < before_ms:
                _remove(path, status.st_mode)


def _remove(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        for name in files.names(path):
            files.remove_file(os.path.join(path, name))
        files.remove_directory(path)
    elif stat.S_ISREG(mode):
        files.remove_file(path)
