"""What is loaded into the page cache before it is sent, and behind it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetfs.kafka.broker.connections.read_ahead import AHEAD_BYTES, FILES_MAX, ReadAhead
from offsetfs.storage import BatchRange
from offsetfs.storage.files import File, open_file

pytestmark = pytest.mark.unit

MIB = 1 << 20


class Disk:
    """A file of which nothing is in the page cache until it is loaded."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with path.open("wb") as file:
            file.truncate(64 * MIB)
        self.file = open_file(str(path))
        self.loaded: list[tuple[int, int]] = []
        """The ranges that were to be loaded, joined."""
        self._fadvise = os.posix_fadvise
        monkeypatch.setattr(os, "posix_fadvise", self._advised)
        monkeypatch.setattr(File, "is_cached", self._is_cached)

    def range(self, position: int, size: int = MIB) -> BatchRange:
        return BatchRange(self.file, position, size, 0, position)

    def _advised(self, fd: int, position: int, size: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_WILLNEED
        begin, end = self.loaded.pop() if self.loaded and self.loaded[-1][1] == position else (position, position)
        self.loaded.append((begin, end + size))
        self._fadvise(fd, position, size, advice)

    def _is_cached(self, position: int, size: int) -> bool:
        return any(begin <= position and position + size <= end for begin, end in self.loaded)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    found = Disk(tmp_path / "0.log", monkeypatch)
    yield found
    found.file.close()


async def send(ahead: ReadAhead, part: BatchRange) -> None:
    await ahead.load(part, part.position, part.position + part.size)
    await ahead.sent(part)


async def test_a_reader_from_the_begin_finds_everything_loaded(disk: Disk) -> None:
    ahead = ReadAhead()
    for number in range(20):
        await send(ahead, disk.range(number * MIB))
        end = (number + 1) * MIB
        [(begin, loaded_to)] = disk.loaded  # without gaps
        assert begin == 0
        assert end + AHEAD_BYTES // 2 <= loaded_to <= end + AHEAD_BYTES
    assert disk.file.is_cached(0, 20 * MIB)


async def test_a_reader_that_goes_on_from_its_last_range_is_sequential(disk: Disk) -> None:
    ahead = ReadAhead()
    await send(ahead, disk.range(7 * MIB))
    assert disk.loaded == [(7 * MIB, 8 * MIB)], "the first range could be the only one"
    await send(ahead, disk.range(8 * MIB))
    assert disk.loaded == [(7 * MIB, 9 * MIB + AHEAD_BYTES)]


async def test_a_reader_at_random_has_only_its_ranges_loaded(disk: Disk) -> None:
    ahead, begins = ReadAhead(), [begin * MIB for begin in (30, 10, 40, 20)]
    for begin in begins:
        await send(ahead, disk.range(begin))
    assert disk.loaded == [(begin, begin + MIB) for begin in begins]


async def test_a_sequential_reader_that_jumps_begins_again(disk: Disk) -> None:
    ahead = ReadAhead()
    await send(ahead, disk.range(0))
    await send(ahead, disk.range(30 * MIB))
    assert disk.loaded[1:] == [(30 * MIB, 31 * MIB)]


async def test_a_range_that_is_asked_for_again_is_no_jump(disk: Disk) -> None:
    ahead = ReadAhead()
    for _ in range(2):
        await send(ahead, disk.range(0))
    assert disk.loaded == [(0, MIB + AHEAD_BYTES)]


async def test_nothing_is_noted_of_a_file_in_the_page_cache(disk: Disk) -> None:
    disk.loaded = [(0, 64 * MIB)]
    ahead = ReadAhead()
    await send(ahead, disk.range(0))
    assert not ahead.is_active
    assert disk.loaded == [(0, 64 * MIB)]


async def test_a_few_files_are_noted(disk: Disk, tmp_path: Path) -> None:
    ahead, files = ReadAhead(), []
    for number in range(2 * FILES_MAX):
        path = tmp_path / f"{number + 1}.log"
        path.write_bytes(b"x")
        files.append(open_file(str(path)))
        await ahead.load(BatchRange(files[-1], 0, 1, 0, 0), 0, 1)
        disk.loaded.clear()
    assert len(ahead._readers) == FILES_MAX
    for each in files:
        each.close()


async def test_a_file_that_is_closed_after_it_was_sent_is_no_error(disk: Disk) -> None:
    ahead = ReadAhead()
    part = disk.range(0)
    await ahead.load(part, 0, MIB)
    disk.loaded = [(0, MIB)]
    reader = ahead._readers.get(disk.file.path)
    assert reader is not None
    reader.loaded_to = MIB
    disk.file.close()
    await ahead.sent(part)
