"""An open `append` file: lines in, records out.

write(2) boundaries mean nothing: a line may come in any number of pieces, and each handle carries its own unfinished
one. The newline is stripped, a CR before it is kept. FLUSH comes whenever somebody closes a copy of the descriptor, so
it only drains complete records; RELEASE comes once, at the end, and makes a record of what is still unfinished.

What can be refused is refused in `write`: a line above the limit (EMSGSIZE), a full disk, a read-only or fenced log.
What fails later, after `write` returned, is remembered: every later write, flush and sync of the handle reports it.

Raises OSError and the engine's errors. The kernel lets one write at a time into an inode, so writes of a handle never
overlap; flush and sync may run beside one.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import time
from collections import deque

import trio

from offsetfs.fs.accumulator import Accumulator
from offsetfs.storage.records import varint
from offsetfs.storage.records.batch import HEADER_SIZE
from offsetfs.storage.records.batch_builder import RECORD_OVERHEAD_MAX

_log = logging.getLogger(__name__)

RANGES_MAX = 65_536  # acknowledged and not yet read, per handle; beyond, the oldest are forgotten
WAIT_SHARE = 0.5  # of what the kernel lets a request wait before it ends the mount


class AppendHandle:
    """One open file description of `append`. `flags` are those of open(2)."""

    def __init__(self, accumulator: Accumulator, flags: int) -> None:
        self.wants_offsets = flags & os.O_ACCMODE == os.O_RDWR
        self.code: int | None = None
        self._accumulator = accumulator
        self._is_nonblocking = bool(flags & os.O_NONBLOCK)
        self._is_synchronous = bool(flags & os.O_DSYNC)  # O_SYNC holds its bit
        self._carry = bytearray()  # the unfinished line
        self._is_refused = False
        self._is_pending = False  # something was taken since the last drain
        self._acknowledged: deque[tuple[int, int, int]] = deque(maxlen=RANGES_MAX)  # offset, count, timestamp
        self._unread = bytearray()
        accumulator.enter(self)

    # --- writing -----------------------------------------------------------------------------------------------------

    async def write(self, data: bytes) -> int:
        """Take `data`; return how many bytes of it, which is less than all when what follows was refused.

        After return the complete lines are framed, checked and in the open batch; on disk with O_SYNC or O_DSYNC.
        OSError when nothing was taken: EMSGSIZE (and from then on always), EAGAIN (O_NONBLOCK, no room), EINTR (no
        room for as long as the kernel waits), EINVAL (a compacted topic), ENOSPC, EROFS, EIO, ESHUTDOWN, or the errno
        of a batch that was lost.
        """
        self._check()
        if self._is_refused:
            raise _error(errno.EMSGSIZE)
        timestamp = time.time_ns() // 1_000_000
        taken = await self._complete_line(data, timestamp) if self._carry else 0
        end = data.rfind(b"\n", taken) + 1
        if end > taken:
            taken = await self._take(data, taken, end, timestamp)
        if taken >= end:
            taken = self._carry_on(data, taken)
        if self._is_synchronous:
            await self.fsync()
        return taken

    async def _complete_line(self, data: bytes, timestamp: int) -> int:
        """Take the carried line if `data` ends it; return where the next one begins, 0 if it goes on."""
        end = data.find(b"\n") + 1
        if end:
            self._check_size(len(self._carry) + end - 1)
            await self._take(bytes(self._carry) + data[:end], 0, len(self._carry) + end, timestamp)
            self._carry.clear()
        return end

    async def _take(self, data: bytes, start: int, end: int, timestamp: int) -> int:
        """Take whole lines; return where the first one begins that was refused. OSError when it is the first of all."""
        position = start
        self._is_pending = True
        while True:
            try:
                position = self._accumulator.split(data, position, end, timestamp, self)
                self._check()
                if position == end:
                    return position
                await self._make_room(data.index(b"\n", position) - position)
            except OSError:
                if position == 0 or self.code is not None:
                    raise
                return position

    async def _make_room(self, line_size: int) -> None:
        self._check_size(line_size)
        if self._is_nonblocking:
            raise _error(errno.EAGAIN)
        patience = self._accumulator.request_timeout_s
        with trio.move_on_after(patience * WAIT_SHARE if patience else float("inf")) as waiting:
            await self._accumulator.make_room(HEADER_SIZE + _line_size(line_size))
        self._check()
        if waiting.cancelled_caught:
            raise _error(errno.EINTR)

    def _carry_on(self, data: bytes, start: int) -> int:
        """Keep `data[start:]`, the beginning or the middle of a line; return how many bytes are taken now."""
        if start == len(data):
            return start
        try:
            self._accumulator.check(len(data) - start, has_key=False)  # when the line ends, nobody may listen any more
            self._check_size(len(self._carry) + len(data) - start)
        except OSError:
            if start == 0:
                raise
            return start
        self._carry += memoryview(data)[start:]
        return len(data)

    def _check_size(self, line_size: int) -> None:
        if line_size > line_bytes_max(self._accumulator.batch_bytes_max):
            self._is_refused = True
            self._carry.clear()
            raise _error(errno.EMSGSIZE)

    def _check(self) -> None:
        if self.code is not None:
            raise _error(self.code)

    # --- the end of a write, of a copy, of the file ------------------------------------------------------------------

    async def flush(self) -> None:
        """Return when the complete lines are in the segment file; OSError when some were lost."""
        if self._is_pending:
            self._is_pending = False
            await self._accumulator.drain()
        self._check()

    async def fsync(self) -> None:
        """Return when the complete lines are on disk; OSError when they are not."""
        self._check()
        await self._accumulator.sync()
        self._check()

    async def release(self) -> None:
        """Make a record of an unfinished line, and let go. Nobody hears of errors now but the log."""
        self._is_nonblocking = False
        size = len(self._carry)
        try:
            if size and self.code is None:
                await self._take(bytes(self._carry) + b"\n", 0, size + 1, time.time_ns() // 1_000_000)
        except OSError as error:
            _log.error("%s: an unfinished line of %d bytes is lost: %s", self._accumulator.partition, size, error)
        self._carry.clear()
        if self._is_pending:
            await self._accumulator.drain()
        self._accumulator.leave(self)

    def failed(self, code: int) -> None:
        """Remember that records were lost, with this errno."""
        if self.code is None:
            self.code = code

    # --- reading -----------------------------------------------------------------------------------------------------

    async def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes of `offset timestamp` lines, one for each record in the file since the last read.

        A stream: what was returned is gone, and the position says nothing. b"" when there is nothing more to tell, and
        always when the file was not opened O_RDWR.
        """
        if self.wants_offsets:
            await self.flush()
        while self._acknowledged and len(self._unread) < size:
            offset, count, timestamp = self._acknowledged.popleft()
            told = min(count, size // len("0 0\n") + 1)
            if told < count:
                self._acknowledged.appendleft((offset + told, count - told, timestamp))
            self._unread += "".join([f"{each} {timestamp}\n" for each in range(offset, offset + told)]).encode()
        answer = bytes(memoryview(self._unread)[:size])
        del self._unread[:size]
        return answer

    def acknowledged(self, offset: int, count: int, timestamp: int) -> None:
        """Remember where records came to lie, for `read`."""
        if self._acknowledged:
            first, known, when = self._acknowledged[-1]
            if first + known == offset and when == timestamp:
                self._acknowledged[-1] = (first, known + count, when)
                return
        self._acknowledged.append((offset, count, timestamp))


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def _line_size(value_size: int) -> int:
    """Return the size of a record of one line, as the first of its batch."""
    body = 5 + varint.size(value_size) + value_size  # 5: attributes, two deltas of 0, no key, no headers
    return varint.size(body) + body


@functools.lru_cache(maxsize=64)
def line_bytes_max(batch_bytes: int) -> int:
    """Return the longest line that fits into a batch of `batch_bytes`, -1 when none does."""
    room = batch_bytes - HEADER_SIZE
    sizes = range(max(0, room - RECORD_OVERHEAD_MAX), max(0, room))
    return max((size for size in sizes if _line_size(size) <= room), default=-1)
