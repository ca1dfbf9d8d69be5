"""Compares two logs of one partition, offset by offset.

First the bytes: batches that are equal in both but for the leader epoch, which no checksum covers, at the speed of
reading both logs once. Where batches differ, their records are compared by digests: another codec, other batches, or
records that compaction removed are no difference of what is left. Memory: a block and a batch of each log, and the
keys of missing records (`MISSING_KEYS_MAX`).
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from offsetfs.answers.diff.streams import within
from offsetfs.storage import RAW, Batch, BatchSlice, Log, LogBlocks, LogReader
from offsetfs.storage.errors import UNREADABLE, MalformedBatch, StorageError, sentence
from offsetfs.storage.records import (
    COLUMNS,
    MAGIC,
    NO_KEY,
    NULL_VALUE,
    RecordDigests,
    batch_digests,
    equal_batches,
    merge_digests,
)

BLOCK_BYTES = 1 << 20
"""The bytes of each log that are compared at once: both blocks fit into the cache of a core."""

QUICK_BLOCK_BYTES = 64 << 10

MISSING_KEYS_MAX = 1 << 20
"""The keys of missing records that are kept for each log: about 100 bytes each."""

EQUAL_BATCHES_MIN = 4
"""As many equal batches in a row end a comparison by record."""

DAMAGE_MAX = 20

OnBytes = Callable[[int], None]


@dataclass(slots=True)
class Missing:
    """The records that a log lacks and the other one has."""

    records: int = 0
    markers: int = 0
    """Of these, how many are in control batches."""
    first_offset: int | None = None
    unkeyed: int = 0
    beyond: int = 0
    """The records whose keys were not kept, because there were too many."""
    superseded: int = 0
    """How many have a later record of the same key in this log, or are the tombstones of keys that it does not have."""
    latest: dict[int, int] = field(default_factory=dict)
    """The last missing offset of each key, twice, plus 1 for a tombstone."""

    @property
    def lost(self) -> int:
        """The records that compaction of this log does not explain."""
        return self.records - self.markers - self.superseded

    def add(self, digests: RecordDigests, numbers: array[int], *, is_control: bool) -> None:
        """Take note of the records with these numbers."""
        self.records += len(numbers)
        if self.first_offset is None:
            self.first_offset = digests.offsets[numbers[0]]
        if is_control:
            self.markers += len(numbers)
            return
        for number in numbers:
            key = digests.keys[number]
            if key == NO_KEY:
                self.unkeyed += 1
            elif len(self.latest) < MISSING_KEYS_MAX or key in self.latest:
                self.latest[key] = digests.offsets[number] << 1 | digests.contents[number] & NULL_VALUE
            else:
                self.beyond += 1


@dataclass(slots=True)
class LogDiff:
    """The result of a comparison of the logs A and B."""

    start_a: int
    end_a: int
    start_b: int
    end_b: int
    batches: int = 0
    """Batches that are equal byte by byte, but for the leader epoch."""
    equal_records: int = 0
    other_epochs: int = 0
    """How many of `batches` have another leader epoch."""
    other_epoch_offset: int = -1
    other_batches: int = 0
    """Batches of A with equal records in other bytes, or other batches, of B."""
    changed: int = 0
    """Records at the same offset with other contents."""
    first_changed: int | None = None
    missing_a: Missing = field(default_factory=Missing)
    missing_b: Missing = field(default_factory=Missing)
    damage: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """What was deleted while it was compared."""

    @property
    def start(self) -> int:
        return max(self.start_a, self.start_b)

    @property
    def end(self) -> int:
        return max(self.start, min(self.end_a, self.end_b))

    @property
    def parted_at(self) -> int | None:
        """The first offset at which records differ, or are missing in one of the logs."""
        offsets = (self.first_changed, self.missing_a.first_offset, self.missing_b.first_offset)
        return min((offset for offset in offsets if offset is not None), default=None)


class LogComparison:
    """One comparison; `run` once."""

    def __init__(self, a: Log, b: Log, *, is_quick: bool = False, on_bytes: OnBytes = lambda count: None) -> None:
        """`is_quick`: take batches whose headers are equal, checksums among them, for equal; their records are not
        read. `on_bytes`: called with the bytes of both logs that were compared; it may raise to end the comparison.
        """
        self._a = a
        self._b = b
        self._is_quick = is_quick
        self._on_bytes = on_bytes
        self._seed = secrets.token_bytes(16)
        self._found = LogDiff(a.log_start_offset, a.next_offset, b.log_start_offset, b.next_offset)

    def run(self) -> LogDiff:
        """Compare the offsets that both logs have. OSError, `UnknownPartition`."""
        found, offset = self._found, self._found.start
        if offset < found.end:
            size = QUICK_BLOCK_BYTES if self._is_quick else BLOCK_BYTES
            blocks = LogBlocks(self._a, offset, size), LogBlocks(self._b, offset, size)
            while offset < found.end:
                offset = self._equal_bytes(*blocks, offset)
                if offset < found.end:
                    offset = self._by_record(offset)
                    for block in blocks:
                        block.seek(offset)
        self._explain(found.missing_a, self._a)
        self._explain(found.missing_b, self._b)
        return found

    # --- bytes -------------------------------------------------------------------------------------------------------

    def _equal_bytes(self, a: LogBlocks, b: LogBlocks, offset: int) -> int:
        """Step over equal batches; return the offset behind the last one."""
        found = self._found
        while True:
            (bytes_a, limit_a), (bytes_b, limit_b) = a.block(), b.block()
            equal = equal_batches(bytes_a, limit_a, bytes_b, limit_b, self._floor(offset), found.end, self._is_quick)
            if not equal.batches:
                # Both, because either may end with half of a batch.
                if any([a.read_on(), b.read_on()]):
                    continue
                return offset
            found.batches += equal.batches
            found.equal_records += equal.records
            if equal.other_epochs:
                if not found.other_epochs:
                    found.other_epoch_offset = equal.other_epoch_offset
                found.other_epochs += equal.other_epochs
            offset = equal.next_offset
            a.advance(equal.size_a, offset)
            b.advance(equal.size_b, offset)
            self._on_bytes(equal.size_a + equal.size_b)

    def _floor(self, offset: int) -> int:
        """Return the lowest offset that a batch may begin with: the first one may begin before the log start."""
        return 0 if offset == self._found.start else offset

    # --- records -----------------------------------------------------------------------------------------------------

    def _by_record(self, offset: int) -> int:
        """Compare records from `offset` on; return the offset where batches are equal again, or the end."""
        found, in_a_row = self._found, 0
        a, b = (_Records(self, log, offset, found.end) for log in (self._a, self._b))
        while True:
            if a.covered == b.covered:
                if a.covered >= found.end:
                    return found.end
                a.pull()
                b.pull()
                outcome = self._pair(a, b)
                in_a_row = in_a_row + 1 if outcome == "bytes" else 0
                if in_a_row >= EQUAL_BATCHES_MIN and a.is_plain:
                    return a.covered
                if outcome:
                    continue
            elif a.covered <= b.covered:
                a.pull()
            else:
                b.pull()
            self._merge(a, b, min(a.covered, b.covered))

    def _pair(self, a: _Records, b: _Records) -> str:
        """Compare two batches as a whole: return "bytes" or "records" for what is equal, "" if neither is."""
        if a.batch is None or b.batch is None:
            return ""
        left, right = a.batch, b.batch
        if left.header.base_offset != right.header.base_offset:
            return ""
        is_same = left.header.crc == right.header.crc and bytes(left.data[16:]) == bytes(right.data[16:])
        if not is_same and not _same_records(left, right):
            return ""
        found = self._found
        found.equal_records += left.header.count if left.header.magic == MAGIC else len(left.rows()) // COLUMNS
        self._on_bytes(left.header.size + right.header.size)
        if is_same:
            found.batches += 1
            found.other_epochs += left.header.leader_epoch != right.header.leader_epoch
        else:
            found.other_batches += 1
        a.finish()
        b.finish()
        return "bytes" if is_same else "records"

    def _merge(self, a: _Records, b: _Records, limit: int) -> None:
        found, left, right = self._found, a.digests(), b.digests()
        merged = merge_digests(left.offsets, left.contents, a.at, right.offsets, right.contents, b.at, limit)
        a.at, b.at = merged.at_a, merged.at_b
        found.equal_records += merged.equal
        if merged.changed_a:
            found.changed += len(merged.changed_a)
            if found.first_changed is None:
                found.first_changed = left.offsets[merged.changed_a[0]]
        if merged.only_a:
            found.missing_b.add(left, merged.only_a, is_control=a.is_control)
        if merged.only_b:
            found.missing_a.add(right, merged.only_b, is_control=b.is_control)
        found.other_batches += bool(merged.equal)
        for side in (a, b):
            side.end_before(limit)

    def skip(self, error: StorageError) -> None:
        """Take note of a batch that cannot be read."""
        text = sentence(error)
        if len(self._found.damage) < DAMAGE_MAX and text not in self._found.damage:  # a log may be read twice
            self._found.damage.append(text)

    def lose(self, error: StorageError) -> None:
        """Take note of records that were deleted meanwhile."""
        self._found.lost.append(sentence(error))

    def digest(self, batch: Batch) -> RecordDigests:
        self._on_bytes(batch.header.size)
        return batch_digests(batch, self._seed)

    # --- compaction --------------------------------------------------------------------------------------------------

    def _explain(self, missing: Missing, log: Log) -> None:
        """Count the missing records that compaction of the log explains: their keys have a later record in it."""
        if not missing.records:
            return
        left = dict(missing.latest)
        missing_before = {key for key, latest in left.items() if latest & NULL_VALUE}
        alive: set[int] = set()
        if left:
            start = log.log_start_offset if missing_before else min(left.values()) >> 1
            self._resolve(log, start, left, missing_before, alive)
        lost = sum(1 for key, latest in left.items() if not latest & NULL_VALUE or key in alive)
        missing.superseded = missing.records - missing.markers - missing.unkeyed - missing.beyond - lost
        missing.latest.clear()

    def _resolve(self, log: Log, start: int, left: dict[int, int], tombs: set[int], alive: set[int]) -> None:
        """Remove from `left` the keys with a later record in the log; add those of `tombs` with an earlier one."""
        for batch, _, _ in LogReader(log, start=start, isolation=RAW, on_damage=self.skip, on_lost=self.lose).slices():
            if batch.header.is_control or not left:
                continue
            try:
                digests = self.digest(batch)
            except UNREADABLE:
                continue  # reported by the comparison
            last_offsets = dict(zip(digests.keys, digests.offsets, strict=True))
            for key in left.keys() & last_offsets.keys():
                if last_offsets[key] > left[key] >> 1:
                    del left[key]
                elif key in tombs:
                    alive.add(key)


def _same_records(left: Batch, right: Batch) -> bool:
    """Whether two batches at the same offset differ in nothing but the codec, or in fields that no reader sees."""
    one, other = left.header, right.header
    if one.magic != other.magic or one.is_wrapper or one.count != other.count or one.is_control != other.is_control:
        return False
    if (one.base_timestamp, one.timestamp_type) != (other.base_timestamp, other.timestamp_type):
        return False
    if one.timestamp_type == "LogAppendTime" and one.max_timestamp != other.max_timestamp:
        return False
    try:
        return bytes(left.payload()) == bytes(right.payload())
    except UNREADABLE:
        return False


_NO_RECORDS = RecordDigests(array("q"), array("q"), array("q"))


class _Records:
    """The records of one log in order, a batch at a time, as digests."""

    def __init__(self, comparison: LogComparison, log: Log, start: int, stop: int) -> None:
        self._comparison = comparison
        self._stop = stop
        reader = LogReader(
            log,
            start=start,
            stop=stop,
            isolation=RAW,
            on_damage=comparison.skip,
            on_lost=comparison.lose,
            runs=(0, 1),
        )
        self._slices = reader.slices()
        self._digests: RecordDigests | None = _NO_RECORDS
        self.covered = start
        """The offset below which the log has no records but those of earlier batches and of this one."""
        self.at = 0
        self.slice: BatchSlice | None = None
        self.batch: Batch | None = None
        self.is_control = False

    @property
    def is_plain(self) -> bool:
        """Whether the batch is one that is compared by its bytes."""
        return self.batch is not None and self.batch.header.magic == MAGIC and self.batch.header.size <= BLOCK_BYTES

    def end_before(self, offset: int) -> None:
        """Step over the rest of a batch that ends at `offset`: its records are not in order."""
        if self.covered == offset and self._digests is not None and self.at < len(self._digests.offsets):
            assert self.batch is not None
            self._comparison.skip(self.batch.placed(MalformedBatch("the offsets of its records do not rise")))
            self.finish()

    def pull(self) -> None:
        """Go on to the next batch; at the end there is none, and everything is covered."""
        self.at, self._digests, self.slice = 0, None, next(self._slices, None)
        if self.slice is None:
            self.batch, self._digests, self.covered = None, _NO_RECORDS, self._stop
            return
        self.batch = self.slice[0]
        self.is_control = self.batch.header.is_control
        self.covered = max(self.covered, min(self.batch.header.next_offset, self._stop))

    def finish(self) -> None:
        """Step over the batch: it was compared as a whole."""
        self._digests, self.at = _NO_RECORDS, 0

    def digests(self) -> RecordDigests:
        """Return the records of the batch that belong to the range."""
        if self._digests is None:
            assert self.slice is not None
            self._digests = self._digested(self.slice)
        return self._digests

    def _digested(self, part: BatchSlice) -> RecordDigests:
        batch, first, stop = part
        try:
            digests = self._comparison.digest(batch)
        except UNREADABLE as error:
            self._comparison.skip(error)
            return _NO_RECORDS
        return within(digests, first, stop)
