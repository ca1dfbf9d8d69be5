"""Rows of a column by the schema that they name, found in whole buffers, without an object for each row.

A header that names a schema goes before the bytes of the field, as in `count_patterns` of the engine: of several, that
of the first pattern counts, and the last one with its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offsetfs.schemas.references import PATTERNS, NamedSchema, ReferenceForm, named_schema
from offsetfs.storage.records import FieldPattern

Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
_Heads: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.uint8]]"

_ZLIB = b"\3\5"
"""The first bytes of a value that a serializer of Glue has compressed."""

_NO_PATH = b""

_FIRST_BYTES = {
    field: np.array([row.prefix[0] for row in rows if row.header is None], np.uint8) for field, rows in PATTERNS.items()
}


@dataclass(frozen=True, slots=True)
class NamedRows:
    """Rows that name the same schema in the same way."""

    named: NamedSchema | None
    """None: the rows name no schema."""
    rows: Numbers
    skip: int = 0
    """The bytes that name it, in front of each value."""
    path: bytes | None = _NO_PATH
    """The path of a Protobuf message, as `ValueDecoder.decode` takes it."""
    is_compressed: bool = False
    """What follows is compressed with zlib."""
    is_in_header: bool = False


def rows_by_schema(values: pa.BinaryArray, headers: pa.ListArray | None, field: str) -> Iterator[NamedRows]:
    """Yield the rows that are not null by the schema that they name.

    `values` is no slice. `headers`: a column of `tables.arrow.SCHEMA`; None: the rows have none. `field`: key or value.
    """
    left = np.flatnonzero(np.asarray(values.is_valid())) if values.null_count else np.arange(len(values))
    if headers is not None:
        for found in _by_header(headers, field):
            rows = np.intersect1d(found.rows, left, assume_unique=True)
            if len(rows):
                yield NamedRows(found.named, rows, path=found.path, is_in_header=True)
                left = np.setdiff1d(left, rows, assume_unique=True)
    yield from _by_first_bytes(values, left, field)


def may_name_schema(values: pa.BinaryArray, headers: pa.ListArray | None, field: str) -> bool:
    """Return whether a row may name a schema: much faster than to look which. Arguments as of `rows_by_schema`."""
    if headers is not None:
        wanted = pa.array([_name(pattern) for pattern in PATTERNS[field] if pattern.header is not None])
        if pc.any(pc.is_in(headers.values.field(0), value_set=wanted)).as_py():
            return True
    _, ends_held, data_held = values.buffers()
    if data_held is None or not data_held.size:
        return False
    ends = np.frombuffer(ends_held, np.int32)[: len(values) + 1]
    starts = ends[:-1][np.diff(ends) > 0]
    return bool(np.isin(np.frombuffer(data_held, np.uint8)[starts], _FIRST_BYTES[field]).any())


# --- headers ---------------------------------------------------------------------------------------------------------


def _by_header(headers: pa.ListArray, field: str) -> Iterator[NamedRows]:
    patterns = [(number, pattern) for number, pattern in enumerate(PATTERNS[field]) if pattern.header is not None]
    ends = np.asarray(headers.offsets)
    pairs = headers.values.slice(ends[0], ends[-1] - ends[0])
    if not len(pairs):
        return
    names = pc.index_in(pairs.field(0), value_set=pa.array([_name(pattern) for _, pattern in patterns]).unique())
    if names.null_count == len(names):
        return
    named = np.flatnonzero(np.asarray(names.is_valid()))
    rows = np.repeat(np.arange(len(headers)), np.diff(ends))[named]
    contents = pairs.field(1).take(pa.array(named))
    texts = pairs.field(0).take(pa.array(named))
    best, place = np.full(len(headers), -1), np.zeros(len(headers), np.int64)
    for number, pattern in reversed(patterns):
        is_match = pc.and_(pc.equal(texts, _name(pattern)), _matches(contents, pattern))
        matched = np.flatnonzero(np.asarray(is_match.fill_null(False)))
        best[rows[matched]], place[rows[matched]] = number, matched  # of equal rows, the last
    for number, pattern in patterns:
        yield from _by_content(field, number, pattern, np.flatnonzero(best == number), contents, place)


def _by_content(
    field: str, number: int, pattern: FieldPattern, rows: Numbers, contents: pa.BinaryArray, place: Numbers
) -> Iterator[NamedRows]:
    if not len(rows):
        return
    encoded = contents.take(pa.array(place[rows])).dictionary_encode()
    different = encoded.dictionary.to_pylist()
    for content, found in zip(different, _divided(rows, np.asarray(encoded.indices), len(different)), strict=True):
        named = named_schema(field, number, content[: pattern.most])
        has_path = named is not None and named.form == ReferenceForm.CONFLUENT_HEADER
        yield NamedRows(named, found, path=content[pattern.most :] if has_path else _NO_PATH)


def _divided(rows: Numbers, groups: Numbers, count: int) -> Iterator[Numbers]:
    """Yield the rows of each group, in their order. Sorted once: hostile rows may all have groups of their own."""
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(count + 1))
    for number in range(count):
        yield rows[order[bounds[number] : bounds[number + 1]]]


def _matches(contents: pa.BinaryArray, pattern: FieldPattern) -> pa.BooleanArray:
    is_long = pc.greater_equal(pc.binary_length(contents), pattern.least)
    return pc.and_(is_long, pc.starts_with(contents, pattern.prefix)) if pattern.prefix else is_long


def _name(pattern: FieldPattern) -> str:
    assert pattern.header is not None
    return pattern.header.decode()


# --- the first bytes -------------------------------------------------------------------------------------------------


def _by_first_bytes(values: pa.BinaryArray, left: Numbers, field: str) -> Iterator[NamedRows]:
    _, ends_held, data_held = values.buffers()
    ends = np.frombuffer(ends_held, np.int32)[: len(values) + 1].astype(np.int64)
    data = np.frombuffer(data_held, np.uint8) if data_held is not None and data_held.size else np.zeros(1, np.uint8)
    starts, sizes = ends[:-1], np.diff(ends)
    for number, pattern in enumerate(PATTERNS[field]):
        if pattern.header is not None or not len(left):
            continue
        matched = left[sizes[left] >= pattern.most]
        heads = data[starts[matched][:, None] + np.arange(pattern.most)]
        for place, byte in enumerate(pattern.prefix):
            keeps = heads[:, place] == byte
            matched, heads = matched[keeps], heads[keeps]
        if len(matched):
            yield from _by_head(field, number, pattern, matched, heads)
            left = np.setdiff1d(left, matched, assume_unique=True)
    if len(left):
        yield NamedRows(None, left)


def _by_head(field: str, number: int, pattern: FieldPattern, rows: Numbers, heads: _Heads) -> Iterator[NamedRows]:
    size, is_compressed = pattern.most, pattern.prefix == _ZLIB
    if (heads == heads[0]).all():
        groups = [(heads[0].tobytes(), rows)]
    else:
        heads_of = np.ascontiguousarray(heads).view(f"V{size}").ravel()
        names, places = np.unique(heads_of, return_inverse=True)
        groups = list(zip((name.tobytes() for name in names), _divided(rows, places, len(names)), strict=True))
    for head, found in groups:
        named = named_schema(field, number, head)
        if named is None:
            yield NamedRows(None, found)
            continue
        path = None if named.form == ReferenceForm.CONFLUENT else _NO_PATH
        yield NamedRows(named, found, size, path, is_compressed)
