"""The same files, dumped by Kafka's tool and by ours: sound ones, damaged ones, and whatever its decoders read.

Kafka's tool ends with an exception at the first thing it cannot read. Up to there both must say the same; from there on
ours has to say what was wrong. Where it does not end, standard output and standard error must be the same.
"""

import dataclasses
import io
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.tools import JavaTools

from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol.records import GroupMetadataValue, MemberMetadata
from offsetfs.kafka.protocol.schemas import NEVER, SchemaField, includes, record_schemas, schema
from offsetfs.storage.dump import decoders
from offsetfs.storage.dump import decoders as dump_decoders
from offsetfs.storage.dump.dump import DumpOptions, dump_file
from offsetfs.storage.dump.indexes import IndexOptions
from offsetfs.storage.dump.log import Decoder, LogOptions
from offsetfs.storage.dump.printer import LineBuffer
from offsetfs.storage.dump.report import DumpReport
from offsetfs.storage.records.format import batch

pytestmark = pytest.mark.interop

VERSION = "4.4.0"
"""The Kafka whose tool `dump` equals. The form of 4.1 is compared with golden dumps."""

GOLDEN = Path(__file__).parents[1] / "golden"
BROKERS = sorted(path.name for path in GOLDEN.glob("kafka-*/"))
KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


# --- the two tools -------------------------------------------------------------------------------------------------


Compare = Callable[[Sequence[str], Sequence[str], DumpOptions], int]


@pytest.fixture(scope="module")
def compare() -> Iterator[Compare]:
    """Compares the two dumps of files with options, as `compare_dumps` does."""
    with JavaTools(VERSION) as java:
        yield partial(compare_dumps, java)


def kafkas(java: JavaTools, files: Sequence[str], *options: str) -> tuple[bytes, list[str], bool]:
    """Standard output and standard error of Kafka's tool, and whether it came to the end."""
    ended = java.call("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(files))
    return ended.output, ended.errors.decode().splitlines(), ended.error is None


def ours(files: Sequence[str], options: DumpOptions) -> tuple[bytes, list[str], int]:
    """Standard output and standard error of our dump, and how much of it could not be read."""
    written, errors = io.BytesIO(), list[str]()
    lines = LineBuffer(written.write)
    report = DumpReport(errors.append, errors.append)
    for file in files:
        dump_file(file, options, lines, report)
    lines.flush()
    return written.getvalue(), [*errors, *report.findings()], report.unreadable


def compare_dumps(java: JavaTools, files: Sequence[str], words: Sequence[str], options: DumpOptions) -> int:
    """Hold both against each other, file by file where Kafka's tool ends early; return how often it did."""
    ends, rest = 0, list(files)
    while rest:
        output, errors, is_whole = kafkas(java, rest, *words)
        if is_whole:
            our_output, our_errors, unreadable = ours(rest, options)
            assert our_output == output
            assert (sorted(our_errors), unreadable) == (sorted(errors), 0)
            return ends
        count = output.count(b"Dumping /")
        _compare_cut(rest[:count], output, options)
        ends, rest = ends + 1, rest[count:]
    return ends


def _compare_cut(files: Sequence[str], output: bytes, options: DumpOptions) -> None:
    our_output, _, _ = ours(files[:-1], options)
    assert output.startswith(our_output)
    cut = output[len(our_output) :]
    whole_lines = cut[: cut.rfind(b"\n") + 1]
    last_output, last_errors, unreadable = ours(files[-1:], options)
    assert last_output.startswith(whole_lines)
    assert unreadable > 0 and last_errors, files[-1]


# --- what brokers wrote --------------------------------------------------------------------------------------------

DEEP = DumpOptions(LogOptions(records=True, data=True))


@pytest.mark.parametrize("broker", BROKERS)
def test_everything_that_a_broker_wrote_is_dumped_as_by_kafka(compare: Compare, broker: str) -> None:
    files = sorted(str(path) for path in (GOLDEN / broker).glob("*/*") if path.suffix in KINDS)
    assert compare(files, ["--print-data-log"], DEEP) == 0


def test_what_a_killed_broker_left_is_dumped_as_by_kafka(compare: Compare, unclean_copy: Path) -> None:
    files = sorted(str(path) for path in unclean_copy.glob("*/*") if path.suffix in KINDS)
    assert compare(files, ["--print-data-log"], DEEP) == 0
    indexes = [file for file in files if file.endswith("index")]
    assert compare(indexes, ["--verify-index-only"], DumpOptions(index=IndexOptions(verify_only=True))) == 0
    # A broker would rebuild the time indexes: their zeros are below their timestamps.
    assert compare(indexes, ["--index-sanity-check"], DumpOptions(index=IndexOptions(sanity_only=True))) == 2


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("", LogOptions()),
        ("--deep-iteration", LogOptions(records=True)),
        ("--skip-record-metadata --deep-iteration", LogOptions(records=True, metadata=False)),
        ("--skip-record-metadata --print-data-log", LogOptions(records=True, data=True, metadata=False)),
        ("--max-bytes 5000 --print-data-log", LogOptions(records=True, data=True, bytes_max=5000)),
        ("--max-bytes 0", LogOptions(bytes_max=0)),
    ],
    ids=str,
)
def test_options_mean_what_they_mean_to_kafka(compare: Compare, words: str, options: LogOptions) -> None:
    names = ("kafka-4.1/transactions-0", "kafka-4.1/codec-zstd-0", "kafka-3.6.2/mixed-v0v1v2-0")
    files = sorted(str(path) for name in names for path in (GOLDEN / name).glob("*.log"))
    assert compare(files, words.split(), DumpOptions(options)) == 0


