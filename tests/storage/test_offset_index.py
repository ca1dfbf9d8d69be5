"""The offset index: Kafka's OffsetIndexTest, the files of a real broker, damage, growth under a reader."""

import errno
import fcntl
import os
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
from offsetfs.storage.segments.offset_index import OffsetIndex

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
GOLDEN_INDEXES = sorted((GOLDEN / "kafka-4.1").glob("*/*.index"))
ENTRY = Struct(">ii")
BASE = 45
BYTES_MAX = 8 * 30

OpenIndex = Callable[..., OffsetIndex]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{BASE:020d}.index"


@pytest.fixture
def make_index(path: Path) -> OpenIndex:
    def make(*entries: tuple[int, int], prealloc: bool = False, bytes_max: int = BYTES_MAX) -> OffsetIndex:
        index = OffsetIndex.open(str(path), BASE, bytes_max=bytes_max, writable=True, create=True, prealloc=prealloc)
        for entry in entries:
            index.append(*entry)
        return index

    return make


def reopened(path: Path, **options: bool) -> OffsetIndex:
    return OffsetIndex.open(str(path), BASE, bytes_max=BYTES_MAX, **options)


# --- look-ups --------------------------------------------------------------------------------------------------------


def test_an_empty_index_answers_the_beginning(make_index: OpenIndex) -> None:
    index = make_index()
    assert (index.count, index.last_offset, index.lookup(BASE + 5), index.is_full) == (0, BASE, (BASE, 0), False)
    assert list(index.entries()) == []


def test_a_lookup_finds_the_entry_at_or_below(make_index: OpenIndex) -> None:
    index = make_index((50, 100), (60, 200), (70, 300))
    expected = {0: (BASE, 0), 49: (BASE, 0), 50: (50, 100), 59: (50, 100), 60: (60, 200), 70: (70, 300), 999: (70, 300)}
    assert {offset: index.lookup(offset) for offset in expected} == expected
    assert index.last_offset == 70


