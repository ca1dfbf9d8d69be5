"""Batches one after the other: their size, with and without compression, and records that are larger than a batch."""

from dataclasses import dataclass, field

import pytest

from offsetfs.storage.errors import RecordTooLarge
from offsetfs.storage.records.compression.compression import CODECS, UNCOMPRESSED, Compression
from offsetfs.storage.records.format.batch import read_batch
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch
from offsetfs.storage.records.format.batch_writer import BatchLimit, BatchWriter, bytes_max_within

pytestmark = pytest.mark.unit

NOW = 1795253676123


@dataclass
class Sink:
    """Where batches go: their records and sizes."""

    batches: list[list[bytes | None]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def take(self, sealed: SealedBatch) -> None:
        self.batches.append([record.value for record in read_batch(bytes(sealed.data)).records()])
        self.sizes.append(sealed.size)


@pytest.fixture
def sink() -> Sink:
    return Sink()


def writer(sink: Sink, batch_bytes: int, bytes_max: int, compression: Compression = UNCOMPRESSED) -> BatchWriter:
    return BatchWriter(lambda: BatchLimit(bytes_max, compression), batch_bytes, sink.take, "T-0")


def test_records_fill_a_batch_and_roll_over_to_the_next(sink: Sink) -> None:
    batches, values = writer(sink, 200, 1000), [b"%040d" % number for number in range(10)]
    for value in values:
        batches.append(None, value, (), NOW)
    assert batches.count == 2
    batches.write()
    batches.write()
    assert [len(batch) for batch in sink.batches] == [2, 2, 2, 2, 2]
    assert [value for batch in sink.batches for value in batch] == values and max(sink.sizes) <= 200


def test_a_record_above_the_size_of_a_batch_makes_one_of_its_own(sink: Sink) -> None:
    batches = writer(sink, 200, 1000)
    for value in (b"a", b"x" * 500, b"b"):
        batches.append(None, value, (), NOW)
    batches.write()
    assert sink.batches == [[b"a"], [b"x" * 500], [b"b"]]


def test_a_record_too_large_for_a_batch_hands_over_those_before_it(sink: Sink) -> None:
    batches = writer(sink, 200, 300)
    batches.append(None, b"a", (), NOW)
    with pytest.raises(RecordTooLarge, match="a record of 3"):
        batches.append(None, b"x" * 300, (), NOW)
    batches.append(None, b"b", (), NOW)
    batches.write()
    assert sink.batches == [[b"a"], [b"b"]]


@pytest.mark.parametrize("kind", ["lines", "json"])
def test_lines_fill_one_batch_after_the_other(sink: Sink, kind: str) -> None:
    batches, values, position = writer(sink, 300, 1000), [b"%040d" % number for number in range(20)] + [b"x" * 600], 0
    data = b"".join(b'{"value":"%s"}\n' % value if kind == "json" else value + b"\n" for value in values)
    while position < len(data):
        if kind == "json":
            position = batches.split_json(data, position, NOW, needs_key=False, values_as_text=False).start
        else:
            position = batches.split(data, position, NOW)
    batches.write()
    assert [value for batch in sink.batches for value in batch] == values
    assert len(sink.batches) < 8 and max(sink.sizes[:-1]) <= 300


def test_a_wrong_line_of_json_begins_no_batch(sink: Sink) -> None:
    batches = writer(sink, 300, 1000)
    split = batches.split_json(b'{"value":"a"}\noops\n', 0, NOW, needs_key=False, values_as_text=False)
    assert split.fault is not None and (split.start, batches.count, sink.batches) == (14, 1, [])


def test_the_bounds_are_those_of_the_moment_a_batch_begins(sink: Sink) -> None:
    bounds = [BatchLimit(1000, UNCOMPRESSED), BatchLimit(1000, Compression("lz4"))]
    batches = BatchWriter(lambda: bounds[0], 500, sink.take, "T-0")
    batches.append(None, b"a", (), NOW)
    first = batches.builder
    del bounds[0]
    batches.append(None, b"b", (), NOW)
    assert batches.builder is first
    batches.write()
    assert batches.builder.compression == Compression("lz4")


def test_the_buffer_of_a_batch_is_used_again(sink: Sink) -> None:
    batches = writer(sink, 500, 1000)
    builders = set()
    for _ in range(3):
        batches.append(None, b"a", (), NOW)
        builders.add(id(batches.builder))
        batches.write()
    assert len(builders) == 1 and sink.batches == [[b"a"]] * 3


def test_a_bound_below_the_smallest_batch_takes_no_record(sink: Sink) -> None:
    with pytest.raises(RecordTooLarge, match="holds no record"):
        writer(sink, 500, BatchBuilder.BYTES_MIN - 1).append(None, b"", (), NOW)


def test_what_cannot_be_handed_over_is_not_handed_over_again() -> None:
    def fail(sealed: SealedBatch) -> None:
        raise OSError("no")

    batches = BatchWriter(lambda: BatchLimit(1000, UNCOMPRESSED), 500, fail, "T-0")
    batches.append(None, b"a", (), NOW)
    with pytest.raises(OSError, match="no"):
        batches.write()
    assert batches.count == 0
    batches.write()


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_within_its_bound_exceeds_no_limit_after_compression(sink: Sink, codec: str) -> None:
    limit, compression = 5000, Compression(codec)
    noise = bytes(number * number * 31 // 7 % 251 for number in range(limit))
    assert bytes_max_within(compression, limit, 1 << 20) == BatchLimit.within(compression, limit).bytes_max <= limit
    batches = BatchWriter(lambda: BatchLimit.within(compression, limit), limit, sink.take, "T-0")
    size = bytes_max_within(compression, limit) - 80
    batches.append(None, noise[:size], (), NOW)
    batches.write()
    assert sink.sizes[0] <= limit
