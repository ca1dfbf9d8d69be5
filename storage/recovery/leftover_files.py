"""Leftover files of interrupted swaps, removals and crashes in a partition's directory.

Opening a partition for writing handles each kind:

    .cleaned            unfinished output of a swap: removed
    .swap               finished output of a swap: renamed to its final name, or removed if a `.cleaned` exists at or
                        below its base offset
    .deleted            renamed for removal: removed
    .index, .timeindex, .txnindex and line indexes without a `.log`: removed; so are `.tmp` files
    leader-epoch-checkpoint.tmp, partition.metadata.tmp     removed
    .snapshot           whose base offset no segment has: removed, except the latest one, if it lies in the last segment

All other files stay: `.cut-` files, files of other programs, directories. The order is that of Kafka's LogLoader and of
ProducerStateManager.removeStraySnapshots. Unlike Kafka, this module syncs the directory between steps whose order
matters, because a second crash can interrupt any step.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from offsetfs.storage import checkpoint, files
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import MAP_SUFFIXES, parse_segment_name
from offsetfs.storage.partition.swap import CLEANED, SWAP
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.format import chain
from offsetfs.storage.segments import deletions
from offsetfs.storage.segments.segment_files import RELATIVE_OFFSET_MAX

_INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex", *MAP_SUFFIXES)
_SEGMENT_SUFFIXES = (".log", *_INDEX_SUFFIXES, ".snapshot")
"""Suffixes of the files that swaps and removals touch. No other file beside a log is touched, `.cut-` files in
particular.
"""


@dataclass(frozen=True, slots=True)
class PendingSwaps:
    """The changes that complete an interrupted compaction, split or removal: files to remove, and `.swap` files to
    rename.
    """

    undone: Sequence[str] = ()
    """`.swap` files of a swap whose preparation did not finish."""

    replaced: Sequence[str] = ()
    """Live files that a `.swap` file replaces."""

    garbage: Sequence[str] = ()
    """`.cleaned` and `.deleted` files."""

    renamed: Sequence[str] = ()

    @property
    def removed(self) -> list[str]:
        """Return the names of all files to remove."""
        return [*self.undone, *self.replaced, *self.garbage]

    @property
    def is_swap(self) -> bool:
        """Whether a swap must be completed or undone. If not, at most garbage is left, which readers never see."""
        return bool(self.undone or self.renamed)

    def reaches(self, offset: int) -> bool:
        """Whether a file of the swap lies at `offset` or above. Files that retention renamed lie below the start."""
        parsed = (parse_segment_name(name) for name in [*self.removed, *self.renamed])
        return any(base >= offset for base, _ in filter(None, parsed))


SegmentFileNames = list[tuple[str, int, str]]
"""The segment files of a directory, each as (name, base offset, suffix)."""


def parse_segment_names(names: Iterable[str]) -> SegmentFileNames:
    """Return the names that belong to segments, parsed."""
    parsed = ((name, parse_segment_name(name)) for name in names)
    return [(name, int(parts[0]), parts[1]) for name, parts in parsed if parts is not None]


def pending_swaps(path: str, parsed: SegmentFileNames | None = None) -> PendingSwaps:
    """Return the changes that `finish_swaps` would make (the first four steps of LogLoader). Changes nothing.

    Reads `.log.swap` files to find the files that they replace. If none of the files to be replaced is gone yet, a
    damaged `.swap` file does not replace them.
    """
    parsed = parse_segment_names(files.names(path)) if parsed is None else parsed
    if all(suffix in _SEGMENT_SUFFIXES for _, _, suffix in parsed):
        return PendingSwaps()  # the usual case, at each opening of a log
    # As Kafka's LogLoader: a `.cleaned` file says that the renames to `.swap` had not finished, so the `.swap` files at
    # or above it are undone.
    cleaned_min = min((base for _, base, suffix in parsed if suffix in _ending(CLEANED)), default=None)
    swaps = [file for file in parsed if file[2] in _ending(SWAP)]
    undone = [name for name, base, _ in swaps if cleaned_min is not None and base >= cleaned_min]
    ready = [file for file in swaps if file[0] not in undone]
    # A damaged `.swap` file once replaced sound segments that were still there. If a replaced segment is gone already,
    # the `.swap` file is the only copy.
    if not _is_begun(parsed, ready) and not all(_is_sound(path, *file) for file in ready):
        undone, ready = [name for name, _, _ in swaps], []
    return PendingSwaps(
        undone=undone,
        replaced=_replaced(path, parsed, [(name, base) for name, base, suffix in ready if suffix == ".log" + SWAP]),
        garbage=[name for name, _, suffix in parsed if suffix in _ending(CLEANED) or _is_removed(suffix)],
        # The log first, as in Kafka: an index without a log is garbage, a log without an index is complete.
        renamed=[name for name, _, _ in sorted(ready, key=lambda file: (file[1], file[2] != ".log" + SWAP))],
    )


def _is_begun(parsed: SegmentFileNames, swaps: SegmentFileNames) -> bool:
    """Whether the swap may already have removed a live file."""
    live = {base for _, base, suffix in parsed if suffix == ".log"}
    gone = any(deletions.without_removed_ending(suffix) == ".log" for _, _, suffix in parsed)
    return gone or not all(base in live for _, base, suffix in swaps if suffix == ".log" + SWAP)


def _is_sound(path: str, name: str, base: int, suffix: str) -> bool:
    """Whether a `.log.swap` holds only whole, valid batches. Other files are not checked, because indexes can be
    rebuilt.
    """
    if suffix != ".log" + SWAP:
        return True
    try:
        with files.open_file(os.path.join(path, name)) as log:
            return all(rows.end for rows in row_walk.sound_rows(log, 0, log.size(), offset_min=base))
    except StorageError:
        return False


def _replaced(path: str, parsed: SegmentFileNames, logs: Sequence[tuple[str, int]]) -> list[str]:
    """Return the live files that the `.log.swap` files in `logs` replace."""
    if not logs:
        return []
    bases = {base for _, base in logs}
    live = [file for file in parsed if file[2] in _SEGMENT_SUFFIXES]
    # The last segment is never rewritten. So a flipped bit that raises an offset cannot remove it.
    last = max((base for _, base, suffix in live if suffix == ".log"), default=-1)
    # Renames reach the disk in any order: a source segment may already be called `.deleted` while an older one is not.
    logs_once = [
        (base, name)
        for name, base, suffix in parsed
        if suffix == ".log" or deletions.without_removed_ending(suffix) == ".log"
    ]
    others = sorted(entry for entry in logs_once if entry[0] not in bases and entry[0] != last)
    low, high = min(bases), max(_next_offset_of(path, name, base, others) for name, base in logs)
    between = [name for name, base, _ in live if low <= base < high and base not in bases and base != last]
    return [name for name, base, suffix in live if base in bases and suffix != ".snapshot"] + between


def _next_offset_of(path: str, name: str, base: int, others: Sequence[tuple[int, str]]) -> int:
    """Return the offset after the last batch of a `.log.swap`, or `base`. Offsets that no segment can hold do not
    count.

    No checksum covers offsets, and a wrong end offset would remove live segments. So the log must be valid, its offsets
    must rise, and the last of the `others` in the range must contain the same last batch, because it was copied from
    there.
    """
    sure, end, last = base, base, (base, base)
    try:
        with files.open_file(os.path.join(path, name)) as log:
            for rows in row_walk.sound_rows(log, 0, log.size(), offset_min=base):
                for begins, ends in zip(rows.column(chain.BASE_OFFSET), rows.next_offsets(), strict=True):
                    sure, last = end, (begins, ends)
                    end = ends if ends - 1 - base <= RELATIVE_OFFSET_MAX else sure
    except StorageError:
        return base
    between = [(file_base, file) for file_base, file in others if sure <= file_base < end and _size(path, file)]
    sources = [file for file_base, file in between if file_base == between[-1][0]]
    return max(sure, end) if not between or any(_has_batch(path, file, last) for file in sources) else sure


def _size(path: str, name: str) -> int:
    return files.status(os.path.join(path, name)).st_size


def _has_batch(path: str, name: str, batch: tuple[int, int]) -> bool:
    with files.open_file(os.path.join(path, name)) as log:
        walk = row_walk.header_rows(log, 0, log.size())
        return any(batch in zip(rows.column(chain.BASE_OFFSET), rows.next_offsets(), strict=True) for rows in walk)


def _ending(ending: str) -> list[str]:
    return [suffix + ending for suffix in _SEGMENT_SUFFIXES]


def _is_removed(suffix: str) -> bool:
    return deletions.without_removed_ending(suffix) in _SEGMENT_SUFFIXES


def finish_swaps(path: str) -> PendingSwaps:
    """Complete or undo the swaps that `pending_swaps` returns, and return them. Durable on return if there was a swap.

    The order of the syncs: a `.swap` file is removed before the `.cleaned` file that marks it as unfinished. A replaced
    file is removed before the new file gets its name. The existence of a `.swap` is synced first of all, because a
    process that crashed may have renamed it a moment ago and the rename may not be on disk.

    Garbage stays until the caller calls `remove_garbage`. It shows that the log was compacted (`reaches`), and a
    recovery that is interrupted must be able to see that again.
    """
    pending = pending_swaps(path)
    # Renames of the process that crashed may not be on disk: a power cut during this recovery could undo them, after
    # the replaced files are gone.
    if pending.is_swap:
        files.sync_directory(path)
    if remove(path, pending.undone):
        files.sync_directory(path)
    if remove(path, pending.replaced):
        files.sync_directory(path)
    for name in pending.renamed:
        files.rename(os.path.join(path, name), os.path.join(path, name.removesuffix(SWAP)))
    if pending.is_swap:
        files.sync_directory(path)
    return pending


def orphans(parsed: SegmentFileNames) -> list[str]:
    """Return the names of indexes without a log, and of temporary files (see `files.replace_file`)."""
    logs = {base for _, base, suffix in parsed if suffix == ".log"}
    unfinished = _ending(".tmp")
    return [n for n, base, suffix in parsed if (suffix in _INDEX_SUFFIXES and base not in logs) or suffix in unfinished]


def unfinished_checkpoints(names: Iterable[str]) -> list[str]:
    """Return the names of temporary files of the checkpoints in a partition's directory (see `files.replace_file`)."""
    unfinished = {checkpoint.LEADER_EPOCHS + ".tmp", checkpoint.PARTITION_METADATA + ".tmp"}
    return sorted(unfinished.intersection(names))


