"""Dumps: the text of Kafka's own tool for what real brokers wrote, and a sentence for what is damaged."""

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol.records import TransactionLogValue
from offsetfs.storage.dump import batches as dump_batches
from offsetfs.storage.dump.decoders import DECODERS, OLD_DECODERS
from offsetfs.storage.dump.dump import DumpOptions, dump_file
from offsetfs.storage.dump.indexes import IndexOptions
from offsetfs.storage.dump.log import LogOptions
from offsetfs.storage.dump.printer import LineBuffer
from offsetfs.storage.dump.report import DumpReport
from offsetfs.storage.records.format import batch

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
INDEX_KINDS = (".index", ".timeindex", ".txnindex", ".snapshot")
DEEP = LogOptions(records=True, data=True)
BOTH = {"4.4": DECODERS, "4.1": OLD_DECODERS}
OLD = LogOptions(records=True, data=True, is_old=True)
DECODED = {
    "__consumer_offsets": "offsets_decoder",
    "__transaction_state": "transaction_log_decoder",
    "__cluster_metadata": "cluster_metadata_decoder",
    "__remote_log_metadata": "remote_log_metadata_decoder",
    "__share_group_state": "share_group_state_decoder",
}


PARTITIONS = sorted(
    f"{dump.parent.name}/{dump.name.removesuffix('.dump.txt')}"
    for dump in GOLDEN.glob("kafka-*/*.dump.txt")
    if not dump.name.endswith(".indexes.dump.txt")
)


class Dumped:
    """What a dump printed, found, and could not read."""

    def __init__(self, paths: list[str], options: DumpOptions | None = None) -> None:
        written = io.BytesIO()
        self.said: list[str] = []
        self.complaints: list[str] = []
        lines = LineBuffer(written.write)
        options = options or DumpOptions(DEEP)
        report = DumpReport(self.said.append, self.complaints.append, is_old=options.log.is_old)
        for path in paths:
            dump_file(path, options, lines, report)
        lines.flush()
        self.output = written.getvalue()
        self.findings = list(report.findings())
        self.unreadable = report.unreadable

    @property
    def text(self) -> str:
        return self.output.decode()


