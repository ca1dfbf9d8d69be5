"""Makes archives readable in place: after `attach`, every reader of log directories takes their URLs as paths."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import dataclass

from offsetfs.archive import block_cache, urls
from offsetfs.archive.block_cache import BlockCache
from offsetfs.archive.object_store import TIMEOUT_S, StoreSettings
from offsetfs.archive.remote_tree import REFRESH_S, RemoteTree
from offsetfs.storage import files

_BELOW_MAX = 2
"""Names of a path below the URL of an archive, at most: a partition, and a file of it."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The settings of a reader of an archive."""

    cache: str | None = None
    """The directory of the cache; None: one in the user cache (XDG)."""
    cache_size: int = block_cache.SIZE_MAX
    """The bound of the cache in bytes; 0: nothing is stored on the disk."""
    timeout_s: float = TIMEOUT_S
    """The longest time of one request, retries included, more than 0."""
    refresh_s: float = REFRESH_S
    """The age at which a listing or a manifest is read again."""
    endpoint: str | None = None
    """The URL of the service, if it is not that of the provider or of the environment."""


DEFAULTS = ReadSettings()

_attached: dict[str, ReadSettings] = {}
_lock = threading.Lock()


def attach(url: str, settings: ReadSettings = DEFAULTS) -> str:
    """Make an archive readable; return the path to use for the URL, which may be of a partition or of its file.

    For the rest of the process; a second call costs nothing, and uses the settings of the first one if it has the
    default ones. Three requests. OSError with the URL: ENOENT for a bucket or an archive that does not exist, EACCES,
    EINVAL for no archive, ENOPKG for a package that is not installed, EIO where there is no answer.
    """
    path = urls.normalized(url)
    with _lock:
        known = next((root for root in _attached if path == root or path.startswith(root + "/")), None)
        if known is not None and settings in (DEFAULTS, _attached[known]):
            return path
        tree = _opened(path, settings)
        files.attach(tree.url, tree)
        _attached[tree.url] = settings
    return path


def detach(url: str) -> None:
    """End `attach`; logs that are open stay readable. No error if the archive is not attached."""
    root = urls.normalized(url)
    with _lock:
        _attached.pop(root, None)
        files.detach(root)


def is_attached(path: str) -> bool:
    """Whether a path is an attached archive, or below one."""
    return files.tree_of(path) is not None


def _opened(path: str, settings: ReadSettings) -> RemoteTree:
    """Return the archive that has a path: at its URL, or one or two names above."""
    store = StoreSettings(timeout_s=settings.timeout_s, endpoint=settings.endpoint)
    cache = _cache(settings)
    root, missing = path, None
    for _ in range(_BELOW_MAX + 1):
        try:
            return RemoteTree(root, store, cache, refresh_s=settings.refresh_s)
        except FileNotFoundError as error:
            missing = missing or error
        root = root.rsplit("/", 1)[0]
        if root.count("/") < 2:  # no bucket is left
            break
    assert missing is not None
    raise missing


def _cache(settings: ReadSettings) -> BlockCache | None:
    if settings.cache_size <= 0:
        return None
    try:
        return BlockCache(settings.cache or block_cache.default_directory(dict(os.environ)), settings.cache_size)
    except OSError as error:
        if settings.cache is None:  # a home that cannot be written: reading works without it
            return None
        if error.errno == errno.ENOTEMPTY:
            raise
        reason = f"cannot be used as the cache: {error.strerror}; give another directory"
        raise OSError(error.errno or errno.EIO, reason, settings.cache) from error


__all__ = ["DEFAULTS", "ReadSettings", "attach", "detach", "is_attached"]