def stray_snapshots(parsed: SegmentFileNames, *, offset_max: int | None = None) -> list[str]:
    """Return the names of snapshots at whose offset no segment begins, except the latest one, if it is in the last
    segment.

    With `offset_max`, also return the snapshots above it: they describe records that were cut.
    """
    bases = {base for _, base, suffix in parsed if suffix == ".log"}
    snapshots = [(base, name) for name, base, suffix in parsed if suffix == ".snapshot"]
    beyond = [(base, name) for base, name in snapshots if offset_max is not None and base > offset_max]
    strays = sorted(entry for entry in snapshots if entry[0] not in bases and entry not in beyond)
    # As ProducerStateManager.removeStraySnapshots: the newest snapshot, from the last close, lies above the base offset
    # of the last segment.
    if strays and strays[-1][0] > max(bases, default=-1):
        strays.pop()
    return [name for _, name in [*beyond, *strays]]


def remove_garbage(paths: Iterable[str]) -> None:
    """Remove garbage. Files that cannot be removed stay; they are harmless."""
    for path in paths:
        with contextlib.suppress(OSError):
            files.remove_file(path)


def deferred_removal(paths: Iterable[str]) -> Callable[[], None]:
    """Return a function that removes these files, but not other files that have been given the same names by then.

    A later round of compaction creates files of the same names.
    """
    identities = [(path, identity) for path in paths if (identity := _identity(path)) is not None]
    return lambda: remove_garbage(path for path, identity in identities if _identity(path) == identity)


def _identity(path: str) -> tuple[int, int] | None:
    """Return the identity of a file. The kernel may reuse an inode number, but not with the same modification time."""
    try:
        status = files.status(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def remove_before_first_change(paths: Sequence[str], before_change: Callable[[], None]) -> Callable[[], None]:
    """Return a `before_change` that also removes `paths` on its first call.

    A directory that is opened and not changed keeps all its files, garbage included.
    """
    waiting = list(paths)

    def before() -> None:
        before_change()
        going, waiting[:] = list(waiting), []
        remove_garbage(going)

    return before


def remove(path: str, names: Sequence[str]) -> bool:
    """Remove the named files; return whether there were any. Does not sync."""
    for name in names:
        files.remove_file(os.path.join(path, name))
    return bool(names)