# --- what Kafka says of what Kafka wrote ---------------------------------------------------------------------------


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_golden_log_is_dumped_byte_for_byte_as_by_kafka(partition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broker, _, name = partition.partition("/")
    monkeypatch.chdir(GOLDEN / broker)
    dumped = Dumped(sorted(str(path) for path in Path(name).glob("*.log")), DumpOptions(OLD))
    assert dumped.output == Path(f"{name}.dump.txt").read_bytes()
    assert (dumped.complaints, dumped.said) == ([], [])
    reported = Path(f"{name}.dump.err.txt")
    if reported.exists():
        assert set(dumped.findings) == set(reported.read_text().splitlines())


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_golden_index_and_snapshot_is_dumped_byte_for_byte_as_by_kafka(
    partition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, _, name = partition.partition("/")
    monkeypatch.chdir(GOLDEN / broker)
    paths = sorted(str(path) for path in Path(name).iterdir() if path.suffix in INDEX_KINDS)
    dumped = Dumped(paths, DumpOptions(OLD))
    assert dumped.output == Path(f"{name}.indexes.dump.txt").read_bytes()
    assert (dumped.complaints, dumped.said) == ([], [])


def test_every_golden_dump_of_kafka_4_4_is_equal_byte_for_byte(
    golden_44: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(golden_44)
    dumps = [path.name.removesuffix(".dump.txt") for path in Path().glob("*.dump.txt")]
    assert len(dumps) == 85
    for name in dumps:
        dumped = Dumped(*of_a_golden_dump(name))
        assert dumped.output == Path(f"{name}.dump.txt").read_bytes(), name
        assert (dumped.complaints, dumped.said) == ([], []), name
        reported = Path(f"{name}.dump.err.txt")
        if reported.exists():
            assert set(dumped.findings) >= set(reported.read_text().splitlines()), name


def of_a_golden_dump(name: str) -> tuple[list[str], DumpOptions]:
    """Return the files of a dump, in its order, and its options."""
    partition = name.removesuffix(".indexes")
    kinds = INDEX_KINDS if name.endswith(".indexes") else (".log",)
    paths = sorted(str(path) for kind in kinds for path in Path(partition).glob(f"*{kind}"))
    if name.endswith(".checkpoint"):
        partition, paths = "__cluster_metadata-0", [f"__cluster_metadata-0/{name}"]
    option = DECODED.get(partition.rpartition("-")[0], "")
    return paths, DumpOptions(LogOptions(records=True, data=True, decoder=DECODERS.get(option)))


def test_the_indexes_of_a_broker_that_was_killed_end_before_their_zeros(unclean_copy: Path) -> None:
    index, time_index = (unclean_copy / "epochs-0" / f"00000000000000000120{kind}" for kind in (".index", ".timeindex"))
    assert time_index.stat().st_size > 10_000_000
    dumped = Dumped([str(time_index)])
    assert dumped.text.count("\n") < 20 and dumped.findings == []
    checked = Dumped([str(index), str(time_index)], DumpOptions(index=IndexOptions(sanity_only=True)))
    assert f"{index} passed sanity check.\n" in checked.text
    assert len(checked.complaints) == 1 and "does not pass the sanity check" in checked.complaints[0]


# --- logs of our own -----------------------------------------------------------------------------------------------


def batches(*counts: int, first: int = 0, **how: Any) -> list[bytearray]:
    """Batches of so many records each, with offsets that follow each other."""
    made = []
    for count in counts:
        records = [(b"k%d" % (first + n), b"value %d" % (first + n), (), 1000 + first + n) for n in range(count)]
        made.append(batch.build(records, base_offset=first, **how))
        first += count
    return made


@pytest.fixture
def new_log(tmp_path: Path) -> Callable[..., str]:
    def make(*pieces: bytes, base_offset: int = 0) -> str:
        path = tmp_path / f"{base_offset:020d}.log"
        path.write_bytes(b"".join(pieces))
        return str(path)

    return make


def test_without_deep_iteration_there_is_a_line_a_batch(new_log: Callable[..., str]) -> None:
    path = new_log(*batches(2, 3))
    dumped = Dumped([path], DumpOptions())
    assert dumped.text.splitlines()[:2] == [f"Dumping {path}", "Log starting offset: 0"]
    assert [line.split(" count")[0] for line in dumped.text.splitlines()[2:]] == [
        "baseOffset: 0 lastOffset: 1",
        "baseOffset: 2 lastOffset: 4",
    ]


def test_deep_iteration_alone_prints_no_data(new_log: Callable[..., str]) -> None:
    dumped = Dumped([new_log(*batches(1))], DumpOptions(LogOptions(records=True)))
    assert dumped.text.splitlines()[-1] == (
        "| offset: 0 CreateTime: 1000 keySize: 2 valueSize: 7 sequence: -1 headerKeys: []"
    )


def test_without_metadata_a_record_without_a_key_has_no_bar(new_log: Callable[..., str]) -> None:
    log = batch.build([(b"k", b"v", (), 0), (None, b"v", (), 0), (b"k", None, (), 0), (None, None, (), 0)])
    old = Dumped([new_log(log)], DumpOptions(LogOptions(records=True, data=True, metadata=False, is_old=True)))
    assert old.text.splitlines()[3:] == ["| key: k payload: v", " payload: v", "| key: k", ""]
    dumped = Dumped([new_log(log)], DumpOptions(LogOptions(records=True, data=True, metadata=False)))
    assert dumped.text.splitlines()[3:] == ["| key: k payload: v", "| payload: v", "| key: k", ""]


@pytest.mark.parametrize(("status", "shown"), [(-1, "-1"), (0, "Empty"), (7, "PrepareEpochFence"), (8, "8")])
def test_the_state_of_a_transaction_has_its_name(status: int, shown: str) -> None:
    """A number without one stays, as text."""
    key, value = b"\0\0" + struct.pack(">h", 1) + b"t", TransactionLogValue(transaction_status=status)
    data = struct.pack(">h", 0) + b"".join(codec.writer("TransactionLogValue", 0)(value))
    texts = {name: table["transaction_log_decoder"](0, key, data)[1] for name, table in BOTH.items()}
    assert f'"transactionStatus":"{shown}"' in (texts["4.4"] or "")
    assert f'"transactionStatus":{status},' in (texts["4.1"] or "")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            "01000007746965726564705d76c794624a79ba75af23d51204340000000000077b9eff232247d0ba8e50f6b041ea33000000000000"
            "00000500000000000000090000000300000000000000070000000000000004030000000000000000000000050000000003000000"
            "000000000700000000640401c8030300",
            "RemoteLogSegmentMetadata{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=cF12x5RiSnm6da8j1RIENA:"
            "tiered-0, id=B3ue_yMiR9C6jlD2sEHqMw}, startOffset=5, endOffset=9, brokerId=3, maxTimestampMs=7, "
            "eventTimestampMs=4, segmentLeaderEpochs={0=5, 3=7}, segmentSizeInBytes=100, "
            "customMetadata=Optional[CustomMetadata{3 bytes}], state=DELETE_SEGMENT_FINISHED, txnIdxEmpty=false}",
        ),
        (
            "01020007746965726564705d76c794624a79ba75af23d512043400000000000000000100000000000000080200",
            "RemotePartitionDeleteMetadata{topicPartition=cF12x5RiSnm6da8j1RIENA:tiered-0, "
            "state=DELETE_PARTITION_FINISHED, eventTimestampMs=8, brokerId=1}",
        ),
        ("01", "Error at offset 6, skipping. Error while reading type"),
        (
            "010900",
            "Error at offset 6, skipping. "
            "org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id 9",
        ),
        ("0101010000", "Error at offset 6, skipping. Failed to deserialize record with type 1"),
    ],
)
def test_records_of_remote_segments_have_the_text_of_kafkas_objects(value: str, shown: str) -> None:
    """The bytes and texts are those of Kafka's RemoteLogMetadataSerde."""
    assert DECODERS["remote_log_metadata_decoder"](6, None, bytes.fromhex(value)) == (None, shown)


