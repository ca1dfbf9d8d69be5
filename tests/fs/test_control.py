"""`.offsetfs` through the handlers: what is counted and shown, what `flush` and `log-level` answer."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyfuse3
import pytest
import trio
from fixtures.logs.small_logs import BATCH_BYTES, record
from prometheus_client.parser import text_string_to_metric_families
from pyfuse3 import FUSEError

from offsetfs.fs.control.control import PACKAGE, level
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptBatch
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("payments", 3)
CTX: Any = SimpleNamespace(pid=0)


class Tree:
    """A directory of two partitions, and what its handlers answer to paths."""

    def __init__(self, directory: LogDirectory, operations: Operations) -> None:
        self.directory = directory
        self.operations = operations

    async def inode(self, path: str) -> int:
        inode = pyfuse3.ROOT_INODE
        for name in path.split("/"):
            inode = (await self.operations.lookup(inode, name.encode(), CTX)).st_ino
        return inode

    async def read(self, path: str) -> str:
        opened = await self.operations.open(await self.inode(path), os.O_RDONLY, CTX)
        try:
            return bytes(await self.operations.read(opened.fh, 0, 1 << 20)).decode()
        finally:
            await self.operations.release(opened.fh)

    async def write(self, path: str, data: bytes) -> int:
        opened = await self.operations.open(await self.inode(path), os.O_WRONLY, CTX)
        try:
            return await self.operations.write(opened.fh, 0, data)
        finally:
            await self.operations.flush(opened.fh)
            await self.operations.release(opened.fh)

    async def metric(self, name: str, **labels: str) -> float:
        families = text_string_to_metric_families(await self.read(".offsetfs/metrics"))
        for sample in (sample for family in families for sample in family.samples):
            if sample.name == f"offsetfs_{name}" and labels.items() <= sample.labels.items():
                return float(sample.value)
        raise KeyError(name)


@pytest.fixture
def options() -> MountOptions:
    return MountOptions(linger_ms=1, flush_ms=None)


@pytest.fixture
async def tree(nursery: trio.Nursery, tmp_path: Path, options: MountOptions) -> AsyncIterator[Tree]:
    directory = LogDirectory.open(str(tmp_path))
    for partition in (ORDERS, OTHER):
        directory.create_partition(partition, {"segment.bytes": "1000000"})
    yield Tree(directory, operations := Operations(directory, options, nursery))
    await operations.accumulators.close()
    directory.close()


@pytest.fixture
def own_level() -> Iterator[None]:
    before = logging.getLogger(PACKAGE).level
    yield
    logging.getLogger(PACKAGE).setLevel(before)


async def errno_of(tree: Tree, path: str, data: bytes) -> str:
    with pytest.raises(FUSEError) as caught:
        await tree.write(path, data)
    return errno.errorcode[caught.value.errno]


# --- what is counted -------------------------------------------------------------------------------------------------


async def test_what_goes_in_and_out_of_a_partition_is_counted(tree: Tree) -> None:
    await tree.write("orders-0/append", b"one\ntwo\n")
    assert await tree.read("orders-0/values") == "one\ntwo\n"
    labels = {"topic": "orders", "partition": "0"}
    assert await tree.metric("appended_records_total", **labels) == 2
    assert await tree.metric("appended_batches_total", **labels) == 1
    assert await tree.metric("read_bytes_total", **labels) == 8
    assert await tree.metric("log_next_offset", **labels) == 2
    assert await tree.metric("partitions") == 2


async def test_a_partition_without_requests_has_no_series(tree: Tree) -> None:
    await tree.read("orders-0/next")
    with pytest.raises(KeyError):
        await tree.metric("reads_total", topic="payments")


async def test_unsynced_records_are_reported_until_they_are_on_disk(tree: Tree) -> None:
    await tree.write("orders-0/append", b"one\n")
    assert await tree.metric("unsynced_batches", topic="orders") == 1
    assert await tree.metric("unsynced_bytes", topic="orders") > 0
    await tree.write(".offsetfs/flush", b"orders-0\n")
    assert await tree.metric("unsynced_batches", topic="orders") == 0
    assert await tree.metric("unsynced_age_seconds", topic="orders") == 0
    assert await tree.metric("sync_duration_seconds_count") == 1


async def test_records_of_a_broker_in_the_process_are_on_the_same_account(tree: Tree) -> None:
    log = tree.directory.log(OTHER)
    log.append(record(1))
    assert await tree.metric("unsynced_batches", topic="payments") == 1
    assert await tree.metric("unsynced_bytes", topic="payments") == BATCH_BYTES
    opened = await tree.operations.open(await tree.inode(f"{OTHER}/append"), os.O_WRONLY, CTX)
    await tree.operations.fsync(opened.fh, False)
    await tree.operations.release(opened.fh)
    assert log.recovery_point == 1 and await tree.metric("unsynced_bytes", topic="payments") == 0


async def test_what_is_refused_is_counted_by_errno(tree: Tree) -> None:
    for _ in range(3):
        with pytest.raises(FUSEError):
            await tree.inode("orders-0/17")
    assert await tree.metric("request_errors_total", errno="ENOENT") == 3
    assert await tree.metric("requests_total", operation="lookup") >= 6


async def test_caches_report_their_hit_rate(tree: Tree) -> None:
    await tree.write("orders-0/append", b"one\n")
    for _ in range(2):
        await tree.read("orders-0/0")
    assert await tree.metric("cache_hits_total", cache="records") >= 1
    assert await tree.metric("cache_misses_total", cache="batches") == 1


async def test_records_that_were_taken_and_lost_are_counted(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, expect_log: Any
) -> None:
    expect_log("not written")
    await tree.write("orders-0/append", b"one\n")

    def fails(*args: object) -> None:
        raise OSError(errno.EIO, "gone")

    monkeypatch.setattr(Log, "append", fails)
    assert await errno_of(tree, "orders-0/append", b"two\nthree\n") == "EIO"
    assert await tree.metric("lost_records_total", topic="orders") == 2
    assert " EIO append orders-0: gone; repair the disk" in await tree.read(".offsetfs/errors")


async def test_a_partition_created_during_a_report_is_not_taken_for_removed(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount, new = tree.operations.mount, TopicPartition("late", 0)
    in_thread = mount.executor.in_thread

    async def and_meanwhile(work: Callable[[], Any]) -> Any:
        answer = await in_thread(work)
        mount.counters.of(new).appended_records += 1
        return answer

    monkeypatch.setattr(mount.executor, "in_thread", and_meanwhile)
    await tree.read(".offsetfs/stats")
    assert new in mount.counters.partitions


async def test_a_partition_that_was_removed_has_no_series_any_more(nursery: trio.Nursery, tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    directory.create_partition(ORDERS, {})
    tree = Tree(directory, Operations(directory, MountOptions(delete=True), nursery))
    await tree.write("orders-0/append", b"one\n")
    await tree.operations.rmdir(pyfuse3.ROOT_INODE, b"orders-0", CTX)
    with pytest.raises(KeyError):
        await tree.metric("appended_records_total", topic="orders")
    await tree.operations.accumulators.close()
    directory.close()


# --- what is shown ---------------------------------------------------------------------------------------------------


async def test_stats_are_a_table_of_what_was_used(tree: Tree) -> None:
    await tree.write("orders-0/append", b"one\n")
    text = await tree.read(".offsetfs/stats")
    assert "partitions  2, of which 1 were used" in text
    (row,) = [line for line in text.splitlines() if line.startswith("orders-0")]
    assert row.split()[1:3] == ["0", "1"]


@pytest.mark.parametrize(
    "options", [MountOptions.parse(["list=7", "retention.ms=-1", "log.cleaner.backoff.ms=1"])], ids=["some set"]
)
async def test_config_has_the_options_and_what_topics_set(tree: Tree) -> None:
    sections = (await tree.read(".offsetfs/config")).split("[")[1:]
    mount, directory, orders, payments = sections
    assert mount.startswith("mount]\n") and "\nlist=7\n" in mount and "\nflush-ms=1000\n" in mount
    assert directory == "directory]\nlog.cleaner.backoff.ms=1\n"
    assert orders == "topic orders]\nsegment.bytes=1000000\n" and payments.startswith("topic payments]\n")


async def test_nothing_is_listed(tree: Tree) -> None:
    handle = await tree.operations.opendir(await tree.inode(".offsetfs"), CTX)
    names: list[bytes] = []

    def take(name: bytes, attributes: object, cookie: int) -> bool:
        names.append(name)
        return True

    await tree.operations._listings[handle].reply(0, take)
    assert names == []


async def test_a_fault_names_the_file_on_which_it_was_met(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    await tree.write("orders-0/append", b"one\n")
    inode = await tree.inode("orders-0/values")
    opened = await tree.operations.open(inode, os.O_RDONLY, CTX)

    async def fails(position: int, size: int) -> bytes:
        raise CorruptBatch("checksum", path="/logs/0.log", position=61)

    monkeypatch.setattr(tree.operations._handles[opened.fh], "read", fails)
    with pytest.raises(FUSEError):
        await tree.operations.read(opened.fh, 0, 100)
    assert (
        " EBADMSG read orders-0/values: /logs/0.log, position 61: checksum; the raw bytes are in `segments/`"
        in await tree.read(".offsetfs/errors")
    )


# --- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.promise(
    "All accepted records of a partition are on disk when a write of its name to `.offsetfs/flush` has returned."
)
@pytest.mark.parametrize("words", [b"orders-0", b"*", b"orders-0\npayments-3\n", b" * \n"])
async def test_records_before_a_flush_are_on_disk_when_it_returns(tree: Tree, words: bytes) -> None:
    await tree.write("orders-0/append", b"one\n")
    log = tree.directory.log(ORDERS)
    assert log.recovery_point == 0
    assert await tree.write(".offsetfs/flush", words) == len(words)
    assert log.recovery_point == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (b"orders-7", "ENOENT"),
        (b"orders-0 orders-7", "ENOENT"),
        (b"orders", "EINVAL"),
        (b"../orders-0", "EINVAL"),
        (b"", "EINVAL"),
        (b"\n", "EINVAL"),
        (b"\xff\x00", "EINVAL"),
    ],
)
async def test_flush_refuses_what_is_no_partition(tree: Tree, words: bytes, expected: str) -> None:
    assert await errno_of(tree, ".offsetfs/flush", words) == expected


@pytest.mark.parametrize("words", [b"orders-0", b"*"])
async def test_a_failed_flush_is_reported(
    tree: Tree, words: bytes, monkeypatch: pytest.MonkeyPatch, expect_log: Any
) -> None:
    expect_log("sync failed")
    await tree.write("orders-0/append", b"one\n")

    def fails(log: Log) -> None:
        raise OSError(errno.EIO, "gone")

    with monkeypatch.context() as patch:
        patch.setattr(Log, "flush", fails)
        assert await errno_of(tree, ".offsetfs/flush", words) == "EIO"
    assert await tree.metric("sync_failures_total") == 1
    assert " EIO sync orders-0: gone; repair the disk" in await tree.read(".offsetfs/errors")
    assert " EIO write .offsetfs/flush: " in await tree.read(".offsetfs/errors")


@pytest.mark.parametrize("name", ["debug", "info", "warning", "error"])
async def test_the_log_level_is_what_was_written(tree: Tree, own_level: None, name: str) -> None:
    await tree.write(".offsetfs/log-level", name.upper().encode() + b"\n")
    assert await tree.read(".offsetfs/log-level") == f"{name}\n"
    assert level() == name
    inode = await tree.inode(".offsetfs/log-level")
    assert (await tree.operations.getattr(inode, CTX)).st_size == len(name) + 1


@pytest.mark.parametrize("name", [b"loud", b"", b"debug info", b"\xff"])
async def test_a_log_level_that_there_is_not_is_refused(tree: Tree, own_level: None, name: bytes) -> None:
    before = level()
    assert await errno_of(tree, ".offsetfs/log-level", name) == "EINVAL"
    assert level() == before


async def test_at_debug_what_is_refused_is_in_the_log_with_its_path(
    tree: Tree, own_level: None, caplog: pytest.LogCaptureFixture
) -> None:
    await tree.write(".offsetfs/log-level", b"debug")
    for path in ("orders-0/by-time/2100-01-01", "nowhere-0"):
        with pytest.raises(FUSEError):
            await tree.inode(path)
    reported = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert reported == ["lookup orders-0/by-time/2100-01-01: ENOENT", "lookup nowhere-0: ENOENT"]
