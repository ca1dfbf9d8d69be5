"""The time index: Kafka's TimeIndexTest, the files of a real broker, damage, growth under a reader."""

import errno
import re
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.storage.errors import CorruptIndex, InvalidIndexAppend
from offsetfs.storage.files import Buffer, File
from offsetfs.storage.segments.time_index import TimeIndex

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
GOLDEN_INDEXES = sorted((GOLDEN / "kafka-4.1").glob("*/*.timeindex"))
ENTRY = Struct(">qi")
BASE = 45
BYTES_MAX = 12 * 30

OpenIndex = Callable[..., TimeIndex]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{BASE:020d}.timeindex"


@pytest.fixture
def make_index(path: Path) -> OpenIndex:
    def make(*entries: tuple[int, int], prealloc: bool = False, bytes_max: int = BYTES_MAX) -> TimeIndex:
        index = TimeIndex.open(str(path), BASE, bytes_max=bytes_max, writable=True, create=True, prealloc=prealloc)
        for entry in entries:
            index.maybe_append(*entry)
        return index

    return make


def reopened(path: Path, **options: bool) -> TimeIndex:
    return TimeIndex.open(str(path), BASE, bytes_max=BYTES_MAX, **options)


# --- look-ups --------------------------------------------------------------------------------------------------------


def test_an_empty_index_answers_no_time_and_the_base_offset(make_index: OpenIndex) -> None:
    index = make_index()
    assert index.lookup(2**62) == index.last_entry == (-1, BASE)
    assert (index.count, index.last_offset, index.is_full) == (0, BASE, False)


def test_a_lookup_finds_the_entry_at_or_below(make_index: OpenIndex) -> None:
    index = make_index((10, 46), (20, 50), (30, 50), (40, 70))
    expected = {9: (-1, BASE), 10: (10, 46), 25: (20, 50), 30: (30, 50), 39: (30, 50), 2**62: (40, 70)}
    assert {timestamp: index.lookup(timestamp) for timestamp in expected} == expected
    assert index.last_entry == (40, 70)


