"""New records of partitions for the browsers that follow them.

    append ──► a change of the directory, or a check of its files ──► one reader ──► all followers of the partition

Followers of a partition that have the same offset share what one of them reads. A follower that is slow reads by
itself, at its own offset, and keeps no other waiting. Without changes a comment is sent now and then, so that proxies
keep the connection.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import trio

from offsetfs.answers.find import FindBounds, Search
from offsetfs.common.change_feed import ChangeFeed
from offsetfs.common.threads import in_thread
from offsetfs.storage import LogView, TopicPartition
from offsetfs.storage.directory import LogChange
from offsetfs.storage.errors import StorageError, sentence
from offsetfs.web.exact_json import exact_json
from offsetfs.web.http_server import HttpError
from offsetfs.web.record_views import RecordsOf, left_out
from offsetfs.web.tree_views import log_of

THREADS_MAX = 4
"""The partitions that are read at a time."""
CHUNK_OFFSETS = 500
CHUNK_BYTES = 1 << 20
"""What one event has of them, at most; a larger record is one of its own."""
OTHERS_CHECK_S = 0.05
"""The interval of checks of a partition that another process writes."""
OWN_CHECK_S = 1.0
"""The same if this process writes it, whose changes come at once."""
PAUSE_S = 0.02
"""Between two reads: many appends in that time are one event."""
KEEP_ALIVE_S = 15.0

Result = TypeVar("Result")
Send = Callable[[bytes], Awaitable[None]]


class Following:
    """All followers of one directory. Create it in the event loop."""

    def __init__(self, records: RecordsOf) -> None:
        self._records = records
        self.threads = trio.CapacityLimiter(THREADS_MAX)
        self.followers = 0
        self._tails: dict[TopicPartition, _Tail] = {}
        if not records.directory.read_only:
            ChangeFeed(records.directory).subscribe(self._changed)

    def _changed(self, name: TopicPartition, change: LogChange) -> None:
        if (tail := self._tails.get(name)) is not None:
            tail.changed.set()

    async def follow(self, name: TopicPartition, start: int | None, send: Send) -> None:
        """Send records from an offset on, or from the end, as events, until cancelled or the partition is gone."""
        tail = self._tails.setdefault(name, _Tail(self._records, name, self.threads))
        self.followers += 1
        tail.followers += 1
        try:
            await tail.follow(start, send)
        except (StorageError, OSError, HttpError) as error:
            await send(event("failure", {"error": error.message if isinstance(error, HttpError) else sentence(error)}))
        finally:
            self.followers -= 1
            tail.followers -= 1
            if not tail.followers:
                self._tails.pop(name, None)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Events with the records from one offset up to another."""

    start: int
    stop: int
    data: bytes


class _Tail:
    """The end of one partition, for its followers."""

    def __init__(self, records: RecordsOf, name: TopicPartition, threads: trio.CapacityLimiter) -> None:
        self._records, self._name, self._threads = records, name, threads
        self._check_s = OTHERS_CHECK_S if records.directory.read_only else OWN_CHECK_S
        self._reading, self._waiting = trio.Lock(), trio.Lock()
        self._end = -1
        self._chunk = _Chunk(-1, -1, b"")
        self.changed = trio.Event()
        self.followers = 0

    async def follow(self, start: int | None, send: Send) -> None:
        await self._look()
        offset = self._end if start is None else start
        await send(b": following\n\n")
        while True:
            with trio.move_on_after(KEEP_ALIVE_S) as patience:
                await self._grown(offset)
            if patience.cancelled_caught:
                await send(b": waiting\n\n")
                continue
            chunk = await self._read(offset)
            offset = chunk.stop
            if chunk.data:
                await send(chunk.data)

    async def _grown(self, offset: int) -> None:
        """Return when there is something behind an offset. One follower waits for the log, the others for it."""
        while self._end <= offset:
            async with self._waiting:
                if self._end > offset:
                    return
                with trio.move_on_after(self._check_s):
                    await self.changed.wait()
                self.changed = trio.Event()
                await trio.sleep(PAUSE_S)
                await self._look()

    async def _look(self) -> None:
        end = await self._in_thread(lambda: LogView(log_of(self._records.directory, self._name)).end_offset())
        if end < self._end:
            raise HttpError(404, f"{self._name} was truncated or created again: follow it anew")
        self._end = end

    async def _read(self, offset: int) -> _Chunk:
        async with self._reading:
            if self._chunk.start != offset:
                self._chunk = await self._in_thread(partial(self._chunk_at, offset, self._end))
            return self._chunk

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await in_thread(work, limiter=self._threads, abandon_on_cancel=True)

    def _chunk_at(self, offset: int, end: int) -> _Chunk:
        stop = min(offset + CHUNK_OFFSETS, end)
        search = Search(self._records.directory, [self._name], (), FindBounds(start=offset, stop=stop), threads=1)
        found: list[bytes] = []
        size = 0
        for lines in search.lines(self._records.shown_of):
            for line in lines:
                if size and size + len(line) > CHUNK_BYTES:
                    return self._made(offset, json.loads(found[-1])["offset"], found, search)
                found.append(line)
                size += len(line)
        return self._made(offset, stop - 1, found, search)

    def _made(self, start: int, last: int | str, found: list[bytes], search: Search) -> _Chunk:
        records = b"event: records\ndata: [" + b",".join(found) + b"]\n\n" if found else b""
        missed = left_out(search)
        notes = event("left_out", missed) if missed["left_out"] or missed["damaged"] else b""
        return _Chunk(start, int(last) + 1, records + notes)


def event(name: str, data: object) -> bytes:
    """Return an event of a stream for browsers."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), exact_json(data))
