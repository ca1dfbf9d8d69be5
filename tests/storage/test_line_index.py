"""The view map finds every byte of `values`, and is never used when the log is another one."""

import errno
import itertools
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fixtures.logs.log_states import begin_log_at, replace_segments_of
from fixtures.spies import no_damage, spy

from offsetfs.storage import files
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptBatch, StorageError, UnsupportedFormat, WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.compression.compression import CODECS, Compression
from offsetfs.storage.records.format.batch import build, seal_checksum
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch
from offsetfs.storage.segments import segment_names
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.units import Timestamp
from offsetfs.storage.views import line_index, line_index_file
from offsetfs.storage.views.line_index import LineIndex, LineIndexPool
from offsetfs.storage.views.line_index_file import StoredLineIndex
from offsetfs.storage.views.partition_view import PartitionView
from offsetfs.storage.views.view_format import VALUES

pytestmark = pytest.mark.unit

SUFFIX = VALUES.suffix
PARTITION = TopicPartition("orders", 0)
SETTINGS = {"segment.bytes": "300000", "index.interval.bytes": "0"}


def sealed(values: Sequence[bytes | None], codec: str = "none") -> SealedBatch:
    builder = BatchBuilder(4 << 20, Compression(codec))
    for value in values:
        assert builder.append(b"key", value, (), 1000)
    return builder.seal()


def control() -> SealedBatch:
    data = memoryview(
        build([(b"\0\0\0\1", b"\0" * 6, (), 1000)], control=True, transactional=True, producer_id=1, producer_epoch=0)
    )
    return SealedBatch(data, 1, 0, Timestamp(1000), len(data))


@pytest.fixture
def log(directory: LogDirectory) -> Log:
    return directory.create_partition(PARTITION, SETTINGS)


@pytest.fixture
def reported() -> list[StorageError]:
    return []


@pytest.fixture
def view(log: Log, reported: list[StorageError]) -> PartitionView:
    return PartitionView(log, FilePool(4), reported.append)


def fill(log: Log, batches: int, start: int = 0) -> bytes:
    """Append batches of growing records, with nulls, empty values and control batches in between."""
    shown = b""
    for number in range(start, start + batches):
        values = [None, b"", *(b"%06d " % number * (1 + i % 40) for i in range(50))]
        log.append(sealed(values))
        shown += b"".join((value or b"") + b"\n" for value in values)
        if number % 5 == 0:
            log.append(control())
    return shown


def content(view: PartitionView) -> bytes:
    """Read the whole view block by block."""
    shown = b""
    while (located := view.locate(len(shown))) is not None:
        data = view.read(located)
        assert len(data) == located.end - located.start
        shown += data[len(shown) - located.start :]
    return shown


@pytest.mark.long
def test_the_view_is_every_value_and_a_newline(log: Log, view: PartitionView) -> None:
    expected = fill(log, 100)
    assert len(log.snapshot()) > 2
    assert view.refresh()
    assert view.size == len(expected)
    assert content(view) == expected


@pytest.mark.long
def test_a_read_may_begin_at_any_byte(log: Log, view: PartitionView) -> None:
    expected = fill(log, 60)
    assert view.refresh()
    for byte in itertools.chain(range(0, len(expected), 997), (len(expected) - 1,)):
        located = view.locate(byte)
        assert located is not None and located.start <= byte < located.end
        data = view.read(located, nowait=False)
        assert data[byte - located.start] == expected[byte]
    assert view.locate(len(expected)) is None


def test_blocks_are_bounded_by_output_and_there_is_nothing_per_record(log: Log, view: PartitionView) -> None:
    expected = fill(log, 60)
    assert view.refresh()
    starts, byte = [], 0
    while (located := view.locate(byte)) is not None:
        assert located.start == byte
        starts.append(byte)
        byte = located.end
    assert byte == len(expected)
    largest_batch = len(expected) // 60 + 1
    assert all(b - a < line_index.OUTPUT_BYTES_STEP + 2 * largest_batch for a, b in itertools.pairwise(starts))
    assert len(starts) <= len(expected) // line_index.OUTPUT_BYTES_STEP + len(log.snapshot())