def test_bytes_behind_the_last_batch_are_counted(new_log: Callable[..., str]) -> None:
    log = batches(2)
    for tail in (b"x", bytes(17), batches(4)[0][:-1]):
        dumped = Dumped([new_log(*log, tail)])
        assert dumped.text.endswith(f"Found {len(tail)} invalid bytes at the end of 00000000000000000000.log\n")
        assert dumped.unreadable == 0


def test_so_many_bytes_are_looked_at_and_no_more(new_log: Callable[..., str]) -> None:
    log = batches(2, 2)
    path = new_log(*log)
    for limit, count in ((0, 0), (len(log[0]) - 1, 0), (len(log[0]), 1), (len(log[0]) + 5, 1), (10_000, 2)):
        dumped = Dumped([path], DumpOptions(LogOptions(bytes_max=limit)))
        assert dumped.text.count("baseOffset") == count and "invalid" not in dumped.text


def test_gaps_are_listed_at_the_end(new_log: Callable[..., str]) -> None:
    path = new_log(*batches(2), *batches(2, first=5), *batches(1, first=9))
    first, second = "  1 is followed by 5", "  6 is followed by 9"
    assert Dumped([path]).findings == [f"Non-consecutive offsets in {path}", first, second]
    assert Dumped([path], DumpOptions(OLD)).findings == [f"Non-consecutive offsets in {path}", second, first]


# --- damage: where Kafka's tool ends, a sentence, and on -----------------------------------------------------------


def flipped(data: bytearray, position: int) -> bytearray:
    data[position] ^= 1
    return data


def resized(data: bytearray, size: int) -> bytearray:
    data[8:12] = struct.pack(">i", size)
    return data


def counted(data: bytearray, count: int) -> bytearray:
    data[57:61] = struct.pack(">i", count)
    batch.seal_checksum(data)
    return data


def coded(data: bytearray, codec: int) -> bytearray:
    data[22] |= codec
    batch.seal_checksum(data)
    return data


