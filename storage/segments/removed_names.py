"""Names of the files of a removed segment, which are unlinked after `file.delete.delay.ms`.

    00000000000000000042.log.deleted           the name in Kafka
    00000000000000000042.log.1234567.deleted   if another removed segment has that name: with the log's inode number

Compaction may remove several segments with one base offset within the delay. In Kafka the second one overwrites the
files of the first. Here both are kept, so that readers of the first can still open it. Each name depends only on the
inode number. So an interrupted rename can be repeated, and a reader in another process finds the file. Kafka's
LogLoader removes every file whose name ends in `.deleted`, so it removes both forms.
"""

from __future__ import annotations

import os
import re

from offsetfs.storage import files
from offsetfs.storage.names import segment_name

REMOVED = ".deleted"
_REMOVED = re.compile(r"(?:\.[0-9]+)?\.deleted\Z")


def ending(directory: str, base_offset: int, inode: int | None) -> str:
    """Return the suffix of the names of a segment once it is removed. `inode`: of its log file, None if there is none.

    The result stays the same while the segment's log has its live name or one of the two names above.
    """
    if inode is None:
        return REMOVED
    own = _own_ending(inode)
    if files.exists(os.path.join(directory, segment_name(base_offset, ".log" + own))):
        return own
    try:
        taken = files.status(os.path.join(directory, segment_name(base_offset, ".log" + REMOVED)))
    except FileNotFoundError:
        return REMOVED
    # Two removed segments with one base offset: under Kafka's name the second would replace the first, whose readers
    # got ESTALE before the delay was over.
    return REMOVED if taken.st_ino == inode else own


def endings(inode: int | None) -> tuple[str, ...]:
    """Return all suffixes that `ending` can return for a segment."""
    return (REMOVED,) if inode is None else (REMOVED, _own_ending(inode))


def without_ending(suffix: str) -> str | None:
    """Return the suffix that a file had before its removal (".log"), or None if `suffix` is not that of a removed
    file.
    """
    match = _REMOVED.search(suffix)
    return suffix[: match.start()] if match else None


def _own_ending(inode: int) -> str:
    return f".{inode}{REMOVED}"