# --- damage --------------------------------------------------------------------------------------------------------

SOURCES = (
    *(f"kafka-4.1/codec-{codec}-0" for codec in ("none", "gzip", "snappy", "lz4", "zstd")),
    *(f"kafka-4.1/{topic}-0" for topic in ("transactions", "appendtime", "idempotent", "compacted-tx")),
    *(
        "kafka-3.6.2/mixed-v0v1v2-0",
        "kafka-0.10.2.2/v1-gzip-0",
        "kafka-0.10.2.2/v1-none-0",
        "kafka-0.8.2.2/v0-snappy-0",
    ),
)
BATCHES_MAX = 12


def places(data: bytes | bytearray) -> list[tuple[int, int]]:
    """Position and size of the first batches of a log."""
    found: list[tuple[int, int]] = []
    position = 0
    while position < len(data) and len(found) < BATCHES_MAX:
        size = struct.unpack_from(">i", data, position + 8)[0] + 12
        found.append((position, size))
        position += size
    return found


def in_the_header(chance: random.Random, data: bytearray, position: int, size: int) -> None:
    data[position + chance.randrange(min(61, size))] ^= 1 << chance.randrange(8)


def in_the_size(chance: random.Random, data: bytearray, position: int, size: int) -> None:
    data[position + 8 + chance.randrange(4)] ^= 1 << chance.randrange(8)


def in_the_body(chance: random.Random, data: bytearray, position: int, size: int) -> None:
    data[position + chance.randrange(min(61, size - 1), size)] ^= 1 << chance.randrange(8)


def cut_off(chance: random.Random, data: bytearray, position: int, size: int) -> None:
    del data[position + chance.randrange(size) :]


def with_garbage(chance: random.Random, data: bytearray, position: int, size: int) -> None:
    data += chance.randbytes(chance.randrange(1, 100))


def with_zeros(chance: random.Random, data: bytearray, position: int, size: int) -> None:
    data += bytes(chance.randrange(1, 100))


def repeated(chance: random.Random, data: bytearray, position: int, size: int) -> None:
    data += data[position : position + size]


