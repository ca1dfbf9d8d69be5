"""`follow[@A][.ndjson]`: new records of a partition as they arrive. Found by name only, because it has no end.

    follow             records that are appended from now on
    follow@42          from offset 42 on, or from the log start if that is later
    follow@-3          the newest three records first
    follow@-15m        records of the last 15 minutes first; any time that `by-time` accepts
    ….ndjson           lines as in `records.ndjson` instead of values

An open file is a stream without a size, and bypasses the page cache. A read returns whole records, as many as fit, and
waits for the first one (`waiting`); with O_NONBLOCK it returns EAGAIN. If retention overtakes the reader, one read
fails with EPIPE because records are missing, and the next continues at the log start. ESTALE after the partition was
deleted.

Some programs (head, the `read` of bash) read more of a regular file than they need, and seek back to the unused bytes.
So the result of the last read can be read again. Any other position is ESPIPE.

`tail`, `wc` and `sort` read to the end of their input before they print, and a stream has none: they print nothing. The
daemon cannot change this, because after an end of file `tail` seeks by the size of the file, and the others end.
`.offsetfs/errors` has the reason.

Followers of one partition share joined records: the first follower that wakes joins them, the others take the result.
"""

from __future__ import annotations

import contextlib
import errno
import re
import select
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from offsetfs.common.quantities import parse_time, unreadable_time
from offsetfs.fs.attributes import PREFERRED_READ_BYTES
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError, PollHandle
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import parse_offset
from offsetfs.fs.naming.inodes import LookupNumbers
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Buffer, Opened, Opening
from offsetfs.fs.partitions import MountedPartition
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.fs.requests.waiting import READABLE, Observation, observe
from offsetfs.storage import OFFSET_MAX
from offsetfs.storage.errors import OffsetOutOfRange
from offsetfs.storage.views import ReadPosition, RecordChunk, ViewFormat, newest_start, read_chunk

if TYPE_CHECKING:
    from offsetfs.fs.files.topic_follow import JoiningPartitions

CHUNK_BYTES_MIN, CHUNK_BYTES_MAX = 64 << 10, 1 << 20
CHUNKS_BYTES_MAX = 64 << 20
"""The memory of the chunks of all open followers, if each reads at another position. Larger batches exceed it."""

SPLIT_READ_BYTES = 64 << 10
"""The kernel splits longer reads into parts of at least this size. It returns a part to the program at once only if the
reply does not fill it; otherwise it waits for the next part, and in a stream that may take long."""

CHUNK_OVERHEAD_BYTES = 500

_INSTEAD_OF_TAIL = "use `cat follow`, or `tail -f values`; `follow@-10` begins with the newest ten records"
_INSTEAD_OF_A_COUNT = "use `values` for the records that exist, or `head -n 10 follow` for the next ten"
_READ_TO_THE_END = {
    b"tail": _INSTEAD_OF_TAIL,
    b"wc": _INSTEAD_OF_A_COUNT,
    b"sort": _INSTEAD_OF_A_COUNT,
}
"""Programs that print nothing before the end of their input, with the remedy."""

_TAIL_FOLLOWS = re.compile(rb"-[0-9a-zA-Z]*[fF][0-9a-zA-Z]*")
_NEWEST = re.compile(rb"-([0-9]{1,19})")


Format = Callable[[], Awaitable[ViewFormat]]


@dataclass(frozen=True, slots=True)
class Start:
    """The parsed name of a stream. `text`: the part behind the @; b"" for the end of the log."""

    text: bytes
    is_json: bool