DAMAGE: dict[str, tuple[Callable[[bytearray], bytearray], int, str]] = {
    "a size that cannot be": (lambda data: resized(data, 3), 0, "a batch size of 3; going on at"),
    "a negative count": (lambda data: counted(data, -1), 0, "-1 records"),
    "a count that is too large": (lambda data: counted(data, 3), 2, "a varint runs over the end"),
    "a count that is too small": (lambda data: counted(data, 1), 0, "left over behind the last record"),
    "a count from another world": (lambda data: counted(data, 2**31 - 1), 2, "2147483647 records in"),
    "an unknown codec": (lambda data: coded(data, 7), 0, "codec 7"),
    "no gzip at all": (lambda data: coded(data, 1), 0, "gzip:"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_printed_and_the_dump_goes_on(name: str, new_log: Callable[..., str]) -> None:
    damage, count, reason = DAMAGE[name]
    first, second, third = batches(2, 2, 2)
    path = new_log(first, damage(second), third)
    dumped = Dumped([path])
    assert dumped.unreadable >= 1
    assert dumped.complaints[0].startswith(f"{path}, position {len(first)}") and reason in dumped.complaints[0]
    assert dumped.text.count("\n| ") == 4 + count
    assert "| offset: 5 " in dumped.text


def test_a_v2_batch_smaller_than_its_header_is_printed(new_log: Callable[..., str]) -> None:
    path = new_log(resized(batches(1)[0], 40))
    assert Dumped([path]).complaints == [f"{path}, position 0, offset 0: a v2 batch of 52 bytes"]
    assert " size: 52 magic: 2 " in Dumped([path], DumpOptions()).text


def test_a_checksum_that_does_not_hold_is_no_hindrance(new_log: Callable[..., str]) -> None:
    data = batches(1)[0]
    dumped = Dumped([new_log(flipped(data, len(data) - 2))])
    assert " isvalid: false\n" in dumped.text and "payload: value 1\n" in dumped.text
    assert dumped.unreadable == 0


def test_a_batch_beyond_the_limit_is_checked_in_pieces_and_not_looked_into(
    new_log: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_batches, "BATCH_BYTES_MAX", 1000)
    whole = batch.build([(None, bytes(5000), (), 0)])
    path = new_log(whole, resized(bytearray(whole), 1 << 20), bytes((1 << 20) + 12 - len(whole)))
    dumped = Dumped([path])
    assert [line.split(" crc: ")[1].split()[2] for line in dumped.text.splitlines()[2:4]] == ["true", "false"]
    assert dumped.complaints == [
        f"{path}, position 0, offset 0: a batch of {len(whole)} bytes; records are shown up to 1000",
        f"{path}, position {len(whole)}, offset 0: a batch of {(1 << 20) + 12} bytes; records are shown up to 1000",
    ]


@pytest.mark.parametrize(("value", "text"), [(2, "endTxnMarker: ABORT"), (None, "without an epoch")])
def test_markers_are_explained(new_log: Callable[..., str], value: int | None, text: str) -> None:
    content = None if value is None else struct.pack(">hi", 0, value)
    record = (struct.pack(">hh", 0, 0), content, (), 5)
    marker = batch.build([record], producer_id=7, producer_epoch=0, transactional=True, control=True)
    dumped = Dumped([new_log(marker)])
    assert text in (dumped.text if value is not None else dumped.complaints[0])
    assert dumped.text.splitlines()[-1].startswith("| offset: 0 CreateTime: 5 keySize: 4 ")


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("00000000000000000007.log", "Log starting offset: 7"),
        ("bootstrap.checkpoint", "KRaft bootstrap snapshot"),
        ("00000000000000000042-0000000003.checkpoint", "Snapshot end offset: 42, epoch: 3"),
    ],
)
def test_the_title_is_read_from_the_name(tmp_path: Path, name: str, title: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    assert Dumped([str(path)]).text.splitlines() == [f"Dumping {path}", title]


def test_a_log_of_another_name_is_dumped_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "rescued.log"
    path.write_bytes(batches(1)[0])
    dumped = Dumped([str(path)])
    assert dumped.text.count("offset: 0 ") == 1 and dumped.unreadable == 0
    assert dumped.said == [f"{path}: the name does not say at which offset this begins"]


def test_a_missing_file_does_not_keep_the_next_from_being_dumped(tmp_path: Path, new_log: Callable[..., str]) -> None:
    path, missing, unknown = new_log(*batches(1)), str(tmp_path / "9.log"), str(tmp_path / "notes.txt")
    dumped = Dumped([missing, unknown, path])
    assert f"Dumping {path}\nLog starting offset: 0\nbaseOffset: 0 " in dumped.text
    assert dumped.complaints == [f"{missing}: No such file or directory"]
    assert dumped.said == [f"Ignoring unknown file {unknown}"]


# --- indexes -------------------------------------------------------------------------------------------------------


@pytest.fixture
def indexed(tmp_path: Path) -> Callable[..., str]:
    """Make a log of two batches (offsets 0-1 and 2-4, timestamps up to 1001 and 1004) and a file beside it."""

    def make(kind: str, content: bytes) -> str:
        (tmp_path / "00000000000000000000.log").write_bytes(b"".join(batches(2, 3)))
        path = tmp_path / f"00000000000000000000{kind}"
        path.write_bytes(content)
        return str(path)

    return make


SECOND = len(batches(2)[0])


def test_an_entry_that_names_another_offset_is_a_mismatch(indexed: Callable[..., str]) -> None:
    path = indexed(".index", struct.pack(">iiii", 1, 0, 3, SECOND))
    dumped = Dumped([path])
    assert dumped.text == f"Dumping {path}\noffset: 1 position: 0\noffset: 3 position: {SECOND}\n"
    assert dumped.findings == [f"Mismatches in :{path}", "  Index offset: 3, log offset: 4"]


def test_entries_are_checked_without_being_printed(indexed: Callable[..., str]) -> None:
    path = indexed(".index", struct.pack(">iiii", 0, 0, 4, SECOND))
    dumped = Dumped([path], DumpOptions(index=IndexOptions(verify_only=True)))
    assert dumped.text == f"Dumping {path}\n"
    assert dumped.findings == [f"Mismatches in :{path}", "  Index offset: 0, log offset: 1"]


@pytest.mark.parametrize("position", [-1, 10_000, SECOND + 20])
def test_an_entry_without_a_batch_is_printed(indexed: Callable[..., str], position: int) -> None:
    path = indexed(".index", struct.pack(">iiii", 1, 0, 4, position))
    dumped = Dumped([path])
    assert dumped.text.endswith(f"offset: 4 position: {position}\n")
    assert position == SECOND + 20 or "no whole batch" in dumped.complaints[0]


def test_a_batch_beyond_the_message_size_is_not_found(indexed: Callable[..., str]) -> None:
    path = indexed(".index", struct.pack(">ii", 1, 0))
    assert Dumped([path], DumpOptions(index=IndexOptions(window_bytes=SECOND - 1))).unreadable == 1
    assert Dumped([path], DumpOptions(index=IndexOptions(window_bytes=SECOND))).unreadable == 0


def test_a_time_index_is_held_against_the_records(indexed: Callable[..., str]) -> None:
    entries = [(1001, 1), (1000, 4), (1004, 3), (1005, 9)]
    path = indexed(".timeindex", b"".join(struct.pack(">qi", *entry) for entry in entries))
    dumped = Dumped([path])
    assert dumped.text.splitlines()[1:] == [f"timestamp: {time} offset: {offset}" for time, offset in entries]
    assert dumped.findings == [
        f"Found timestamp mismatch in :{path}",
        "  Index timestamp: 1000, log timestamp: 1004",
        f"Found out of order timestamp in :{path}",
        "  Index timestamp: 1000, Previously indexed timestamp: 1001",
        f"The following indexed offsets are not found in :{path}",
        "Indexed offset: 3, found log offset: 4",
        "Indexed offset: 9, found log offset: -1",
    ]


def test_an_empty_index_is_printed_as_empty(indexed: Callable[..., str]) -> None:
    path = indexed(".index", b"")
    assert Dumped([path]).text == f"Dumping {path}\n{path} is empty.\n"


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        (".index", struct.pack(">iii", 1, 0, 9), "12 bytes are no whole number of 8-byte entries"),
        (".index", struct.pack(">ii", -3, 0), "it ends with offset -3"),
        (".timeindex", struct.pack(">qiqi", 9, 1, 8, 2), "it ends with timestamp 8"),
        (".timeindex", struct.pack(">qi", 9, -1), "it ends with offset -1"),
    ],
)
def test_the_sanity_check_is_that_of_a_broker_that_starts(
    indexed: Callable[..., str], kind: str, content: bytes, reason: str
) -> None:
    path = indexed(kind, content)
    dumped = Dumped([path], DumpOptions(index=IndexOptions(sanity_only=True)))
    assert dumped.complaints[0].startswith(f"{path}: does not pass the sanity check: {reason}")
    path = indexed(kind, content[: 8 if kind == ".index" else 12].replace(b"\xff\xff\xff", bytes(3)))
    assert Dumped([path], DumpOptions(index=IndexOptions(sanity_only=True))).text.endswith("passed sanity check.\n")


