"""What verification says of logs that Kafka wrote, and of each way in which they can be wrong."""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import data, marker, plant, sealed_records

from offsetfs.storage import checkpoint
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.lock import DirectoryLock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.convert import convert_log
from offsetfs.storage.partition.producers import COMMIT, ProducerEntry, ProducerState
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch import HEADER_SIZE, build, parse_header, read_batch, seal_checksum
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch
from offsetfs.storage.settings.topic_settings import TOPICS
from offsetfs.storage.units import Timestamp
from offsetfs.storage.verify.finding import DAMAGE, NOTICE, Finding
from offsetfs.storage.verify.segment_inspection import SegmentInspection, chunk_starts, inspect_chunk
from offsetfs.storage.verify.verify import Verification

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "3.6.2", "4.1")
LOG = f"{0:020d}.log"


def findings_of(path: Path, partitions: list[TopicPartition] | None = None) -> list[Finding]:
    """Return the findings; they are the same when logs are looked into by several."""
    found: list[Finding] = []
    verification = Verification(os.fspath(path), partitions, report=found.append)
    tally = verification.run()
    again: list[Finding] = []
    inspected = {each: inspected_by_several(path / str(each)) for each in verification.partitions}
    assert Verification(os.fspath(path), partitions, report=again.append, inspected=inspected).run() == tally
    assert again == found
    return found


def inspected_by_several(partition: Path, stretch_bytes: int = 700) -> dict[int, SegmentInspection]:
    """Look into the logs of a partition in ranges, as the job of Spark does."""
    known = {}
    for log in partition.glob("*.log") if os.access(partition, os.R_OK) else ():
        base = int(log.stem)
        starts = chunk_starts(os.fspath(partition), base, log.stat().st_size if log.exists() else 0, stretch_bytes)
        pieces = [inspect_chunk(os.fspath(log), *piece) for piece in zip(starts, [*starts[1:], None], strict=True)]
        if (whole := SegmentInspection.of(pieces)) is not None:
            known[base] = whole
    return known


def damage_of(path: Path) -> list[Finding]:
    return [finding for finding in findings_of(path) if finding.severity == DAMAGE]


# --- what Kafka wrote is clean ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_nothing_is_wrong_with_what_a_broker_closed(release: str) -> None:
    assert damage_of(GOLDEN / f"kafka-{release}") == []


@pytest.mark.parametrize(
    ("release", "kinds"),
    [
        ("0.8.2.2", []),
        ("0.9.0.1", []),
        ("0.10.0.1", []),  # its cleaner died of its own defect, and left two .cleaned files
        ("0.10.2.2", []),
        ("3.6.2", []),
        ("4.1", ["unknown-partition"]),  # a directory of which not every topic was kept
    ],
)
def test_what_is_worth_knowing_of_a_closed_directory_is_a_notice(release: str, kinds: list[str]) -> None:
    found = findings_of(GOLDEN / f"kafka-{release}")
    assert [finding.kind for finding in found] == kinds
    assert {finding.severity for finding in found} <= {NOTICE}


def test_nothing_is_found_in_the_directory_of_kafka_4_4(golden_44: Path) -> None:
    """The indexes of the active segment of a metadata log keep their zeros after a clean end."""
    assert findings_of(golden_44) == []


@pytest.mark.parametrize("name", ["kafka-4.1", "kafka-4.4", "kafka-4.4-run"])
def test_nothing_is_found_after_a_format_for_a_standalone_controller(formatted: Path, name: str) -> None:
    """A snapshot without a log; then the voters in one control batch with their first leader."""
    assert findings_of(formatted / name) == []


def test_a_killed_broker_leaves_padded_indexes_and_no_damage(unclean_copy: Path) -> None:
    found = findings_of(unclean_copy)
    assert {finding.kind for finding in found} == {"not-closed", "unknown-partition"}
    assert all(finding.severity == NOTICE for finding in found)


def test_as_much_is_looked_at_as_kafkas_own_tool_sees(golden: Path) -> None:
    dumps = {file.name.removesuffix(".dump.txt"): file.read_bytes() for file in golden.glob("*-?.dump.txt")}
    assert len(dumps) == 27
    for name, dump in dumps.items():
        verification = Verification(os.fspath(golden), [TopicPartition.parse(name)], report=lambda finding: None)
        counts = [int(count) for count in re.findall(rb"^baseOffset: .* count: (\d+) ", dump, re.MULTILINE)]
        tally = verification.run()
        logs = [log.stat().st_size for log in (golden / name).glob("*.log")]
        expected = (1, len(logs), len(counts), sum(counts), sum(logs))
        assert (tally.partitions, tally.segments, tally.batches, tally.records, tally.bytes) == expected


