"""Blocks that several readers need at once, without a server."""

from __future__ import annotations

import errno
import threading
from array import array
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from crc32c import crc32c

from offsetfs.archive.block_fetcher import BlockFetcher, LogBytes
from offsetfs.archive.manifest import ArchivedObject
from offsetfs.archive.object_store import StoreSettings

pytestmark = pytest.mark.unit

DATA = bytes(range(256)) * 4
LOG = LogBytes(
    (ArchivedObject("orders-0/segments/0", len(DATA), "0" * 64),), len(DATA), len(DATA), array("I", [crc32c(DATA)])
)


class HeldStore:
    """A store whose first answer is held until `release`, and then is `first`; the others are `then`."""

    url = "s3://kafka/archive"

    def __init__(self, first: Callable[[], bytes], then: Callable[[], bytes], timeout_s: float = 10) -> None:
        self.settings = StoreSettings(timeout_s=timeout_s)
        self.is_asked, self.release = threading.Event(), threading.Event()
        self.count = 0
        self._answers = first, then

    def read(self, key: str, start: int, stop: int) -> bytes:
        self.count += 1
        if self.count > 1:
            return self._answers[1]()
        self.is_asked.set()
        assert self.release.wait(10)
        return self._answers[0]()


def failing() -> bytes:
    raise OSError(errno.EIO, "the fault", HeldStore.url)


def test_a_reader_that_waits_for_a_request_of_another_one_which_fails_asks_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error is of a request from before: the fault may have ended since."""
    store = HeldStore(failing, lambda: DATA)
    fetcher = BlockFetcher(lambda: store, None)  # type: ignore[arg-type,return-value]
    is_waiting, result = threading.Event(), BlockFetcher._result

    def noted(self: BlockFetcher, future: Future[bytes], until_s: float) -> bytes:
        is_waiting.set()
        return result(self, future, until_s)

    monkeypatch.setattr(BlockFetcher, "_result", noted)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(fetcher.blocks, LOG, 0, 0)
        assert store.is_asked.wait(10)
        second = threads.submit(fetcher.blocks, LOG, 0, 0)
        assert is_waiting.wait(10)
        store.release.set()
        with pytest.raises(OSError, match="the fault"):
            first.result(10)
        assert second.result(10) == {0: DATA}
    assert store.count == 2


def test_a_request_ahead_that_failed_is_no_error_of_a_reader() -> None:
    store = HeldStore(failing, lambda: DATA)
    fetcher = BlockFetcher(lambda: store, None)  # type: ignore[arg-type,return-value]
    fetcher.begin(LOG, 0, 0)
    assert store.is_asked.wait(10)
    with ThreadPoolExecutor(1) as threads:
        reader = threads.submit(fetcher.blocks, LOG, 0, 0)
        store.release.set()
        assert reader.result(10) == {0: DATA}


def test_a_reader_waits_no_longer_than_the_timeout_for_the_request_of_another_one() -> None:
    store = HeldStore(lambda: DATA, failing, timeout_s=0.2)
    fetcher = BlockFetcher(lambda: store, None)  # type: ignore[arg-type,return-value]
    fetcher.begin(LOG, 0, 0)
    assert store.is_asked.wait(10)
    with pytest.raises(OSError, match=r"no successful answer within 0\.2 s") as found:
        fetcher.blocks(LOG, 0, 0)
    assert found.value.errno == errno.EIO
    store.release.set()


def test_an_error_of_the_own_request_is_raised() -> None:
    store = HeldStore(failing, failing)
    store.release.set()
    fetcher = BlockFetcher(lambda: store, None)  # type: ignore[arg-type,return-value]
    for _ in range(2):
        with pytest.raises(OSError, match="the fault"):
            fetcher.blocks(LOG, 0, 0)
