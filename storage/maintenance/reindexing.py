"""Offset and time indexes of one segment, rebuilt from its log file."""

from __future__ import annotations

from offsetfs.storage import files
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.segments import segment_indexes
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_indexes import IndexBuilder
from offsetfs.storage.settings.config import LogConfig


def reindex_segment(directory: str, base_offset: int, config: LogConfig) -> tuple[bool, int]:
    """Rebuild the indexes of a segment in the partition `directory`; return whether they changed, and its size.

    Durable on return. Needs no lock: each index file is replaced as a whole, and readers validate what they use. Files
    that are already as they should be stay. OSError.
    """
    segment = Segment(directory, base_offset, config, FilePool(1))
    builder = IndexBuilder(segment.base_offset, segment.config.index_interval_bytes)
    with files.open_file(segment.log_path) as log:
        for rows in row_walk.rows_over_damage(log, 0, segment.size):
            builder.add_rows(rows.numbers)
    builder.finish()
    kept = ((".index", builder.offsets), (".timeindex", builder.times))
    if all(_content(segment.path(suffix)) == bytes(content) for suffix, content in kept):
        return False, segment.size
    segment_indexes.write(segment, builder)
    files.sync_directory(segment.directory)
    return True, segment.size


def _content(path: str) -> bytes | None:
    return files.read_file(path) if files.exists(path) else None