@pytest.mark.parametrize(("suffix", "size"), [("index", 8), ("timeindex", 12)])
def test_an_entry_that_a_running_broker_is_writing_is_no_damage(tmp_path: Path, suffix: str, size: int) -> None:
    """Once `verify` beside a broker took the first half of an entry of its time index for a wrong one."""
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(TopicPartition("t", 0), {"index.interval.bytes": "1"})
    for number in range(4):
        log.append(sealed_records([(None, b"value", (), 1000 + number)]))
    directory.close()
    path = tmp_path / "t-0" / f"{0:020d}.{suffix}"
    first_number = struct.pack(">q", 1003) if suffix == "timeindex" else struct.pack(">i", 9)
    path.write_bytes(first_number + bytes(10 * size - len(first_number)))
    assert [each.kind for each in findings_of(tmp_path) if each.severity == DAMAGE] != []
    (tmp_path / checkpoint.CLEAN_SHUTDOWN).unlink()
    assert [each for each in findings_of(tmp_path) if each.severity == DAMAGE] == []


@pytest.mark.damages
def test_an_index_entry_that_points_into_the_last_batch_is_not_beyond_the_end(golden_copy: Path) -> None:
    log, entries = golden_copy / PLAIN, golden_copy / index(PLAIN)
    position = positions(log)[-1] + 1
    entries.write_bytes(entries.read_bytes()[:-8] + struct.pack(">ii", 390, position))
    found = [each for each in findings_of(golden_copy) if each.kind == "offset-index"]
    assert [str(position) in each.meaning and "no batch begins at" in each.meaning for each in found] == [True]


def test_what_is_verified_is_not_changed(golden_copy: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in golden_copy.rglob("*")}

    before = state()
    findings_of(golden_copy)
    assert state() == before


def test_several_read_a_log_where_an_index_states_the_batches(golden: Path, tmp_path: Path) -> None:
    log = golden / "codec-none-0" / LOG
    starts = chunk_starts(os.fspath(log.parent), 0, log.stat().st_size, 5000)
    assert len(starts) > 3 and set(starts) <= set(positions(log))
    pieces = [inspect_chunk(os.fspath(log), *piece) for piece in zip(starts, [*starts[1:], None], strict=True)]
    whole = SegmentInspection.of(pieces)
    assert whole is not None and (whole.end, whole.breaks, whole.faulty) == (log.stat().st_size, {}, {})
    assert SegmentInspection.of([pieces[0], *pieces[2:]]) is None  # one is missing
    assert (
        SegmentInspection.of([inspect_chunk(os.fspath(log), 0, starts[1] + 1), *pieces[1:]]) is None
    )  # they do not join
    assert inspect_chunk(os.fspath(tmp_path / "gone.log"), 0, None) is None
    assert chunk_starts(os.fspath(tmp_path), 0, 1 << 30, 5000) == [0]  # there is no index


# --- each way to be wrong has its finding, and no neighbor has one ---------------------------------------------------


def overwrite(file: Path, position: int, data: bytes) -> None:
    with file.open("r+b") as stream:
        stream.seek(position)
        stream.write(data)


def positions(log: Path) -> list[int]:
    """Where the batches of a v2 log begin."""
    data, found, position = log.read_bytes(), [], 0
    while position < len(data):
        found.append(position)
        position += parse_header(data, position).size
    return found


def in_header(number: int, field_position: int, form: str, value: int, *, sealed: bool) -> Callable[[Path], None]:
    """Change a field of the header of batch `number`; `sealed`: and make the checksum true again."""

    def change(file: Path) -> None:
        data, position = bytearray(file.read_bytes()), positions(file)[number]
        struct.pack_into(form, data, position + field_position, value)
        if sealed:
            seal_checksum(memoryview(data)[position : position + parse_header(data, position).size])
        file.write_bytes(data)

    return change


def flip(position: int) -> Callable[[Path], None]:
    return lambda file: overwrite(file, position, bytes([file.read_bytes()[position] ^ 1]))


def flip_in_batch(number: int) -> Callable[[Path], None]:
    return lambda file: flip(positions(file)[number] + HEADER_SIZE + 3)(file)


def zero_batch(number: int) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        begins = [*positions(file), file.stat().st_size]
        overwrite(file, begins[number], bytes(begins[number + 1] - begins[number]))

    return change


def repeat_batch(number: int) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        data, begins = file.read_bytes(), positions(file)
        copy = data[begins[number] : begins[number + 1]]
        file.write_bytes(data[: begins[number + 1]] + copy + data[begins[number + 1] :])

    return change


def replace(data: bytes) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        file.write_bytes(data)

    return change


