"""What the headers of batches say about a log: counts, bytes, codecs, formats, times, producers, gaps.

Rows of headers are collected and evaluated some thousand at a time, as columns. Of a compressed set of v0 or v1 the
header does not have the number of records; `records` is None then, unless the records are read as well.
"""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from offsetfs.answers.stats.time_counts import TimeCounts
from offsetfs.storage.records import HEADER_COLUMNS, codec_name

ROWS_AT_ONCE = 4096
PRODUCERS_MAX = 10_000
"""The producers that are told apart in one partition, or topic."""

EXTREMES_MAX = 5
"""The largest gaps of one kind that are kept."""

SAMPLES_MAX = 8
"""The batches of each codec that are sampled in one partition."""

_WIDTH = len(HEADER_COLUMNS)
_CODEC_MASK, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
_CURRENT = 2
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(slots=True)
class CodecCount:
    """Batches of one codec."""

    batches: int = 0
    bytes: int = 0


@dataclass(slots=True)
class ProducerCount:
    """What one producer id wrote."""

    records: int = 0
    batches: int = 0
    epoch: int = -1


class OffsetRange(NamedTuple):
    """Offsets `[first, stop)` without a record, by their number."""

    offsets: int
    first: int
    stop: int


class TimeRange(NamedTuple):
    """The milliseconds between two batches that follow each other, and the offset at which the later one begins."""

    duration_ms: int
    begin_ms: int
    end_ms: int
    offset: int


class SampledBatch(NamedTuple):
    """A batch of a sample: its rank, which is as good as random, its last offset, and its codec."""

    rank: int
    offset: int
    codec: int


@dataclass(slots=True)
class HeaderFacts:
    """The facts of one range of offsets; `merge` adds those of another partition."""

    batches: int = 0
    """Batches of data. Control batches are counted apart everywhere."""
    known_records: int = 0
    unknown_sets: int = 0
    """Compressed sets of v0 and v1, whose records are not in `known_records`."""
    bytes: int = 0
    control_batches: int = 0
    control_bytes: int = 0
    empty_batches: int = 0
    """Batches that compaction emptied, and kept for the sequence of their producer."""
    transactional_records: int = 0
    idempotent_records: int = 0
    """Records of producers with an id, transactional ones too."""
    codecs: dict[str, CodecCount] = field(default_factory=lambda: defaultdict(CodecCount))
    formats: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Batches by message format, 0 to 2."""
    times: TimeCounts = field(default_factory=TimeCounts)
    earliest_ms: int | None = None
    latest_ms: int | None = None
    producers: dict[int, ProducerCount] = field(default_factory=dict)
    has_more_producers: bool = False
    missing_offsets: int = 0
    offset_gaps: list[OffsetRange] = field(default_factory=list)
    """The largest ranges between batches; offsets missing within batches are in `missing_offsets` only."""
    time_gaps: list[TimeRange] = field(default_factory=list)
    late_batches: int = 0
    """Batches whose times are lower than those of an earlier one."""
    disordered_batches: int = 0
    """Batches whose offsets do not follow the ones before: damage."""
    samples: list[SampledBatch] = field(default_factory=list)

    @property
    def records(self) -> int | None:
        """The records of data; None if headers do not say it."""
        return None if self.unknown_sets else self.known_records

    def merge(self, other: HeaderFacts) -> None:
        """Add the facts of another range; `samples` and gaps are left as they are, because they have no partition."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for codec, counted in other.codecs.items():
            self.codecs[codec].batches += counted.batches
            self.codecs[codec].bytes += counted.bytes
        for magic, batches in other.formats.items():
            self.formats[magic] += batches
        self.times.merge(other.times)
        self.earliest_ms = _least(self.earliest_ms, other.earliest_ms)
        self.latest_ms = _greatest(self.latest_ms, other.latest_ms)
        for producer_id, wrote in other.producers.items():
            self._add_producer(producer_id, wrote.records, wrote.batches, wrote.epoch)
        self.has_more_producers |= other.has_more_producers

    def _add_producer(self, producer_id: int, records: int, batches: int, epoch: int) -> None:
        found = self.producers.get(producer_id)
        if found is None:
            if len(self.producers) >= PRODUCERS_MAX:
                self.has_more_producers = True
                return
            found = self.producers[producer_id] = ProducerCount()
        found.records += records
        found.batches += batches
        found.epoch = max(found.epoch, epoch)


_SUMS = (
    "batches",
    "known_records",
    "unknown_sets",
    "bytes",
    "control_batches",
    "control_bytes",
    "empty_batches",
    "transactional_records",
    "idempotent_records",
    "missing_offsets",
    "late_batches",
    "disordered_batches",
)


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _greatest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


