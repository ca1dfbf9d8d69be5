"""Cutting what a query reads into tasks: by bytes of segments, at ends of batches, which the offset index tells.

A Python task costs Spark some 30 core-milliseconds, so small partitions are put together until a task has enough to do;
large ones are cut. An index is a hint: a cut that lies inside a batch lets two tasks read that batch, and each takes
its own records of it, so a wrong index costs time and no record.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from offsetfs.pipeline.log_directories import LogDirectories
from offsetfs.pipeline.scan_range import Range
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.segment_retry import with_retry
from offsetfs.storage.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class Piece:
    """A range, and about how many bytes of segments it takes."""

    range: Range
    bytes: int


def cut(
    directory: LogDirectories,
    ranges: Iterable[Range],
    *,
    splits_min: int,
    bytes_per_split: int,
    records_per_split_max: int | None = None,
) -> list[tuple[Range, ...]]:
    """Return what each task reads, in the order of partitions and offsets."""
    whole = [Piece(each, _bytes_between(directory.log(each.name), each.start, each.end)) for each in ranges]
    total = sum(piece.bytes for piece in whole)
    size = max(min(bytes_per_split, -(-total // splits_min)), 1)
    pieces = [piece for each in whole for piece in _pieces(directory.log(each.range.name), each, size)]
    if records_per_split_max is not None:
        parts = [part for piece in pieces for part in _cut_by_records(piece.range, records_per_split_max)]
        return [(each,) for each in _cut_evenly(parts, splits_min)]
    if len(pieces) < splits_min:
        return [(each,) for each in _cut_evenly([piece.range for piece in pieces], splits_min)]
    return _packed(pieces, size, splits_min)


def _bytes_between(log: Log, start: int, end: int) -> int:
    """Return about how many bytes the offsets take; an index interval more or less."""
    return with_retry(log, start, lambda _: sum(last - first for _, first, last in _stretches(log, start, end)))


def _pieces(log: Log, piece: Piece, size: int) -> list[Piece]:
    return with_retry(log, piece.range.start, lambda _: list(_cut_by_bytes(log, piece, size)))


def _stretches(log: Log, start: int, end: int) -> Iterator[tuple[Segment, int, int]]:
    """Yield each segment that has some of the offsets, and between which positions; about."""
    segments = log.snapshot()
    for segment in segments.from_floor(start):
        if segment.base_offset >= end:
            return
        behind = segments.next_base_offset(segment)
        index = segment.open_files().index
        first = 0 if start <= segment.base_offset else min(index.lookup(start)[1], segment.size)
        last = (
            segment.size if behind is not None and behind <= end else min(_position_behind(segment, end), segment.size)
        )
        yield segment, first, max(last, first)


def _position_behind(segment: Segment, offset: int) -> int:
    """Return the position of the first entry at or above `offset`, the end of the segment when there is none."""
    index = segment.open_files().index
    floor = index.lookup(offset - 1)
    behind = index.upper_bound(floor, 1)
    return segment.size if behind is None else behind[1]


def _cut_by_bytes(log: Log, piece: Piece, size: int) -> Iterator[Piece]:
    """Cut a piece that is more than a half larger than `size`."""
    if piece.bytes <= size + size // 2:
        yield piece
        return
    whole, start, gathered = piece.range, piece.range.start, 0
    for segment, first, last in _stretches(log, whole.start, whole.end):
        index = segment.open_files().index
        place = first
        while gathered + last - place > size:
            entry = index.upper_bound((segment.base_offset, place), size - gathered)
            if entry is None or entry[1] >= last or not start < entry[0] + 1 < whole.end:
                break
            yield Piece(Range(whole.topic, whole.partition, start, entry[0] + 1), gathered + entry[1] - place)
            start, place, gathered = entry[0] + 1, entry[1], 0
        gathered += last - place
    if start < whole.end:
        yield Piece(Range(whole.topic, whole.partition, start, whole.end), gathered)


def _cut_by_records(whole: Range, records_max: int) -> Iterator[Range]:
    for start in range(whole.start, whole.end, records_max):
        yield Range(whole.topic, whole.partition, start, min(start + records_max, whole.end))


def _cut_evenly(ranges: list[Range], count_min: int) -> list[Range]:
    """Cut the largest ranges by offsets, until there are `count_min`, or none has more than one offset."""
    parts = [1] * len(ranges)
    largest = [(-(each.end - each.start), number) for number, each in enumerate(ranges)]
    heapq.heapify(largest)
    missing = count_min - len(ranges)
    while missing > 0 and largest and largest[0][0] < -1:
        number = largest[0][1]
        parts[number] += 1
        size = ranges[number].end - ranges[number].start
        heapq.heapreplace(largest, (-math.ceil(size / parts[number]), number))
        missing -= 1
    return [part for each, count in zip(ranges, parts, strict=True) for part in _in_parts(each, count)]


def _in_parts(whole: Range, count: int) -> Iterator[Range]:
    size = whole.end - whole.start
    ends = [whole.start + size * number // count for number in range(count + 1)]
    return (Range(whole.topic, whole.partition, start, end) for start, end in pairwise(ends) if start < end)


def _packed(pieces: list[Piece], size: int, splits_min: int) -> list[tuple[Range, ...]]:
    """Put small pieces together, as long as they stay below `size` and enough tasks are left."""
    packed: list[list[Range]] = []
    gathered = 0
    for number, piece in enumerate(pieces):
        has_enough = len(packed) + len(pieces) - number > splits_min
        if packed and gathered + piece.bytes <= size and has_enough:
            packed[-1].append(piece.range)
            gathered += piece.bytes
        else:
            packed.append([piece.range])
            gathered = piece.bytes
    return [tuple(ranges) for ranges in packed]