def append(data: bytes) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        file.write_bytes(file.read_bytes() + data)

    return change


def cut(count: int) -> Callable[[Path], None]:
    return lambda file: os.truncate(file, file.stat().st_size - count)


def move(name: str) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        file.rename(file.with_name(name))

    return change


def link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


@dataclass(frozen=True)
class Corruption:
    """What is done to a file of the 4.1 directory, and all findings that there must be: kind and file."""

    name: str
    file: str
    change: Callable[[Path], None]
    found: tuple[tuple[str, str], ...]
    position: int | None = None
    offset: int | None = None


def on(file: str, *kinds: str) -> tuple[tuple[str, str], ...]:
    return tuple((kind, file) for kind in kinds)


FIRST = f"segments-0/{LOG}"
PLAIN = f"codec-none-0/{LOG}"
PRODUCERS = f"idempotent-0/{LOG}"
MARKERS = f"transactions-0/{23:020d}"
EPOCHS = "epochs-0/leader-epoch-checkpoint"


def index(log: str) -> str:
    return log.removesuffix(".log") + ".index"


def times(log: str) -> str:
    return log.removesuffix(".log") + ".timeindex"


def swap(size: int) -> Callable[[Path], None]:
    """Put the second entry of `size` bytes before the first."""

    def change(file: Path) -> None:
        data = file.read_bytes()
        file.write_bytes(data[size : 2 * size] + data[:size] + data[2 * size :])

    return change


def older_snapshot(file: Path) -> None:
    shutil.copy(file.with_name(f"{112:020d}.snapshot"), file)


def foreign_snapshot(file: Path) -> None:
    state = ProducerState.load(file.read_bytes())
    state.entries[77] = ProducerEntry(0, 5, 100, 3, 1795200000000)
    file.write_bytes(state.dump())


SNAPSHOT = f"idempotent-0/{181:020d}.snapshot"
ENTRY = struct.pack(">ii", 1000, 1 << 20)