def test_an_index_without_its_log_is_not_dumped(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.index"
    path.write_bytes(bytes(8))
    dumped = Dumped([str(path)])
    assert dumped.complaints == [f"{path.with_suffix('.log')}: No such file or directory"]


# --- snapshots -----------------------------------------------------------------------------------------------------

SNAPSHOT = bytes.fromhex(
    "0001ecc24c0900000001000000000000002a000300000009000000000000000e0000000100000000000003e800000007ffffffffffffffff"
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (SNAPSHOT, []),
        (b"\0\2" + SNAPSHOT[2:], ["Snapshot failed schema validation: Snapshot contained an unknown file version 2"]),
        (SNAPSHOT[:-1], ["Snapshot failed schema validation: null"]),
        (b"", ["Snapshot failed schema validation: null"]),
        (
            SNAPSHOT[:-1] + b"\0",
            ["Snapshot is corrupt (CRC is no longer valid). Stored crc: 3972156425. Computed crc: 1103044440"],
        ),
    ],
    ids=["whole", "another version", "cut off", "empty", "another byte"],
)
def test_a_snapshot_is_shown_or_reported_as_damaged_in_kafkas_words(
    tmp_path: Path, content: bytes, said: list[str]
) -> None:
    path = tmp_path / "00000000000000000015.snapshot"
    path.write_bytes(content)
    dumped = Dumped([str(path)])
    assert dumped.said == said and dumped.unreadable == 0
    assert ("producerId: 42 producerEpoch: 3 " in dumped.text) is (not said)