@pytest.mark.long
@pytest.mark.parametrize("output_max", [1, line_index.OUTPUT_BYTES_STEP, 150_000, 1 << 20])
def test_what_follows_a_block_comes_with_it_up_to_a_bound(log: Log, view: PartitionView, output_max: int) -> None:
    expected = fill(log, 60)
    assert view.refresh()
    byte, chunks = 0, 0
    while (located := view.locate(byte, output_max)) is not None:
        alone = view.locate(byte)
        assert alone is not None and located.start == alone.start and located.end >= alone.end
        assert located.end == alone.end or located.end - located.start <= output_max
        assert view.read(located) == expected[located.start : located.end]
        byte, chunks = located.end, chunks + 1
    assert byte == len(expected)
    segments = len(log.snapshot())
    assert chunks <= 2 * segments + len(expected) // max(output_max - line_index.OUTPUT_BYTES_STEP, 10_000)


def test_the_view_follows_what_is_appended(log: Log, view: PartitionView) -> None:
    assert view.refresh() and view.size == 0 and view.locate(0) is None
    expected = b""
    for number in range(0, 60, 3):
        expected += fill(log, 3, number)
        assert view.refresh()
        assert view.size == len(expected)
    assert content(view) == expected


def test_an_empty_log_and_one_of_control_batches_show_nothing(log: Log, view: PartitionView) -> None:
    log.append(control())
    assert view.refresh() and view.size == 0 and content(view) == b""


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_batches_are_shown_inflated(log: Log, view: PartitionView, codec: str) -> None:
    log.append(sealed([b"a" * 1000, b"b"], codec))
    assert view.refresh()
    assert content(view) == b"a" * 1000 + b"\nb\n"