CORRUPTIONS = [
    Corruption("a bit of a record", PLAIN, flip_in_batch(3), on(PLAIN, "unreadable-batch"), offset=62),
    Corruption("a bit of a checksum", PLAIN, flip(17), on(PLAIN, "unreadable-batch"), 0, 0),
    Corruption("a bit of a compressed record", FIRST, flip_in_batch(1), on(FIRST, "unreadable-batch"), 98, 1),
    Corruption("a magic that is none", PLAIN, in_header(2, 16, ">b", 9, sealed=False), on(PLAIN, "unreadable-batch")),
    Corruption("a batch of zeros", PLAIN, zero_batch(5), on(PLAIN, "unreadable-batch"), offset=123),
    Corruption(
        "a length that lies", PLAIN, in_header(2, 8, ">i", 1 << 30, sealed=False), on(PLAIN, "unreadable-batch")
    ),
    Corruption("an offset too low", PLAIN, in_header(3, 0, ">q", 5, sealed=False), on(PLAIN, "offset-order"), offset=5),
    Corruption(
        "an offset too high", PLAIN, in_header(3, 0, ">q", 5000, sealed=False), on(PLAIN, "offset-order"), offset=5000
    ),
    Corruption(
        "an offset of the next segment",
        FIRST,
        in_header(2, 0, ">q", 41, sealed=False),
        on(FIRST, "offset-order"),
        offset=41,
    ),
    Corruption(
        "more records than offsets", PLAIN, in_header(0, 57, ">i", 2, sealed=True), on(PLAIN, "malformed-records")
    ),
    Corruption(
        "fewer records than there are", PLAIN, in_header(1, 57, ">i", 49, sealed=True), on(PLAIN, "malformed-records")
    ),
    Corruption(
        "a last offset below its records", PLAIN, in_header(1, 23, ">i", 48, sealed=True), on(PLAIN, "record-count")
    ),
    Corruption(
        "a largest timestamp that no record has",
        PLAIN,
        in_header(1, 35, ">q", 1, sealed=True),
        on(PLAIN, "max-timestamp"),
        offset=1,
    ),
    Corruption("a codec of the future", PLAIN, in_header(1, 21, ">h", 7, sealed=True), on(PLAIN, "malformed-records")),
    Corruption(
        "a transaction without a producer", PLAIN, in_header(1, 21, ">h", 0x10, sealed=True), on(PLAIN, "producer")
    ),
    Corruption(
        "a producer without a sequence", PRODUCERS, in_header(5, 53, ">i", -1, sealed=True), on(PRODUCERS, "producer")
    ),
    Corruption(
        "a gap in the sequences",
        PRODUCERS,
        in_header(1, 53, ">i", 2, sealed=True),
        on(PRODUCERS, "producer-sequence", "producer-sequence"),
    ),
    Corruption(
        "a sequence that was there before",
        PRODUCERS,
        in_header(4, 53, ">i", 21, sealed=True),
        on(PRODUCERS, "producer-sequence", "producer-sequence"),
    ),
    Corruption(
        "a leader epoch that the checksum does not cover",
        PLAIN,
        in_header(0, 12, ">i", 7, sealed=False),
        on(PLAIN, "leader-epoch", "leader-epoch"),  # 7 where the file says 0, and 0 behind 7
    ),
    Corruption(
        "an epoch that the file does not know",
        EPOCHS,
        replace(b"0\n2\n0 0\n2 60\n"),
        on(f"epochs-0/{120:020d}.log", "leader-epoch"),
        offset=120,
    ),
    Corruption(
        "an epoch that begins too early",
        EPOCHS,
        replace(b"0\n4\n0 0\n2 30\n4 120\n6 180\n"),
        on(f"epochs-0/{LOG}", "leader-epoch"),
    ),
    Corruption(
        "an epoch beyond the end",
        EPOCHS,
        replace(b"0\n5\n0 0\n2 60\n4 120\n6 180\n8 999\n"),
        on(EPOCHS, "leader-epoch"),
    ),
    Corruption("no file of epochs at all", EPOCHS, append(b"x"), on(EPOCHS, "checkpoint")),
    Corruption(
        "an index entry that points between batches",
        index(PLAIN),
        flip(7 * 8 + 7),
        on(index(PLAIN), "offset-index"),
        56,
    ),
    Corruption(
        "an index entry with an offset that ends no batch",
        index(PLAIN),
        flip(3),
        on(index(PLAIN), "offset-index"),
        0,
        60,
    ),
    Corruption("an index out of order", index(PLAIN), swap(8), on(index(PLAIN), "offset-index"), 8),
    Corruption("an index beyond the end of the log", index(PLAIN), append(ENTRY), on(index(PLAIN), "offset-index"), 96),
    Corruption("a torn index", index(PLAIN), append(b"xyz"), on(index(PLAIN), "index-shape")),
    Corruption("a time that no batch has", times(PLAIN), flip(12 + 7), on(times(PLAIN), "time-index"), 12, 111),
    Corruption("a time index out of order", times(PLAIN), swap(12), on(times(PLAIN), "time-index"), 12),
    Corruption("a torn time index", times(PLAIN), cut(5), on(times(PLAIN), "index-shape")),
    Corruption(
        "a sealed segment without its last time",
        times(f"segments-0/{41:020d}.log"),
        cut(12),
        on(times(f"segments-0/{41:020d}.log"), "time-index-end"),
    ),
    Corruption(
        "an aborted transaction at another offset",
        f"{MARKERS}.txnindex",
        flip(2 + 8 + 8 + 7),
        on(f"{MARKERS}.txnindex", "transaction-index"),
        0,
    ),
    Corruption(
        "a torn transaction index", f"{MARKERS}.txnindex", append(b"x"), on(f"{MARKERS}.txnindex", "transaction-index")
    ),
    Corruption("a snapshot with a flipped bit", SNAPSHOT, flip(20), on(SNAPSHOT, "snapshot")),
    Corruption("an empty snapshot", SNAPSHOT, replace(b""), on(SNAPSHOT, "snapshot")),
    Corruption("a snapshot of another offset", SNAPSHOT, older_snapshot, on(SNAPSHOT, "snapshot"), offset=181),
    Corruption(
        "a snapshot of a producer that never wrote", SNAPSHOT, foreign_snapshot, on(SNAPSHOT, "snapshot"), offset=181
    ),
    Corruption(
        "a log that lost its end",
        PLAIN,
        cut(10),
        (
            *on(PLAIN, "unreadable-batch"),
            *on("codec-none-0/leader-epoch-checkpoint", "leader-epoch"),
            *on("codec-none-0/00000000000000000400.snapshot", "snapshot-beyond-end"),
            *on(checkpoint.RECOVERY_POINTS, "checkpoint-beyond-end"),
            *on(checkpoint.HIGH_WATERMARKS, "checkpoint-beyond-end"),
        ),
        offset=367,
    ),
    Corruption("a log that grew rubbish", PLAIN, append(b"rubbish" * 20), on(PLAIN, "unfinished-tail"), offset=400),
    Corruption("a link in the place of a log", PLAIN, link, on(PLAIN, "not-regular")),
    Corruption("no log at all", PLAIN, move("other"), on("codec-none-0", "no-log")),
    Corruption(
        "a checkpoint that is none",
        checkpoint.RECOVERY_POINTS,
        replace(b"1\n"),
        on(checkpoint.RECOVERY_POINTS, "checkpoint"),
    ),
    Corruption(
        "a log start beyond the end",
        checkpoint.LOG_STARTS,
        replace(b"0\n2\ncodec-none 0 500\ntruncated-head 0 137\n"),
        on(checkpoint.LOG_STARTS, "checkpoint-beyond-end"),
        offset=500,
    ),
    Corruption(
        "a topic id of another topic",
        "keyed-2/partition.metadata",
        replace(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"),
        on("keyed-2/partition.metadata", "topic-id"),
    ),
    Corruption(
        "no topic id",
        "keyed-2/partition.metadata",
        replace(b"version: 0\n"),
        on("keyed-2/partition.metadata", "checkpoint"),
    ),
]


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("case", CORRUPTIONS, ids=lambda case: case.name)
def test_a_corruption_is_found_and_its_neighbors_are_clean(case: Corruption, golden_copy: Path) -> None:
    case.change(golden_copy / case.file)
    found = damage_of(golden_copy)
    assert [(finding.kind, os.path.relpath(finding.path, golden_copy)) for finding in found] == list(case.found)
    assert case.position is None or found[0].position == case.position
    assert case.offset is None or found[0].offset == case.offset
    assert all(finding.meaning and "\n" not in str(finding) for finding in found)


NOTICES = [
    ("left-over", f"segments-0/{0:020d}.log.swap"),
    ("left-over", "segments-0/leader-epoch-checkpoint.tmp"),
    ("left-over", f"segments-0/{17:020d}.index"),
    ("left-over", "meta.properties.tmp"),
    ("cut", f"segments-0/{0:020d}.cut-100"),
    ("cut", f"segments-0/{0:020d}.cut-100-2"),
    ("foreign-file", "segments-0/notes.txt"),
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "name"), NOTICES, ids=[name for _, name in NOTICES])
def test_a_file_that_does_not_belong_is_a_notice(kind: str, name: str, golden_copy: Path) -> None:
    before = findings_of(golden_copy)
    (golden_copy / name).write_bytes(b"something")
    (found,) = set(findings_of(golden_copy)) - set(before)
    assert (found.severity, found.kind, found.path) == (NOTICE, kind, os.fspath(golden_copy / name))