@pytest.mark.parametrize(
    "damage",
    [in_the_header, in_the_size, in_the_body, cut_off, with_garbage, with_zeros, repeated],
    ids=lambda damage: damage.__name__,
)
def test_damaged_logs_are_dumped_as_by_kafka_up_to_where_it_gives_up(
    compare: Compare, tmp_path: Path, damage: Callable[[random.Random, bytearray, int, int], None]
) -> None:
    chance = random.Random(damage.__name__)
    files = []
    for number, source in enumerate(SOURCES):
        log = chance.choice([path for path in sorted((GOLDEN / source).glob("*.log")) if path.stat().st_size])
        data = bytearray(log.read_bytes())
        found = places(data)
        del data[sum(found[-1]) :]
        damage(chance, data, *chance.choice(found))
        (tmp_path / str(number)).mkdir()
        files.append(str(tmp_path / str(number) / log.name))
        Path(files[-1]).write_bytes(data)
    ends = compare(files, ["--print-data-log"], DEEP)
    assert ends == 0 if damage in (cut_off, repeated) else ends < len(files)


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".snapshot", ".txnindex"])
def test_damaged_indexes_and_snapshots_are_dumped_as_by_kafka(compare: Compare, tmp_path: Path, kind: str) -> None:
    chance = random.Random(kind)
    partition = GOLDEN / "kafka-4.1" / "transactions-0"
    source = next(path for path in sorted(partition.glob(f"*{kind}")) if path.stat().st_size > 20)
    files = []
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        for beside in partition.glob(f"{source.stem}.*"):
            (folder / beside.name).write_bytes(beside.read_bytes())
        data = bytearray(source.read_bytes())
        data[chance.randrange(len(data))] = chance.randrange(256)
        if number % 3 == 0:
            del data[chance.randrange(len(data)) :]
        (folder / source.name).write_bytes(data)
        files.append(str(folder / source.name))
    compare(files, [], DumpOptions())


# --- text ----------------------------------------------------------------------------------------------------------


def test_bytes_that_are_no_text_are_shown_as_java_shows_them(compare: Compare, tmp_path: Path) -> None:
    """Every sequence of three of the bytes that decide how a decoder goes on, and long random ones."""
    chance = random.Random(0)
    edges = bytes.fromhex("41 80 8f 90 9f a0 bf c1 c2 df e0 ed ef f0 f4 f5 ff")
    values = [bytes([a, b, c]) for a in edges for b in edges for c in edges]
    values += [bytes(chance.choices(edges, k=chance.randrange(1, 13))) for _ in range(5000)]
    values += [chance.randbytes(chance.randrange(1, 60)) for _ in range(1000)]
    records = [(value[::-1], value, ((value.decode("utf-8", "surrogateescape"), b""),), 0) for value in values]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch.build(records))
    compare([str(path)], ["--print-data-log"], DEEP)


# --- decoders ------------------------------------------------------------------------------------------------------


