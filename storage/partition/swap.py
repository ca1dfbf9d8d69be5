"""Putting new segments in the place of old ones, so that a crash shows the ones or the others.

Any number of old segments, any number of new ones; what is new covers no other offsets than what is old. Kafka's
LocalLog.replaceSegments, with syncs of the directory where Kafka leaves the order to the file system:

    1. the new files are written as `.cleaned`, synced      crash: removed when the log is opened
    2. `prepare`   `.cleaned` → `.swap`, highest base first  crash: undone while a `.cleaned` is left, else finished
    3. `retire`    the old files → `.deleted`                crash: finished
    4. `install`   `.swap` → their names                     crash: finished
    5. `.deleted` files are removed, some time later

Renames that no sync of the directory covers may reach the disk each for itself, in any order. So step 2 syncs between
one base and the next lower one: else the lower could be finished where the higher is undone, and what the old segment
held of the higher would be gone. And 3 is synced before 4 begins: else new and old segments could both be live, with no
`.swap` left to tell which is which.

What is left half done is undone or finished by `leftovers.finish_swaps`, by a broker too. A failure in `prepare` has
been taken back when it is raised. One that comes later leaves a log that the next opening finishes: until then nobody
may write to it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence

from offsetfs.storage import files
from offsetfs.storage.names import MAP_SUFFIXES, segment_name
from offsetfs.storage.segments import removed_names

CLEANED, SWAP = ".cleaned", ".swap"
_ORDER = (".log", ".index", ".timeindex", ".txnindex")
"""In which Kafka renames: the log first, so that indexes without a log are never taken for a segment."""

_SNAPSHOT = ".snapshot"
"""What describes the producers before a segment, and stays where its base offset does."""


def write_cleaned(directory: str, base_offset: int, content: Mapping[str, bytes]) -> None:
    """Write files of a new segment version, by suffix, as `.cleaned`; on disk after return, their names too."""
    for suffix, data in content.items():
        path = os.path.join(directory, segment_name(base_offset, suffix + CLEANED))
        with files.created(path) as file:
            file.write(0, data)
            file.sync()
    files.sync_directory(directory)


def swap_in(directory: str, base_offset: int) -> None:
    """Put the `.cleaned` files of a segment in the place of its files. The new version is on disk after return."""
    for path in replace(directory, [base_offset], [base_offset]):
        files.remove_file(path)


def replace(directory: str, new: Sequence[int], old: Sequence[int]) -> list[str]:
    """Put the `.cleaned` files of the segments `new` in the place of the segments `old`, both by base offset.

    On disk after return. Returns the paths of the `.deleted` files, which are the caller's to remove, now or later.
    """
    prepare(directory, new)
    deleted = retire(directory, new, old)
    install(directory, new)
    return deleted


def prepare(directory: str, new: Iterable[int]) -> None:
    """Rename the files of the segments `new` from `.cleaned` to `.swap`: from here on a crash means the new ones.

    Their names as `.cleaned` must be on disk. On an OSError both kinds are removed as far as that goes, before it is
    raised; FileNotFoundError when the log of one is not there, for nothing would come in the place of what goes.
    """
    bases = sorted(new, reverse=True)
    try:
        for base in bases:
            files.status(os.path.join(directory, segment_name(base, ".log" + CLEANED)))
        for base in bases:
            _rename(directory, base, _ORDER, CLEANED, SWAP)
            files.sync_directory(directory)
    except OSError:
        discard(directory, bases)
        raise


def discard(directory: str, new: Iterable[int]) -> None:
    """Remove the `.swap` and `.cleaned` files of the segments `new`, as far as that goes; for one that came to nothing.

    While a `.cleaned` of the lowest is there, a crash undoes all: those go last, once the others are gone for good.
    """
    bases = sorted(new, reverse=True)
    for ending in (SWAP, CLEANED):
        if ending == CLEANED:
            with contextlib.suppress(OSError):
                files.sync_directory(directory)
        for base in bases:
            for suffix in _ORDER:
                with contextlib.suppress(OSError):
                    files.remove_file(os.path.join(directory, segment_name(base, suffix + ending)))


def retire(directory: str, new: Iterable[int], old: Iterable[int]) -> list[str]:
    """Rename the files of the segments `old` to `.deleted`; return their paths. On disk after return.

    The snapshot at a base that lives on among `new` stays, and so does an index of a segment whose log is gone already.
    """
    kept, deleted = set(new), list[str]()
    for base in sorted(old):
        suffixes = (*_ORDER, *MAP_SUFFIXES) if base in kept else (*_ORDER, *MAP_SUFFIXES, _SNAPSHOT)
        deleted += _rename(directory, base, suffixes, "", _removed_ending(directory, base))
    files.sync_directory(directory)
    return deleted


def _removed_ending(directory: str, base: int) -> str:
    try:
        inode = files.status(os.path.join(directory, segment_name(base, ".log"))).st_ino
    except FileNotFoundError:
        inode = None
    return removed_names.ending(directory, base, inode)


def install(directory: str, new: Iterable[int]) -> None:
    """Give the `.swap` files of the segments `new` their names. On disk after return."""
    for base in sorted(new):
        _rename(directory, base, _ORDER, SWAP, "")
    files.sync_directory(directory)


def _rename(directory: str, base: int, suffixes: Iterable[str], before: str, after: str) -> list[str]:
    """Give the files of a segment another ending; return their new paths. Those that are not there are passed over."""
    renamed = []
    for suffix in suffixes:
        source = os.path.join(directory, segment_name(base, suffix + before))
        if files.exists(source):
            target = os.path.join(directory, segment_name(base, suffix + after))
            files.rename(source, target)
            renamed.append(target)
    return renamed
