"""The feed of changes: handlers run on the event loop, and no failure of theirs reaches an append."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from offsetfs.common.change_feed import ChangeFeed
from offsetfs.storage import BatchBuilder, Log, LogDirectory, TopicPartition
from offsetfs.storage.directory import LogChange

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

PARTITION = TopicPartition("t", 0)


def append(log: Log) -> int:
    builder = BatchBuilder(1 << 10)
    builder.append(None, b"one", (), 1)
    return log.append(builder.seal()).last_offset


async def test_changes_of_any_thread_arrive_on_the_event_loop(directory: LogDirectory) -> None:
    feed, found = ChangeFeed(directory), list[tuple[TopicPartition, LogChange]]()
    feed.subscribe(lambda partition, change: found.append((trio.lowlevel.current_task() and partition, change)))
    log = await trio.to_thread.run_sync(directory.create_partition, PARTITION)
    append(log)
    assert found == [(PARTITION, LogChange.CREATED), (PARTITION, LogChange.APPENDED)]
    await trio.to_thread.run_sync(append, log)
    await trio.to_thread.run_sync(directory.delete_partition, PARTITION)
    await wait_all_tasks_blocked()
    assert found[2:] == [(PARTITION, LogChange.APPENDED), (PARTITION, LogChange.DELETED)]


@pytest.mark.expect_log("was not published")
async def test_an_append_succeeds_although_a_handler_fails(directory: LogDirectory) -> None:
    def fail(partition: TopicPartition, change: LogChange) -> None:
        raise ValueError(partition)

    log = directory.create_partition(PARTITION)
    ChangeFeed(directory).subscribe(fail)
    assert append(log) == 0 and append(log) == 1


def test_an_append_after_the_end_of_the_event_loop_reaches_nothing(directory: LogDirectory) -> None:
    found = list[TopicPartition]()

    async def subscribe() -> None:
        ChangeFeed(directory).subscribe(lambda partition, change: found.append(partition))

    trio.run(subscribe)
    assert append(directory.create_partition(PARTITION)) == 0 and found == []
