"""What swaps, removals and crashes leave in a partition's directory, and which of it goes when the log is opened.

    .cleaned            output that was not finished: goes
    .swap               output that is about to take its place: takes it, or goes with a `.cleaned` at or below its base
    .deleted            on its way out: goes
    .index and its like whose `.log` is gone: goes; so does what ends in .tmp, whose making was cut short
    .snapshot           of a base that no segment has: goes, but for the latest, when it lies in the last segment

Everything else stays, whatever it is called: `.cut-` files, names of other programs, directories. Follows the first
steps of Kafka's LogLoader and ProducerStateManager.removeStraySnapshots, with syncs between steps that may not be seen
in another order: what is finished here can be cut short by the next crash.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from offsetfs.storage import files
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import MAP_SUFFIXES, parse_segment_name
from offsetfs.storage.partition.swap import CLEANED, SWAP
from offsetfs.storage.records import chain, row_walk
from offsetfs.storage.segments import removed_names

_OF_A_LOG = (".index", ".timeindex", ".txnindex", *MAP_SUFFIXES)
_OF_A_SEGMENT = (".log", *_OF_A_LOG, ".snapshot")
"""What is swapped and removed. Nothing else that lies beside a log is ours to touch, a `.cut-` least of all."""

_RELATIVE_OFFSET_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PendingSwaps:
    """What a compaction, a split or a removal left half done: names that go, and names that lose the ending `.swap`."""

    undone: Sequence[str] = ()
    """`.swap` files of a swap that was still being prepared."""

    replaced: Sequence[str] = ()
    """Live files in whose place a `.swap` comes."""

    garbage: Sequence[str] = ()
    """`.cleaned` and `.deleted` files."""

    renamed: Sequence[str] = ()

    @property
    def removed(self) -> list[str]:
        """All names that go."""
        return [*self.undone, *self.replaced, *self.garbage]

    @property
    def is_swap(self) -> bool:
        """Whether a swap is to be finished or undone; else there is garbage at most, which nobody sees."""
        return bool(self.undone or self.renamed)

    def reach(self, offset: int) -> bool:
        """Whether any of it lies at `offset` or above; what retention left to be removed lies below a log's first."""
        parsed = (parse_segment_name(name) for name in [*self.removed, *self.renamed])
        return any(base >= offset for base, _ in filter(None, parsed))


SegmentFileNames = list[tuple[str, int, str]]
"""The files of segments in a directory: name, base offset, suffix."""


def parse_segment_names(names: Iterable[str]) -> SegmentFileNames:
    """Return the names that are of segments, taken apart."""
    parsed = ((name, parse_segment_name(name)) for name in names)
    return [(name, int(each[0]), each[1]) for name, each in parsed if each is not None]


def pending_swaps(path: str, parsed: SegmentFileNames | None = None) -> PendingSwaps:
    """Return what `finish_swaps` would do (LogLoader, its first four steps); changes nothing.

    Reads `.log.swap` files, to know which files they replace. Where those are all there yet, one that is damaged does
    not take their place.
    """
    parsed = parse_segment_names(files.names(path)) if parsed is None else parsed
    cleaned_min = min((base for _, base, suffix in parsed if suffix in _ending(CLEANED)), default=None)
    swaps = [each for each in parsed if each[2] in _ending(SWAP)]
    undone = [name for name, base, _ in swaps if cleaned_min is not None and base >= cleaned_min]
    ready = [each for each in swaps if each[0] not in undone]
    if not _is_begun(parsed, ready) and not all(_is_sound(path, *each) for each in ready):
        undone, ready = [name for name, _, _ in swaps], []
    return PendingSwaps(
        undone=undone,
        replaced=_replaced(path, parsed, [(name, base) for name, base, suffix in ready if suffix == ".log" + SWAP]),
        garbage=[name for name, _, suffix in parsed if suffix in _ending(CLEANED) or _is_removed(suffix)],
        renamed=[name for name, _, _ in sorted(ready, key=lambda each: (each[1], each[2] != ".log" + SWAP))],
    )


def _is_begun(parsed: SegmentFileNames, swaps: SegmentFileNames) -> bool:
    """Whether something may have gone already for the sake of these `.swap` files."""
    live = {base for _, base, suffix in parsed if suffix == ".log"}
    gone = any(removed_names.without_ending(suffix) == ".log" for _, _, suffix in parsed)
    return gone or not all(base in live for _, base, suffix in swaps if suffix == ".log" + SWAP)


def _is_sound(path: str, name: str, base: int, suffix: str) -> bool:
    """Whether a `.log.swap` holds whole batches, and nothing else; indexes are made anew if need be."""
    if suffix != ".log" + SWAP:
        return True
    try:
        with files.opened(os.path.join(path, name)) as log:
            return all(rows.end for rows in row_walk.sound_rows(log, 0, log.size(), offset_min=base))
    except StorageError:
        return False