def test_entries_that_no_log_can_have_are_findings_and_no_crash(tmp_path: Path) -> None:
    base = 2**63 - 1
    log = batch.build([(b"k", b"v", (), 1000)])
    for name, suffix, content in (
        (0, ".index", struct.pack(">ii", 1, -1)),
        (0, ".timeindex", struct.pack(">qi", 1000, 1)),
        (base, ".index", struct.pack(">ii", 1, 5)),
        (base, ".timeindex", struct.pack(">qi", 1000, 1) + struct.pack(">qi", -(2**63), -(2**31))),
    ):
        (tmp_path / f"{name:020d}.log").write_bytes(log)
        (tmp_path / f"{name:020d}{suffix}").write_bytes(content)
    low, high = (str(tmp_path / f"{name:020d}") for name in (0, base))
    assert "points to position -1" in Dumped([low + ".index"]).complaints[0]
    assert Dumped([low + ".timeindex"]).findings[-1] == "Indexed offset: 1, found log offset: -1"
    assert "points to position 5" in Dumped([high + ".index"]).complaints[0]
    assert f"Indexed offset: {-(2**63)}, found log offset: 0" in Dumped([high + ".timeindex"]).findings


def test_an_index_whose_name_is_no_possible_offset_is_refused(tmp_path: Path) -> None:
    path = tmp_path / f"{2**63:020d}.timeindex"
    path.write_bytes(struct.pack(">qi", 1000, 1))
    dumped = Dumped([str(path)])
    assert "the base offset of an index is at most 9223372036854775807" in dumped.complaints[0]
