"""Power cuts under real file systems that `row_power_cut` meets only by chance."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from disks import FILE_SYSTEMS, Disk, made
from fixtures.logs.small_logs import record
from history import History

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.crash

ORDERS = TopicPartition("orders", 0)
_WAIT_BEFORE_WRITE_WAIT_AFTER = 7  # SYNC_FILE_RANGE_WAIT_BEFORE | _WRITE | _WAIT_AFTER


def write_back_data(path: Path) -> None:
    """Write the pages of a file to disk, but not its size: the kernel does this on its own, too."""
    fd = os.open(path, os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        offset, length = ctypes.c_int64(0), ctypes.c_int64(0)
        assert libc.sync_file_range(fd, offset, length, _WAIT_BEFORE_WRITE_WAIT_AFTER) == 0, ctypes.get_errno()
    finally:
        os.close(fd)


def cut(disk: Disk, *, with_log: bool) -> None:
    disk.cut(with_log=with_log)
    disk.unmount()
    disk.mount()


def in_process(work: Callable[[], None]) -> None:
    """Run `work` in a process that ends without closing anything, so that no file of the disk stays open."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def begin(path: str) -> None:
    """Append a record that is on disk, and one whose data is on disk while the size of the file is not."""
    log = LogDirectory.open(path).create_partition(ORDERS)
    log.append(record(1, b"synced"))
    log.flush()
    log.append(record(1, b"taken"))
    write_back_data(Path(path, "orders-0", f"{0:020}.log"))


def recover_and_append(path: str, value: bytes) -> None:
    LogDirectory.open(path).writable_log(ORDERS).append(record(1, value))


def values(path: str) -> list[bytes | None]:
    directory = LogDirectory.open(path, read_only=True)
    batches = [batch for segment in directory.log(ORDERS).snapshot() for batch in segment.batches()]
    directory.close()
    return [record.value for batch in batches for record in batch.records()]


@pytest.mark.parametrize("system", FILE_SYSTEMS)
def test_a_record_that_a_power_cut_took_does_not_return_with_the_next_power_cut(system: str, tmp_path: Path) -> None:
    with made(FILE_SYSTEMS[system], tmp_path) as disk:
        path = os.fspath(disk.log)
        in_process(lambda: begin(path))
        cut(disk, with_log=False)
        before = values(path)
        if "data=journal" not in system:  # there, data and size are written together
            assert before == [b"synced"], "the size is on disk as well, so this test would show nothing"
        in_process(lambda: recover_and_append(path, b"later"))
        cut(disk, with_log=True)
        after = values(path)
        assert after in (before, [*before, b"later"])


def test_what_a_writer_says_after_a_cut_is_no_promise() -> None:
    history = History(0)
    for line in ("opened orders-0 0 0", "handed orders-0 5", "synced orders-0 3"):
        history.take(line)
    late = ("handed orders-0 9", "synced orders-0 9", "raising orders-0 2", "start orders-0 2", "opened orders-0 9 1")
    for line in late:
        history.take_after_cut(line)
    history.power_cut()
    orders = history.of("orders-0")
    assert (orders.made, orders.handed, orders.synced, orders.start, orders.start_max) == (True, 3, 3, 0, 2)
    assert orders.lives == [(0, 0), (9, 1)], "records of the later life may be there"
    for line in ("dropping orders-0", "dropped orders-0"):
        history.take_after_cut(line)
    assert (orders.made, orders.going) == (False, True)
    history.take_after_cut("opened orders-0 0 2")
    assert (orders.made, orders.synced, orders.lives) == (False, 0, [(0, 2)])
