"""The blocks of an archive: one request for each, shared by its readers, and none with the error of an earlier one."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from fixtures.machine.waiting import soon

from offsetfs.archive import cached_blocks
from offsetfs.archive.block_cache import MARK, BlockCache
from offsetfs.archive.block_fetcher import BlockFetcher
from offsetfs.archive.cached_blocks import CachedBlocks
from offsetfs.archive.log_bytes import LogBytes
from offsetfs.archive.manifest import ArchivedObject
from offsetfs.archive.remote_file import RemoteLogFile

pytestmark = pytest.mark.unit

BLOCK_BYTES = 1000
WAIT_S = 60.0


@dataclass
class Settings:
    timeout_s: float = WAIT_S


@dataclass
class Store:
    """Objects in memory. `before` is called in each request, with its number; it may wait or raise an error."""

    objects: dict[str, bytes]
    before: Callable[[int], None] = lambda number: None
    url: str = "s3://bucket/kafka"
    settings: Settings = field(default_factory=Settings)
    requests: list[tuple[str, int, int]] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)

    def read(self, key: str, start: int, stop: int) -> bytes:
        self.requests.append((key, start, stop))
        self.begun.set()
        self.before(len(self.requests) - 1)
        if key not in self.objects:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.url}/{key}")
        return self.objects[key][start:stop]


def archived(count: int) -> tuple[LogBytes, Store]:
    """Return a log of so many blocks in one part, and the store that has it."""
    data = bytes(number % 251 for number in range(count * BLOCK_BYTES))
    blocks = [data[first : first + BLOCK_BYTES] for first in range(0, len(data), BLOCK_BYTES)]
    part = ArchivedObject("orders-0/0.part", len(data), "5a" * 32)
    log = LogBytes((part,), len(data), BLOCK_BYTES, array("I", [crc32c(each) for each in blocks]))
    return log, Store({part.key: data})


def fetcher_of(store: Any, cache: BlockCache | None = None) -> BlockFetcher:
    return BlockFetcher(lambda: store, cache)


class Waiters:
    """Lets a test know when a reader waits for the request of another one."""

    def __init__(self, fetcher: BlockFetcher, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrived = threading.Event()
        claimed = fetcher._claimed

        def seen(log: LogBytes, block: int) -> Any:
            found = claimed(log, block)
            if found is not None:
                self.arrived.set()
            return found

        monkeypatch.setattr(fetcher, "_claimed", seen)


@pytest.mark.parametrize("error", [OSError(errno.EIO, "HTTP 503"), MemoryError()])
def test_a_reader_whose_awaited_request_fails_makes_one_of_its_own(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    log, store = archived(1)
    fetcher = fetcher_of(store)
    waiters = Waiters(fetcher, monkeypatch)

    def before(number: int) -> None:
        if number == 0:
            assert waiters.arrived.wait(WAIT_S)
            raise error

    store.before = before
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(fetcher.blocks, log, 0, 0)
        assert store.begun.wait(WAIT_S)
        second = threads.submit(fetcher.blocks, log, 0, 0)
        assert second.result(WAIT_S)[0] == store.objects["orders-0/0.part"]
        assert first.exception(WAIT_S) is error
    assert len(store.requests) == 2


def test_a_reader_whose_own_request_fails_too_gets_the_error_of_that(monkeypatch: pytest.MonkeyPatch) -> None:
    log, store = archived(1)
    fetcher = fetcher_of(store)
    waiters = Waiters(fetcher, monkeypatch)

    def before(number: int) -> None:
        assert waiters.arrived.wait(WAIT_S)
        raise OSError(errno.EIO, f"request {number}", store.url)

    store.before = before
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(fetcher.blocks, log, 0, 0)
        assert store.begun.wait(WAIT_S)
        second = threads.submit(fetcher.blocks, log, 0, 0)
        with pytest.raises(OSError, match="request 1"):
            second.result(WAIT_S)
        with pytest.raises(OSError, match="request 0"):
            first.result(WAIT_S)
    assert len(store.requests) == 2


def test_a_reader_waits_for_others_no_longer_than_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, store = archived(1)
    store.settings.timeout_s = 0.5
    fetcher = fetcher_of(store)
    waiters = Waiters(fetcher, monkeypatch)
    ends = threading.Event()

    def before(number: int) -> None:
        if number == 0:
            assert waiters.arrived.wait(WAIT_S)
            raise OSError(errno.EIO, "HTTP 503", store.url)
        ends.wait(WAIT_S)

    store.before = before
    with ThreadPoolExecutor(2) as threads:
        threads.submit(fetcher.blocks, log, 0, 0)
        assert store.begun.wait(WAIT_S)
        second = threads.submit(fetcher.blocks, log, 0, 0)
        try:
            with pytest.raises(OSError, match="no successful answer within") as raised:
                second.result(WAIT_S)
            assert raised.value.filename == store.url
        finally:
            ends.set()


# --- the cache -------------------------------------------------------------------------------------------------------


def cached_of(fetcher: BlockFetcher) -> CachedBlocks:
    assert fetcher.cached is not None
    return fetcher.cached


def in_place(fetcher: BlockFetcher, log: LogBytes, block: int, *, nowait: bool = False) -> bytes | None:
    """Return bytes 100 to 200 of a block from its file; None if they cannot be read there."""
    buffer = bytearray(100)
    return (
        bytes(buffer) if cached_of(fetcher).read_in_place(log, block, 100, memoryview(buffer), nowait=nowait) else None
    )


def warm(tmp_path: Path, count: int) -> tuple[LogBytes, Store, BlockCache]:
    """Return a log whose blocks are in the cache, each in a file that was written half a minute ago."""
    log, store = archived(count)
    cache = BlockCache(str(tmp_path))
    fetcher_of(store, cache).blocks(log, 0, count - 1)
    for path in blocks_in(tmp_path):
        os.utime(path, (time.time() - 30, time.time() - 30))
    store.requests.clear()
    return log, store, cache


def blocks_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.name != MARK)


def test_a_block_of_the_cache_is_verified_once_and_then_read_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, store, cache = warm(tmp_path, 3)
    fetcher = fetcher_of(store, cache)
    data = fetcher_of(store).blocks(log, 0, 2)
    store.requests.clear()
    assert in_place(fetcher, log, 1, nowait=True) is None  # not verified by this process
    assert in_place(fetcher, log, 1) == data[1][100:200]
    assert not fetcher._memory
    assert in_place(fetcher, log, 2) == data[2][100:200]
    cached_of(fetcher)._open.clear()
    monkeypatch.setattr(cached_blocks, "crc32c", None)
    assert in_place(fetcher, log, 1, nowait=True) is None  # not open: that may need the disk
    for _ in range(2):
        assert in_place(fetcher, log, 1) == data[1][100:200]
    assert store.requests == []


def test_blocks_of_the_cache_are_verified_ahead_of_a_reader(tmp_path: Path) -> None:
    log, store, cache = warm(tmp_path, 40)
    fetcher = fetcher_of(store, cache)
    file = file_of(log, fetcher)
    for block in range(2):
        file.read(block * BLOCK_BYTES, BLOCK_BYTES)
    assert soon(lambda: cached_of(fetcher).is_open(log, 3)), "two that were read, two ahead"
    assert (len(fetcher._memory), fetcher._in_flight, store.requests) == (0, {}, [])


def test_a_damaged_block_of_the_cache_is_fetched_by_an_overtaken_reader(tmp_path: Path) -> None:
    log, store, cache = warm(tmp_path, 8)
    for path in blocks_in(tmp_path):
        path.write_bytes(b"damage")
    file = file_of(log, fetcher_of(store, cache))
    data = b"".join(file.read(block * BLOCK_BYTES, BLOCK_BYTES) for block in range(8))
    assert data == store.objects["orders-0/0.part"]


@pytest.mark.parametrize("is_open", [False, True])
def test_a_block_that_is_damaged_after_it_was_verified_is_fetched_again(tmp_path: Path, is_open: bool) -> None:
    log, store, cache = warm(tmp_path, 1)
    fetcher = fetcher_of(store, cache)
    data = fetcher.blocks(log, 0, 0)[0]
    if is_open:
        assert in_place(fetcher, log, 0) == data[100:200]
    (path,) = blocks_in(tmp_path)
    with path.open("r+b") as file:
        file.seek(150)
        file.write(b"damage")
    assert in_place(fetcher, log, 0) is None
    assert fetcher_of(store, cache).blocks(log, 0, 0)[0] == data
    assert len(store.requests) == 1


def test_a_block_that_another_process_removes_is_not_kept(tmp_path: Path) -> None:
    log, store, cache = warm(tmp_path, 1)
    fetcher = fetcher_of(store, cache)
    fetcher.blocks(log, 0, 0)
    assert in_place(fetcher, log, 0) is not None
    for path in blocks_in(tmp_path):
        path.unlink()
    assert in_place(fetcher, log, 0) is None
    assert not cached_of(fetcher)._open


def test_few_blocks_of_a_cache_are_open(tmp_path: Path) -> None:
    log, store, _ = warm(tmp_path, 80)
    for size_max, open_max in ((1 << 30, cached_blocks.OPEN_BLOCKS_MAX), (96_000, 3)):
        fetcher = fetcher_of(store, BlockCache(str(tmp_path), size_max))
        fetcher.blocks(log, 0, 79)
        assert all(in_place(fetcher, log, block) is not None for block in range(80))
        assert len(cached_of(fetcher)._open) == open_max


def test_a_reader_that_waits_has_its_block_before_the_cache_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, store = archived(1)
    fetcher = fetcher_of(store, BlockCache(str(tmp_path)))
    is_read, is_stored = threading.Event(), threading.Event()
    put = BlockCache.put

    def late(self: BlockCache, name: str, data: bytes) -> None:
        assert is_read.wait(WAIT_S)
        put(self, name, data)
        is_stored.set()

    monkeypatch.setattr(BlockCache, "put", late)
    fetcher.begin(log, 0, 0)
    assert fetcher.blocks(log, 0, 0)[0] == store.objects["orders-0/0.part"]
    assert not blocks_in(tmp_path)
    is_read.set()
    assert is_stored.wait(WAIT_S)
    assert len(blocks_in(tmp_path)) == 1


def test_a_forked_child_does_not_wait_for_requests_of_its_parent() -> None:
    log, store = archived(1)
    fetcher = fetcher_of(store)
    assert fetcher._claimed(log, 0) is None  # as a thread of the parent does that waits for an answer
    with fetcher._lock:
        child = os.fork()
        if not child:
            signal.alarm(int(WAIT_S))
            is_found = fetcher.blocks(log, 0, 0)[0] == store.objects["orders-0/0.part"]
            os._exit(0 if is_found else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- ahead -----------------------------------------------------------------------------------------------------------


def file_of(log: LogBytes, fetcher: BlockFetcher) -> RemoteLogFile:
    status = os.stat_result((0o100440, 1, 0, 1, 0, 0, log.size, 0, 0, 0))
    return RemoteLogFile(
        "0.log", lambda: status, lambda nowait: log, fetcher, lambda error: error, lambda position: (position, position)
    )


def test_blocks_ahead_of_a_reader_that_must_not_wait_are_fetched_too() -> None:
    log, store = archived(40)
    fetcher = fetcher_of(store)
    is_requested = {block: threading.Event() for block in range(40)}

    def before(number: int) -> None:
        _, start, stop = store.requests[number]
        for block in range(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES)):
            is_requested[block].set()

    store.before = before
    file = file_of(log, fetcher)
    for block in (0, 1):
        file.read(block * BLOCK_BYTES, BLOCK_BYTES)
    assert is_requested[3].wait(WAIT_S)
    fetcher.blocks(log, 2, 3)
    for block in (2, 3):
        assert file.read(block * BLOCK_BYTES, BLOCK_BYTES, nowait=True)
    assert is_requested[10].wait(WAIT_S)


def test_a_file_of_a_range_reads_ahead_at_once_and_not_beyond_its_end() -> None:
    log, store = archived(40)
    fetcher = fetcher_of(store)
    file = file_of(log, fetcher).reading_to(12 * BLOCK_BYTES - 1)
    data = b"".join(file.read(block * BLOCK_BYTES, BLOCK_BYTES) for block in range(4, 12))
    assert data == store.objects["orders-0/0.part"][4 * BLOCK_BYTES : 12 * BLOCK_BYTES]
    assert min(start for _, start, _ in store.requests) == 4 * BLOCK_BYTES
    assert max(stop for _, _, stop in store.requests) == 12 * BLOCK_BYTES
    assert sum(stop - start for _, start, stop in store.requests) == 8 * BLOCK_BYTES
    assert len(store.requests) < 8


def test_a_look_up_that_reads_on_in_the_next_block_fetches_nothing_ahead() -> None:
    log, store = archived(40)
    fetcher = fetcher_of(store)
    file = file_of(log, fetcher)
    file.read(5 * BLOCK_BYTES + 900, 50)
    file.read(5 * BLOCK_BYTES + 900, 200)
    assert not fetcher._in_flight
    assert [(start, stop) for _, start, stop in store.requests] == [(5000, 6000), (6000, 7000)]
