"""The open files `append`, `append.ndjson` and `append.raw`, which turn written bytes into records.

The boundaries of write(2) have no meaning: a record may arrive in any number of pieces, and each handle buffers its own
unfinished record. The framing defines what a record is. The kernel sends FLUSH for each closed copy of the descriptor,
so FLUSH only drains complete records. It sends RELEASE once, at the end, and this completes the unfinished record.
Records of files that are closed one after the other keep that order: `close` never waits, and adds the record to the
batch or takes a turn in the queue of writers (`Accumulator.wait_for_space`). An open waits for files that may be closed
already (`open_files`).

`write` refuses what it can detect: a record above the limit (EMSGSIZE), a line that is not JSON (EINVAL), a full disk,
a read-only or failed log. A later failure, after `write` returned, is returned by every later write, flush and sync of
the handle.

`append.raw` uses the position of each write: until its record ends it is a file in memory, so that programs may seek,
as cp does over holes. Its record ends with the last close, or with fsync, because the disk holds complete records only
(docs/internals/decisions/0012-fsync-ends-a-raw-record.md).

Raises OSError and the engine's errors. The kernel serializes the writes of an inode, so writes of a handle never
overlap; flush and sync may run during a write.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import time
from collections import deque
from collections.abc import Awaitable, Callable

import trio

from offsetfs.fs.appends.framing import Lines, RefusedLine
from offsetfs.fs.appends.json_batches import Taken
from offsetfs.fs.appends.target import AppendTarget
from offsetfs.fs.fuse_types import PollHandle
from offsetfs.fs.requests.waiting import READABLE, WRITABLE
from offsetfs.storage.records import LineFault

_log = logging.getLogger(__name__)

RANGES_MAX = 65_536  # unread acknowledgments per handle; above it the oldest are dropped


class AppendHandle:
    """One open file description. `flags` are those of open(2). `on_loss` gets losses that no system call can return."""

    def __init__(
        self,
        target: AppendTarget,
        flags: int,
        framing: Lines | None = None,
        path: str = "append",
        on_loss: Callable[[OSError], object] = lambda error: None,
        on_poll: Callable[[int, PollHandle], None] = lambda number, poll: None,
    ) -> None:
        """`on_poll` stores a poll, to be notified when a buffer may be free again."""
        self.wants_offsets = flags & os.O_ACCMODE == os.O_RDWR
        self.code: int | None = None
        self._target = target
        self._memory = target.context.memory
        self._files = target.context.files
        self._framing = framing or Lines()
        self._path = path
        self._on_loss = on_loss
        self._on_poll = on_poll
        self._is_nonblocking = bool(flags & os.O_NONBLOCK)
        self._is_synchronous = bool(flags & os.O_DSYNC)  # O_SYNC holds its bit
        self._appends = bool(flags & os.O_APPEND)
        self._carry = bytearray()  # the unfinished record
        self._reserved = 0  # its bytes in the budget of unfinished records
        self._record_start = 0  # its position in the file, as the writer counts
        self._write_position: int | None = None  # the position of the next write
        self._accepted = 0  # bytes of lines, unfinished ones too
        self._final_error: OSError | None = None  # the error of every later write
        self._is_pending = False  # whether records were accepted since the last drain
        self._receipts = Receipts()
        self._is_closed = False
        self._ending = b""  # the unfinished record of the closed file
        self._ending_space: Awaitable[None] | None = None  # waits for a buffer; None: it is in a batch, or lost
        self._released: trio.Event | None = None  # set at the end of `release`
        self._files.writers.add(self)

    # --- writing -----------------------------------------------------------------------------------------------------

    async def write(self, data: bytes) -> int:
        """Accept `data`; return the number of accepted bytes, fewer than all if the next record was refused.

        After return the complete records are framed, checked and in the open batch; on disk with O_SYNC or O_DSYNC.
        OSError if nothing was accepted: EMSGSIZE (also for all later writes), EINVAL (a line that is no record; a
        compacted topic), ENOBUFS (too many unfinished records), EAGAIN (O_NONBLOCK, no free buffer), EINTR (no free
        buffer for half of the kernel's request timeout), ENOSPC, EROFS, EIO, ESHUTDOWN, or the errno of a lost batch.
        """
        self._check()
        self._files.settled(self)
        if self._final_error is not None:
            raise OSError(self._final_error.errno, self._final_error.strerror)
        if self._framing.is_whole:
            return self._put(data)
        try:
            taken = await self._take_lines(data, time.time_ns() // 1_000_000)
        except RefusedLine:
            self._drop()
            self._framing.skip(data)
            if not data.endswith(b"\n"):  # the rest of the refused line could be a valid line
                self._final_error = _error(errno.EINVAL)
            raise
        self._accepted += taken
        if self._is_synchronous:
            await self.fsync()
        return taken

    async def _take_lines(self, data: bytes, timestamp: int) -> int:
        taken = await self._complete_line(data, timestamp) if self._carry else 0
        end = data.rfind(b"\n", taken) + 1
        if end > taken:
            taken = await self._take(data, taken, end, timestamp)
        return self._carry_on(data, taken) if taken >= end else taken

    async def _complete_line(self, data: bytes, timestamp: int) -> int:
        """Append the unfinished line if `data` ends it; return the start of the next line, 0 if it continues."""
        end = data.find(b"\n") + 1
        if end:
            self._check_size(len(self._carry) + end - 1)
            await self._take(bytes(self._carry) + data[:end], 0, len(self._carry) + end, timestamp)
            self._drop()
        return end

    async def _take(self, data: bytes, start: int, end: int, timestamp: int) -> int:
        """Append complete records; return the start of the first refused one. OSError if that is the first record."""
        position = start
        self._is_pending = True
        while True:
            try:
                position, needed, fault = self._take_now(data, position, end, timestamp)
                if position == end:
                    return position
                self._refuse(fault)
                await self._wait_for_space(needed)
            except OSError as error:
                if position == 0 or self.code is not None:
                    raise
                if isinstance(error, RefusedLine):
                    self._on_loss(error)  # the writer may ignore a short count
                return position

    def _take_now(self, data: bytes, start: int, end: int, timestamp: int) -> Taken:
        """Append the records that fit now. OSError as `write`, also if records of this handle were lost."""
        taken = self._framing.take(self._target, data, start, end, timestamp, self)
        self._check()
        return taken

    def _refuse(self, fault: LineFault | None) -> None:
        """Raise RefusedLine if the framing stopped at an invalid line."""
        if fault is not None:
            raise RefusedLine(errno.EINVAL, self._framing.explain(fault), self._path)

    async def _wait_for_space(self, needed: int) -> None:
        if needed > self._target.batch_bytes_max:
            raise self._too_large(f"a record that makes a batch of {needed} bytes")
        if self._is_nonblocking:
            raise _error(errno.EAGAIN)
        with trio.move_on_after(self._target.context.wait_s) as waiting:
            await self._target.wait_for_space(self, needed)
        self._check()
        if waiting.cancelled_caught:
            raise _error(errno.EINTR)

    def _carry_on(self, data: bytes, start: int) -> int:
        """Keep `data[start:]`, an incomplete line; return the number of accepted bytes."""
        if start == len(data):
            return start
        try:
            # Checked now, because the line may end with the close of the file, whose errors programs ignore.
            self._target.check(len(data) - start, has_key=self._framing.has_keys)
            self._reserve(len(self._carry) + len(data) - start)
        except OSError:
            if start == 0:
                raise
            return start
        self._carry += memoryview(data)[start:]
        return len(data)

    def _reserve(self, size: int) -> None:
        """Reserve memory for an unfinished record of `size` bytes. OSError EMSGSIZE, ENOBUFS."""
        self._check_size(size)
        self._memory.change_unfinished(size - self._reserved)
        self._reserved = size

    def _drop(self) -> None:
        """Drop the unfinished record."""
        self._carry.clear()
        self._memory.change_unfinished(-self._reserved)
        self._reserved = 0

    def _check_size(self, size: int) -> None:
        if size > self._framing.unfinished_bytes_max(self._target):
            raise self._too_large(f"a record of at least {size} bytes")

    def _too_large(self, record: str) -> OSError:
        """Return what to raise for a record above the limit. All that follows is refused: it may be the rest of it."""
        limit = self._target.batch_bytes_max
        reason = f"{record}; max.message.bytes allows {limit} bytes with the batch header"
        self._final_error = OSError(errno.EMSGSIZE, reason)
        self._drop()
        return OSError(errno.EMSGSIZE, reason)

    def _check(self) -> None:
        if self.code is not None:
            raise _error(self.code)

    # --- one record per file -----------------------------------------------------------------------------------------

    def place(self, position: int) -> None:
        """Set the position of the next write. Only `append.raw` uses it."""
        self._write_position = position

    def _put(self, data: bytes) -> int:
        """Store bytes of the record at the position of the write. A hole before them is filled with zeros."""
        # cp seeks over holes, and truncates at the end: positions count, unless the file was opened with O_APPEND.
        start = (
            len(self._carry)
            if self._appends or self._write_position is None
            else self._write_position - self._record_start
        )
        if start < 0:
            raise OSError(errno.EINVAL, "an fsync has ended the record there", self._path)
        self._target.check(len(data), has_key=self._framing.has_keys)
        self.resize(max(start + len(data), len(self._carry)) + self._record_start)
        self._carry[start : start + len(data)] = data
        return len(data)

    def resize(self, size: int) -> None:
        """Set the length of the file, as ftruncate. EINVAL for files of lines, except to 0 or to the written size."""
        if not self._framing.is_whole:
            # rsync --inplace sets the length that it wrote, at the end: a failure makes users store all lines again.
            if size not in (0, self._accepted):
                raise _error(errno.EINVAL)
            return
        size -= self._record_start
        if size < 0:
            raise _error(errno.EINVAL)
        self._reserve(size)
        if size < len(self._carry):
            del self._carry[size:]
        else:
            self._carry.extend(bytes(size - len(self._carry)))

    # --- flush, sync and close ---------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Return when the complete records are in the segment file. OSError if some were lost."""
        if self._carry:
            # FLUSH is sent for each close of a copy of the descriptor, so it does not tell whether the file is closed.
            # RELEASE does, but only after close(2) has returned.
            self._files.flushed(self, self._target.partitions)
        if self._is_pending:
            self._is_pending = False
            await self._target.drain()
        self._check()

    async def fsync(self) -> None:
        """Return when the complete records are on disk. OSError if they are not. Ends the record of `append.raw`."""
        self._check()
        if self._framing.is_whole:
            await self._finish()
        await self._target.sync()
        self._check()

    def close(self) -> None:
        """End the file: add its unfinished record to the batch, or to the queue for a free buffer. Never waits.

        `release` does the rest. The order of these calls is the order of the records.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._is_nonblocking = False
        if self._carry and self.code is None:
            self._files.released(self, self._target.partitions)
            # The last line without a newline is a record, as for every program that reads lines.
            self._ending = bytes(self._carry) + (b"" if self._framing.is_whole else b"\n")
            self._carry.clear()
            self._end()

    async def release(self) -> None:
        """Return when the unfinished record is in the segment file, or lost; then leave the accumulator.

        A loss is reported to the log and to `on_loss`: no system call can return it. May be called again while it runs.
        """
        # Called twice: by RELEASE and by the end of the mount. The record was stored twice, or lost, before.
        if self._released is not None:
            await self._released.wait()
            return
        self._released = trio.Event()
        try:
            self.close()
            while self._ending_space is not None:
                await self._end_with_space(self._ending_space)
            await self._settle()
        finally:
            self._files.settled(self)
            self._released.set()
        self._target.leave(self)

    def _end(self) -> None:
        """Add the ending record to the batch, or to the queue for a free buffer."""
        record, self._ending_space = self._ending, None
        try:
            self._is_pending = True
            taken = self._take_now(record, 0, len(record), time.time_ns() // 1_000_000)
            self._refuse(taken.fault)
            if taken.end < len(record):
                if taken.needed > self._target.batch_bytes_max:
                    raise self._too_large(f"a record that makes a batch of {taken.needed} bytes")
                self._ending_space = self._target.wait_for_space(self, taken.needed)
        except OSError as error:
            self._report_loss(error)

    async def _end_with_space(self, space: Awaitable[None]) -> None:
        try:
            await space
        except OSError as error:
            self._ending_space = None
            self._report_loss(error)
        else:
            self._end()

    async def _settle(self) -> None:
        """Write the accepted records to the segment file; sync them if the file was opened with O_SYNC or O_DSYNC."""
        self._files.settled(self)
        try:
            if self._is_synchronous and self._framing.is_whole:
                await self._target.sync()
        except OSError as error:
            self._report_loss(error)
        self._drop()
        if self._is_pending:
            await self._target.drain()

    def _report_loss(self, error: OSError) -> None:
        what = "a record" if self._framing.is_whole else "an unfinished line"
        size = max(len(self._ending) - (not self._framing.is_whole), 0)
        _log.error("%s: %s of %d bytes is lost: %s", self._path, what, size, error.strerror or error)
        self._on_loss(error)

    async def _finish(self) -> None:
        """Append the unfinished bytes as a record, if there are any. Bytes of later writes begin the next record."""
        if not self._carry:
            return
        # Taken out before the first await: bytes that were written during an fsync that waits for space belong to the
        # next record, and were lost before.
        record, reserved = bytes(self._carry), self._reserved
        self._carry.clear()
        self._reserved = 0
        self._record_start += len(record)
        is_taken = False
        try:
            await self._take(record, 0, len(record), time.time_ns() // 1_000_000)
            is_taken = True
        finally:
            if is_taken or self._final_error is not None:
                self._memory.change_unfinished(-reserved)
            else:  # kept, so that a later fsync or the close appends it
                self._carry[:0] = record
                self._reserved += reserved
                self._record_start -= len(record)

    def failed(self, code: int) -> None:
        """Record the errno of lost records; the first one stays."""
        if self.code is None:
            self.code = code

    # --- reading -----------------------------------------------------------------------------------------------------

    async def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes of `offset timestamp` lines, one per record since the last read.

        Of a topic's file they are `partition offset timestamp`, those of one partition in the order of its records.
        A stream: each line is returned once, and `position` is ignored. b"" if there are no more lines, and always if
        the file was not opened O_RDWR.
        """
        if self.wants_offsets:
            await self.flush()
        return self._receipts.read(size)

    async def poll(self, number: int, poll: PollHandle | None) -> int:
        """Return the events of poll(2): writable if a write would not wait, readable if a read has lines."""
        if poll is not None:
            self._on_poll(number, poll)
        events = select.POLLERR if self.code is not None else 0
        # poll(2) must not wait for a write that would fail at once.
        if self._target.has_space or self.code is not None:
            events |= WRITABLE
        return events | READABLE if self._receipts or not self.wants_offsets else events

    def acknowledged(self, offset: int, count: int, timestamp: int, partition: int) -> None:
        """Store the offsets of written records, for `read`."""
        self._receipts.add(offset, count, timestamp, f"{partition} " if self._target.is_topic else "")


class Receipts:
    """The unread acknowledgments of a handle."""

    def __init__(self) -> None:
        self._ranges: deque[tuple[str, int, int, int]] = deque(maxlen=RANGES_MAX)  # prefix, offset, count, timestamp
        self._unread = bytearray()

    def __bool__(self) -> bool:
        return bool(self._ranges or self._unread)

    def add(self, offset: int, count: int, timestamp: int, prefix: str = "") -> None:
        """Remember `count` records from `offset` on, all of one time; `prefix` begins each line."""
        if self._ranges:
            where, first, known, when = self._ranges[-1]
            if (where, first + known, when) == (prefix, offset, timestamp):
                self._ranges[-1] = (prefix, first, known + count, when)
                return
        self._ranges.append((prefix, offset, count, timestamp))

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes of lines, and forget them."""
        while self._ranges and len(self._unread) < size:
            prefix, offset, count, timestamp = self._ranges.popleft()
            shown = min(count, size // len("0 0\n") + 1)
            if shown < count:
                self._ranges.appendleft((prefix, offset + shown, count - shown, timestamp))
            lines = [f"{prefix}{number} {timestamp}\n" for number in range(offset, offset + shown)]
            self._unread += "".join(lines).encode()
        answer = bytes(memoryview(self._unread)[:size])
        del self._unread[:size]
        return answer


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))