@given(
    relatives=st.sets(st.integers(1, 1 << 31 - 1), max_size=40).map(sorted),
    wanted=st.lists(st.integers(-10, (1 << 31) + 10)),
)
def test_a_lookup_equals_a_linear_search(
    relatives: list[int], wanted: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("linear") / "index"
    path.write_bytes(b"".join(ENTRY.pack(relative, 10 * n) for n, relative in enumerate(relatives, 1)))
    index = reopened(path)
    for offset in [BASE + number for number in (*wanted, *relatives)]:
        below = [(BASE, 0), *((BASE + r, 10 * n) for n, r in enumerate(relatives, 1) if BASE + r <= offset)]
        assert index.lookup(offset) == below[-1]
    for size in range(0, 10 * len(relatives) + 20, 7):
        above = [(BASE + r, 10 * n) for n, r in enumerate(relatives, 1) if 10 * n >= 5 + size]
        assert index.upper_bound((BASE, 5), size) == (above[0] if above else None)
    index.close()


UPPER_BOUNDS = {
    "less than one entry on": ((1, 0), 5, (2, 10)),
    "exactly one entry on": ((1, 0), 10, (2, 10)),
    "less than two entries on": ((1, 0), 22, (3, 23)),
    "from the second entry": ((2, 10), 24, (4, 37)),
    "beyond the last": ((3, 23), 20, None),
}


@pytest.mark.parametrize(("entry", "size", "expected"), UPPER_BOUNDS.values(), ids=UPPER_BOUNDS)
def test_the_upper_bound_of_a_read_is_the_first_entry_behind_it(
    entry: tuple[int, int], size: int, expected: tuple[int, int] | None, tmp_path: Path
) -> None:
    index = OffsetIndex.open(str(tmp_path / "index"), 0, bytes_max=240, writable=True, create=True)
    assert index.upper_bound((0, 0), 5) is None
    for offset, position in [(1, 0), (2, 10), (3, 23), (4, 37)]:
        index.append(offset, position)
    assert index.upper_bound(entry, size) == expected
    index.close()


def test_the_largest_offset_and_position_fit(make_index: OpenIndex, path: Path) -> None:
    index = make_index((BASE + 2**31 - 1, 2**31 - 1))
    assert index.lookup(2**40) == (BASE + 2**31 - 1, 2**31 - 1)
    assert path.read_bytes() == b"\x7f\xff\xff\xff" * 2


# --- appending -------------------------------------------------------------------------------------------------------


def test_the_bytes_are_those_of_the_format(path: Path) -> None:
    index = OffsetIndex.open(str(path), 0, bytes_max=80, writable=True, create=True)
    index.append(5, 5000)
    index.close()
    assert path.read_bytes() == bytes.fromhex("0000000500001388")


REFUSED_APPENDS = {
    "the same offset": (50, 300),
    "a lower offset": (49, 300),
    "below the base": (BASE - 1, 300),
    "too far above the base": (BASE + 2**31, 300),
    "position beyond an i32": (51, 2**31),
    "negative position": (51, -1),
}


@pytest.mark.parametrize(("offset", "position"), REFUSED_APPENDS.values(), ids=REFUSED_APPENDS)
def test_an_entry_that_is_not_beyond_the_last_or_does_not_fit_is_refused(
    offset: int, position: int, make_index: OpenIndex, path: Path
) -> None:
    index = make_index((50, 100))
    with pytest.raises(InvalidIndexAppend):
        index.append(offset, position)
    assert list(index.entries()) == [(50, 100)]
    assert path.read_bytes() == ENTRY.pack(5, 100)


def test_a_full_index_refuses_more(make_index: OpenIndex, path: Path) -> None:
    index = make_index(*((50 + n, n) for n in range(30)))
    assert index.is_full
    with pytest.raises(InvalidIndexAppend, match="full with 30 entries"):
        index.append(1000, 1000)
    index.close()
    assert reopened(path).is_full


def test_an_index_without_space_for_one_entry_is_always_full(make_index: OpenIndex) -> None:
    index = make_index(bytes_max=7)
    index.preallocate()
    assert index.is_full and index.lookup(99) == (BASE, 0)


@pytest.mark.parametrize("prealloc", [False, True])
def test_an_append_that_the_disk_refuses_leaves_the_index_as_it_was(
    prealloc: bool, make_index: OpenIndex, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index((50, 100), prealloc=prealloc)
    write = File.write

    def half_and_full(file: File, position: int, data: Buffer) -> None:
        write(file, position, bytes(data)[:4])
        raise OSError(errno.ENOSPC, "no space", file.path)

    with monkeypatch.context() as patch:
        patch.setattr(File, "write", half_and_full)
        with pytest.raises(OSError, match="no space"):
            index.append(60, 200)
    assert (index.count, index.last_offset, index.lookup(99)) == (1, 50, (50, 100))
    index.append(55, 150)
    index.close()
    assert path.read_bytes() == ENTRY.pack(5, 100) + ENTRY.pack(10, 150)


# --- the length of the file ------------------------------------------------------------------------------------------


def test_a_preallocated_sparse_file_has_whole_entries_and_is_trimmed(make_index: OpenIndex, path: Path) -> None:
    index = make_index((50, 100), (60, 200), bytes_max=(10 << 20) + 5)
    index.preallocate()
    assert path.stat().st_size == 10 << 20
    assert path.stat().st_blocks * 512 < 1 << 16
    assert index.lookup(55) == (50, 100)
    index.append(70, 300)
    index.trim()
    assert path.stat().st_size == 24
    assert index.lookup(99) == (70, 300)


def test_closing_trims_what_was_written_and_a_second_close_is_harmless(make_index: OpenIndex, path: Path) -> None:
    make_index((50, 100), prealloc=True).close()
    assert path.read_bytes() == ENTRY.pack(5, 100)


def test_the_zeros_of_a_preallocated_file_are_no_entries(path: Path) -> None:
    for count in range(12):
        entries = [(BASE + n, 10 * n) for n in range(1, count + 1)]
        path.write_bytes(b"".join(ENTRY.pack(o - BASE, p) for o, p in entries) + bytes(8 * 13))
        for writable in (False, True):
            index = reopened(path, writable=writable)
            assert list(index.entries()) == entries
            assert index.lookup(2**40) == (entries[-1] if entries else (BASE, 0))
            index.close()


def test_an_only_entry_at_the_base_answers_as_an_empty_index(make_index: OpenIndex, path: Path) -> None:
    make_index((BASE, 0)).close()
    index = reopened(path)
    assert (index.last_offset, index.lookup(BASE + 9)) == (BASE, (BASE, 0))


def test_appending_goes_on_where_the_entries_of_an_existing_file_end(make_index: OpenIndex, path: Path) -> None:
    path.write_bytes(ENTRY.pack(5, 100) + bytes(80))
    index = make_index((60, 200))
    with pytest.raises(InvalidIndexAppend):
        index.append(60, 300)
    index.close()
    assert list(reopened(path).entries()) == [(50, 100), (60, 200)]


TRUNCATIONS: dict[str, tuple[int, Sequence[int]]] = {
    "beyond all": (57, [51, 53, 55, 56]),
    "at the last": (56, [51, 53, 55]),
    "at one": (53, [51]),
    "between": (54, [51, 53]),
    "at the first": (51, []),
    "below the base": (0, []),
}


@pytest.mark.parametrize("prealloc", [False, True])
@pytest.mark.parametrize(("offset", "kept"), TRUNCATIONS.values(), ids=TRUNCATIONS)
def test_truncation_keeps_smaller_offsets_and_appending_goes_on(
    offset: int, kept: Sequence[int], prealloc: bool, make_index: OpenIndex, path: Path
) -> None:
    index = make_index(*((o, o) for o in (51, 53, 55, 56)), prealloc=prealloc)
    index.truncate_to(offset)
    assert [o for o, _ in index.entries()] == kept
    assert index.last_offset == (kept[-1] if kept else BASE)
    assert [o for o, _ in reopened(path).entries()] == kept  # as after a crash: nothing stale is counted
    index.append(60, 60)
    index.close()
    assert [o for o, _ in reopened(path).entries()] == [*kept, 60]


def test_a_reset_index_is_empty_and_can_be_filled_again(make_index: OpenIndex, path: Path) -> None:
    index = make_index((50, 100), prealloc=True)
    index.reset()
    assert (index.count, index.last_offset, index.lookup(99), path.stat().st_size) == (0, BASE, (BASE, 0), 0)
    index.append(47, 10)
    assert index.lookup(99) == (47, 10)


def test_a_sync_of_an_unchanged_index_does_not_wait_for_the_disk(
    make_index: OpenIndex, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(File, "sync", lambda file: synced.append(file.path))

    def count(index: OffsetIndex) -> int:
        before = len(synced)
        index.sync()
        return len(synced) - before

    index = make_index(prealloc=True)
    assert count(index) == 0, "an empty index has no entries to lose"
    changes: dict[str, Callable[[], object]] = {
        "append": lambda: index.append(50, 100),
        "append_packed": lambda: index.append_packed(ENTRY.pack(10, 200)),
        "truncate_to": lambda: index.truncate_to(BASE + 10),
    }
    for name, change in changes.items():
        change()
        assert (count(index), count(index)) == (1, 0), name
    index.preallocate()
    index.truncate_to(99)
    assert count(index) == 0, "no entry has changed"
    index.close()
    assert count(reopened(path)) == 1, "another process may have written the entries"


def test_an_index_whose_sync_failed_is_synced_again(make_index: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index = make_index((50, 100))
    with monkeypatch.context() as patched:
        patched.setattr(File, "sync", lambda _file: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            index.sync()
    synced: list[str] = []
    monkeypatch.setattr(File, "sync", lambda file: synced.append(file.path))
    index.sync()
    assert synced == [index.path]


# --- readers ---------------------------------------------------------------------------------------------------------


def test_a_missing_file_is_not_made_unless_asked(path: Path) -> None:
    for writable in (False, True):
        with pytest.raises(FileNotFoundError):
            reopened(path, writable=writable)
    assert not path.exists()


def test_a_reader_cannot_write(path: Path) -> None:
    path.write_bytes(ENTRY.pack(5, 100) + bytes(80))
    before = path.stat()
    index = reopened(path)
    flags = [fcntl.fcntl(int(fd), fcntl.F_GETFL) for fd in os.listdir("/proc/self/fd") if links_to(fd, path)]
    assert [flag & os.O_ACCMODE for flag in flags] == [os.O_RDONLY]
    assert index.lookup(99) == (50, 100)
    for write in (index.trim, index.preallocate, index.reset):
        with pytest.raises(AssertionError):
            write()
    index.close()
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def links_to(fd: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == str(path)
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("prealloc", [False, True])
def test_a_reader_sees_what_a_writer_adds_after_it_opened(prealloc: bool, make_index: OpenIndex, path: Path) -> None:
    writer = make_index(prealloc=prealloc, bytes_max=8 * 2000)
    reader = reopened(path)
    for n in range(1, 1500):
        writer.append(BASE + n, n)
        if n % 97 in (0, 1, 50):
            assert (reader.count, reader.lookup(2**40), reader.last_offset) == (n, (BASE + n, n), BASE + n)
            assert writer.lookup(BASE + n // 2) == (BASE + n // 2, n // 2)
    writer.trim()
    assert reader.lookup(2**40) == (BASE + 1499, 1499)
    writer.truncate_to(BASE + 3)
    writer.trim()
    assert list(reader.entries()) == [(BASE + 1, 1), (BASE + 2, 2)]
    writer.preallocate()
    writer.append(BASE + 10, 10)
    assert reader.lookup(2**40) == (BASE + 10, 10)


def test_a_reader_survives_a_file_that_is_emptied_and_one_that_is_renamed(make_index: OpenIndex, path: Path) -> None:
    writer = make_index(*((50 + n, n) for n in range(20)))
    reader = reopened(path)
    assert reader.count == 20
    path.rename(path.with_suffix(".index.deleted"))
    assert reader.lookup(55) == (55, 5)
    writer.reset()
    assert (reader.count, reader.lookup(55), reader.last_offset) == (0, (BASE, 0), BASE)


def test_entries_that_are_being_read_do_not_end_with_the_index(make_index: OpenIndex) -> None:
    index = make_index((50, 100), (60, 200))
    entries = index.entries()
    assert next(entries) == (50, 100)
    index.close()
    assert list(entries) == [(60, 200)]


# --- damage ----------------------------------------------------------------------------------------------------------

DAMAGED = {
    "torn entry": ENTRY.pack(5, 100)[:7],
    "torn second entry": ENTRY.pack(5, 100) + b"\0",
    "last below the first": ENTRY.pack(5, 100) + ENTRY.pack(4, 200),
    "below the base": ENTRY.pack(-1, 100),
    "last below the base": ENTRY.pack(5, 100) + ENTRY.pack(-5, 200),
    "negative position": ENTRY.pack(5, -100),
    "position that falls": ENTRY.pack(5, 100) + ENTRY.pack(6, 99),
}


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_file_that_cannot_be_an_index_is_refused_untouched(content: bytes, writable: bool, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptIndex) as caught:
        reopened(path, writable=writable, prealloc=writable)
    assert caught.value.path == str(path)
    assert path.read_bytes() == content
    assert not any(links_to(fd, path) for fd in os.listdir("/proc/self/fd"))


@pytest.mark.security("A file that is far too large for its kind is refused before it is read.")
def test_a_planted_giant_is_refused_before_it_is_read(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(CorruptIndex):
        reopened(path)


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_what_is_no_regular_file_is_not_opened(kind: str, path: Path) -> None:
    if kind == "link":
        path.symlink_to("/etc/hostname")
    else:
        os.mkfifo(path)
    with pytest.raises(OSError, match=r"regular file|symbolic links"):
        reopened(path)


@given(
    content=st.binary(max_size=200)
    | st.lists(st.sampled_from([b"\0" * 8, b"\0\0\0\1" * 2, b"\xff" * 8])).map(b"".join),
    offsets=st.lists(st.integers(-(2**63), 2**63), max_size=5),
)
def test_any_bytes_are_refused_or_answer_with_an_entry(
    content: bytes, offsets: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "index"
    path.write_bytes(content)
    try:
        index = reopened(path)
    except CorruptIndex:
        return
    entries = [(BASE, 0), *index.entries()]
    assert index.count == len(entries) - 1 <= len(content) // 8
    for offset in (*offsets, BASE, BASE + 1):
        assert index.lookup(offset) in entries
        assert index.upper_bound((BASE, 0), offset) in (None, *entries)
    index.close()
    assert path.read_bytes() == content


# --- what Kafka wrote ------------------------------------------------------------------------------------------------


def dumped(path: Path) -> list[tuple[int, int]]:
    """Return the entries that Kafka's DumpLogSegments prints for this file."""
    text = path.parent.with_name(f"{path.parent.name}.indexes.dump.txt").read_text()
    sections = re.split(r"^Dumping (.*)\n", text, flags=re.MULTILINE)
    body = dict(zip(sections[1::2], sections[2::2], strict=True))[f"{path.parent.name}/{path.name}"]
    return [(int(o), int(p)) for o, p in re.findall(r"^offset: (\d+) position: (\d+)$", body, flags=re.MULTILINE)]


@pytest.mark.parametrize("path", GOLDEN_INDEXES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_indexes_of_a_broker_read_as_its_own_tool_prints_them(path: Path) -> None:
    index = OffsetIndex.open(str(path), int(path.stem), bytes_max=10 << 20)
    entries = list(index.entries())
    if path.parent.name != "wide-0":  # not dumped
        assert entries == dumped(path)
    assert len(entries) == index.count == path.stat().st_size // 8
    assert [index.lookup(offset) for offset, _ in entries] == entries
    index.close()


def test_the_sparse_indexes_of_a_killed_broker_read_without_padding(tmp_path: Path) -> None:
    sizes: dict[str, int] = {}
    with tarfile.open(GOLDEN / "kafka-4.1-unclean.tar.xz") as archive:
        for member in archive:
            if not member.name.endswith(".index") or member.size < 1 << 20:
                continue
            content = archive.extractfile(member)
            assert content is not None
            path = tmp_path / "index"
            path.write_bytes(content.read())
            base = int(Path(member.name).stem)
            index = OffsetIndex.open(str(path), base, bytes_max=10 << 20)
            valid = path.read_bytes().rstrip(b"\0")
            assert list(index.entries()) == [(base + r, p) for r, p in ENTRY.iter_unpack(padded(valid, 8))]
            sizes[member.name] = index.count
            index.close()
    assert len(sizes) >= 2 and any(sizes.values())


def padded(data: bytes, size: int) -> bytes:
    return data + bytes(-len(data) % size)


def test_an_index_that_is_let_go_keeps_no_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.index"
    path.write_bytes(bytes.fromhex("0000000500001388"))
    index = OffsetIndex.open(str(path), 0, bytes_max=1 << 20)
    assert index.lookup(5) == (5, 5000)
    assert any(links_to(fd, path) for fd in os.listdir("/proc/self/fd"))
    del index
    assert not any(links_to(fd, path) for fd in os.listdir("/proc/self/fd"))
