"""Batches that inflate to far more than they may: a mount that many read them from has bounded memory, and answers."""

from __future__ import annotations

import contextlib
import struct
import threading
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offsetfs.storage.checkpoint import CleanShutdown
from offsetfs.storage.names import segment_name
from offsetfs.storage.records.format.batch import HEADER_SIZE, build, parse_header, seal_checksum, write_header

pytestmark = [pytest.mark.mount, pytest.mark.damages]

MIB = 1 << 20
READERS, READS = 24, 2
MEMORY_MAX_MIB = 900
"""Of a mount with a base of 45 MiB: without bounds it was 2500."""

LATENCY_MAX_S = 3.0
"""For nine of ten records of another partition, also on a busy machine; without bounds it was 11."""


def gzip_bomb() -> bytes:
    deflater, zeros = zlib.compressobj(9, zlib.DEFLATED, 31), bytes(MIB)
    return b"".join(deflater.compress(zeros) for _ in range(512)) + deflater.flush()


def snappy_bomb() -> bytes:
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + struct.pack(">ib", 1, 0) * 2_000_000


BOMBS = {"gzip": (1, gzip_bomb), "snappy": (2, snappy_bomb)}


def plant(log: Path, codec: int, payload: bytes) -> None:
    header = parse_header(build([(None, b"x", (), 1000)]))
    batch = bytearray(HEADER_SIZE) + payload
    write_header(batch, replace(header, size=len(batch), attributes=codec))
    seal_checksum(batch)
    contents = {f"bomb-{number}": bytes(batch) for number in range(READERS)}
    contents["other-0"] = bytes(build([(None, b"%d" % number, (), 1000) for number in range(100)]))
    for name, content in contents.items():
        (log / name).mkdir(parents=True)
        (log / name / segment_name(0, ".log")).write_bytes(content)
    CleanShutdown().write(str(log))


@pytest.mark.security(
    "With many readers of such batches, the memory of a mount stays bounded and other files stay responsive."
)
@pytest.mark.parametrize("view", ["0", "values"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_many_readers_of_bombs_neither_take_the_memory_nor_hold_up_other_files(
    mount: Any, tmp_path: Path, bomb: str, view: str
) -> None:
    codec, payload = BOMBS[bomb]
    plant(tmp_path / "log", codec, payload())
    mounted = mount(tmp_path / "log", "ro", faulty=True)
    is_over, latencies = threading.Event(), list[float]()

    def read(number: int) -> None:
        for _ in range(READS):
            with contextlib.suppress(OSError):
                (mounted.path / f"bomb-{number}" / view).read_bytes()

    def probe() -> None:
        number = 0
        while not is_over.wait(0.005):
            begun = time.monotonic()
            assert (mounted.path / "other-0" / str(number % 100)).read_bytes() == b"%d" % (number % 100)
            latencies.append(time.monotonic() - begun)
            number += 1

    readers = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    prober = threading.Thread(target=probe)
    for thread in (prober, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    is_over.set()
    prober.join()
    status = Path(f"/proc/{mounted.process.pid}/status").read_text().splitlines()
    peak_mib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) // 1024
    assert peak_mib < MEMORY_MAX_MIB
    assert sorted(latencies)[len(latencies) * 9 // 10] < LATENCY_MAX_S
