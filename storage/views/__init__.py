"""Views of a whole partition as a growing file, with the position of each byte in the log, and the key index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.views.ends import first_offset, last_offset, newest_start
    from offsetfs.storage.views.key_hash import SEED_SIZE, KeyDigest, deltas_of, hash_rows
    from offsetfs.storage.views.key_index import KeyIndex, KeyLocation
    from offsetfs.storage.views.key_table import stem_beside, stem_in_cache
    from offsetfs.storage.views.line_index import LineIndex, LineIndexPool
    from offsetfs.storage.views.line_index_cache import LineIndexCache
    from offsetfs.storage.views.partition_view import PartitionView
    from offsetfs.storage.views.range_view import RangeView
    from offsetfs.storage.views.record_chunk import ReadPosition, RecordChunk, read_chunk
    from offsetfs.storage.views.record_row_walk import RecordRow, record_rows
    from offsetfs.storage.views.view_blocks import OnDamage
    from offsetfs.storage.views.view_format import VALUES, JsonFormat, ViewFormat
    from offsetfs.storage.views.view_parts import LocatedBlock, SkippedBatch

__all__ = [
    "SEED_SIZE",
    "VALUES",
    "JsonFormat",
    "KeyDigest",
    "KeyIndex",
    "KeyLocation",
    "LineIndex",
    "LineIndexCache",
    "LineIndexPool",
    "LocatedBlock",
    "OnDamage",
    "PartitionView",
    "RangeView",
    "ReadPosition",
    "RecordChunk",
    "RecordRow",
    "SkippedBatch",
    "ViewFormat",
    "deltas_of",
    "first_offset",
    "hash_rows",
    "last_offset",
    "newest_start",
    "read_chunk",
    "record_rows",
    "stem_beside",
    "stem_in_cache",
]

__getattr__ = lazy_names(
    __name__,
    {
        "SEED_SIZE": "views.key_hash",
        "VALUES": "views.view_format",
        "JsonFormat": "views.view_format",
        "KeyDigest": "views.key_hash",
        "KeyIndex": "views.key_index",
        "KeyLocation": "views.key_index",
        "LineIndex": "views.line_index",
        "LineIndexCache": "views.line_index_cache",
        "LineIndexPool": "views.line_index",
        "LocatedBlock": "views.view_parts",
        "OnDamage": "views.view_blocks",
        "PartitionView": "views.partition_view",
        "RangeView": "views.range_view",
        "ReadPosition": "views.record_chunk",
        "RecordChunk": "views.record_chunk",
        "RecordRow": "views.record_row_walk",
        "SkippedBatch": "views.view_parts",
        "ViewFormat": "views.view_format",
        "deltas_of": "views.key_hash",
        "first_offset": "views.ends",
        "hash_rows": "views.key_hash",
        "last_offset": "views.ends",
        "newest_start": "views.ends",
        "stem_beside": "views.key_table",
        "stem_in_cache": "views.key_table",
        "read_chunk": "views.record_chunk",
        "record_rows": "views.record_row_walk",
    },
)