def _replaced(path: str, parsed: SegmentFileNames, logs: Sequence[tuple[str, int]]) -> list[str]:
    """Return the live files that the `.log.swap` files in `logs` stand for."""
    if not logs:
        return []
    bases = {base for _, base in logs}
    live = [each for each in parsed if each[2] in _OF_A_SEGMENT]
    # The last segment is never rewritten: an offset that a flipped bit put too high shall not take it.
    last = max((base for _, base, suffix in live if suffix == ".log"), default=-1)
    # What was copied from may be called `.deleted` by now, and what is older not: renames reach the disk in any order.
    logs_once = [
        (base, name)
        for name, base, suffix in parsed
        if suffix == ".log" or removed_names.without_ending(suffix) == ".log"
    ]
    others = sorted(each for each in logs_once if each[0] not in bases and each[0] != last)
    low, high = min(bases), max(_next_offset_of(path, name, base, others) for name, base in logs)
    between = [name for name, base, _ in live if low <= base < high and base not in bases and base != last]
    return [name for name, base, suffix in live if base in bases and suffix != ".snapshot"] + between


def _next_offset_of(path: str, name: str, base: int, others: Sequence[tuple[int, str]]) -> int:
    """Return the offset behind the last batch of a `.log.swap`, or `base`; an offset that no segment can hold is none.

    No checksum covers offsets, and what is believed here takes live segments away. So a log counts when it is sound and
    its offsets rise, and its last batch when the last of the `others` that it takes away has one with these offsets:
    that is where it was copied from.
    """
    sure, end, last = base, base, (base, base)
    try:
        with files.opened(os.path.join(path, name)) as log:
            for rows in row_walk.sound_rows(log, 0, log.size(), offset_min=base):
                for begins, ends in zip(rows.column(chain.BASE_OFFSET), rows.next_offsets(), strict=True):
                    sure, last = end, (begins, ends)
                    end = ends if ends - 1 - base <= _RELATIVE_OFFSET_MAX else sure
    except StorageError:
        return base
    between = [(other, file) for other, file in others if sure <= other < end and _size(path, file)]
    sources = [file for other, file in between if other == between[-1][0]]
    return max(sure, end) if not between or any(_has_batch(path, file, last) for file in sources) else sure


def _size(path: str, name: str) -> int:
    return files.status(os.path.join(path, name)).st_size


def _has_batch(path: str, name: str, batch: tuple[int, int]) -> bool:
    with files.opened(os.path.join(path, name)) as log:
        walk = row_walk.header_rows(log, 0, log.size())
        return any(batch in zip(rows.column(chain.BASE_OFFSET), rows.next_offsets(), strict=True) for rows in walk)


def _ending(ending: str) -> list[str]:
    return [suffix + ending for suffix in _OF_A_SEGMENT]


def _is_removed(suffix: str) -> bool:
    return removed_names.without_ending(suffix) in _OF_A_SEGMENT


def finish_swaps(path: str) -> PendingSwaps:
    """Finish or undo what `pending_swaps` says, and return it. On disk after return, when a swap was among it.

    A `.swap` that is undone goes before the `.cleaned` that says so, a file that is replaced before the new one gets
    its name, each on disk before the next. That there is a `.swap` is on disk before anything goes for it: whoever died
    may have renamed it a moment ago.

    The garbage stays, and is the caller's to `remove_garbage`: it tells that the log was compacted (`reach`), which a
    recovery that is cut short must know once more.
    """
    pending = pending_swaps(path)
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
    """Return the names of indexes whose log is gone, and of files whose making was cut short (`files.replace_file`)."""
    logs = {base for _, base, suffix in parsed if suffix == ".log"}
    unfinished = _ending(".tmp")
    return [n for n, base, suffix in parsed if (suffix in _OF_A_LOG and base not in logs) or suffix in unfinished]


def stray_snapshots(parsed: SegmentFileNames, *, offset_max: int | None = None) -> list[str]:
    """Return the names of snapshots that no segment begins with, but for the latest when it lies in the last segment.

    With `offset_max` those beyond it, too: of a future that was cut.
    """
    bases = {base for _, base, suffix in parsed if suffix == ".log"}
    snapshots = [(base, name) for name, base, suffix in parsed if suffix == ".snapshot"]
    beyond = [(base, name) for base, name in snapshots if offset_max is not None and base > offset_max]
    strays = sorted(each for each in snapshots if each[0] not in bases and each not in beyond)
    if strays and strays[-1][0] > max(bases, default=-1):
        strays.pop()
    return [name for _, name in [*beyond, *strays]]


def remove_garbage(paths: Iterable[str]) -> None:
    """Remove garbage; what does not go stays, and harms nobody."""
    for path in paths:
        with contextlib.suppress(OSError):
            files.remove_file(path)


def deferred_removal(paths: Iterable[str]) -> Callable[[], None]:
    """Return what removes garbage when it is called, but no other file that has one of these names by then: a round of
    compaction makes files of the same names."""
    found = [(path, each) for path in paths if (each := _identity(path)) is not None]
    return lambda: remove_garbage(path for path, each in found if _identity(path) == each)


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from another of its name: its number may be given again, not with the same time."""
    try:
        status = files.status(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def remove_before_first_change(paths: Sequence[str], before_change: Callable[[], None]) -> Callable[[], None]:
    """Return a `before_change` that removes `paths`, too, when it is called first.

    A directory that is opened and not written to is left as it was: also the garbage in it.
    """
    waiting = list(paths)

    def before() -> None:
        before_change()
        going, waiting[:] = list(waiting), []
        remove_garbage(going)

    return before


def remove(path: str, names: Sequence[str]) -> bool:
    """Remove these; return whether there were any. Not synced."""
    for name in names:
        files.remove_file(os.path.join(path, name))
    return bool(names)
