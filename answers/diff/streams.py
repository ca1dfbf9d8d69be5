"""The committed records of a log as digests, one stream, for comparisons that do not go by offset."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from offsetfs.storage import READ_COMMITTED, Batch, BatchGroup, Log, LogReader
from offsetfs.storage.errors import UNREADABLE, StorageError, sentence
from offsetfs.storage.records import RecordDigests, batch_digests

DAMAGE_MAX = 20


@dataclass(slots=True)
class OrderlessDiff:
    """The result of a comparison by key or by content. The numbers are those of keys, or of records."""

    equal: int = 0
    changed: int = 0
    """Keys with another latest value; 0 by content."""
    only_a: int = 0
    only_b: int = 0
    before_a: int = 0
    """The records of A before the first one that B has; 0 by key."""
    before_b: int = 0
    behind_a: int = 0
    """The records of B behind the last one that A has; 0 by key."""
    behind_b: int = 0
    without_key: int = 0
    """Records of both without a key, which are not compared; 0 by content."""
    first_a: int | None = None
    """The offset of the first difference in A, None where only B has it."""
    first_b: int | None = None
    damage: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def skip(self, error: StorageError) -> None:
        """Take note of a batch that cannot be read."""
        text = sentence(error)
        if len(self.damage) < DAMAGE_MAX and text not in self.damage:
            self.damage.append(text)

    def lose(self, error: StorageError) -> None:
        """Take note of records that were deleted meanwhile."""
        self.lost.append(sentence(error))


def committed_digests(
    log: Log, seed: bytes, found: OrderlessDiff, on_bytes: Callable[[int], None], *, times: bool
) -> Iterator[RecordDigests]:
    """Yield the digests of committed records, a batch at a time; what cannot be read goes to `found`. OSError."""
    reader = LogReader(log, isolation=READ_COMMITTED, on_damage=found.skip, on_lost=found.lose, runs=(0, 1))
    for batch, first, stop in reader.groups():
        on_bytes(batch.header.size)
        yield from _digests(batch, first, stop, seed, found, times=times)


def _digests(
    batch: Batch, first: int, stop: int, seed: bytes, found: OrderlessDiff, *, times: bool
) -> Iterator[RecordDigests]:
    try:
        digests = batch_digests(batch, seed, times=times)
    except UNREADABLE as error:
        if not isinstance(batch, BatchGroup):
            found.skip(error)
            return
        for single in batch.batches():
            yield from _digests(single, first, stop, seed, found, times=times)
        return
    is_whole = first <= batch.base_offset and batch.header.next_offset <= stop
    yield digests if is_whole else within(digests, first, stop)


def within(digests: RecordDigests, first: int, stop: int) -> RecordDigests:
    """Return the records with offsets in `[first, stop)`."""
    offsets = digests.offsets
    if not offsets or (first <= min(offsets) and max(offsets) < stop):
        return digests
    numbers = [number for number, offset in enumerate(offsets) if first <= offset < stop]
    return RecordDigests(*(array("q", [column[number] for number in numbers]) for column in digests))
