"""What records say about a log: sizes, keys, nulls, headers; as numbers of a sketch that need little memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from offsetfs.storage.records import HeavyKey, RecordSketch, quantile

HEAVY_KEYS_MAX = 10


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """Sizes of keys, or of values that are not null, in bytes. None: there are none."""

    mean: float | None
    median: int | None
    p99: int | None
    largest: int | None
    """Never below the largest size, and at most 3.2 % above it: limits are set by it."""

    @classmethod
    def of(cls, buckets: list[tuple[int, int, int]], size_sum: int, record_max: int) -> SizeFacts:
        """Return the facts of sizes by bucket: (least size, least beyond, records).

        `record_max`: the size of the largest record, of which the sizes are parts.
        """
        count = sum(records for _, _, records in buckets)
        if not count:
            return cls(None, None, None, None)
        beyond = max(beyond for _, beyond, records in buckets if records)
        largest = min(beyond - 1, record_max)
        return cls(size_sum / count, quantile(buckets, 0.5), quantile(buckets, 0.99), largest)


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """The facts of a partition, of a topic, or of all."""

    records: int
    keyed: int
    distinct_keys: int
    null_values: int
    tombstones: int
    with_headers: int
    keys: SizeFacts
    values: SizeFacts
    largest: Sequence[tuple[int, int]]
    """Sizes, of key and value, and offsets of the largest records; offsets only count in one partition."""
    heavy_keys: Sequence[HeavyKey]
    heavy_error: int
    value_sizes: Sequence[tuple[int, int, int]]

    @classmethod
    def of(cls, sketch: RecordSketch) -> ValueFacts:
        """Return the facts of a sketch as it is now."""
        value_sizes, largest = sketch.value_size_buckets(), sketch.largest()
        record_max = max((size for size, _ in largest), default=0)
        return cls(
            sketch.records,
            sketch.keyed,
            sketch.distinct_keys,
            sketch.null_values,
            sketch.tombstones,
            sketch.with_headers,
            SizeFacts.of(sketch.key_size_buckets(), sketch.key_bytes, record_max),
            SizeFacts.of(value_sizes, sketch.value_bytes, record_max),
            largest,
            sketch.heavy_keys(HEAVY_KEYS_MAX),
            sketch.heavy_error,
            value_sizes,
        )

    @property
    def replaced_share(self) -> float | None:
        """The share of the keyed records whose key comes again later: what compaction could remove at most."""
        return 1 - self.distinct_keys / self.keyed if self.keyed else None


@dataclass(slots=True)
class ValueScan:
    """What the scan of one partition collects."""

    sketch: RecordSketch = field(default_factory=RecordSketch)
    inflated_bytes: Counter[str] = field(default_factory=Counter)
    """Bytes of the batches by codec, if they were not compressed."""
    earliest_ms: int | None = None

    def merge(self, other: ValueScan) -> None:
        """Add the records of another range."""
        self.sketch.merge(other.sketch.state)
        self.inflated_bytes.update(other.inflated_bytes)
        if other.earliest_ms is not None:
            self.note_time(other.earliest_ms)

    def note_time(self, timestamp: int) -> None:
        """Note the time of an early record of a batch, -1 if it has none."""
        if timestamp >= 0:
            self.earliest_ms = timestamp if self.earliest_ms is None else min(self.earliest_ms, timestamp)


def quotient(part: int | None, whole: int | None) -> float | None:
    """Return `part / whole`; None if one of them is not known, or `whole` is 0."""
    return None if part is None or not whole else part / whole
