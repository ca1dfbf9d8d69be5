"""Replaces segment files by others, so that after a crash either the old or the new segments are visible.

Any number of old and new segments; the new ones cover no other offsets than the old ones. Follows Kafka's
LocalLog.replaceSegments, with syncs of the directory where Kafka leaves the order to the file system:

    1. the new files are written as `.cleaned`, synced      crash: removed when the log is opened
    2. `prepare`   `.cleaned` → `.swap`, highest base first  crash: undone while a `.cleaned` is left, else completed
    3. `retire`    the old files → `.deleted`                crash: completed
    4. `install`   `.swap` → their names                     crash: completed
    5. `.deleted` files are removed, some time later

Renames reach the disk in any order unless a sync of the directory separates them. So step 2 syncs between one base
offset and the next lower one. Otherwise recovery could complete the lower one and undo the higher one, and the records
of the old segment above the higher base offset would be lost. Step 3 is synced before step 4. Otherwise new and old
segments could both be live, without a `.swap` to tell them apart.

`leftover_files.finish_swaps`, or a broker, completes or undoes an interrupted swap. An error in `prepare` is raised
after its renames were undone. So is an error in a later step if the disk is full, which a longer name may meet, or no
descriptor is free (`undo`). The renames are undone in reverse order, so that the directory needs no block that it did
not have before:

    6. the new files → `.swap`                              crash: completed
    7. `.deleted` → the old files                           crash: completed
    8. one `.swap` of the lowest base offset → `.cleaned`   crash: completed or undone
    9. the `.swap` files, then the `.cleaned` are removed   crash: undone

A sync of the directory follows each of these steps. Any other error, also one of the undo, leaves a log that the next
opening completes or undoes; until then it must not be written.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from offsetfs.storage import files
from offsetfs.storage.names import MAP_SUFFIXES, segment_name
from offsetfs.storage.segments import deletions
from offsetfs.storage.segments.segment import FULL

CLEANED, SWAP = ".cleaned", ".swap"
_ORDER = (".log", ".index", ".timeindex", ".txnindex")
"""Kafka's order of renames: the log first, so that indexes without a log are never taken for a segment."""

_SNAPSHOT = ".snapshot"
"""The snapshot has the producers before a segment, and stays if its base offset stays."""

Renames = list[tuple[str, str]]
"""Renames that were made, in order: old and new path."""


def write_cleaned(directory: str, base_offset: int, content: Mapping[str, bytes]) -> None:
    """Write files of a new segment version, by suffix, as `.cleaned`; durable on return, with their names."""
    for suffix, data in content.items():
        path = os.path.join(directory, segment_name(base_offset, suffix + CLEANED))
        with files.created(path) as file:
            file.write(0, data)
            file.sync()
    files.sync_directory(directory)


def swap_in(directory: str, base_offset: int) -> None:
    """Replace the files of a segment by its `.cleaned` files. The new version is durable on return."""
    for path in replace(directory, [base_offset], [base_offset]):
        files.remove_file(path)


def replace(directory: str, new: Sequence[int], old: Sequence[int]) -> list[str]:
    """Replace the segments `old` by the `.cleaned` files of the segments `new`, both by base offset.

    Durable on return. Returns the paths of the `.deleted` files; the caller removes them, now or later. OSError: the
    old segments are in place and the `.cleaned` files are gone, or the next opening completes or undoes the swap.
    """
    prepare(directory, new)
    renames: Renames = []
    try:
        retire(directory, new, old, renames)
        deleted = [target for _, target in renames]
        install(directory, new, renames)
    except OSError as error:
        undo(directory, new, renames, error)
        raise
    return deleted


def prepare(directory: str, new: Iterable[int]) -> None:
    """Rename the files of the segments `new` from `.cleaned` to `.swap`: from here on a crash leads to the new ones.

    Their names as `.cleaned` must be durable. On an OSError both kinds of files are removed as far as possible before
    it is raised. FileNotFoundError if the log of a segment is missing, because nothing would replace the old one.
    """
    bases = sorted(new, reverse=True)
    try:
        for base in bases:
            # A crash had left `.cleaned` names that were removed later, when a new round had files of the same names:
            # the old segments would have gone without new ones.
            files.status(os.path.join(directory, segment_name(base, ".log" + CLEANED)))
        for base in bases:
            _rename(directory, base, _ORDER, CLEANED, SWAP)
            files.sync_directory(directory)
    except OSError:
        discard(directory, bases)
        raise