class Sample:
    """Random messages that a schema allows."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)

    def message(self, name: str, version: int) -> bytes:
        layout = schema(name).layout(min(version, schema(name).versions[1]))
        return self._struct(layout.fields, version, version >= layout.flexible)

    def _struct(self, fields: tuple[SchemaField, ...], version: int, is_flexible: bool) -> bytes:
        present = [field for field in fields if includes(field.versions, version)]
        tagged = [field for field in present if is_flexible and includes(field.tagged, version)]
        plain = b"".join(self._value(field, version, is_flexible) for field in present if field not in tagged)
        return plain + self._tagged(tagged, version) if is_flexible else plain

    def _tagged(self, tagged: list[SchemaField], version: int) -> bytes:
        chosen = [field for field in tagged if self.chance.random() < 0.6]
        items = [(field.tag, self._value(field, version, True)) for field in chosen]
        items += [(77, b"unknown")] if self.chance.random() < 0.1 else []
        items += [(8, b"\1")] if self.chance.random() < 0.02 else []
        return unsigned(len(items)) + b"".join(unsigned(tag) + unsigned(len(d)) + d for tag, d in sorted(items))

    def _value(self, field: SchemaField, version: int, is_flexible: bool) -> bytes:
        is_null = includes(field.nullable, version) and self.chance.random() < 0.3
        if not field.is_array:
            return self._one(field, version, is_flexible, is_null=is_null)
        if is_null:
            return self._length(-1, is_flexible, ">i")
        element = dataclasses.replace(field, is_array=False, nullable=NEVER)
        each = [self._one(element, version, is_flexible) for _ in range(self.chance.randrange(4))]
        return self._length(len(each), is_flexible, ">i") + b"".join(each)

    def _one(self, field: SchemaField, version: int, is_flexible: bool, *, is_null: bool = False) -> bytes:
        if field.type == "struct":
            null_mark = b"\0" if includes(field.tagged, version) else b"\xff"
            mark = b"" if field.nullable == NEVER else null_mark if is_null else b"\1"
            return mark if is_null else mark + self._struct(field.fields, version, is_flexible)
        if field.type in ("string", "bytes"):
            form = ">h" if field.type == "string" else ">i"
            data = self._text() if field.type == "string" else self.chance.randbytes(self.chance.randrange(9))
            return self._length(-1 if is_null else len(data), is_flexible, form) + (b"" if is_null else data)
        sizes = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "uuid": 16}
        if field.type == "float64":
            return struct.pack(">d", self.chance.choice([0.0, -1.5, 1e7, 123456.75, 1e-4, 2.0**70, float("inf")]))
        if field.type == "bool":
            return bytes([self.chance.randrange(2)])
        size = sizes[field.type]
        return self.chance.choice([self.chance.randbytes(size), bytes(size), b"\xff" * size])

    def _text(self) -> bytes:
        return self.chance.choice([b"", b"orders", 'a"b\\c\n\x01\x1f\x7f/é🙂'.encode(), b"\xff\xc3("])

    def _length(self, size: int, is_flexible: bool, form: str) -> bytes:
        return unsigned(size + 1) if is_flexible else struct.pack(form, size)

    def mangled(self, data: bytes) -> bytes:
        """Leave most as they are; cut some off, change a byte of others."""
        fate = self.chance.random()
        if fate < 0.75 or not data:
            return data
        if fate < 0.9:
            return data[: self.chance.randrange(len(data))]
        changed = bytearray(data)
        changed[self.chance.randrange(len(data))] = self.chance.choice([0, 1, 0x7F, 0x80, 0xFF])
        return bytes(changed)


def unsigned(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


TYPES_MAX = 40
"""More than the types of each topic have: Kafka's tool says of each number whether it knows it."""


def coordinator_samples(topic: str) -> Iterator[tuple[bytes, bytes | None]]:
    sample, types = Sample(topic), record_schemas(topic)
    yield from ((struct.pack(">h", number), None) for number in range(TYPES_MAX))
    for _ in range(1000):
        type_id = sample.chance.choice(sorted(types))
        names = types[type_id]
        assert names.key is not None
        version = sample.chance.randrange(schema(names.value).versions[1] + 1)
        named = type_id if sample.chance.random() > 0.02 else sample.chance.choice([9, 18, 99, -1])
        key = struct.pack(">h", named) + sample.message(names.key, 0)
        value = struct.pack(">h", version if sample.chance.random() > 0.02 else 7)
        value += sample.message(names.value, version)
        yield sample.mangled(key), None if sample.chance.random() < 0.1 else sample.mangled(value)


def groups_of_consumers() -> Iterator[tuple[bytes, bytes]]:
    """Classic groups of consumers: what they subscribed to and got is shown as well."""
    sample = Sample("consumers")
    for _ in range(300):
        clients = []
        for name in ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"):
            version = sample.chance.choice([-1, 0, 1, 2, 3, 4, 32767])
            written = struct.pack(">h", version) + sample.message(name, min(max(version, 0), 3))
            clients.append(sample.mangled(written))
        member = MemberMetadata("m", "i", "c", "/h", 1, 2, *clients)
        group = GroupMetadataValue("consumer", 1, "range", "m", 7, [member])
        value = struct.pack(">h", 3) + b"".join(codec.writer("GroupMetadataValue", 3)(group))
        yield b"\0\2\0\1g", value


