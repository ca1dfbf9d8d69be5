"""Group commit: one sync serves the requests that came before it, and no request is answered by an earlier one."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from offsetfs.broker.group_commit import GroupCommit
from offsetfs.storage import BatchBuilder, Log, LogDirectory, TopicPartition
from offsetfs.storage.files import File

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)


def append(log: Log) -> int:
    """Append a record; return the offset after it."""
    builder = BatchBuilder(1 << 10)
    builder.append(None, b"v", (), 1)
    return log.append(builder.seal()).last_offset + 1


async def test_a_sync_that_began_before_an_append_does_not_answer_it(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests that arrive while a sync runs wait for the next one, which serves all of them."""
    log, commits = directory.log(T), GroupCommit()
    synced, answered = list[int](), list[bool]()
    began, may_end = threading.Event(), threading.Event()

    def sync(file: File) -> None:
        if file.path.endswith(".log"):
            synced.append(log.next_offset)
            began.set()
            assert may_end.wait(10)

    async def answer(end: int) -> None:
        await commits.sync(log, end)
        answered.append(log.recovery_point >= end)

    monkeypatch.setattr(File, "sync", sync)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, append(log))
        assert await trio.to_thread.run_sync(began.wait, 10)
        nursery.start_soon(answer, append(log))
        nursery.start_soon(answer, append(log))
        await trio.testing.wait_all_tasks_blocked()
        may_end.set()
    assert answered == [True] * 3, "answered before it was on disk"
    assert synced == [1, 3]
