"""Bounds of inflating: slots for what is large, blocks and time; and what an error keeps in memory."""

from __future__ import annotations

import contextlib
import struct
import sys
import threading
from collections.abc import Iterator

import pytest
import zstandard

from offsetfs.storage.errors import DecompressionLimit
from offsetfs.storage.records.compression import inflation
from offsetfs.storage.records.compression.compression import CODECS, compress, decompress
from offsetfs.storage.records.compression.inflation import inflation_scope

pytestmark = pytest.mark.unit

MIB = 1 << 20
LARGE = bytes(inflation.LARGE_BYTES + MIB)
BOUND = 64 * MIB
COMPRESSED = [name for name in CODECS if name != "none"]


def inflate(name: str, stream: bytes) -> bytes | bytearray:
    return decompress(CODECS.index(name), stream, BOUND)


class Holders:
    """Threads that have taken every slot, and keep them until `free` is set."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self._ready = threading.Barrier(inflation.SLOTS + 1)
        self._threads = [threading.Thread(target=self._hold) for _ in range(inflation.SLOTS)]

    def _hold(self) -> None:
        with inflation_scope(contextlib.nullcontext):
            inflate("gzip", compress("gzip", LARGE))
            self._ready.wait(30)
            assert self.free.wait(30)

    def __enter__(self) -> Holders:
        for thread in self._threads:
            thread.start()
        self._ready.wait(30)
        return self

    def __exit__(self, *error: object) -> None:
        self.free.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.security(
    "Batches that decompress to more than 2 MiB are decompressed by at most two threads at a time; "
    "smaller ones do not wait."
)
@pytest.mark.parametrize("name", COMPRESSED)
def test_what_is_large_waits_for_a_slot_and_what_is_small_does_not(name: str) -> None:
    waiting, small = threading.Event(), compress(name, b"small")

    @contextlib.contextmanager
    def on_wait() -> Iterator[None]:
        waiting.set()
        yield

    found: list[bytes | bytearray] = []

    def work() -> None:
        with inflation_scope(on_wait):
            found.append(inflate(name, compress(name, LARGE)))

    with Holders() as holders:
        thread = threading.Thread(target=work)
        thread.start()
        assert waiting.wait(30)
        assert inflate(name, small) == b"small" and not found
        holders.free.set()
        thread.join(30)
    assert found == [LARGE]


def test_a_slot_that_does_not_come_free_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflation, "WAIT_S", 0.01)
    with Holders():
        assert inflate("gzip", compress("gzip", LARGE)) == LARGE


def test_without_a_scope_a_slot_is_free_after_the_inflation() -> None:
    for _ in range(inflation.SLOTS + 1):
        inflate("gzip", compress("gzip", LARGE))
        with pytest.raises(DecompressionLimit):
            decompress(1, compress("gzip", LARGE), len(LARGE) - 1)
    assert inflation._slots._value == inflation.SLOTS


MANY_BLOCKS = {
    "snappy": compress("snappy", b"") + struct.pack(">ib", 1, 0) * 2_000_000,
    "zstd": zstandard.ZstdCompressor().compress(b"") * 200_000,
}


@pytest.mark.security(
    "A compressed stream may have at most one block per KiB of its decompression limit, or 64 if that is more."
)
@pytest.mark.parametrize("name", MANY_BLOCKS)
def test_a_stream_of_very_many_blocks_is_refused(name: str) -> None:
    with pytest.raises(DecompressionLimit, match="more than 65536 blocks"):
        inflate(name, MANY_BLOCKS[name])


@pytest.mark.security("Decompressing one batch takes at most ten seconds of processor time.")
@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
def test_a_stream_that_takes_too_long_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert inflation.THREAD_TIME_MAX_S == 10
    monkeypatch.setattr(inflation, "THREAD_TIME_MAX_S", -1.0)
    with pytest.raises(DecompressionLimit, match="takes more than"):
        inflate(name, compress(name, LARGE * 3))


@pytest.mark.parametrize("name", COMPRESSED)
def test_an_error_does_not_keep_what_was_inflated(name: str) -> None:
    with pytest.raises(DecompressionLimit) as caught:
        decompress(CODECS.index(name), compress(name, LARGE * 2), len(LARGE))
    trace = caught.value.__traceback__
    assert caught.value.__context__ is None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != __file__:
            assert all(sys.getsizeof(each) < MIB for each in trace.tb_frame.f_locals.values())
        trace = trace.tb_next
