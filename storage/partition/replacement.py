"""Replaces segments of an open log by rewritten ones: the last step of compaction and of a split.

The files are swapped so that after a crash either the old or the new segments are visible (swap). Here the log is
locked meanwhile, the segment map is updated, and the old files are queued for removal. Readers of a replaced segment
continue to read it. Follows Kafka's LocalLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsetfs.storage.errors import SegmentsChanged
from offsetfs.storage.partition import swap
from offsetfs.storage.partition.log_interfaces import ChangeableLog
from offsetfs.storage.segments import segment_names
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import LIVE
from offsetfs.storage.segments.segment_map import Segments


def replace_segments(log: ChangeableLog, new: Sequence[Segment], old: Sequence[Segment]) -> None:
    """Replace the sealed segments `old` by `new`; durable on return.

    The files of `new` are called `.cleaned`, durable with their names, and are live on return. Those of `old` are
    `.deleted`, and unlinked after `file.delete.delay.ms`. `SegmentsChanged` if one of `old` has left the log or become
    its active segment: then nothing was changed. After an OSError, either the log is unchanged and the `.cleaned` files
    are gone, as on a full disk, or it has failed and the next opening completes or undoes the swap.
    """
    assert new and old
    with log.changing():
        segments = log.snapshot()
        # The rewriting took place without a lock, so retention or a truncation may have changed the log since.
        if any(segments.floor(segment.base_offset) is not segment or segment is segments.active for segment in old):
            raise SegmentsChanged("a segment was removed or truncated meanwhile", path=log.path)
        swap.prepare(log.path, [segment.base_offset for segment in new])
        _swap(log, new, old)
        log.publish(log.state.with_segments(Segments([*segments.without(old), *new])))
    segment_names.unlink_later(old, log.context.deletions, log.config.file_delete_delay_ms)


def _swap(log: ChangeableLog, new: Sequence[Segment], old: Sequence[Segment]) -> None:
    bases, renames = [segment.base_offset for segment in new], swap.Renames()
    with segment_names.following_removal(old):
        try:
            swap.retire(log.path, bases, [segment.base_offset for segment in old], renames)
            swap.install(log.path, bases, renames)
        except OSError as error:
            with log.fail_on_error():
                swap.undo(log.path, bases, renames, error)
            raise
    for segment in new:
        segment.follow_rename(LIVE)
        segment.pool.drop(segment)  # its open files have the old paths, which error messages would show