class HeaderCollector:
    """Collects the rows of one range, in their order, into `HeaderFacts`."""

    def __init__(self, start: int) -> None:
        """`start`: the first offset of the range."""
        self.facts = HeaderFacts()
        self._rows = array("q")
        self._next_offset = start
        self._latest_ms = -1
        """The time of the batch before, if it had one."""
        self._highest_ms = -1

    def add(self, rows: array[int]) -> None:
        """Add rows as `LogReader.headers` yields them."""
        self._rows.extend(rows)
        if len(self._rows) >= ROWS_AT_ONCE * _WIDTH:
            self._evaluate()

    def finish(self) -> HeaderFacts:
        """Return the facts about all rows."""
        self._evaluate()
        return self.facts

    def _evaluate(self) -> None:
        if not self._rows:
            return
        table = np.array(self._rows, np.int64).reshape(-1, _WIDTH)
        columns = dict(zip(HEADER_COLUMNS, table.T, strict=True))
        del self._rows[:]
        self._offsets(columns)
        is_control = (columns["attributes"] & _CONTROL) != 0
        self.facts.control_batches += int(is_control.sum())
        self.facts.control_bytes += int(columns["size"][is_control].sum())
        if is_control.any():
            columns = {name: column[~is_control] for name, column in columns.items()}
        if len(columns["count"]):
            self._data(columns)

    def _data(self, columns: dict[str, Any]) -> None:
        facts, counts = self.facts, np.maximum(columns["count"], 0)
        facts.batches += len(counts)
        facts.known_records += int(counts.sum())
        facts.unknown_sets += int((columns["count"] < 0).sum())
        facts.empty_batches += int((columns["count"] == 0).sum())
        facts.bytes += int(columns["size"].sum())
        self._codecs(columns)
        self._times(columns, counts)
        self._producers(columns, counts)

    def _codecs(self, columns: dict[str, Any]) -> None:
        codecs = columns["attributes"] & _CODEC_MASK
        for codec in np.unique(codecs).tolist():
            chosen = codecs == codec
            counted = self.facts.codecs[codec_name(codec)]
            counted.batches += int(chosen.sum())
            counted.bytes += int(columns["size"][chosen].sum())
            self._sample(columns, chosen & (columns["count"] != 0), codec)
        for magic, batches in zip(*np.unique(columns["magic"], return_counts=True), strict=True):
            self.facts.formats[int(magic)] += int(batches)

    def _sample(self, columns: dict[str, Any], chosen: Any, codec: int) -> None:
        """Keep the batches whose offsets have the lowest hashes: each is chosen with the same probability."""
        offsets = (columns["base_offset"] + columns["last_offset_delta"])[chosen]
        ranks = (offsets.astype(np.uint64) + np.uint64(1)) * _GOLDEN
        ranks ^= ranks >> np.uint64(32)
        ranks *= _GOLDEN
        best = np.argsort(ranks)[:SAMPLES_MAX]
        mine = [sample for sample in self.facts.samples if sample.codec == codec]
        others = [sample for sample in self.facts.samples if sample.codec != codec]
        found = zip(ranks[best].tolist(), offsets[best].tolist(), strict=True)
        mine += [SampledBatch(rank, offset, codec) for rank, offset in found]
        self.facts.samples = others + heapq.nsmallest(SAMPLES_MAX, mine)

    def _offsets(self, columns: dict[str, Any]) -> None:
        """Find missing offsets, of control batches too; a compressed set of v0 or v1 does not say where it begins."""
        facts, bases = self.facts, columns["base_offset"]
        following = bases + columns["last_offset_delta"] + 1
        expected = np.concatenate(([self._next_offset], following[:-1]))
        is_wrapper = columns["count"] < 0
        gaps = np.where(is_wrapper, 0, bases - expected)
        facts.disordered_batches += int((gaps < 0).sum() + (is_wrapper & (bases < expected)).sum())
        within = np.where(is_wrapper, 0, columns["last_offset_delta"] + 1 - columns["count"])
        facts.missing_offsets += int(np.maximum(gaps, 0).sum() + np.maximum(within, 0).sum())
        largest = np.argsort(gaps)[-EXTREMES_MAX:]
        found = [OffsetRange(int(gaps[row]), int(expected[row]), int(bases[row])) for row in largest if gaps[row] > 0]
        facts.offset_gaps = heapq.nlargest(EXTREMES_MAX, facts.offset_gaps + found)
        self._next_offset = max(self._next_offset, int(following[-1]))

    def _times(self, columns: dict[str, Any], counts: Any) -> None:
        facts, has_records = self.facts, columns["count"] != 0
        times = columns["max_timestamp"][has_records]
        # A set whose number of records is not known counts as one.
        facts.times.add(times, np.maximum(counts[has_records], 1))
        is_timed = times >= 0
        times, offsets = times[is_timed], columns["base_offset"][has_records][is_timed]
        if not len(times):
            return
        facts.earliest_ms = _least(facts.earliest_ms, int(times.min()))
        facts.latest_ms = _greatest(facts.latest_ms, int(times.max()))
        before = np.concatenate(([self._latest_ms if self._latest_ms >= 0 else times[0]], times[:-1]))
        gaps = times - before
        largest = np.argsort(gaps)[-EXTREMES_MAX:]
        found = [
            TimeRange(int(gaps[row]), int(before[row]), int(times[row]), int(offsets[row]))
            for row in largest
            if gaps[row] > 0
        ]
        facts.time_gaps = heapq.nlargest(EXTREMES_MAX, facts.time_gaps + found)
        highest = np.maximum.accumulate(np.concatenate(([self._highest_ms], times)))
        facts.late_batches += int((times < highest[:-1]).sum())
        self._latest_ms, self._highest_ms = int(times[-1]), int(highest[-1])

    def _producers(self, columns: dict[str, Any], counts: Any) -> None:
        facts, ids = self.facts, columns["producer_id"]
        is_transactional = (columns["attributes"] & _TRANSACTIONAL) != 0
        facts.transactional_records += int(counts[is_transactional].sum())
        known = ids >= 0
        facts.idempotent_records += int(counts[known].sum())
        if not known.any():
            return
        different, places = np.unique(ids[known], return_inverse=True)
        records = np.bincount(places, weights=counts[known]).tolist()
        batches = np.bincount(places).tolist()
        epochs = np.full(len(different), -1, np.int64)
        np.maximum.at(epochs, places, columns["producer_epoch"][known])
        for row in zip(different.tolist(), records, batches, epochs.tolist(), strict=True):
            facts._add_producer(row[0], int(row[1]), row[2], row[3])
