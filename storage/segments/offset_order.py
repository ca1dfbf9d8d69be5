"""Finds an offset in a damaged log: skips unreadable batches, and detects batches with wrong offsets.

The checksum of a batch does not cover its base offset, because a broker assigns it after the batch is sealed. So a
flipped bit there leaves a valid batch with an offset that another batch has, or that hides its neighbors. Such a batch
is detected by order: offsets rise within the bounds of the segment. Where they do not, the longest rising sequence of
batches is taken as correct, and the others as damaged. A wrong offset that keeps the order cannot be detected.

This slow path is used only after the fast one (`Segment.find`) met a contradiction. Kafka uses every base offset that
it reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

from offsetfs.storage.errors import (
    UNREADABLE,
    MalformedBatch,
    StorageError,
)
from offsetfs.storage.files import File
from offsetfs.storage.names import OFFSET_END
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import Batch

_NEIGHBOURS = 32
"""The number of batches before the offset that are compared. Bounds memory and time, however sparse the index is."""

_BEYOND = 16
"""The number of batches after the offset that are compared: more than a misdirected write moves to a wrong position."""


_WINDOW = 32
"""The number of batches that are compared where offsets do not rise. Bounds memory, and time by its square."""


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """A valid batch, and the error of unreadable bytes directly before it. `position` is a byte of the log file."""

    position: int
    base_offset: int
    last_offset: int
    before: StorageError | None = None


@dataclass(slots=True)
class _Neighbours:
    """The valid batches around an offset, in file order."""

    batches: list[PlacedBatch] = field(default_factory=list)
    behind: StorageError | None = None  # the error of unreadable bytes after the last batch

    def add(self, batch: Batch) -> None:
        try:
            placed = PlacedBatch(batch.position or 0, batch.base_offset, batch.header.last_offset, self.behind)
        except UNREADABLE as error:  # a wrapper that cannot be decompressed
            self.behind = error
            return
        self.batches.append(placed)
        self.behind = None

    def damaged(self, error: StorageError, _following: int) -> None:
        self.behind = error


def find_over_damage(
    log: File, start: int, end: int, offset: int, *, offset_min: int, offset_end: int | None
) -> Batch | None:
    """Return the first batch in `[start, end)` whose last offset is ≥ `offset`, or None.

    All offsets of the segment lie in `[offset_min, offset_end)`. If damage may have taken the offset, raises the error
    of that damage. Reads and verifies every batch from `start` to a few after the offset.
    """
    near = _neighbours(log, start, end, offset)
    bounds = [(batch.base_offset, batch.last_offset) for batch in near.batches]
    doubt: StorageError | None = None
    for batch, is_true in zip(near.batches, consistent_offsets(bounds, offset_min, offset_end), strict=True):
        doubt = batch.before or doubt
        if not is_true:
            doubt = misplaced(batch.base_offset, batch.last_offset, log.path, batch.position)
        elif batch.last_offset >= offset:
            if doubt is not None and batch.base_offset > offset:
                raise doubt
            return next(batch_chain.batches(log, batch.position, end))
        else:
            doubt = None
    doubt = near.behind or doubt
    if doubt is not None:
        raise doubt
    return None


def misplaced(base_offset: int, last_offset: int, path: str | None, position: int | None) -> MalformedBatch:
    """Return the error for a batch whose offsets do not fit between those of its neighbors."""
    reason = f"offsets {base_offset} to {last_offset} do not fit between the neighboring batches"
    return MalformedBatch(reason, path=path, position=position, offset=base_offset)


def _neighbours(log: File, start: int, end: int, offset: int) -> _Neighbours:
    near, beyond = _Neighbours(), 0
    for batch in batch_chain.batches(log, start, end, on_damage=near.damaged):
        near.add(batch)
        beyond = beyond + 1 if near.batches and near.batches[-1].base_offset > offset else 0
        if beyond == _BEYOND:
            break
        if not beyond and len(near.batches) > _NEIGHBOURS:
            del near.batches[0]
    return near


def in_order(batches: Iterable[Batch], offset_min: int, offset_end: int) -> Iterator[tuple[Batch, bool]]:
    """Yield each batch in file order, and whether its offsets fit those of its neighbors.

    `offset_min`: where the segment begins; `offset_end`: where the next one begins, or the log ends. The base offset of
    each batch must be readable. While offsets rise, a batch waits only for the next one. Otherwise `consistent_offsets`
    decides among `_WINDOW` batches, which are held in memory.
    """
    source, waiting, low = iter(batches), deque[Batch](), offset_min
    while True:
        waiting.extend(islice(source, max(2 - len(waiting), 0)))
        if not waiting:
            return
        first, end = waiting[0], waiting[1].base_offset if len(waiting) > 1 else offset_end
        if low <= first.base_offset <= first.header.last_offset < end:
            yield waiting.popleft(), True
            low = first.header.next_offset
            continue
        waiting.extend(islice(source, max(_WINDOW - len(waiting), 0)))
        bounds = [(batch.base_offset, batch.header.last_offset) for batch in waiting]
        decided = len(waiting) if len(waiting) < _WINDOW else _WINDOW // 2
        for is_true in consistent_offsets(bounds, low, offset_end)[:decided]:
            batch = waiting.popleft()
            yield batch, is_true
            if is_true:
                low = batch.header.next_offset


def consistent_offsets(bounds: Sequence[tuple[int, int]], offset_min: int, offset_end: int | None) -> list[bool]:
    """Return for each (base offset, last offset), in file order, whether it is part of the most plausible rising
    sequence.

    That is the longest rising sequence within `[offset_min, offset_end)`. Of two such sequences, the one with fewer
    gaps wins if the log has few gaps, then the one that ends lower, because most bits of an offset are high ones. If
    sequences are still equal, only batches in all of them count. Takes quadratic time.
    """
    end = OFFSET_END if offset_end is None else offset_end
    possible = [index for index, (base, last) in enumerate(bounds) if offset_min <= base <= last < end]
    joins = sum(last + 1 == base for (_, last), (base, _) in pairwise(bounds))
    # In a log without compaction the next batch begins where the last one ends; a wrong offset rarely does.
    bonus = 1 if 2 * joins >= len(bounds) - 1 else 0
    ending: dict[int, _Row] = {}
    for index in possible:
        base = bounds[index][0]
        row = _Row(2 + (base == offset_min), frozenset((index,)))
        for earlier in ending:
            if bounds[earlier][1] < base:
                longer = ending[earlier].weight + 2 + bonus * (bounds[earlier][1] + 1 == base)
                row = row.or_better(_Row(longer, ending[earlier].sure | {index}))
        ending[index] = row
    # The lower end wins: most bits of an offset are high ones, so a flipped bit usually makes it larger.
    best = max(((row.weight, -bounds[index][1]) for index, row in ending.items()), default=None)
    sure = [row.sure for index, row in ending.items() if (row.weight, -bounds[index][1]) == best]
    accepted = frozenset[int]().union(*sure[:1]).intersection(*sure)
    return [index in accepted for index in range(len(bounds))]


@dataclass(frozen=True, slots=True)
class _Row:
    """The heaviest rising sequences that end at one batch: their weight, and the batches that are in all of them."""

    weight: int
    sure: frozenset[int]

    def or_better(self, candidate: _Row) -> _Row:
        if candidate.weight == self.weight:
            return _Row(self.weight, self.sure & candidate.sure)
        return max(self, candidate, key=lambda row: row.weight)