def test_a_directory_that_is_no_partition_is_a_notice(golden_copy: Path) -> None:
    (golden_copy / "backup").mkdir()
    (golden_copy / f"orders-0.{'a' * 32}-stray").mkdir()
    found = {finding.kind for finding in findings_of(golden_copy) if finding.severity == NOTICE}
    assert found == {"foreign-directory", "left-over", "unknown-partition"}


def test_what_the_next_writer_removes_unasked_is_no_finding(golden_copy: Path) -> None:
    """A broker that stops within `file.delete.delay.ms` of a deletion leaves such files in a healthy directory."""
    before = findings_of(golden_copy)
    (golden_copy / f"orders-0.{'a' * 32}-delete").mkdir()
    for name in (f"{0:020d}.log.deleted", f"{0:020d}.index.deleted", f"{0:020d}.timeindex.cleaned"):
        (golden_copy / "segments-0" / name).write_bytes(b"something")
    assert findings_of(golden_copy) == before


def test_an_absent_partition_in_several_checkpoints_is_one_notice(tmp_path: Path) -> None:
    """Deleted partitions stay in the cleaner checkpoint of a healthy directory."""
    plant(tmp_path, {0: []})
    names = (checkpoint.HIGH_WATERMARKS, checkpoint.RECOVERY_POINTS, checkpoint.CLEANER_OFFSETS)
    for number, name in enumerate(names):
        gone = TopicPartition("gone", 0) if name != checkpoint.CLEANER_OFFSETS else TopicPartition("deleted", 0)
        checkpoint.write_offsets(str(tmp_path / name), {gone: 7, TopicPartition("orders", 0): 0})
        assert [each.kind for each in findings_of(tmp_path)] == ["unknown-partition"], number
    (found,) = findings_of(tmp_path)
    assert found.meaning == "names 1 partition without a directory here: gone-0"


def test_a_directory_of_something_else_is_no_partition_whatever_its_name(golden_copy: Path) -> None:
    before = set(findings_of(golden_copy))
    trash = golden_copy / ".Trash-1000"
    (trash / "files").mkdir(parents=True)
    (found,) = set(findings_of(golden_copy)) - before
    assert (found.severity, found.kind, found.path) == (NOTICE, "foreign-directory", os.fspath(trash))


