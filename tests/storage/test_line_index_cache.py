"""Maps of a log that may not be written to are kept in the cache of the user, and each is validated before use."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.spies import no_damage

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.units import Timestamp
from offsetfs.storage.views import line_index_cache
from offsetfs.storage.views.line_index import LineIndex
from offsetfs.storage.views.line_index_cache import LineIndexCache
from offsetfs.storage.views.partition_view import PartitionView
from offsetfs.storage.views.range_view import RangeView
from offsetfs.storage.views.view_format import VALUES, JsonFormat, ViewFormat

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)
JSON = JsonFormat(PARTITION)
SEGMENT_BYTES = 1_200_000
SETTINGS = {"segment.bytes": str(SEGMENT_BYTES)}
BATCH_RECORDS, BATCHES_OF_A_SEGMENT = 100, 3


def append(directory: LogDirectory, batches: int, letter: bytes = b"a") -> None:
    log = directory.log(PARTITION) if directory.has(PARTITION) else directory.create_partition(PARTITION, SETTINGS)
    for _ in range(batches):
        values = [b"%07d " % (log.next_offset + n) + letter * 3500 for n in range(BATCH_RECORDS)]
        data = build([(b"key", value, (), 1000) for value in values])
        log.append(SealedBatch(memoryview(data), len(values), 0, Timestamp(1000), len(data)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of two sealed segments and an active one, without maps."""
    path = tmp_path / "logs"
    path.mkdir()
    with_log(path, lambda directory: append(directory, 3 * BATCHES_OF_A_SEGMENT))
    return path


