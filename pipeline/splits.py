"""Cuts a query's ranges into tasks, by bytes of segments, at the ends of batches that `LogReader.cut` finds.

A Python task costs Spark some 30 core-milliseconds, so small partitions share a task; large ones are cut.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from offsetfs.pipeline.log_directories import ScanDirectories
from offsetfs.pipeline.scan_range import Range
from offsetfs.storage import LogReader


@dataclass(frozen=True, slots=True)
class Piece:
    """A range, and its approximate size in bytes of segments."""

    range: Range
    bytes: int


def cut(
    directory: ScanDirectories,
    ranges: Iterable[Range],
    *,
    splits_min: int,
    bytes_per_split: int,
    records_per_split_max: int | None = None,
) -> list[tuple[Range, ...]]:
    """Return the ranges of each task, in the order of partitions and offsets."""
    whole = [Piece(part, _range_reader(directory, part).size_bytes()) for part in ranges]
    total = sum(piece.bytes for piece in whole)
    size = max(min(bytes_per_split, -(-total // splits_min)), 1)
    pieces = [piece for large in whole for piece in _pieces(directory, large, size)]
    if records_per_split_max is not None:
        parts = [part for piece in pieces for part in _cut_by_records(piece.range, records_per_split_max)]
        return [(part,) for part in _cut_evenly(parts, splits_min)]
    if len(pieces) < splits_min:
        return [(part,) for part in _cut_evenly([piece.range for piece in pieces], splits_min)]
    return _packed(pieces, size, splits_min)


def _range_reader(directory: ScanDirectories, wanted: Range) -> LogReader:
    return LogReader(directory.log(wanted.name), start=wanted.start, stop=wanted.end)


def _pieces(directory: ScanDirectories, piece: Piece, size: int) -> Iterator[Piece]:
    """Cut a piece that is much larger than `size`."""
    if piece.bytes <= size:
        yield piece
        return
    wanted = piece.range
    for start, end, piece_bytes in _range_reader(directory, wanted).cut(size):
        yield Piece(replace(wanted, start=start, end=end), piece_bytes)


def _cut_by_records(whole: Range, records_max: int) -> Iterator[Range]:
    for start in range(whole.start, whole.end, records_max):
        yield replace(whole, start=start, end=min(start + records_max, whole.end))


def _cut_evenly(ranges: list[Range], count_min: int) -> list[Range]:
    """Cut the largest ranges by offsets, until there are `count_min`, or none has more than one offset."""
    parts = [1] * len(ranges)
    largest = [(-(whole.end - whole.start), number) for number, whole in enumerate(ranges)]
    heapq.heapify(largest)
    missing = count_min - len(ranges)
    while missing > 0 and largest and largest[0][0] < -1:
        number = largest[0][1]
        parts[number] += 1
        size = ranges[number].end - ranges[number].start
        heapq.heapreplace(largest, (-math.ceil(size / parts[number]), number))
        missing -= 1
    return [part for whole, count in zip(ranges, parts, strict=True) for part in _in_parts(whole, count)]


def _in_parts(whole: Range, count: int) -> Iterator[Range]:
    size = whole.end - whole.start
    ends = [whole.start + size * number // count for number in range(count + 1)]
    return (replace(whole, start=start, end=end) for start, end in pairwise(ends) if start < end)


def _packed(pieces: list[Piece], size: int, splits_min: int) -> list[tuple[Range, ...]]:
    """Combine small pieces, as long as they stay below `size` and enough tasks are left."""
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