@pytest.mark.damages
def test_a_partition_without_a_log_is_damage_beside_foreign_files(golden_copy: Path) -> None:
    for log in (golden_copy / "epochs-0").glob("*.log"):
        log.unlink()
    (golden_copy / "epochs-0" / "notes.txt").write_text("mine")
    assert "no-log" in {finding.kind for finding in damage_of(golden_copy)}


META = f"#\n#Sun Nov 29\ncluster.id=5L6g3nShT-eMCtK--X86sw\nnode.id=1\ndirectory.id={'a' * 22}\nversion=1\n"


@pytest.mark.parametrize("content", [META, "version=0\nbroker.id=0\n", "version=0\nbroker.id=0\ncluster.id=x\n"])
def test_meta_properties_with_which_a_broker_starts_are_no_finding(content: str, golden_copy: Path) -> None:
    (golden_copy / "meta.properties").write_text(content)
    assert damage_of(golden_copy) == []


BAD_META = {
    "empty": "",
    "zeros": "\0" * len(META),
    "cut behind the cluster": META[:70],
    "cut before the version": META[:-10],
    "another version": META.replace("version=1", "version=2"),
    "no cluster": META.replace("cluster", "clutter"),
    "no node": META.replace("node.id=1", "node.id="),
}


@pytest.mark.damages
@pytest.mark.parametrize("content", BAD_META.values(), ids=BAD_META)
def test_meta_properties_with_which_no_broker_starts_are_damage(content: str, golden_copy: Path) -> None:
    (golden_copy / "meta.properties").write_text(content)
    (found,) = damage_of(golden_copy)
    assert (found.kind, os.path.basename(found.path)) == ("checkpoint", "meta.properties")


def test_times_below_minus_one_are_no_damage_as_brokers_write_them(tmp_path: Path) -> None:
    """The header has the largest timestamp, or -1 where all records have lower ones."""
    log = (GOLDEN / "times" / "max-timestamp-of-a-broker.log").read_bytes()
    plant(tmp_path, {0: [log]})
    assert damage_of(tmp_path) == []


def test_times_that_are_2_63_apart_are_no_damage(tmp_path: Path) -> None:
    """A client may send the times -1 and 2⁶³ - 1 in one batch; the difference wraps in the delta."""
    batch = build([(None, b"v", (), 2**63 - 1), (None, b"v", (), -1)])
    struct.pack_into(">q", batch, 27, -1)
    seal_checksum(batch)
    assert [record.timestamp for record in read_batch(batch).records()] == [-1, 2**63 - 1]
    plant(tmp_path, {0: [bytes(batch)]})
    assert damage_of(tmp_path) == []


def test_a_sealed_index_that_ends_in_zeros_is_a_notice(golden_copy: Path) -> None:
    file = golden_copy / index(PLAIN)
    os.truncate(file, 4096)
    assert [(f.kind, f.severity, f.path) for f in findings_of(golden_copy) if f.kind != "unknown-partition"] == [
        ("index-padding", NOTICE, os.fspath(file))
    ]


@pytest.mark.damages
def test_index_entries_of_damaged_batches_are_no_findings(golden_copy: Path) -> None:
    for number in (2, 4, 7):
        flip_in_batch(number)(golden_copy / PLAIN)
    assert [(finding.kind, finding.offset) for finding in damage_of(golden_copy)] == [
        ("unreadable-batch", 51),
        ("unreadable-batch", 112),
        ("unreadable-batch", 184),
    ]


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("content", ['{"topics": {"wide": {"segment.bytse": "1"}}}', '{"topics": []}', "", "[" * 99999])
def test_settings_of_topics_that_cannot_be_are_damage(content: str, golden_copy: Path) -> None:
    (golden_copy / TOPICS).write_text(content)
    found = damage_of(golden_copy)
    assert [(finding.kind, os.path.relpath(finding.path, golden_copy)) for finding in found] == [("checkpoint", TOPICS)]


@pytest.mark.damages
def test_only_the_partitions_that_are_named_are_looked_at(golden_copy: Path) -> None:
    flip(17)(golden_copy / PLAIN)
    assert findings_of(golden_copy, [TopicPartition("segments", 0)]) == []
    assert [finding.kind for finding in findings_of(golden_copy, [TopicPartition("codec-none", 0)])] == [
        "unreadable-batch"
    ]