def with_log(path: Path, change: Callable[[LogDirectory], None]) -> None:
    directory = LogDirectory.open(str(path))
    try:
        change(directory)
    finally:
        directory.close()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".cache" / "offsetfs"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many bytes of the log were read for maps, call by call."""
    read: list[int] = []
    extend = LineIndex.extend

    def noted(self: LineIndex, *args: object, **named: object) -> None:
        before = self.log_bytes
        extend(self, *args, **named)  # type: ignore[arg-type]
        read.append(self.log_bytes - before)

    monkeypatch.setattr(LineIndex, "extend", noted)
    yield read


def looked_at(
    path: Path, cache: Path, form: ViewFormat = VALUES, on_damage: Callable[[StorageError], None] = no_damage
) -> bytes:
    """Return what a view shows that may not write to the log."""
    before = sorted(os.listdir(path / str(PARTITION)))
    directory = LogDirectory.open(str(path), read_only=True)
    try:
        log = directory.log(PARTITION)
        shown = content(log, form, LineIndexCache(str(cache), log), on_damage)
    finally:
        directory.close()
    assert sorted(os.listdir(path / str(PARTITION))) == before, "nothing is written there"
    return shown


def content(
    log: Log, form: ViewFormat, cache: LineIndexCache | None, on_damage: Callable[[StorageError], None]
) -> bytes:
    view = PartitionView(log, FilePool(4), on_damage, view_format=form, cache=cache)
    assert view.refresh()
    shown = b""
    while (located := view.locate(len(shown))) is not None:
        shown += view.read(located)[len(shown) - located.start :]
    assert len(shown) == view.size
    return shown


def without_cache(path: Path, form: ViewFormat = VALUES) -> bytes:
    directory = LogDirectory.open(str(path), read_only=True)
    try:
        return content(directory.log(PARTITION), form, None, lambda error: None)
    finally:
        directory.close()


def kept(cache: Path) -> list[Path]:
    return sorted((cache / "maps").glob("*/*"))


# --- taken up ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [VALUES, JSON], ids=["values", "json"])
def test_the_second_look_reads_no_sealed_segment(
    path: Path, cache: Path, form: ViewFormat, measured: list[int]
) -> None:
    expected = without_cache(path, form)
    assert looked_at(path, cache, form) == expected
    names = [file.name for file in kept(cache)]
    assert names == [f"{base:020d}{form.suffix}" for base in (0, BATCH_RECORDS * BATCHES_OF_A_SEGMENT)]
    measured.clear()
    assert looked_at(path, cache, form) == expected
    assert len(measured) == 1, "the active segment, which is small"


def test_the_map_of_a_long_active_segment_goes_on_from_its_end(
    path: Path, cache: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_index_cache, "GROWTH_BYTES", 1000)
    looked_at(path, cache)
    assert len(kept(cache)) == 3
    measured.clear()
    assert looked_at(path, cache) == without_cache(path) and sum(measured[:-3]) == 0
    with_log(path, lambda directory: append(directory, 1))
    measured.clear()
    shown = looked_at(path, cache)
    assert sum(measured) < SEGMENT_BYTES / 2, "what was appended, and the new active segment"
    assert shown == without_cache(path)


def test_an_active_segment_that_was_truncated_and_written_anew_has_another_map(
    path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_index_cache, "GROWTH_BYTES", 1000)
    looked_at(path, cache)

    def other(directory: LogDirectory) -> None:
        log = directory.log(PARTITION)
        log.truncate_to(log.next_offset - BATCH_RECORDS)
        append(directory, 1, b"o")

    with_log(path, other)
    assert looked_at(path, cache) == without_cache(path)


def test_a_range_takes_maps_up_and_puts_them_down(path: Path, cache: Path, measured: list[int]) -> None:
    def cut_out() -> int:
        directory = LogDirectory.open(str(path), read_only=True)
        try:
            log = directory.log(PARTITION)
            held = LineIndexCache(str(cache), log)
            view = RangeView(
                LogView(log),
                0,
                log.next_offset,
                FilePool(4),
                no_damage,
                view_format=VALUES,
                known=lambda _: None,
                cache=held,
            )
            assert view.refresh()
            return view.size
        finally:
            directory.close()

    assert cut_out() == len(without_cache(path)) and len(kept(cache)) == 2
    measured.clear()
    assert cut_out() == len(without_cache(path)) and len(measured[:-3]) <= 1


def test_maps_of_committed_records_are_not_kept(path: Path, cache: Path) -> None:
    directory = LogDirectory.open(str(path), read_only=True)
    log = directory.log(PARTITION)
    view = PartitionView(log, FilePool(4), no_damage, is_committed_only=True, cache=LineIndexCache(str(cache), log))
    assert view.refresh() and kept(cache) == []
    directory.close()


def test_a_log_that_may_be_written_to_has_its_maps_beside_it(path: Path, cache: Path) -> None:
    def look(directory: LogDirectory) -> None:
        log = directory.log(PARTITION)
        content(log, VALUES, LineIndexCache(str(cache), log), no_damage)

    with_log(path, look)
    assert not cache.exists() and len(list((path / str(PARTITION)).glob("*.values-map"))) == 2
    looked_at(path, cache)
    assert kept(cache) == [], "those beside the log are taken"


# --- rejected ------------------------------------------------------------------------------------------------------


def damage_a_record(log: Path) -> None:
    with log.open("r+b") as file:
        file.seek(5000)
        file.write(b"\xff")


def copy_anew(log: Path) -> None:
    shutil.copy(log, log.with_suffix(".copy"))
    log.with_suffix(".copy").rename(log)


def write_another(log: Path) -> None:
    directory = log.parent.parent
    shutil.rmtree(log.parent)
    with_log(directory, lambda opened: append(opened, 3 * BATCHES_OF_A_SEGMENT, b"o"))


@pytest.mark.parametrize("change", [copy_anew, write_another])
def test_another_log_at_the_same_path_has_other_maps(
    path: Path, cache: Path, change: Callable[[Path], None], measured: list[int]
) -> None:
    looked_at(path, cache)
    change(path / str(PARTITION) / f"{0:020d}.log")
    measured.clear()
    shown = looked_at(path, cache)
    assert sum(measured) > SEGMENT_BYTES / 2, "it is read"
    assert shown == without_cache(path)


@pytest.mark.damages
def test_a_map_that_met_damage_is_not_kept(path: Path, cache: Path) -> None:
    damage_a_record(path / str(PARTITION) / f"{0:020d}.log")
    for _ in range(2):
        reported: list[StorageError] = []
        assert looked_at(path, cache, on_damage=reported.append) == without_cache(path)
        assert len(reported) == 1 and len(kept(cache)) == 1


def cut(map_file: Path) -> None:
    map_file.write_bytes(map_file.read_bytes()[:-8])


def flip(map_file: Path) -> None:
    data = bytearray(map_file.read_bytes())
    data[-5] ^= 1
    map_file.write_bytes(data)


def swap(map_file: Path) -> None:
    first, second = sorted(map_file.parent.iterdir())
    first.write_bytes(second.read_bytes())


def make_huge(map_file: Path) -> None:
    os.truncate(map_file, 1 << 40)


def put_link(map_file: Path) -> None:
    map_file.rename(map_file.with_name("elsewhere"))
    map_file.symlink_to("elsewhere")


def put_fifo(map_file: Path) -> None:
    map_file.unlink()
    os.mkfifo(map_file)


def put_directory(map_file: Path) -> None:
    map_file.unlink()
    (map_file / "something").mkdir(parents=True)


def put_socket(map_file: Path) -> None:
    map_file.unlink()
    here = os.getcwd()
    os.chdir(map_file.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(map_file.name)
    finally:
        os.chdir(here)


HOSTILE = (cut, flip, swap, make_huge, put_link, put_fifo, put_directory, put_socket)


@pytest.mark.long
@pytest.mark.security("Files in the user cache are validated before use, and no link in it is followed.")
@pytest.mark.parametrize("harm", HOSTILE, ids=lambda harm: harm.__name__)
def test_foreign_files_in_the_cache_cost_time_and_change_no_byte(
    path: Path, cache: Path, harm: Callable[[Path], None]
) -> None:
    expected = looked_at(path, cache)
    harm(kept(cache)[0])
    assert looked_at(path, cache) == expected
    assert looked_at(path, cache) == expected


@pytest.mark.security("Files in the user cache are validated before use, and no link in it is followed.")
@pytest.mark.parametrize("depth", [0, 1, 2], ids=["the cache", "maps", "of the log"])
def test_a_link_in_the_place_of_a_directory_is_not_followed(path: Path, cache: Path, depth: int) -> None:
    expected = looked_at(path, cache)
    place = kept(cache)[0].parent
    place = [cache, cache / "maps", place][depth]
    elsewhere = cache.parent / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    mine = elsewhere / f"{999_999:020d}.values-map"
    mine.write_bytes(b"of another user")
    before = sorted(elsewhere.rglob("*"))
    assert looked_at(path, cache) == expected
    assert sorted(elsewhere.rglob("*")) == before and place.is_symlink()


@pytest.mark.security("Files in the user cache are accessible to their owner alone, whatever the umask.")
def test_the_cache_is_for_its_owner_alone(path: Path, cache: Path) -> None:
    cache.mkdir(mode=0o755, parents=True)
    old = os.umask(0)
    try:
        looked_at(path, cache)
    finally:
        os.umask(old)
    found = [cache, *cache.rglob("*")]
    assert len(found) == 5
    assert {each.stat().st_mode & 0o7777 for each in found} == {0o700, 0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give something away")
def test_a_cache_of_another_user_is_not_used(path: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    os.chown(cache, 12345, 12345)
    looked_at(path, cache)
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_costs_time_only(path: Path, cache: Path, measured: list[int]) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file")
    expected = without_cache(path)
    measured.clear()
    assert looked_at(path, cache) == looked_at(path, cache) == expected
    assert len(measured) == 6 and cache.read_text() == "a file"


# --- bounded -------------------------------------------------------------------------------------------------------


def test_maps_of_segments_that_are_gone_are_removed_at_the_next_look(path: Path, cache: Path) -> None:
    looked_at(path, cache)
    place = kept(cache)[0].parent
    (place / f"{0:020d}.values-map.0123456789abcdef.tmp").write_bytes(b"of one that was killed")
    (place / "notes").write_text("not ours")
    for file in (path / str(PARTITION)).glob(f"{0:020d}.*"):
        file.unlink()
    looked_at(path, cache)
    assert [file.name for file in kept(cache)] == [f"{300:020d}.values-map", "notes"]


def test_line_indexes_of_logs_unread_for_a_month_are_removed(path: Path, cache: Path) -> None:
    looked_at(path, cache)
    own = kept(cache)[0].parent
    now_s = time.time()
    for name, days in (("old", 31), ("new", 29), (own.name, 40)):
        (cache / "maps" / name).mkdir(exist_ok=True)
        (cache / "maps" / name / "map").write_bytes(b"")
        os.utime(cache / "maps" / name, (now_s - days * 86400, now_s - days * 86400))
    looked_at(path, cache)
    assert sorted(each.name for each in (cache / "maps").iterdir()) == sorted(["new", own.name])


def test_small_segments_leave_no_trace(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "logs").mkdir()

    def fill(directory: LogDirectory) -> None:
        append(directory, 1)
        directory.log(PARTITION).roll()
        append(directory, 1)

    with_log(tmp_path / "logs", fill)
    looked_at(tmp_path / "logs", cache)
    assert not cache.exists()
