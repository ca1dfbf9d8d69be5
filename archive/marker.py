"""The object that marks a place in object storage as an archive: `offsetfs-archive.json`."""

from __future__ import annotations

import errno

from offsetfs.archive import urls
from offsetfs.archive.numbered_documents import document, encoded
from offsetfs.archive.object_store import ObjectStore

NAME = "offsetfs-archive.json"
_KIND = "archive"


def check(store: ObjectStore) -> None:
    """Raise unless the place is an archive: OSError ENOENT, EINVAL, EPROTO for a newer format, and as of the store."""
    url = urls.join(store.url, NAME)
    content = document(store, NAME)
    if content is None:
        reason = f"is not an archive of offsetfs: it has no object {NAME}; `offsetfs archive` makes one"
        raise FileNotFoundError(errno.ENOENT, reason, store.url)
    if content.get("kind") != _KIND:
        raise OSError(errno.EINVAL, "is not a mark of an archive", url)


def above(store: ObjectStore) -> str | None:
    """Return the URL of the archive that a place is in, such as that of a partition; None if there is none above it.

    One request for each of the two names above. OSError as of the store.
    """
    url = store.url
    for _ in range(2):
        url = url.rsplit("/", 1)[0]
        if url.count("/") < 2:  # no bucket is left
            return None
        if ObjectStore(url, store.settings).exists(NAME):
            return url
    return None


def put(store: ObjectStore) -> None:
    """Mark an empty place as an archive; nothing for an archive. OSError ENOTEMPTY if something else is there.

    OSError ENOTSUP if the store replaces objects where it is asked to create one. Errors as of `check`.
    """
    if not store.exists(NAME):
        name = next(iter(store.children()), None)
        if name is not None and name != NAME:
            reason = f"is not an archive, and holds {name!r}; give an empty prefix, or the URL of an archive"
            raise OSError(errno.ENOTEMPTY, reason, store.url)
        # Of two archivers that begin at the same moment one creates it, and both find it.
        store.create(NAME, _content())
    check(store)
    _check_conditions(store)


def _check_conditions(store: ObjectStore) -> None:
    """Create the mark, which is there, again: a store that ignores conditions of a write would replace it.

    Two archivers in such a store would replace each other's states, and both end with success. One request.
    """
    if store.create(NAME, _content()):
        reason = (
            "the store ignores conditional writes (If-None-Match), so that two archivers would replace each other's "
            "states; use a store, or a version of it, that has them"
        )
        raise OSError(errno.ENOTSUP, reason, store.url)


def _content() -> bytes:
    return encoded({"kind": _KIND})
