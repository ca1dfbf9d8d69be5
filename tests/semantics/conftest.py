"""One mount for all that is said of it: two partitions to read, and new ones to write to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.mounts.left_mounts import unmount

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder

FIRST_MS = 1_795_266_300_000
"""2026-11-21T13:05:00Z"""

ORDERS = 12
"""Twenty seconds apart, with three keys in turn."""

MIXED: tuple[bytes | None, ...] = (None, b"", b"\xff\xfe", b"two\nlines", b"\x1b[31mred")


def make_log(path: Path) -> Path:
    """Make the log directory that the sentences are about."""
    path.mkdir()
    directory = LogDirectory.open(str(path))
    orders = directory.create_partition(TopicPartition("orders", 0), {"retention.ms": "-1"})
    for number in range(ORDERS):
        state = "refused" if number % 4 == 3 else "paid"
        builder = BatchBuilder(1 << 16)
        order = b'{"id":%d,"state":"%s"}' % (number, state.encode())
        headers = (("source", b"web"),) if number == 4 else ()
        assert builder.append(b"k%d" % (number % 3), order, headers, FIRST_MS + 20_000 * number)
        orders.append(builder.seal())
    mixed = directory.create_partition(TopicPartition("mixed", 0), {"retention.ms": "-1"})
    for value in MIXED:
        builder = BatchBuilder(1 << 16)
        assert builder.append(b"k", value, (), FIRST_MS)
        mixed.append(builder.seal())
    directory.create_partition(TopicPartition("users", 0), {"cleanup.policy": "compact"})
    directory.close()
    return path


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_log(tmp_path_factory.mktemp("semantics") / "log")


@pytest.fixture(scope="session")
def tree(log: Path) -> Iterator[Path]:
    """The mount, for writing, where partitions may be made and removed."""
    point = log.parent / "mnt"
    point.mkdir()
    command = [sys.executable, "-m", "offsetfs"]
    options = "create,delete,delete-records,max.message.bytes=1000000"
    subprocess.run([*command, "mount", log, point, "-o", options], check=True)
    try:
        yield point
    finally:
        unmount(point)