def parse_follow(name: bytes) -> Start | None:
    """Return the parsed name. None if it is not `follow[@A][.ndjson]`."""
    stem = name.removesuffix(b".ndjson")
    word, at, text = stem.partition(b"@")
    if word != b"follow" or bool(at) != bool(text):
        return None
    means = newest_count(text), parse_offset(text), parse_time(text, time.time_ns() // 1_000_000)
    return None if means == (None, None, None) else Start(text, is_json=stem != name)


def find_start(name: bytes) -> Start | None:
    """Return the parsed name. None for another file; OSError EINVAL if the part behind the @ is not valid."""
    start = parse_follow(name)
    if start is None and name.startswith(b"follow@"):
        raise unreadable_time(name.removeprefix(b"follow@").removesuffix(b".ndjson"))
    return start


def newest_count(text: bytes) -> int | None:
    """Return how many of the newest records come first. None if `text` is no such number."""
    if not text:
        return 0
    match = _NEWEST.fullmatch(text)
    return min(int(match[1]), OFFSET_MAX) if match else None


def name_of_stream(start: Start) -> str:
    """Return the name that `parse_follow` reads as `start`."""
    at = f"@{start.text.decode(errors='backslashreplace')}" if start.text else ""
    return f"follow{at}{'.ndjson' if start.is_json else ''}"


def program_of(pid: int) -> bytes:
    """Return the name of the program that a process runs; b"" if it is not visible."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
        return file.read().strip()
    return b""


def _arguments_of(pid: int) -> list[bytes]:
    """Return the arguments of a process; none if they are not visible."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().split(b"\0")[1:]
    return []


def follows(arguments: list[bytes]) -> bool:
    """Whether the arguments of tail(1) make it wait for more: -f, -F or --follow, also among other short options."""
    options = [argument for argument in arguments if argument.startswith(b"-")]
    return any(option.startswith(b"--follow") or _TAIL_FOLLOWS.fullmatch(option) for option in options)


def explain_no_growth(mount: MountContext, opening: Opening, path: str, remedy: str) -> None:
    """Report why `tail -f` of a snapshot prints no later records."""
    if program_of(opening.pid) == b"tail" and follows(_arguments_of(opening.pid)):
        reason = "tail -f prints no later records, because a snapshot does not grow"
        mount.error_log.report(Fault(None, "open", path, reason, remedy))


def explain_silence(mount: MountContext, opening: Opening, path: str) -> None:
    """Report why a program that reads to the end of its input prints nothing."""
    program = program_of(opening.pid)
    remedy = _READ_TO_THE_END.get(program)
    if remedy is not None:
        reason = f"{program.decode()} prints nothing before the end of its input, and a stream has no end"
        mount.error_log.report(Fault(None, "open", path, reason, remedy))


class FollowFiles:
    """The streams of one partition. `number`: from `names`."""

    def __init__(
        self,
        mount: MountContext,
        partition: MountedPartition,
        formats: tuple[Format, Format],
        kind: Kind = Kind.FOLLOW,
    ) -> None:
        """`formats`: of values, and of lines of JSON; a reader asks for its format before it reads on."""
        self.names: LookupNumbers[Start] = LookupNumbers()
        self._kind = kind
        self._mount = mount
        self._partition = partition
        self._formats = formats
        self._reading: dict[object, trio.Event] = {}  # chunks that a follower is reading, by their key

    def lookup(self, name: bytes) -> EntryAttributes | None:
        """Return the entry of a stream. None for the name of another file."""
        start = find_start(name)
        return None if start is None else self._attributes(self.names.look_up(start))

    async def attributes(self, number: int) -> EntryAttributes:
        self.names.at(number)
        return self._attributes(number)

    def _attributes(self, number: int) -> EntryAttributes:
        inode = self._partition.inode(self._kind, number)
        entry = self._mount.attributes.file(inode, 0, self._partition.log.modified_ns)
        entry.st_blksize = PREFERRED_READ_BYTES
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        start = self.names.at(number)
        explain_silence(self._mount, opening, f"{self._partition.name}/{name_of_stream(start)}")
        follower = await self.follower(start)
        return Opened(FollowHandle(self._mount, [follower], opening), direct=True)

    async def follower(self, start: Start) -> Follower:
        """Return a reader of the partition that begins at `start`. The caller releases it."""
        position = ReadPosition(await self._offset(start.text))
        return Follower(self._mount, self, self._partition, position, self._formats[start.is_json])

    async def _offset(self, text: bytes) -> int:
        """Return the offset of the first record, at least the log start offset."""
        view = self._partition.view
        newest = newest_count(text)
        if newest is not None:
            return await self._mount.executor.in_thread(lambda: newest_start(view, newest))
        offset = parse_offset(text)
        if offset is not None:
            return max(offset, view.log.log_start_offset)
        timestamp = parse_time(text, time.time_ns() // 1_000_000)
        first = None if timestamp is None else await self._mount.executor.answer(view.find_timestamp, timestamp)
        return await self._mount.executor.answer(view.end_offset) if first is None else first[0]

    # --- shared chunks -----------------------------------------------------------------------------------------------

    async def chunk(self, position: ReadPosition, view_format: ViewFormat) -> RecordChunk | None:
        """Return the chunk at `position`, joined once for all followers. None if there are no records yet.

        Raises the errors of `read_chunk`.
        """
        key = (self._partition.source, view_format, position.offset, position.position)
        while True:
            chunk = self._mount.caches.chunks.get(key)
            reading = self._reading.get(key)
            if chunk is not None or reading is None:
                break
            await reading.wait()
        if chunk is None:
            self._reading[key] = done = trio.Event()
            try:
                chunk = await self._read(position, view_format)
            finally:
                del self._reading[key]
                done.set()
            if chunk is not None:
                self._mount.caches.chunks.put(key, chunk, len(chunk.data) + CHUNK_OVERHEAD_BYTES)
        return chunk

    async def _read(self, position: ReadPosition, view_format: ViewFormat) -> RecordChunk | None:
        share = CHUNKS_BYTES_MAX // max(self._mount.waiting.followers, 1)
        size = min(max(share, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX)
        return await self._mount.executor.answer(
            read_chunk, self._partition.view, position, view_format, size, self._mount.damage.report
        )


class Follower:
    """A reader of one partition, with its position. Never waits for records."""

    def __init__(
        self,
        mount: MountContext,
        files: FollowFiles,
        partition: MountedPartition,
        position: ReadPosition,
        view_format: Format,
    ) -> None:
        self.partition = partition
        self._mount = mount
        self._files = files
        self._position = position
        self._view_format = view_format
        self._chunk: RecordChunk | None = None  # the bytes from `_done` on are not handed out yet
        self._done = 0
        mount.waiting.followers += 1
        self._counts = mount.counters.of(partition.name)
        self._counts.followers += 1

    @property
    def has_records(self) -> bool:
        """Whether records were read that `hand_out` has not returned yet."""
        return self._chunk is not None

    @property
    def is_overtaken(self) -> bool:
        """Whether records were removed before they could be read."""
        return self._position.offset < self.partition.log.log_start_offset

    async def fetch(self) -> bool:
        """Read the next records if none are left to hand out. False if there are no new records.

        FUSEError EPIPE, once, if records were removed before they could be read.
        """
        while self._chunk is None:
            position = self._position
            if self.is_overtaken:
                self._position = ReadPosition(self.partition.log.log_start_offset)
                # Once, so that the program learns that records are missing; a silent jump would be a loss that nothing
                # reports.
                raise FUSEError(errno.EPIPE)
            if position.is_end_of(self.partition.log):
                return False
            try:
                chunk = await self._files.chunk(position, await self._view_format())
            except OffsetOutOfRange:
                continue  # retention removed the offset after the check above
            except OSError:
                if self.is_overtaken:
                    continue
                raise
            if self._position is not position:
                continue  # another reader of this handle was faster
            if chunk is None:
                return False
            self._position, self._done = chunk.following, 0
            if chunk.data:
                self._chunk = chunk
            else:  # control batches, or damage
                await trio.lowlevel.checkpoint()
        return True

    def hand_out(self, size: int) -> Buffer:
        """Return whole records, at most `size` bytes, or a part of a larger record. `has_records` must be true."""
        chunk = self._chunk
        assert chunk is not None
        begin, self._done = self._done, chunk.cut(self._done, size)
        if self._done == len(chunk.data):
            self._chunk = None
        return memoryview(chunk.data)[begin : self._done]

    def release(self) -> None:
        """Decrement the counts of followers."""
        self._mount.waiting.followers -= 1
        self._counts.followers -= 1


class FollowHandle:
    """An open stream of one partition, or of all partitions of a topic. A read returns records of one partition."""

    def __init__(
        self, mount: MountContext, followers: list[Follower], opening: Opening, joining: JoiningPartitions | None = None
    ) -> None:
        self._mount = mount
        self._followers = followers
        self._opening = opening
        self._joining = joining
        self._known: Observation | None = None  # the topic, when its partitions were last listed
        self._current: Follower | None = None  # its records were returned last
        self._next_follower = 0  # the index of the follower that is read next
        self._is_released = False
        self._position = 0  # the number of bytes that were returned
        self._last: Buffer = b""  # the result of the last read

    async def read(self, position: int, size: int) -> Buffer:
        """Return whole records, at most `size` bytes, or bytes of the last result again. Waits for the first record."""
        # A full answer makes the kernel send the next part of a split read first, which blocks in a stream; a short one
        # ends the read.
        size_max = size if size < SPLIT_READ_BYTES else size - 1
        while position == self._position:
            if self._current is not None and self._current.has_records:
                return self._hand_out(self._current, size_max)
            observed = await self._observe()
            # After `_observe`: an append between the two would otherwise wake no reader.
            follower = await self._fetched()
            if position != self._position:
                break  # another reader of this handle was faster
            if follower is not None:
                return self._hand_out(follower, size_max)
            if self._drop_gone():
                continue
            if not self._followers:
                raise FUSEError(errno.ESTALE)
            if self._opening.is_nonblocking and not self._mount.waiting.is_over:
                raise FUSEError(errno.EAGAIN)
            await self._mount.waiting.wait(observed, self._opening.pid)
        return self._again(position, size)

    def _again(self, position: int, size: int) -> Buffer:
        """Return bytes of the last result again. ESPIPE for any other position."""
        begin = position - self._position + len(self._last)
        if not 0 <= begin < len(self._last):
            raise FUSEError(errno.ESPIPE)
        return memoryview(self._last)[begin : begin + size]

    async def _observe(self) -> list[Observation]:
        """Return the current states that a reader waits on; add followers of new partitions."""
        observed = []
        if self._joining is not None:
            topic = observe(self._joining.watched)
            if topic != self._known:
                self._known = topic
                await self._join(self._joining)
            observed.append(topic)
        observed += [observe(follower.partition) for follower in self._followers]
        return observed

    async def _join(self, joining: JoiningPartitions) -> None:
        followers = await joining.joined(self._followers)
        if self._is_released:
            release_all(followers)
            return
        known = {follower.partition for follower in self._followers}  # another reader may have been faster
        release_all([follower for follower in followers if follower.partition in known])
        self._followers += [follower for follower in followers if follower.partition not in known]

    async def _fetched(self) -> Follower | None:
        """Return a follower that has records. None if none has.

        The follower of the last result comes first while it has records, because half a record may be left. The others
        follow in turn.
        """
        followers, first = self._followers, self._next_follower
        for step in range(len(followers)):
            if self._current is not None and self._current.has_records:
                return self._current
            follower = followers[(first + step) % len(followers)]
            self._next_follower = first + step + 1  # also if this one fails
            if await self._has_fetched(follower):
                break
        else:
            return None
        return self._current if self._current is not None and self._current.has_records else follower

    async def _has_fetched(self, follower: Follower) -> bool:
        try:
            return await follower.fetch()
        except OSError:
            if self._joining is not None and follower.partition.is_gone:
                return False  # the other partitions of the topic are read on
            raise

    def _hand_out(self, follower: Follower, size: int) -> Buffer:
        self._current = follower
        self._last = follower.hand_out(size)
        self._position += len(self._last)
        return self._last

    def _drop_gone(self) -> bool:
        """Drop partitions that were deleted and have nothing left to hand out; return whether there were any."""
        gone = [follower for follower in self._followers if follower.partition.is_gone and not follower.has_records]
        release_all(gone)
        self._followers = [follower for follower in self._followers if follower not in gone]
        if gone:
            self._known = None  # another partition may have taken the name
        return bool(gone)

    async def poll(self, number: int, poll: PollHandle | None) -> int:
        """Return the events of poll(2): readable if a read would not wait."""
        observed = await self._observe()
        followers = self._followers
        if all(follower.partition.is_gone for follower in followers) or self._mount.waiting.is_over:
            return READABLE | select.POLLHUP
        is_ready = any(follower.is_overtaken for follower in followers) or await self._fetched() is not None
        if poll is not None:
            self._mount.waiting.poll(observed, number, poll)
        return READABLE if is_ready else 0

    async def release(self) -> None:
        self._is_released = True
        release_all(self._followers)
        self._followers = []


def release_all(followers: list[Follower]) -> None:
    """Release the readers, which are not used any more."""
    for follower in followers:
        follower.release()
