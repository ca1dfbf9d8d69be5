"""Another process cuts the files beside a log, again and again, while a mount reads: nothing wrong is read, and the
daemon goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

pytestmark = pytest.mark.mount

PARTITION = TopicPartition("orders", 0)
BATCHES, PER_BATCH = 4000, 5
ROUNDS = 300

CUT = """
import os, random, sys
kept = {path: open(path, "rb").read() for path in sys.argv[1:]}
held = {path: os.open(path, os.O_RDWR) for path in kept}
numbers = random.Random(5)
print("cutting", flush=True)
while True:
    for path, content in kept.items():
        os.ftruncate(held[path], numbers.choice([0, 8, 40, 4096, len(content) // 2]))
        if numbers.random() < 0.7:
            os.pwrite(held[path], content, 0)
"""


def value(offset: int) -> bytes:
    return b"value %09d " % offset + b"." * 40


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of several sealed segments with an entry for each batch, so that the indexes have more than one page."""
    path = tmp_path / "log"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    opened = directory.create_partition(PARTITION, {"index.interval.bytes": "0", "segment.bytes": "500000"})
    for number in range(BATCHES):
        first = number * PER_BATCH
        data = build([(None, value(offset), (), 1_000_000 + offset) for offset in range(first, first + PER_BATCH)])
        opened.append(
            SealedBatch(memoryview(data), PER_BATCH, 0, Timestamp(1_000_000 + first + PER_BATCH - 1), len(data))
        )
    opened.roll()
    directory.close()
    return path


@pytest.mark.damages
@pytest.mark.promise(
    "A damaged, missing or inconsistent offset or time index slows look-ups down but never changes an answer."
)
@pytest.mark.security(
    "A process that truncates or overwrites indexes and line indexes during a read does not crash the daemon."
)
@pytest.mark.parametrize("options", ["ro", ""], ids=["read only", "writing"])
def test_a_mount_reads_the_log_while_another_process_cuts_indexes_and_view_maps(
    options: str, log: Path, mount: Callable[..., Any]
) -> None:
    writer = mount(log)
    expected = b"".join(value(offset) + b"\n" for offset in range(BATCHES * PER_BATCH))
    assert (writer.path / "orders-0" / "values").read_bytes() == expected  # which leaves maps beside the log
    assert writer.unmount() == 0
    beside = [*log.glob("orders-0/*index"), *log.glob("orders-0/*.values-map")]
    sealed = sorted(str(path) for path in beside if path.stat().st_size)
    assert {Path(path).suffix for path in sealed} == {".index", ".timeindex", ".values-map"} and len(sealed) > 6

    mounted = mount(log, options)
    partition = mounted.path / "orders-0"
    assert (partition / "values").read_bytes() == expected
    with subprocess.Popen([sys.executable, "-c", CUT, *sealed], stdout=subprocess.PIPE) as cutter:
        try:
            assert cutter.stdout is not None and cutter.stdout.readline() == b"cutting\n"
            for number in range(ROUNDS):
                offset = number * 7919 % (BATCHES * PER_BATCH)
                assert (partition / str(offset)).read_bytes() == value(offset)
                assert (partition / "by-time" / f"@{(1_000_000 + offset) / 1000:.3f}").read_bytes() == value(offset)
                with (partition / "values").open("rb") as values:
                    values.seek(offset * len(value(0) + b"\n"))
                    assert values.readline() == value(offset) + b"\n"
        finally:
            cutter.kill()
    assert mounted.process.poll() is None