@given(
    timestamps=st.sets(st.integers(0, 2**63 - 1), max_size=40).map(sorted),
    wanted=st.lists(st.integers(-2, 2**63)),
)
def test_a_lookup_equals_a_linear_search(
    timestamps: list[int], wanted: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("linear") / "index"
    path.write_bytes(b"".join(ENTRY.pack(timestamp, 1 + n // 2) for n, timestamp in enumerate(timestamps)))
    index = reopened(path)
    entries = [(timestamp, BASE + 1 + n // 2) for n, timestamp in enumerate(timestamps)]
    for timestamp in (*wanted, *timestamps):
        assert index.lookup(timestamp) == [(-1, BASE), *(e for e in entries if e[0] <= timestamp)][-1]
    index.close()


# --- appending -------------------------------------------------------------------------------------------------------


def test_the_bytes_are_those_of_the_format(path: Path) -> None:
    index = TimeIndex.open(str(path), 0, bytes_max=120, writable=True, create=True)
    index.maybe_append(283843, 1)
    index.close()
    assert path.read_bytes() == bytes.fromhex("00000000000454c300000001")


IGNORED = {
    "the same entry": (20, 50),
    "the same time at a later offset": (20, 60),
}


@pytest.mark.parametrize(("timestamp", "offset"), IGNORED.values(), ids=IGNORED)
def test_a_time_that_is_known_adds_nothing(timestamp: int, offset: int, make_index: OpenIndex) -> None:
    index = make_index((10, 46), (20, 50))
    index.maybe_append(timestamp, offset)
    assert list(index.entries()) == [(10, 46), (20, 50)]


def test_no_time_is_never_written(make_index: OpenIndex, path: Path) -> None:
    make_index((-1, BASE), (-1, BASE + 100)).close()
    assert path.read_bytes() == b""


REFUSED_APPENDS = {
    "a lower offset": (30, 49),
    "a lower time": (19, 60),
    "too far above the base": (30, BASE + 2**31),
}


@pytest.mark.parametrize("skip_full", [False, True])
@pytest.mark.parametrize(("timestamp", "offset"), REFUSED_APPENDS.values(), ids=REFUSED_APPENDS)
def test_an_entry_that_falls_or_does_not_fit_is_refused(
    timestamp: int, offset: int, skip_full: bool, make_index: OpenIndex
) -> None:
    index = make_index((20, 50))
    with pytest.raises(InvalidIndexAppend):
        index.maybe_append(timestamp, offset, skip_full=skip_full)
    assert list(index.entries()) == [(20, 50)]


def test_the_first_entry_may_not_lie_below_the_base(make_index: OpenIndex) -> None:
    with pytest.raises(InvalidIndexAppend):
        make_index((20, BASE - 1))


def test_the_last_slot_is_kept_for_the_entry_a_segment_ends_with(make_index: OpenIndex, path: Path) -> None:
    index = make_index(*((n, BASE + n) for n in range(1, 30)))
    assert index.is_full and index.count == 29
    for timestamp in (29, 99):
        with pytest.raises(InvalidIndexAppend, match="full with 29 entries"):
            index.maybe_append(timestamp, 999)
    index.maybe_append(100, 999, skip_full=True)
    assert index.last_entry == (100, 999)
    index.close()
    assert path.stat().st_size == BYTES_MAX
    assert reopened(path).is_full


@pytest.mark.parametrize("prealloc", [False, True])
def test_an_append_that_the_disk_refuses_leaves_the_index_as_it_was(
    prealloc: bool, make_index: OpenIndex, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index((10, 46), prealloc=prealloc)
    write = File.write

    def half_and_full(file: File, position: int, data: Buffer) -> None:
        write(file, position, bytes(data)[:9])
        raise OSError(errno.ENOSPC, "no space", file.path)

    with monkeypatch.context() as patch:
        patch.setattr(File, "write", half_and_full)
        with pytest.raises(OSError, match="no space"):
            index.maybe_append(1 << 60, 60)
    assert (index.count, index.last_entry, index.lookup(2**62)) == (1, (10, 46), (10, 46))
    index.maybe_append(20, 50)
    index.close()
    assert path.read_bytes() == ENTRY.pack(10, 1) + ENTRY.pack(20, 5)


# --- the length of the file ------------------------------------------------------------------------------------------


def test_preallocation_is_rounded_down_to_whole_entries_as_kafka_does_it(make_index: OpenIndex, path: Path) -> None:
    index = make_index((10, 46), bytes_max=10 << 20)
    index.preallocate()
    assert path.stat().st_size == 10485756
    assert path.stat().st_blocks * 512 < 1 << 16
    index.trim()
    assert path.stat().st_size == 12
    assert index.lookup(10) == (10, 46)


def test_the_zeros_of_a_preallocated_file_are_no_entries(path: Path) -> None:
    for count in range(12):
        entries = [(1000 + n, BASE + n) for n in range(count)]
        path.write_bytes(b"".join(ENTRY.pack(t, o - BASE) for t, o in entries) + bytes(12 * 13))
        for writable in (False, True):
            index = reopened(path, writable=writable)
            assert list(index.entries()) == entries
            assert index.last_entry == (entries[-1] if entries else (-1, BASE))
            index.close()


def test_the_first_millisecond_of_1970_is_kept_once_another_follows(make_index: OpenIndex, path: Path) -> None:
    make_index((0, BASE), (5, 50), prealloc=True).close()
    assert list(reopened(path).entries()) == [(0, BASE), (5, 50)]


TRUNCATIONS: dict[str, tuple[int, Sequence[int]]] = {
    "beyond all": (57, [51, 53, 53, 56]),
    "at the last": (56, [51, 53, 53]),
    "at one that two entries have": (53, [51]),
    "between": (54, [51, 53, 53]),
    "below all": (0, []),
}


@pytest.mark.parametrize("prealloc", [False, True])
@pytest.mark.parametrize(("offset", "kept"), TRUNCATIONS.values(), ids=TRUNCATIONS)
def test_truncation_goes_by_offset_and_appending_goes_on(
    offset: int, kept: Sequence[int], prealloc: bool, make_index: OpenIndex, path: Path
) -> None:
    index = make_index(*((10 * n, o) for n, o in enumerate((51, 53, 53, 56), 1)), prealloc=prealloc)
    index.truncate_to(offset)
    assert [o for _, o in index.entries()] == kept
    assert index.last_entry == ((10 * len(kept), kept[-1]) if kept else (-1, BASE))
    assert [o for _, o in reopened(path).entries()] == kept  # as after a crash: nothing stale is counted
    index.maybe_append(99, 60)
    index.close()
    assert [o for _, o in reopened(path).entries()] == [*kept, 60]


def test_a_reset_index_is_empty_and_can_be_filled_again(make_index: OpenIndex, path: Path) -> None:
    index = make_index((10, 46), prealloc=True)
    index.reset()
    assert (index.count, index.last_entry, index.lookup(99), path.stat().st_size) == (0, (-1, BASE), (-1, BASE), 0)
    index.maybe_append(5, 46)
    assert index.lookup(99) == (5, 46)


def test_flush_syncs_the_file(make_index: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(File, "sync", lambda file: synced.append(file.path))
    index = make_index((10, 46))
    index.file.sync()
    assert synced == [index.path]


# --- readers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prealloc", [False, True])
def test_a_reader_sees_what_a_writer_adds_after_it_opened(prealloc: bool, make_index: OpenIndex, path: Path) -> None:
    writer = make_index(prealloc=prealloc, bytes_max=12 * 2000)
    reader = reopened(path)
    for n in range(1, 1500):
        writer.maybe_append(n, BASE + n)
        if n % 97 in (0, 1, 50):
            assert (reader.count, reader.lookup(2**62), reader.last_entry) == (n, (n, BASE + n), (n, BASE + n))
            assert writer.lookup(n // 2) == ((n // 2, BASE + n // 2) if n > 1 else (-1, BASE))
    writer.trim()
    assert reader.lookup(2**62) == (1499, BASE + 1499)
    writer.truncate_to(BASE + 3)
    writer.trim()
    assert list(reader.entries()) == [(1, BASE + 1), (2, BASE + 2)]


def test_a_missing_file_is_not_made_unless_asked(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        reopened(path, writable=True)
    assert not path.exists()


# --- damage ----------------------------------------------------------------------------------------------------------

DAMAGED = {
    "torn entry": ENTRY.pack(10, 1)[:11],
    "torn second entry": ENTRY.pack(10, 1) + b"\0" * 8,
    "last time below the first": ENTRY.pack(10, 1) + ENTRY.pack(9, 2),
    "last offset below the first": ENTRY.pack(10, 2) + ENTRY.pack(11, 1),
    "offset below the base": ENTRY.pack(10, -1),
    "negative time": ENTRY.pack(-5, 1),
}


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_file_that_cannot_be_an_index_is_refused_untouched(content: bytes, writable: bool, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptIndex) as caught:
        reopened(path, writable=writable, prealloc=writable)
    assert caught.value.path == str(path)
    assert path.read_bytes() == content


@given(
    content=st.binary(max_size=240)
    | st.lists(st.sampled_from([b"\0" * 12, ENTRY.pack(1, 1), b"\xff" * 12])).map(b"".join),
    timestamps=st.lists(st.integers(-(2**64), 2**64), max_size=5),
)
def test_any_bytes_are_refused_or_answer_with_an_entry(
    content: bytes, timestamps: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "index"
    path.write_bytes(content)
    try:
        index = reopened(path)
    except CorruptIndex:
        return
    entries = [(-1, BASE), *index.entries()]
    assert index.count == len(entries) - 1 <= len(content) // 12
    for timestamp in (*timestamps, 0, 1):
        assert index.lookup(timestamp) in entries
    index.close()
    assert path.read_bytes() == content


# --- what Kafka wrote ------------------------------------------------------------------------------------------------


def dumped(path: Path) -> list[tuple[int, int]]:
    """Return the entries that Kafka's DumpLogSegments prints for this file."""
    text = path.parent.with_name(f"{path.parent.name}.indexes.dump.txt").read_text()
    sections = re.split(r"^Dumping (.*)\n", text, flags=re.MULTILINE)
    body = dict(zip(sections[1::2], sections[2::2], strict=True))[f"{path.parent.name}/{path.name}"]
    return [(int(t), int(o)) for t, o in re.findall(r"^timestamp: (\d+) offset: (\d+)$", body, flags=re.MULTILINE)]


@pytest.mark.parametrize("path", GOLDEN_INDEXES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_indexes_of_a_broker_read_as_its_own_tool_prints_them(path: Path) -> None:
    index = TimeIndex.open(str(path), int(path.stem), bytes_max=10 << 20)
    entries = list(index.entries())
    if path.parent.name != "wide-0":  # not dumped
        assert entries == dumped(path)
    assert len(entries) == index.count == path.stat().st_size // 12
    assert [index.lookup(timestamp) for timestamp, _ in entries] == entries
    index.close()


def test_the_sparse_indexes_of_a_killed_broker_read_without_padding(tmp_path: Path) -> None:
    sizes: dict[str, int] = {}
    with tarfile.open(GOLDEN / "kafka-4.1-unclean.tar.xz") as archive:
        for member in archive:
            if not member.name.endswith(".timeindex") or member.size < 1 << 20:
                continue
            content = archive.extractfile(member)
            assert content is not None
            path = tmp_path / "index"
            path.write_bytes(content.read())
            base = int(Path(member.name).stem)
            index = TimeIndex.open(str(path), base, bytes_max=10 << 20)
            valid = path.read_bytes().rstrip(b"\0")
            entries = ENTRY.iter_unpack(valid + bytes(-len(valid) % 12))
            assert list(index.entries()) == [(timestamp, base + r) for timestamp, r in entries]
            sizes[member.name] = index.count
            index.close()
    assert len(sizes) >= 2 and any(sizes.values())