def discard(directory: str, new: Iterable[int]) -> None:
    """Remove the `.swap` and `.cleaned` files of the segments `new` after a failure, as far as possible.

    While a `.cleaned` of the lowest base offset exists, a crash undoes the whole swap. So those are removed last, after
    the removal of the others is durable.
    """
    bases = sorted(new, reverse=True)
    for ending in (SWAP, CLEANED):
        if ending == CLEANED:
            with contextlib.suppress(OSError):
                files.sync_directory(directory)
        for path in _paths(directory, bases, ending):
            with contextlib.suppress(OSError):
                files.remove_file(path)


def retire(directory: str, new: Iterable[int], old: Iterable[int], renames: Renames) -> None:
    """Rename the files of the segments `old` to `.deleted`; append the renames to `renames`. Durable on return.

    A snapshot whose base offset is among `new` stays, and so does an index of a segment whose log is already gone.
    """
    kept = set(new)
    for base in sorted(old):
        # The snapshot of a base offset that stays describes the producers before it, which compaction does not change.
        suffixes = (*_ORDER, *MAP_SUFFIXES) if base in kept else (*_ORDER, *MAP_SUFFIXES, _SNAPSHOT)
        _rename(directory, base, suffixes, "", _removed_ending(directory, base), renames)
    files.sync_directory(directory)


def _removed_ending(directory: str, base: int) -> str:
    try:
        inode = files.status(os.path.join(directory, segment_name(base, ".log"))).st_ino
    except FileNotFoundError:
        inode = None
    return deletions.removed_ending(directory, base, inode)


def install(directory: str, new: Iterable[int], renames: Renames) -> None:
    """Rename the `.swap` files of the segments `new` to their final names, and append the renames to `renames`.

    Durable on return.
    """
    for base in sorted(new):
        _rename(directory, base, _ORDER, SWAP, "", renames)
    files.sync_directory(directory)


def undo(directory: str, new: Sequence[int], renames: Renames, error: OSError) -> None:
    """Restore the old segments after `error` in `retire` or `install`, and remove the new ones.

    `renames` are those that both have made. On return the log is as before `prepare`, without `.cleaned` files; a crash
    at any moment leads to the old or to the new segments. Raises `error` if the disk is neither full nor at its limit
    of descriptors, because then the state on disk is unknown, or the OSError of the undo: the next opening completes or
    undoes the swap.
    """
    if error.errno not in (*FULL, *files.NO_DESCRIPTORS):
        raise error
    # `install` was made last. It is off the disk before an old file takes its name again: if only the second rename
    # reached the disk, it would replace a new log, and the others would be taken for the whole swap.
    for _, group in itertools.groupby(reversed(renames), lambda rename: rename[0].endswith(SWAP)):
        for source, target in group:
            files.rename(target, source)
        files.sync_directory(directory)
    # From here on a crash leads to the old segments. Before, no `.swap` may go: with one segment of several missing,
    # recovery would take the rest for the whole swap.
    last = [path for path in _paths(directory, [min(new)], SWAP) if files.exists(path)][-1]
    files.rename(last, last.removesuffix(SWAP) + CLEANED)
    files.sync_directory(directory)
    for ending in (SWAP, CLEANED):
        for path in _paths(directory, sorted(new, reverse=True), ending):
            if files.exists(path):
                files.remove_file(path)
        files.sync_directory(directory)


def _rename(
    directory: str, base: int, suffixes: Iterable[str], before: str, after: str, renames: Renames | None = None
) -> None:
    """Rename the files of a segment to another suffix; append each to `renames`. Missing files are skipped."""
    for suffix in suffixes:
        source = os.path.join(directory, segment_name(base, suffix + before))
        if files.exists(source):
            target = os.path.join(directory, segment_name(base, suffix + after))
            files.rename(source, target)
            if renames is not None:
                renames.append((source, target))


def _paths(directory: str, bases: Iterable[int], ending: str) -> Iterator[str]:
    """Yield the paths that the files of new segments may have, in the order of renames."""
    for base in bases:
        for suffix in _ORDER:
            yield os.path.join(directory, segment_name(base, suffix + ending))