@pytest.mark.damages
def test_beside_a_writer_the_end_of_the_active_segment_is_being_written(golden_copy: Path) -> None:
    lock = DirectoryLock(os.fspath(golden_copy))
    lock.acquire()
    try:
        append(b"half a batch" * 20)(golden_copy / PLAIN)
        os.truncate(golden_copy / index(PLAIN), 1 << 20)
        (golden_copy / f"segments-0/{0:020d}.log.deleted").write_bytes(b"")
        assert findings_of(golden_copy) == []
        flip_in_batch(2)(golden_copy / f"codec-gzip-0/{LOG}")
        assert [finding.kind for finding in findings_of(golden_copy)] == ["unreadable-batch"]
    finally:
        lock.release()


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("padding", [0, 4096])
@pytest.mark.parametrize(
    ("file", "half"), [(index(PLAIN), struct.pack(">ii", 99, 0)), (times(PLAIN), struct.pack(">qi", 1 << 42, 0))]
)
def test_a_half_stored_entry_is_damage_only_without_its_broker(
    file: str, half: bytes, padding: int, golden_copy: Path
) -> None:
    append(half + bytes(padding // len(half) * len(half)))(golden_copy / file)
    lock = DirectoryLock(os.fspath(golden_copy))
    lock.acquire()
    try:
        assert findings_of(golden_copy) == []
    finally:
        lock.release()
    assert "index-shape" in [finding.kind for finding in damage_of(golden_copy)]


@pytest.mark.damages
def test_offsets_that_are_missing_where_nothing_was_compacted_are_a_notice(golden_copy: Path) -> None:
    log = golden_copy / PLAIN
    data, begins = log.read_bytes(), positions(log)
    log.write_bytes(data[: begins[-1]])
    (golden_copy / index(PLAIN)).unlink()
    (golden_copy / times(PLAIN)).unlink()
    struct.pack_into(">q", changed := bytearray(data[begins[-1] :]), 0, 407)
    log.write_bytes(data[: begins[-1]] + changed)
    found = [finding for finding in findings_of(golden_copy) if finding.kind == "offset-gap"]
    assert [(finding.severity, finding.offset, finding.position) for finding in found] == [(NOTICE, 407, begins[-1])]


@pytest.mark.long
def test_a_log_that_grows_while_it_is_verified_has_no_findings(tmp_path: Path) -> None:
    directory = LogDirectory.open(os.fspath(tmp_path))
    settings = {"segment.bytes": "20000", "index.interval.bytes": "0"}
    log = directory.create_partition(TopicPartition("orders", 0), settings)
    found: list[Finding] = []

    def append(_done: int, _total: int) -> None:  # between any two segments
        for _ in range(20):
            builder = BatchBuilder(1 << 12, Compression("none"))
            assert builder.append(b"key", b"value" * 100, (), log.next_offset)
            log.append(builder.seal())

    append(0, 0)
    for _ in range(10):
        Verification(os.fspath(tmp_path), report=found.append, on_progress=append).run()
    assert found == [] and log.next_offset > 1000
    directory.close()
    assert findings_of(tmp_path) == []


def test_a_bomb_is_not_inflated_beyond_the_limit(golden_copy: Path) -> None:
    found: list[Finding] = []
    Verification(os.fspath(golden_copy), report=found.append, inflated_bytes_max=1 << 20).run()
    assert [
        (finding.kind, os.path.relpath(finding.path, golden_copy)) for finding in found if finding.severity == DAMAGE
    ] == [("inflates-too-far", f"wide-0/{LOG}")]


@pytest.mark.damages
def test_batches_of_old_formats_have_the_same_findings(tmp_path: Path) -> None:
    path = tmp_path / "old"
    beside = shutil.ignore_patterns("*.txt", "*.ndjson")
    shutil.copytree(GOLDEN / "kafka-0.10.2.2", path, ignore=beside)
    log = path / f"v1-gzip-0/{LOG}"
    flip(40)(log)
    (found,) = findings_of(path)
    assert (found.kind, found.position, found.path) == ("unreadable-batch", 0, os.fspath(log))


# --- healthy logs that look odd --------------------------------------------------------------------------------------


@pytest.mark.damages
def test_a_transactional_batch_of_a_coordinator_may_start_at_sequence_zero(tmp_path: Path) -> None:
    offsets, orders = (tmp_path / name for name in ("__consumer_offsets-0", "orders-0"))
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        for partition in (offsets, orders):
            log = directory.create_partition(TopicPartition.parse(partition.name))
            for _ in range(3):
                log.append(data(7, 0, 2))
                log.append(marker(7, COMMIT))
    assert [(each.kind, each.path) for each in damage_of(tmp_path)] == [
        ("producer-sequence", str(orders / LOG)),  # no client of that topic may do so
        ("producer-sequence", str(orders / LOG)),
    ]


@pytest.mark.damages
@pytest.mark.parametrize(("idle_ms", "kinds"), [(86_400_000, []), (86_399_999, ["snapshot"])])
def test_a_broker_that_had_expired_a_producer_knows_it_by_its_last_marker_alone(
    idle_ms: int, kinds: list[str], tmp_path: Path
) -> None:
    """The marker of a transaction that did not write to the partition."""
    late = (b"\0\0\0\1", b"\0\0\0\0\0\0", (), 1000 + idle_ms)
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(TopicPartition("orders", 0))
        log.append(data(7, 0, 2))
        log.append(marker(7, COMMIT))
        log.append(sealed_records([late], transactional=True, control=True, producer_id=7, producer_epoch=0))
    by_marker = ProducerEntry(producer_epoch=0, timestamp=late[3], coordinator_epoch=0)
    (tmp_path / "orders-0" / f"{4:020d}.snapshot").write_bytes(ProducerState({7: by_marker}).dump())
    assert [each.kind for each in damage_of(tmp_path)] == kinds


@pytest.mark.damages
def test_an_epoch_that_falls_is_damage_where_a_coordinator_writes_too(tmp_path: Path) -> None:
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(TopicPartition.parse("__consumer_offsets-0"))
        log.append(data(7, 0, 2))
        log.append(data(7, 0, 2))
    file = tmp_path / "__consumer_offsets-0" / LOG
    in_header(0, 51, ">h", 3, sealed=True)(file)
    (tmp_path / "__consumer_offsets-0" / f"{4:020d}.snapshot").unlink(missing_ok=True)
    assert [each.kind for each in damage_of(tmp_path)] == ["producer-sequence"]


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("epoch", [0, 5])
def test_appends_behind_v2_batches_without_an_epoch_file_go_on_with_their_epoch(epoch: int, tmp_path: Path) -> None:
    copy = shutil.copytree(GOLDEN / "kafka-3.6.2", tmp_path / "log", ignore=shutil.ignore_patterns("*.txt", "*.ndjson"))
    partition = copy / "mixed-v2v1v0-0"
    of_v2 = [each for each in positions(partition / LOG) if partition.joinpath(LOG).read_bytes()[each + 16] == 2]
    for position in of_v2:
        overwrite(partition / LOG, position + 12, struct.pack(">i", epoch))
    assert of_v2 and not (partition / checkpoint.LEADER_EPOCHS).exists()
    with closing(LogDirectory.open(str(copy))) as directory:
        log = directory.log(TopicPartition.parse(partition.name))
        log.append(data(-1, -1, 2))
    assert checkpoint.read_epochs(str(partition / checkpoint.LEADER_EPOCHS)) == [(epoch, 120)]
    assert damage_of(copy) == []
    (partition / checkpoint.LEADER_EPOCHS).write_text(f"0\n1\n{epoch - 1} 120\n" if epoch else "0\n1\n1 120\n")
    assert {each.kind for each in damage_of(copy)} == {"leader-epoch"}


@pytest.mark.long
def test_appends_behind_a_damaged_epoch_file_go_on_with_the_epoch_of_the_log(golden_copy: Path) -> None:
    epochs = golden_copy / EPOCHS
    epochs.write_bytes(b"x")
    with closing(LogDirectory.open(str(golden_copy))) as directory:
        directory.log(TopicPartition.parse("epochs-0")).append(data(-1, -1, 1))
    assert [epoch for epoch, _ in checkpoint.read_epochs(str(epochs))] == [4]  # 6 began at the end of the log
    assert damage_of(golden_copy) == []


@pytest.mark.long
@pytest.mark.parametrize("release", ["0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "3.6.2", "4.1"])
@pytest.mark.parametrize("change", ["append", "convert", "append and convert"])
def test_what_we_change_of_a_brokers_directory_stays_clean(release: str, change: str, tmp_path: Path) -> None:
    beside = shutil.ignore_patterns("*.txt", "*.ndjson", "*.bounds.json")
    copy = shutil.copytree(GOLDEN / f"kafka-{release}", tmp_path / "log", ignore=beside)
    for verb in change.split(" and "):
        with closing(LogDirectory.open(str(copy))) as directory:
            for partition in directory.partitions():
                if verb == "append":
                    directory.log(partition).append(data(-1, -1, 2))
                else:
                    convert_log(directory.log(partition))
    assert damage_of(copy) == []


def test_a_producer_that_was_idle_for_a_day_begins_anew_where_it_likes(tmp_path: Path) -> None:
    late = [(None, b"x", (), 1000 + 86_400_000)]
    again = build(late, producer_id=7, producer_epoch=0, base_sequence=0)
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(TopicPartition.parse("orders-0"))
        log.append(data(7, 0, 1, is_transactional=False))
        log.append(SealedBatch(memoryview(again), 1, 2, Timestamp(1000 + 86_400_000), len(again)))
    assert damage_of(tmp_path) == []
