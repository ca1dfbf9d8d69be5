"""What is worked out about logs that may not be written to is kept in a cache of the user's own, and here is how.

Everything in it is for its owner alone: directories 0700, files 0600. Links are not followed, and a directory of
somebody else is not used. What was not used for a month goes, for its log may be gone. Nothing here is believed for
where it lies: whoever takes something out checks it against the log.
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
"""How long something may go unused."""


def name_of(log: Log) -> str:
    """Return what a log is called in a directory that holds things of any number of logs: a hash of its path."""
    path = files.real_path(log.path)
    return hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def prepare(cache: str, *below: str) -> str:
    """Return the directory `below` the cache, which is made where it is missing. OSError where that cannot be."""
    path = cache
    files.make_private_directory(path)
    for name in below:
        path = os.path.join(path, name)
        files.make_private_directory(path)
    return path


def is_usable(cache: str, *below: str) -> bool:
    """Whether the directory `below` the cache is there, and reached over no link."""
    path = cache
    for name in below:
        if not files.is_directory(path):
            return False
        path = os.path.join(path, name)
    return files.is_directory(path)


def sweep(directory: str) -> None:
    """Remove the files, and the directories of files, that were not used for long. OSError where that cannot be."""
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
