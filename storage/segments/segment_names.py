"""Renaming and removing the files of a segment, while others hold the `Segment` and go on reading.

    .log .index .timeindex .txnindex     the segment itself, renamed in this order
    .snapshot .values-map .records-map   beside it: the producers before it, the maps of its views

What leaves a log is first renamed to `.deleted` (removed_names), which every loader of a log directory removes, Kafka's
and ours, and unlinked `file.delete.delay.ms` later. The object follows each rename: its holder can still open it until
then; after that opening answers ESTALE. Follows Kafka's LogSegment.changeFileSuffixes and LocalLog.deleteSegmentFiles.
Nothing here is synced: the caller syncs the directory once for all its renames.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence

from offsetfs.storage import files
from offsetfs.storage.names import segment_name
from offsetfs.storage.segments import removed_names
from offsetfs.storage.segments.deletions import Deletions
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import BESIDE, SUFFIXES


def rename(segment: Segment, ending: str, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Let the names of the segment's files end in `ending`; files that are missing are passed over.

    When it fails half way the object still goes by the old names; doing it again finishes it.
    """
    with segment.names_lock:
        _rename(segment, ending, suffixes)


def _rename(segment: Segment, ending: str, suffixes: Sequence[str]) -> None:
    for suffix in suffixes:
        source, target = segment.path(suffix), _named(segment, suffix + ending)
        if source != target and files.exists(source):
            files.rename(source, target)
    follow(segment, ending)


def follow(segment: Segment, ending: str) -> None:
    """Take note that the names of the segment's files end in `ending` now."""
    segment.ending = ending
    segment.log_path = segment.path(".log")


def take_out(segment: Segment) -> None:
    """Rename everything of the segment to `.deleted`; close its files unless a reader has them."""
    with segment.names_lock:
        _rename(segment, _removed_ending(segment), (*SUFFIXES, *BESIDE))
    segment.pool.let_go(segment)


@contextlib.contextmanager
def taking_out(segments: Sequence[Segment]) -> Iterator[None]:
    """Hold the names of segments while the caller renames their files to `.deleted`; follow the renames at the end.

    The pool lets the files go: readers open them anew under the new names.
    """
    with contextlib.ExitStack() as held:
        for segment in segments:
            held.enter_context(segment.names_lock)
        endings = [_removed_ending(segment) for segment in segments]
        yield
        for segment, ending in zip(segments, endings, strict=True):
            follow(segment, ending)
            segment.pool.let_go(segment)


def _removed_ending(segment: Segment) -> str:
    return removed_names.ending(segment.directory, segment.base_offset, segment.inode)


def unlink_later(segments: Sequence[Segment], deletions: Deletions, delay_ms: int) -> None:
    """Have the files of segments that were taken out removed `delay_ms` milliseconds from now."""
    for segment in segments:
        deletions.add(functools.partial(unlink, segment), delay_ms)


def unlink(segment: Segment) -> None:
    """Remove the `.deleted` files of a segment that was taken out, and close them.

    Files that another program put in their place stay.
    """
    assert segment.is_removed
    with segment.names_lock:
        if _is_ours(segment):
            for suffix in (*SUFFIXES, *BESIDE):
                if files.exists(segment.path(suffix)):
                    files.remove_file(segment.path(suffix))
        segment.inode = -1  # of no file: the number may be given to another one now
    segment.pool.let_go(segment)


def unlink_now(segment: Segment) -> None:
    """Remove the files of a segment without renaming them before: who has not opened them gets ESTALE."""
    with segment.names_lock:
        ending = _removed_ending(segment)
        for suffix in (*SUFFIXES, *BESIDE):
            for path in (_named(segment, suffix), _named(segment, suffix + ending)):
                if files.exists(path):
                    files.remove_file(path)
        follow(segment, ending)
        segment.inode = -1
    segment.pool.let_go(segment)


def move(segment: Segment, directory: str) -> None:
    """Take note that the directory of the segment was renamed."""
    with segment.names_lock:
        segment.directory = directory
        segment.log_path = segment.path(".log")


def _named(segment: Segment, suffix: str) -> str:
    return os.path.join(segment.directory, segment_name(segment.base_offset, suffix))


def _is_ours(segment: Segment) -> bool:
    """Whether the log file of the segment's name is the segment's, or gone."""
    try:
        with files.opened(segment.log_path) as log:
            return segment.inode in (None, log.stat().st_ino)
    except FileNotFoundError:
        return True
