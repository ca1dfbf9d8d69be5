"""Renames and removes the files of a segment while readers may hold the `Segment`.

    .log .index .timeindex .txnindex     the segment itself, renamed in this order
    .snapshot .values-map .records-map   files beside it: the producers before it, its line indexes

Files of a removed segment are first renamed to `.deleted` (`deletions`), which Kafka's and our loader remove, and
unlinked `file.delete.delay.ms` later. The object follows each rename, so its holders can open it until then; afterwards
opening raises ESTALE. Follows Kafka's LogSegment.changeFileSuffixes and LocalLog.deleteSegmentFiles. Nothing here is
synced: the caller syncs the directory once for all its renames.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence

from offsetfs.storage import files
from offsetfs.storage.names import segment_name
from offsetfs.storage.segments import deletions
from offsetfs.storage.segments.deletions import Deletions
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import BESIDE, SUFFIXES


def rename(segment: Segment, ending: str, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Rename the segment's files so that their names end in `ending`; missing files are skipped.

    After an error half way the object keeps the old names; repeating the call completes the rename.
    """
    with segment.names_lock:
        _rename(segment, ending, suffixes)


def _rename(segment: Segment, ending: str, suffixes: Sequence[str]) -> None:
    for suffix in suffixes:
        source, target = segment.path(suffix), _named(segment, suffix + ending)
        if source != target and files.exists(source):
            files.rename(source, target)
    segment.follow_rename(ending)


def remove_from_log(segment: Segment) -> None:
    """Rename all files of the segment to `.deleted`; close them unless a reader uses them."""
    with segment.names_lock:
        _rename(segment, _removed_ending(segment), (*SUFFIXES, *BESIDE))
    segment.pool.evict(segment)


@contextlib.contextmanager
def following_removal(segments: Sequence[Segment]) -> Iterator[None]:
    """Lock the names of segments while the caller renames their files to `.deleted`; record the new names at the end.

    The pool releases the files, and readers reopen them under the new names. After an error the names are as before.
    """
    with contextlib.ExitStack() as held:
        for segment in segments:
            held.enter_context(segment.names_lock)
        endings = [_removed_ending(segment) for segment in segments]
        yield
        for segment, ending in zip(segments, endings, strict=True):
            segment.follow_rename(ending)
            segment.pool.evict(segment)


def _removed_ending(segment: Segment) -> str:
    return deletions.removed_ending(segment.directory, segment.base_offset, segment.inode)


def unlink_later(segments: Sequence[Segment], deletions: Deletions, delay_ms: int) -> None:
    """Remove the files of removed segments after `delay_ms` milliseconds."""
    for segment in segments:
        deletions.add(functools.partial(unlink, segment), delay_ms)


def unlink(segment: Segment) -> None:
    """Remove the `.deleted` files of a removed segment, and close them.

    Files that another program put under these names stay.
    """
    assert segment.is_removed
    with segment.names_lock:
        if _is_ours(segment):
            for suffix in (*SUFFIXES, *BESIDE):
                if files.exists(segment.path(suffix)):
                    files.remove_file(segment.path(suffix))
        segment.forget_file()
    segment.pool.evict(segment)


def unlink_at_once(segment: Segment) -> None:
    """Remove the files of a segment without renaming them first. Readers that have not opened them get ESTALE."""
    with segment.names_lock:
        ending = _removed_ending(segment)
        for suffix in (*SUFFIXES, *BESIDE):
            for path in (_named(segment, suffix), _named(segment, suffix + ending)):
                if files.exists(path):
                    files.remove_file(path)
        segment.follow_rename(ending)
        segment.forget_file()
    segment.pool.evict(segment)


def move(segment: Segment, directory: str) -> None:
    """Record that the directory of the segment was renamed."""
    with segment.names_lock:
        segment.follow_move(directory)


def _named(segment: Segment, suffix: str) -> str:
    return os.path.join(segment.directory, segment_name(segment.base_offset, suffix))


def _is_ours(segment: Segment) -> bool:
    """Whether the log file with the segment's name is the segment's own, or missing."""
    try:
        with files.open_file(segment.log_path) as log:
            return segment.inode in (None, log.stat().st_ino)
    except FileNotFoundError:
        return True
