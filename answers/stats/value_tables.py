"""The parts of the report of `offsetfs stats` that need the records: sizes, keys, nulls, headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from offsetfs.answers.report import Bar, Fact, Histogram, Measure, Table, TableColumn, Value
from offsetfs.answers.stats.partition_scan import ScanResult
from offsetfs.answers.stats.value_facts import SizeFacts, ValueFacts, quotient
from offsetfs.storage.records import SKETCH_BYTES

LARGEST_SHOWN_MAX = 10

_COUNT, _BYTES, _OFFSET, _SHARE = Measure.COUNT, Measure.BYTES, Measure.OFFSET, Measure.SHARE


def value_facts(total: ValueFacts | None) -> list[Fact]:
    """Return the facts about all records; none if only headers were read."""
    if total is None:
        return []
    return [
        Fact("null_share", "null values", quotient(total.null_values, total.records), _SHARE),
        Fact("tombstones", "tombstones", total.tombstones, _COUNT),
        Fact("keyed_share", "with a key", quotient(total.keyed, total.records), _SHARE),
        Fact("distinct_keys", "distinct keys", total.distinct_keys, _COUNT),
        Fact("header_share", "with headers", quotient(total.with_headers, total.records), _SHARE),
        Fact("value_mean", "mean size of values", total.values.mean, _BYTES),
    ]


def value_tables(scan: ScanResult) -> Iterator[Table]:
    """Yield the tables of values, keys, largest records and heaviest keys; none if only headers were read."""
    if scan.total is not None:
        yield _values_table(scan)
        yield _keys_table(scan)
        yield _largest_table(scan)
        yield _heavy_table(scan)


def _values_table(scan: ScanResult) -> Table:
    columns = (TableColumn("null_share", "NULL", _SHARE), TableColumn("header_share", "WITH HEADERS", _SHARE))
    rows = {
        topic: (facts.values, quotient(facts.null_values, facts.records), quotient(facts.with_headers, facts.records))
        for topic, facts in scan.topics.items()
    }
    return _sizes_table("values", "Sizes of values", columns, rows)


def _keys_table(scan: ScanResult) -> Table:
    columns = (
        TableColumn("keyed_share", "KEYED", _SHARE),
        TableColumn("distinct_keys", "DISTINCT", _COUNT),
        TableColumn("replaced_share", "REPLACED", _SHARE),
        TableColumn("tombstones", "TOMBSTONES", _COUNT),
    )
    rows = {
        topic: (
            facts.keys,
            quotient(facts.keyed, facts.records),
            facts.distinct_keys,
            facts.replaced_share,
            facts.tombstones,
        )
        for topic, facts in scan.topics.items()
        if facts.keyed
    }
    return _sizes_table("keys", "Keys", columns, rows)


def _sizes_table(
    key: str, title: str, columns: Sequence[TableColumn], rows: Mapping[str, tuple[SizeFacts, *tuple[Value, ...]]]
) -> Table:
    """Return a table of topics: quantiles of sizes, then `columns`, from `rows` by topic."""
    names = (("mean", "MEAN"), ("median", "MEDIAN"), ("p99", "99 %"), ("largest", "LARGEST"))
    sizes = (TableColumn(name, heading, _BYTES) for name, heading in names)
    shown = [
        (topic, facts.mean, facts.median, facts.p99, facts.largest, *values)
        for topic, (facts, *values) in sorted(rows.items())
    ]
    return Table(key, title, (TableColumn("topic", "TOPIC"), *sizes, *columns), shown, 10)


def _largest_table(scan: ScanResult) -> Table:
    columns = (
        TableColumn("partition", "PARTITION"),
        TableColumn("offset", "OFFSET", _OFFSET),
        TableColumn("bytes", "KEY AND VALUE", _BYTES),
    )
    rows = [
        (str(facts.partition), offset, size)
        for facts in scan.partitions
        if facts.values is not None
        for size, offset in facts.values.largest
    ]
    rows.sort(key=lambda row: -row[2])
    return Table("largest", "Largest records", columns, rows[:LARGEST_SHOWN_MAX], 5)


def _heavy_table(scan: ScanResult) -> Table:
    columns = (
        TableColumn("topic", "TOPIC"),
        TableColumn("key", "KEY"),
        TableColumn("key_bytes", "KEY SIZE", _BYTES),
        TableColumn("records_min", "RECORDS", _COUNT),
        TableColumn("records_max", "AT MOST", _COUNT),
        TableColumn("share", "SHARE", _SHARE),
    )
    rows = [
        (
            topic,
            _key_text(heavy.key, heavy.key_size),
            heavy.key_size,
            heavy.records,
            heavy.records + facts.heavy_error,
            heavy.records / facts.records,
        )
        for topic, facts in scan.topics.items()
        for heavy in facts.heavy_keys
        if heavy.records > 1
    ]
    rows.sort(key=lambda row: (-row[3], row[0], row[1]))
    return Table("heavy_keys", "Heaviest keys", columns, rows, 5)


def _key_text(key: bytes, size: int) -> str:
    return key.decode(errors="backslashreplace") + ("…" if len(key) < size else "")


def value_histograms(total: ValueFacts | None) -> Iterator[Histogram]:
    """Yield the histogram of sizes, in powers of two; none if only headers were read."""
    if total is None:
        return
    counts: dict[int, int] = {}
    for low, _, count in total.value_sizes:
        counts[low.bit_length()] = counts.get(low.bit_length(), 0) + count
    if counts:
        powers = range(min(counts), max(counts) + 1)
        bars = [Bar(counts.get(power, 0), 1 << power - 1 if power else 0, 1 << power) for power in powers]
        yield Histogram("value_sizes", "Records by size of value", _BYTES, bars)


def value_notes(total: ValueFacts | None) -> Iterator[str]:
    """Yield what must be known of the estimates; nothing if only headers were read."""
    if total is None:
        return
    yield "Quantiles of sizes are within 1.6 %; LARGEST is up to 3.2 % too high."
    yield "Distinct keys have a standard error of 0.8 %; up to 1,536 are exact."
    yield (
        "RECORDS of a key is a lower bound, AT MOST an upper one. REPLACED is the share of keyed records with a newer "
        f"record of their key. Sketches take {SKETCH_BYTES:,} bytes a thread and topic."
    )
