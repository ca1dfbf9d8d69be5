"""Look-ups in an index of several blocks, and in one that another process cuts or fills again meanwhile."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from struct import Struct

import pytest

from offsetfs.storage.segments.index_file import BLOCK_ENTRIES
from offsetfs.storage.segments.offset_index import OffsetIndex
from offsetfs.storage.segments.time_index import TimeIndex

pytestmark = pytest.mark.unit

OFFSETS, TIMES = Struct(">ii"), Struct(">qi")
COUNTS = [
    BLOCK_ENTRIES - 1,
    BLOCK_ENTRIES,
    BLOCK_ENTRIES + 1,
    BLOCK_ENTRIES + 2,
    2 * BLOCK_ENTRIES,
    5 * BLOCK_ENTRIES + 3,
]
BYTES_MAX = 1 << 20


def content(count: int, step: int = 10) -> bytes:
    return b"".join(OFFSETS.pack(number * step, number * 100) for number in range(1, count + 1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{0:020d}.index"


@pytest.mark.parametrize("count", COUNTS)
def test_a_lookup_across_blocks_finds_the_floor_and_the_two_entries_behind_it(count: int, path: Path) -> None:
    path.write_bytes(content(count))
    index = OffsetIndex.open(str(path), 0, bytes_max=BYTES_MAX)
    edges = {number * BLOCK_ENTRIES + near for number in range(count // BLOCK_ENTRIES + 1) for near in range(-3, 4)}
    for number in sorted(edge for edge in edges | {count} if 1 <= edge <= count):
        entries = [(each * 10, each * 100) for each in range(number, min(number + 3, count + 1))]
        assert index.around(number * 10) == index.around(number * 10 + 9) == entries
    assert index.around(9) == [(0, 0), (10, 100), (20, 200)]
    assert index.upper_bound((0, 0), 100 * count) == (10 * count, 100 * count)
    assert index.upper_bound((0, 0), 100 * count + 1) is None
    assert len(list(index.entries())) == count


@pytest.mark.parametrize("count", COUNTS)
def test_a_time_across_blocks_has_its_floor(count: int, path: Path) -> None:
    path.write_bytes(b"".join(TIMES.pack(1000 * number, number) for number in range(1, count + 1)))
    index = TimeIndex.open(str(path), 0, bytes_max=BYTES_MAX)
    for number in (1, count // 2, BLOCK_ENTRIES - 2, BLOCK_ENTRIES - 1, count):
        assert index.lookup(1000 * number) == index.lookup(1000 * number + 999) == (1000 * number, number)
    assert index.lookup(999) == (-1, 0)


def test_a_lookup_finds_what_was_appended_after_a_truncation(path: Path) -> None:
    index = OffsetIndex.open(str(path), 0, bytes_max=BYTES_MAX, writable=True, create=True)
    for number in range(1, 3 * BLOCK_ENTRIES):
        index.append(number * 10, number * 100)
    assert index.lookup(20 * BLOCK_ENTRIES) == (20 * BLOCK_ENTRIES, 200 * BLOCK_ENTRIES)
    index.truncate_to(25)
    for number in range(3, 3 * BLOCK_ENTRIES):
        index.append(number * 1000, number * 100)
    for number in range(3, 3 * BLOCK_ENTRIES, 97):
        assert index.lookup(number * 1000 + 5) == (number * 1000, number * 100)
    index.close()


def test_a_lookup_finds_what_another_process_wrote_over_the_entries(path: Path) -> None:
    count = 4 * BLOCK_ENTRIES
    path.write_bytes(content(count))
    index = OffsetIndex.open(str(path), 0, bytes_max=BYTES_MAX)
    assert [index.lookup(number * 10) for number in range(1, count, 7)] == [
        (number * 10, number * 100) for number in range(1, count, 7)
    ]
    with path.open("r+b") as file:  # of the same length: only the entries themselves show it
        file.write(content(count, step=3))
    for number in range(1, count, 7):
        assert index.lookup(number * 3 + 2) == (number * 3, number * 100)


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("size", [0, 4, 8 * (BLOCK_ENTRIES - 1), 8 * BLOCK_ENTRIES, 8 * BLOCK_ENTRIES + 20])
def test_an_index_that_another_process_cuts_answers_from_what_is_left(size: int, writable: bool, path: Path) -> None:
    path.write_bytes(content(4 * BLOCK_ENTRIES))
    index = OffsetIndex.open(str(path), 0, bytes_max=BYTES_MAX, writable=writable)
    assert index.lookup(10**9) == (40 * BLOCK_ENTRIES, 400 * BLOCK_ENTRIES)
    os.truncate(path, size)
    left = size // 8
    assert index.lookup(10**9) == ((left * 10, left * 100) if left else (0, 0))
    assert index.lookup(20) in ((20, 200), (0, 0))
    assert index.upper_bound((0, 0), 10**9) is None
    assert len(list(index.entries())) == left
    index.close()


CUT = """
import os, random, sys
path, content, numbers = sys.argv[1], open(sys.argv[1], "rb").read(), random.Random(7)
file = os.open(path, os.O_RDWR)
print("cutting", flush=True)
while True:
    os.ftruncate(file, numbers.choice([0, 8, 4096, 8192, len(content) // 2]))
    os.pwrite(file, content, 0)
"""


@pytest.mark.promise(
    "A damaged, missing or inconsistent offset or time index slows look-ups down but never changes an answer."
)
@pytest.mark.parametrize("writable", [False, True])
def test_look_ups_outlive_another_process_that_cuts_the_index(writable: bool, path: Path) -> None:
    count = 6 * BLOCK_ENTRIES
    path.write_bytes(content(count))
    index = OffsetIndex.open(str(path), 0, bytes_max=BYTES_MAX, writable=writable)
    numbers, found = random.Random(3), 0
    with subprocess.Popen([sys.executable, "-c", CUT, str(path)], stdout=subprocess.PIPE) as cutter:
        try:
            assert cutter.stdout is not None and cutter.stdout.readline() == b"cutting\n"
            for _ in range(20_000):
                number = numbers.randrange(1, count)
                offset, position = index.lookup(number * 10)
                assert offset * 10 == position <= number * 100
                found += offset == number * 10
        finally:
            cutter.kill()
    assert found
