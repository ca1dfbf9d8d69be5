"""A mount at its limit of memory fails requests; it answers afterwards, and loses no record at its end."""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]

RECORDS = 100
RECORD_BYTES = 50_000
READERS = 8
FREE_BYTES = (12 << 20, 9 << 20, 5 << 20)
"""The addresses that are left to the daemon: the stack of another thread takes 8 MiB, and it needs more to begin."""


def address_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def read_some(path: Path, number: int) -> int:
    """Ask what only a thread answers, or read values; return the errno that ended it."""
    try:
        if number % 2:
            os.statvfs(path)
            return 0
        with open(path, "rb", buffering=0) as stream:
            stream.seek(number * RECORD_BYTES)
            stream.read(1 << 20)
    except OSError as error:
        return error.errno or -1
    return 0


@pytest.mark.promise(
    "After `offsetfs umount`, SIGTERM or SIGINT all accepted records are on disk before the process ends."
)
@pytest.mark.parametrize("free_bytes", FREE_BYTES)
def test_requests_may_fail_at_the_limit_of_memory_and_the_mount_goes_on(
    mount: Mount, tmp_path: Path, free_bytes: int
) -> None:
    log = tmp_path / "log"
    log.mkdir()
    mounted = mount(log, "create,linger-ms=60000,flush-ms=60000", faulty=True)
    partition = mounted.path / "t-0"
    partition.mkdir()
    line = b"x" * (RECORD_BYTES - 1) + b"\n"
    append = os.open(partition / "append", os.O_WRONLY)
    accepted = sum(os.write(append, line) == len(line) for _ in range(RECORDS))
    os.fsync(append)
    pid = mounted.process.pid
    limit = address_bytes(pid) + free_bytes
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
    with concurrent.futures.ThreadPoolExecutor(READERS) as readers:
        codes = set(readers.map(lambda number: read_some(partition / "values", number), range(READERS)))
    assert codes <= {0, errno.ENOMEM}
    for _ in range(5):
        with contextlib.suppress(OSError):  # not accepted
            accepted += os.write(append, line) == len(line)
    assert os.listdir(mounted.path)
    assert mounted.process.poll() is None
    mounted.process.send_signal(signal.SIGTERM)
    code = mounted.process.wait(timeout=60)
    with contextlib.suppress(OSError):
        os.close(append)
    mounted.unmount()
    said = b"".join(mounted.lines).decode()
    assert code == 0, said
    assert LogDirectory.open(str(log), read_only=True).log(TopicPartition("t", 0)).next_offset == accepted