def test_what_is_cached_and_small_is_answered_without_waiting(
    log: Log, view: PartitionView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_NOWAIT", 0)  # everything is cached; a file system in memory could not tell
    expected = fill(log, 2)
    assert view.refresh()
    expected += fill(log, 2, 2)
    assert view.refresh(nowait=True)
    located = view.locate(len(expected) - 1)
    assert located is not None and view.read(located, nowait=True).endswith(expected[-100:])


def test_much_work_is_left_to_a_thread(log: Log, view: PartitionView) -> None:
    with pytest.raises(WouldBlock):
        view.refresh(nowait=True)  # old maps are looked for first
    fill(log, 200)
    assert view.refresh(bytes_max=1 << 30)
    log.append(sealed([b"x" * 200_000]))
    with pytest.raises(WouldBlock):
        view.refresh(nowait=True)  # a segment was rolled: its map is to be written
    assert view.refresh()


def test_building_goes_on_where_it_stopped(log: Log, view: PartitionView) -> None:
    expected = fill(log, 60)
    steps = 1
    while not view.refresh(bytes_max=100_000):
        steps += 1
        assert view.scanned_bytes < log.size_bytes
    assert 3 < steps < 20
    assert view.scanned_bytes == log.size_bytes
    assert content(view) == expected


def test_a_refresh_of_whole_segments_begins_none_that_it_cannot_finish(log: Log, view: PartitionView) -> None:
    expected = fill(log, 60)
    assert not view.refresh(bytes_max=100_000, whole_segments_only=True)
    assert view.scanned_bytes == 0 and map_files(log) == []
    for _ in range(20):
        if view.refresh(bytes_max=310_000, whole_segments_only=True):
            break
    assert content(view) == expected
    fill(log, 1, 60)
    assert view.refresh(bytes_max=310_000, whole_segments_only=True)


# --- kept maps -----------------------------------------------------------------------------------------------------


def map_files(log: Log) -> list[str]:
    return sorted(name for name in os.listdir(log.path) if name.endswith(SUFFIX))


def test_line_indexes_of_sealed_segments_are_kept_and_used(
    log: Log, view: PartitionView, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fill(log, 60)
    assert view.refresh()
    sealed_segments = list(log.snapshot())[:-1]
    assert map_files(log) == [f"{segment.base_offset:020d}{SUFFIX}" for segment in sealed_segments]

    scanned: list[Segment] = []
    extend = LineIndex.extend
    monkeypatch.setattr(LineIndex, "extend", spy(scanned, lambda self, s, *a, **k: s, extend))
    again = PartitionView(log, FilePool(2), lambda error: None)
    assert again.refresh()
    assert scanned == [log.snapshot().active]
    assert content(again) == expected


def test_a_line_index_answers_look_ups_while_it_is_stored(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, 5)
    log.roll()
    segment, maps, made = log.snapshot().first, FilePool[StoredLineIndex](2), LineIndex(0)
    made.extend(segment, segment.size, on_damage=no_damage)
    entries, to_do = LineIndex.__dict__["_entries"], [lambda: made.save(segment, maps)]

    def saved_meanwhile(self: LineIndex) -> object:
        found = entries.__get__(self)
        if to_do:
            to_do.pop()()
        return found

    monkeypatch.setattr(LineIndex, "_entries", property(saved_meanwhile, entries.__set__))
    assert made.block(0).output == 0 and made.is_stored
    assert made.block(made.size - 1).output_end == made.size


def changed(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


@pytest.mark.long
@pytest.mark.parametrize(
    "damage",
    [
        *(
            pytest.param(lambda d, p=position: changed(d, p), id=f"byte {position}")
            for position in (0, 11, 12, 23, 31, 39, 47, 55, 63, 67, 71, 75, 87)
        ),
        pytest.param(lambda d: changed(d, len(d) - 1), id="last byte"),
        pytest.param(lambda d: b"", id="empty"),
        pytest.param(lambda d: d[:40], id="cut in the header"),
        pytest.param(lambda d: d[:-1], id="cut in an entry"),
        pytest.param(lambda d: d[:-16], id="an entry short"),
        pytest.param(lambda d: d + d[-16:], id="an entry long"),
        pytest.param(lambda d: b"\0" * len(d), id="zeros"),
    ],
)
def test_a_damaged_map_is_dropped_and_made_anew(
    log: Log, view: PartitionView, damage: Callable[[bytes], bytes]
) -> None:
    expected = fill(log, 60)
    assert view.refresh()
    path = Path(log.path, map_files(log)[0])
    sound = path.read_bytes()
    path.write_bytes(damage(sound))
    assert LineIndex.load(log.snapshot().first, FilePool(1)) is None
    again = PartitionView(log, FilePool(2), lambda error: None)
    assert again.refresh() and content(again) == expected
    assert path.read_bytes() == sound


def with_size_and_checksum(image: bytes, size: int) -> bytes:
    changed = image[:48] + struct.pack(">q", size) + image[56:]
    checksum = line_index_file.checksum_in(changed, VALUES.identity)
    return changed[:12] + struct.pack(">I", checksum) + changed[16:]


def with_entries_and_checksum(image: bytes, entry: bytes) -> bytes:
    changed = image[: line_index_file.HEADER_SIZE] + entry * ((len(image) - line_index_file.HEADER_SIZE) // len(entry))
    return with_size_and_checksum(changed, struct.unpack_from(">q", image, 48)[0])


@pytest.mark.parametrize("read_only", [False, True])
def test_a_map_of_the_wrong_size_is_refuted_and_the_next_view_is_right(
    log: Log, view: PartitionView, tmp_path: Path, read_only: bool
) -> None:
    expected = fill(log, 60)
    assert view.refresh()
    path, true_size = Path(log.path, map_files(log)[0]), view.size
    hostile = with_size_and_checksum(path.read_bytes(), 10**12)
    hostile = with_entries_and_checksum(hostile, struct.pack(">qII", 10**9, 0, 0))
    path.write_bytes(hostile)
    for segment in log.snapshot():
        segment.read_only = read_only
    misled = PartitionView(log, FilePool(2), lambda error: None)
    assert misled.refresh() and misled.size > true_size
    for _ in range(2):
        with pytest.raises(OSError, match="does not match its segment") as caught:
            misled.locate(0)
        assert caught.value.errno == errno.ESTALE and caught.value.filename == str(path)
    assert not misled.is_current
    assert path.exists() == read_only
    after = misled.successor()
    assert after.refresh() and after.is_current and content(after) == expected


def test_a_refuted_map_is_measured_once(log: Log, view: PartitionView, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, 60)
    assert view.refresh()
    segment, path = log.snapshot().first, Path(log.path, map_files(log)[0])
    path.write_bytes(with_entries_and_checksum(path.read_bytes(), struct.pack(">qII", 9, 0, 0)))
    path.write_bytes(with_size_and_checksum(path.read_bytes(), 10**12))
    misled, extended, extend = LineIndex.load(segment, FilePool(2)), list[LineIndex](), LineIndex.extend
    assert misled is not None
    monkeypatch.setattr(LineIndex, "extend", spy(extended, lambda self, *a, **k: self, extend))
    for _ in range(3):
        with pytest.raises(OSError, match="does not match its segment"):
            misled.block(0)
    assert len(extended) == 1


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("batch", [0, -1], ids=["first", "last"])
def test_a_map_of_another_log_is_dropped(log: Log, view: PartitionView, batch: int) -> None:
    fill(log, 60)
    assert view.refresh()
    segment = log.snapshot().first
    assert LineIndex.load(segment, FilePool(1)) is not None
    position = [place for place, _ in segment.headers()][batch]
    with open(segment.log_path, "r+b") as file:  # the leader epoch: no checksum of the batch covers it
        file.seek(position + 12)
        file.write(struct.pack(">i", 77))
    assert LineIndex.load(segment, FilePool(1)) is None


def test_a_map_of_a_shorter_log_is_dropped(log: Log, view: PartitionView) -> None:
    fill(log, 60)
    assert view.refresh()
    segment = log.snapshot().first
    segment.size -= 1
    assert LineIndex.load(segment, FilePool(1)) is None


def test_maps_without_their_segment_are_removed(log: Log, view: PartitionView) -> None:
    fill(log, 5)
    orphan = Path(log.path, f"{999999:020d}{SUFFIX}")
    orphan.write_bytes(b"left over")
    assert view.refresh()
    assert not orphan.exists()


def test_a_reader_writes_nothing(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    expected = fill(directory.create_partition(PARTITION, SETTINGS), 60)
    directory.close()
    before = sorted(os.listdir(tmp_path / str(PARTITION)))
    readers = LogDirectory.open(str(tmp_path), read_only=True)
    view = PartitionView(readers.log(PARTITION), FilePool(2), lambda error: None)
    assert view.refresh() and content(view) == expected
    readers.close()
    assert sorted(os.listdir(tmp_path / str(PARTITION))) == before


# --- damage --------------------------------------------------------------------------------------------------------


def flip(segment_path: str, position: int) -> None:
    with open(segment_path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 0xFF]))


@pytest.mark.damages
@pytest.mark.parametrize(
    ("where", "name"), [(100, "a record"), (17, "the checksum"), (8, "the size"), (16, "the magic")], ids=str
)
def test_a_damaged_batch_counts_nothing_and_its_neighbors_stay(
    log: Log, view: PartitionView, reported: list[StorageError], where: int, name: str
) -> None:
    parts = [fill(log, 1, 1 + number * 5) for number in range(40)]
    segment = log.snapshot().first
    places = [place for place, header in segment.headers() if not header.is_control]
    flip(segment.log_path, places[3] + where)
    assert view.refresh()
    assert [(error.path, error.position) for error in reported] == [(segment.log_path, places[3])]
    assert content(view) == b"".join(parts[:3] + parts[4:])
    assert f"{segment.base_offset:020d}{SUFFIX}" not in map_files(log)


@pytest.mark.damages
def test_damage_that_comes_later_is_an_error_never_a_wrong_byte(log: Log, view: PartitionView) -> None:
    expected = fill(log, 20)
    assert view.refresh()
    segment = log.snapshot().first
    flip(segment.log_path, 200)
    located = view.locate(0)
    assert located is not None
    for nowait in (True, False):
        with pytest.raises(WouldBlock if nowait else CorruptBatch):
            view.read(located, nowait=nowait)
    later = view.locate(located.end)
    assert later is not None and view.read(later) == expected[later.start : later.end]


# --- log start and retention ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 1, 51, 52, 53, 60, 1000, 1500])
def test_the_view_begins_at_the_log_start(log: Log, start: int) -> None:
    fill(log, 40)
    begin_log_at(log, start)
    view = PartitionView(log, FilePool(2), lambda error: None)
    assert view.refresh()
    records = [
        record
        for segment in log.snapshot()
        for batch in segment.batches()
        if not batch.header.is_control
        for record in batch.records()
        if record.offset >= start
    ]
    expected = b"".join((record.value or b"") + b"\n" for record in records)
    assert view.size == len(expected)
    assert content(view) == expected
    assert view.refresh(nowait=True)


@pytest.mark.damages
def test_a_log_start_inside_a_batch_that_cannot_be_read_hides_nothing_else(
    log: Log, view: PartitionView, reported: list[StorageError]
) -> None:
    batch = build([(None, b"value", (), 1000)] * 5)
    batch[22] |= 7  # an unknown codec
    seal_checksum(batch)
    log.append(SealedBatch(memoryview(batch), 5, 0, Timestamp(1000), len(batch)))
    expected = fill(log, 3)
    view.start_offset = 2
    begin_log_at(log, 2)
    assert view.refresh() and content(view) == expected
    assert [type(error) for error in reported] == [UnsupportedFormat]


def remove_from_log(log: Log, segments: Sequence[Segment]) -> None:
    """Do what retention does to segments, but for the delay."""
    log.flush()
    replace_segments_of(log, log.snapshot().without(segments))
    for segment in segments:
        segment_names.remove_from_log(segment)


def test_a_segment_that_a_reader_holds_is_read_to_its_end_though_it_is_gone(log: Log, view: PartitionView) -> None:
    expected = fill(log, 60)
    first, second = list(log.snapshot())[:2]
    assert view.refresh()
    located = view.locate(0)
    assert located is not None
    view.read(located)
    held = view.hold(located)
    remove_from_log(log, [first])
    begin_log_at(log, second.base_offset)
    segment_names.unlink(first)
    assert content(view) == bytes(expected)
    del held
    with pytest.raises(OSError, match="removed"):
        content(view)


def test_a_view_goes_on_behind_a_segment_that_was_removed_and_never_skips_one(log: Log, view: PartitionView) -> None:
    expected = fill(log, 10)
    assert view.refresh()
    old = log.snapshot()
    log.roll()
    expected += fill(log, 1)
    remove_from_log(log, list(old))
    assert view.refresh() and view.size == len(expected), "the next segment is there"
    log.roll()
    fill(log, 1)
    log.roll()
    remove_from_log(log, list(log.snapshot())[:-1])
    with pytest.raises(OSError, match="the next segment was removed"):
        view.refresh()


def test_a_view_of_replaced_segments_is_not_current_though_its_reader_goes_on(log: Log, view: PartitionView) -> None:
    fill(log, 60)
    log.roll()
    expected = list(log.snapshot())
    assert view.refresh() and view.is_current
    first = expected[0]
    again = Segment(first.directory, first.base_offset, first.config, first.pool)
    replace_segments_of(log, log.snapshot().plus(again))
    assert view.refresh() and not view.is_current, "a refresh for open handles"
    assert view.successor().is_current


def test_an_old_view_keeps_its_numbering_and_a_new_one_begins_at_the_new_start(log: Log, view: PartitionView) -> None:
    expected = fill(log, 60)
    assert view.refresh() and view.is_current
    first, second = list(log.snapshot())[:2]
    remove_from_log(log, [first])
    begin_log_at(log, second.base_offset)
    assert not view.is_current
    assert view.refresh() and view.size == len(expected)
    assert content(view) == bytes(expected), "as long as its files are there"
    segment_names.unlink(first)
    with pytest.raises(OSError, match="removed"):
        content(view)
    successor = view.successor()
    assert successor.refresh() and successor.is_current
    assert content(successor) == expected[-successor.size :]
    located = view.locate(len(expected) - 1)
    assert located is not None and view.read(located)[-1:] == b"\n"
    expected += fill(log, 1, 60)
    assert view.refresh() and view.size == len(expected)


@pytest.mark.promise("Memory, open files and the time per request are bounded, whatever the files contain.")
def test_open_maps_are_bounded(log: Log) -> None:
    maps: LineIndexPool = FilePool(2)
    expected = fill(log, 200)
    view = PartitionView(log, maps, lambda error: None)
    assert view.refresh() and len(map_files(log)) > 2
    assert content(view) == expected
    assert len(maps._entries) <= 2
