"""Group commit: one sync serves the requests that came before it, and no request is answered by an earlier one."""

from __future__ import annotations

import threading
from functools import partial

import pytest
import trio
import trio.testing

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.storage import BatchBuilder, Log, LogDirectory, TopicPartition
from offsetfs.storage.files import File

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)


def append(log: Log) -> int:
    """Append a record; return the offset after it."""
    builder = BatchBuilder(1 << 10)
    builder.append(None, b"v", (), 1)
    return log.append(builder.seal()).last_offset + 1


async def test_flush_messages_is_no_question_of_acks(directory: LogDirectory) -> None:
    log, commits = directory.log(T), LogSync(waits=False)
    end = append(log)
    await commits.sync(log, end)
    assert log.recovery_point == 0
    await commits.sync(log, end, is_forced=True)
    assert log.recovery_point == end


async def test_a_sync_that_began_before_an_append_does_not_answer_it(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests that arrive while a sync runs wait for the next one, which serves all of them."""
    log, commits = directory.log(T), LogSync()
    synced, answered = list[int](), list[bool]()
    began, may_end = threading.Event(), threading.Event()

    def sync(file: File) -> None:
        if file.path.endswith(".log"):
            synced.append(log.next_offset)
            began.set()
            assert may_end.wait(60)

    async def answer(end: int) -> None:
        await commits.sync(log, end)
        answered.append(log.recovery_point >= end)

    monkeypatch.setattr(File, "sync", sync)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, append(log))
        assert await trio.to_thread.run_sync(began.wait, 60)
        nursery.start_soon(answer, append(log))
        nursery.start_soon(answer, append(log))
        await trio.testing.wait_all_tasks_blocked()
        may_end.set()
    assert answered == [True] * 3, "answered before it was on disk"
    assert synced == [1, 3]


async def test_reads_that_wait_for_the_disk_delay_no_sync(directory: LogDirectory) -> None:
    """Syncs and reads had one limit of threads: slow reads kept acks=all waiting."""
    log, may_end = directory.log(T), threading.Event()
    threads_max = int(trio.to_thread.current_default_thread_limiter().total_tokens)
    async with trio.open_nursery() as nursery:
        for _ in range(threads_max):
            nursery.start_soon(in_thread, partial(may_end.wait, 60))
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(30):
            await LogSync().sync(log, append(log))
        is_synced = log.recovery_point == 1
        may_end.set()
    assert is_synced