def metadata_samples() -> Iterator[tuple[None, bytes]]:
    sample, types = Sample("metadata"), record_schemas("__cluster_metadata")
    yield from ((None, unsigned(1) + unsigned(number) + unsigned(0)) for number in range(TYPES_MAX))
    for _ in range(1000):
        type_id = sample.chance.choice(sorted(types))
        name = types[type_id].value
        version = sample.chance.randrange(schema(name).versions[1] + 1 + (sample.chance.random() < 0.1))
        frame = unsigned(sample.chance.choice([1] * 30 + [0, 2, 70_000]))
        head = frame + unsigned(sample.chance.choice([type_id] * 30 + [99])) + unsigned(version)
        yield None, sample.mangled(head + sample.message(name, version))


def offsets_samples() -> Iterator[tuple[bytes, bytes | None]]:
    yield from coordinator_samples("__consumer_offsets")
    yield from groups_of_consumers()


DECODERS: dict[str, tuple[Callable[[], Iterator[tuple[bytes | None, bytes | None]]], Decoder]] = {
    "--offsets-decoder": (offsets_samples, partial(decoders.show_coordinator_record, "__consumer_offsets")),
    "--transaction-log-decoder": (
        partial(coordinator_samples, "__transaction_state"),
        dump_decoders.DECODERS["transaction_log_decoder"],
    ),
    "--share-group-state-decoder": (
        partial(coordinator_samples, "__share_group_state"),
        partial(decoders.show_coordinator_record, "__share_group_state"),
    ),
    "--cluster-metadata-decoder": (metadata_samples, lambda offset, _, value: decoders.show_metadata(offset, value)),
}


@pytest.mark.parametrize("option", DECODERS)
def test_decoders_read_what_kafkas_read_and_state_the_same_of_the_rest(
    compare: Compare, tmp_path: Path, option: str
) -> None:
    samples, decoder = DECODERS[option]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch.build([(key, value, (), 0) for key, value in samples()]))
    assert compare([str(path)], [option], DumpOptions(LogOptions(records=True, data=True, decoder=decoder))) == 0


def test_control_records_are_explained_as_by_kafka(compare: Compare, tmp_path: Path) -> None:
    sample = Sample("control")
    log = bytearray()
    for offset, type_id in enumerate([*range(7), 77, -1] * 10):
        value: bytes | None = struct.pack(">hi", sample.chance.choice([0, 1]), sample.chance.randrange(-5, 5))
        if type_id in decoders.CONTROL_MESSAGES:
            value = sample.message(decoders.CONTROL_MESSAGES[type_id][1], 0)
        key = struct.pack(">hh", sample.chance.choice([0, 1]), type_id)
        log += batch.build([(key, value, (), 0)], base_offset=offset, control=True)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(log)
    assert compare([str(path)], ["--print-data-log"], DEEP) == 0


def test_the_internal_topics_of_a_running_broker_are_decoded_as_by_kafka(compare: Compare, tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka", version=VERSION) as kafka:
        kafka.create_topic("orders", partitions=2, configs={"retention.ms": "-1"})
        kafka.produce("orders", b"a\nb\n")
        kafka.kcat("-G", "billing", "-e", "-q", "orders", "-X", "auto.offset.reset=earliest")
        kafka.console_consume("orders", "--group", "newer", "--command-property", "group.protocol=consumer", count=2)
        kafka.stop()
    offsets = sorted(str(path) for path in kafka.log_dir.glob("__consumer_offsets-*/*.log"))
    assert _same_with(compare, "--offsets-decoder", offsets) > 0
    metadata = sorted(str(path) for path in (kafka.folder / "metadata").rglob("*.log"))
    snapshots = sorted(str(path) for path in (kafka.folder / "metadata").rglob("*.checkpoint"))
    assert metadata and _same_with(compare, "--cluster-metadata-decoder", [*metadata, *snapshots]) > 0


def _same_with(compare: Compare, option: str, files: Sequence[str]) -> int:
    """Compare, and return how many records were decoded."""
    options = DumpOptions(LogOptions(records=True, data=True, decoder=DECODERS[option][1]))
    assert compare(files, [option], options) == 0
    output, _, _ = ours(files, options)
    assert b"skipping." not in output
    return output.count(b'"data":')
