"""The blocks of an archive: one request for each, shared by its readers, and none with the error of an earlier one."""

from __future__ import annotations

import errno
import os
import threading
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from crc32c import crc32c

from offsetfs.archive.block_fetcher import BlockFetcher, LogBytes
from offsetfs.archive.manifest import ArchivedObject

pytestmark = pytest.mark.unit

BLOCK_BYTES = 1000
WAIT_S = 10.0


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


def fetcher_of(store: Any) -> BlockFetcher:
    return BlockFetcher(lambda: store, None)


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


def test_a_reader_waits_for_others_and_for_its_own_request_no_longer_than_the_timeout(
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
