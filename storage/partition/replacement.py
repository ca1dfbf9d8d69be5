"""Putting rewritten segments in the place of others, under readers: what compaction and a split end with.

The files are swapped so that a crash shows the old segments or the new ones (swap); here the log is held meanwhile, the
segment map follows, and the old files wait for their removal. Who reads a segment that was replaced reads on in it.
Follows Kafka's LocalLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsetfs.storage.errors import SegmentsChanged
from offsetfs.storage.partition import swap
from offsetfs.storage.segments import segment_names
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import LIVE
from offsetfs.storage.segments.segment_map import Segments

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log


def replace_segments(log: Log, new: Sequence[Segment], old: Sequence[Segment]) -> None:
    """Put `new` in the place of `old`, which are sealed; on disk after return.

    The files of `new` are called `.cleaned`, are on disk with their names, and are live after return; those of `old`
    are `.deleted`, and unlinked after `file.delete.delay.ms`. `SegmentsChanged` when one of `old` has left the log or
    become its active segment: then nothing was changed. After an OSError either the log is as it was and `.cleaned`
    files are gone, or it is fenced and the next opening finishes the swap.
    """
    assert new and old
    with log.changing():
        segments = log.snapshot()
        if any(segments.floor(segment.base_offset) is not segment or segment is segments.active for segment in old):
            raise SegmentsChanged("a segment was removed or truncated meanwhile", path=log.path)
        swap.prepare(log.path, [segment.base_offset for segment in new])
        with log.fencing():
            _swap(log.path, new, old)
        log.adopt(Segments([*segments.without(old), *new]))
    segment_names.unlink_later(old, log.context.deletions, log.config.file_delete_delay_ms)


def _swap(path: str, new: Sequence[Segment], old: Sequence[Segment]) -> None:
    bases = [segment.base_offset for segment in new]
    with segment_names.following_removal(old):
        swap.retire(path, bases, [segment.base_offset for segment in old])
    swap.install(path, bases)
    for segment in new:
        segment_names.follow(segment, LIVE)
        segment.pool.drop(segment)  # its open files have the old paths, which error messages would name
