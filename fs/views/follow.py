"""`follow[@A][.ndjson]`: the records that come, as they come. By name only: a file without an end is never listed.

    follow             what is appended from now on
    follow@42          from offset 42 on, or from the log start where that is later
    follow@-3          the newest three records first
    follow@-15m        those of the last quarter of an hour first; any time that `by-time` knows
    ….ndjson           lines as in `records.ndjson` instead of values

What is opened is a stream: past the page cache, without a size. A read returns whole records, as many as fit, and waits
until there is one (`waiting`); with O_NONBLOCK it answers EAGAIN. Where retention overtakes the reader, one read
fails with EPIPE because records are missing, and the next continues at the log start. When the
partition is deleted, ESTALE.

Programs that take lines from a regular file read more than they need and seek back to what they leave (head, the `read`
of bash): so what the last read gave can be read again. Any other place is ESPIPE.

`tail`, `wc` and `sort` read to the end of their input before they print, and a stream has none: they print nothing. The
daemon cannot change this, because after an end of file `tail` seeks by the size of the file, and the others end.
`.offsetfs/errors` has the reason.

Followers of one partition share what they read: the first one that wakes joins the records, the others take them.
"""

from __future__ import annotations

import contextlib
import errno
import re
import select
import time
from dataclasses import dataclass
from typing import Protocol

import trio
from pyfuse3 import EntryAttributes, FUSEError, PollHandle

from offsetfs.fs.attributes import PREFERRED_READ_BYTES
from offsetfs.fs.error_log import Fault
from offsetfs.fs.inodes import Kind
from offsetfs.fs.lookup_numbers import LookupNumbers
from offsetfs.fs.nodes import Buffer, Opened, Opening
from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared
from offsetfs.fs.tree import parse_offset, parse_time, unreadable_time
from offsetfs.fs.views.ends import newest_start
from offsetfs.fs.waiting import READABLE, Observation, Watched, observe
from offsetfs.storage.errors import OffsetOutOfRange
from offsetfs.storage.names import OFFSET_MAX
from offsetfs.storage.views.record_chunk import ReadPosition, RecordChunk, read_chunk
from offsetfs.storage.views.view_format import VALUES, JsonFormat, ViewFormat

CHUNK_BYTES_MIN, CHUNK_BYTES_MAX = 64 << 10, 1 << 20
CHUNKS_BYTES_MAX = 64 << 20
"""What all open followers of a mount hold together, each at a place of its own, unless batches are larger."""

SPLIT_READ_BYTES = 64 << 10
"""A read of so much may be a part of a longer one, and only an answer that does not fill it makes the kernel hand it
over before it asks for the next part, which may be long in coming."""

CHUNK_OVERHEAD_BYTES = 500

_INSTEAD_OF_TAIL = "use `cat follow`, or `tail -f values`; `follow@-10` begins with the newest ten records"
_INSTEAD_OF_A_COUNT = "use `values` for the records that exist, or `head -n 10 follow` for the next ten"
_READ_TO_THE_END = {
    b"tail": _INSTEAD_OF_TAIL,
    b"wc": _INSTEAD_OF_A_COUNT,
    b"sort": _INSTEAD_OF_A_COUNT,
}
"""Programs that print nothing before the end of their input, with the remedy."""

_NEWEST = re.compile(rb"-([0-9]{1,19})")


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: what stands behind the @, b"" for the end; and in which form."""

    text: bytes
    is_json: bool


def parse_follow(name: bytes) -> Start | None:
    """Return what a name means, None when it is not `follow[@A][.ndjson]`."""
    stem = name.removesuffix(b".ndjson")
    word, at, text = stem.partition(b"@")
    if word != b"follow" or bool(at) != bool(text):
        return None
    means = newest_count(text), parse_offset(text), parse_time(text, 0)
    return None if means == (None, None, None) else Start(text, is_json=stem != name)


def find_start(name: bytes) -> Start | None:
    """Return what a name means, None when it is of something else; OSError EINVAL when what stands behind @ is none."""
    start = parse_follow(name)
    if start is None and name.startswith(b"follow@"):
        raise unreadable_time(name.removeprefix(b"follow@").removesuffix(b".ndjson"))
    return start


def newest_count(text: bytes) -> int | None:
    """Return how many of the newest records are to come first, None when the text says something else."""
    if not text:
        return 0
    match = _NEWEST.fullmatch(text)
    return min(int(match[1]), OFFSET_MAX) if match else None


def name_of_stream(start: Start) -> str:
    """Return the name that `parse_follow` reads as `start`."""
    at = f"@{start.text.decode(errors='backslashreplace')}" if start.text else ""
    return f"follow{at}{'.ndjson' if start.is_json else ''}"


def _program_of(pid: int) -> bytes:
    """Return the name of the program that a process runs; b"" where it is not visible from here."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
        return file.read().strip()
    return b""


def explain_silence(shared: Shared, opening: Opening, path: str) -> None:
    """Report why nothing is printed where a program opens a stream that reads to the end before it prints."""
    program = _program_of(opening.pid)
    remedy = _READ_TO_THE_END.get(program)
    if remedy is not None:
        reason = f"{program.decode()} prints nothing before the end of its input, and a stream has no end"
        shared.error_log.report(Fault(None, "open", path, reason, remedy))


class FollowFiles:
    """The streams of one partition. `number`: the place of the name among those that the kernel knows."""

    def __init__(self, shared: Shared, partition: Partition) -> None:
        self.names: LookupNumbers[Start] = LookupNumbers()
        self._shared = shared
        self._partition = partition
        self._lines = JsonFormat(partition.name)
        self._coming: dict[object, trio.Event] = {}  # chunks that a follower reads now

    def lookup(self, name: bytes) -> EntryAttributes | None:
        """Return the entry of a stream, None when the name is of something else."""
        start = find_start(name)
        return None if start is None else self._attributes(self.names.look_up(start))

    async def attributes(self, number: int) -> EntryAttributes:
        self.names.at(number)
        return self._attributes(number)

    def _attributes(self, number: int) -> EntryAttributes:
        inode = self._partition.inode(Kind.FOLLOW, number)
        entry = self._shared.attributes.file(inode, 0, self._partition.log.modified_ns)
        entry.st_blksize = PREFERRED_READ_BYTES
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        start = self.names.at(number)
        explain_silence(self._shared, opening, f"{self._partition.name}/{name_of_stream(start)}")
        follower = await self.follower(start)
        return Opened(FollowHandle(self._shared, [follower], opening), direct=True)

    async def follower(self, start: Start) -> Follower:
        """Return a reader of the partition that begins at `start`; it is to be released."""
        place = ReadPosition(await self._offset(start.text))
        return Follower(self._shared, self, self._partition, place, is_json=start.is_json)

    async def _offset(self, text: bytes) -> int:
        """Return the offset of the first record to be shown, as of now; not below the log start."""
        view = self._partition.view
        newest = newest_count(text)
        if newest is not None:
            return await self._shared.in_thread(lambda: newest_start(view, newest))
        offset = parse_offset(text)
        if offset is not None:
            return max(offset, view.log.log_start_offset)
        timestamp = parse_time(text, time.time_ns() // 1_000_000)
        found = None if timestamp is None else await self._shared.answer(view.find_timestamp, timestamp)
        return await self._shared.answer(view.end_offset) if found is None else found[0]

    # --- what all of them read ---------------------------------------------------------------------------------------

    async def chunk(self, place: ReadPosition, *, is_json: bool) -> RecordChunk | None:
        """Return the chunk at `place`, joined once for all followers; None when there are no records yet.

        Raises what `read_chunk` does.
        """
        key = (self._partition.source, is_json, place.offset, place.position)
        while True:
            chunk = self._shared.chunks.get(key)
            coming = self._coming.get(key)
            if chunk is not None or coming is None:
                break
            await coming.wait()
        if chunk is None:
            self._coming[key] = done = trio.Event()
            try:
                chunk = await self._read(place, self._lines if is_json else VALUES)
            finally:
                del self._coming[key]
                done.set()
            if chunk is not None:
                self._shared.chunks.put(key, chunk, len(chunk.data) + CHUNK_OVERHEAD_BYTES)
        return chunk

    async def _read(self, place: ReadPosition, form: ViewFormat) -> RecordChunk | None:
        share = CHUNKS_BYTES_MAX // max(self._shared.waiting.followers, 1)
        size = min(max(share, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX)
        return await self._shared.answer(read_chunk, self._partition.view, place, form, size, self._shared.damaged)


class Follower:
    """A reader of one partition, at the place where it goes on. Never waits for records."""

    def __init__(
        self, shared: Shared, files: FollowFiles, partition: Partition, place: ReadPosition, *, is_json: bool
    ) -> None:
        self.partition = partition
        self._shared = shared
        self._files = files
        self._place = place
        self._is_json = is_json
        self._chunk: RecordChunk | None = None  # what was read and not handed out, from `_done` on
        self._done = 0
        shared.waiting.followers += 1
        self._counts = shared.counters.of(partition.name)
        self._counts.followers += 1

    @property
    def has_records(self) -> bool:
        """Whether records were read that `hand_out` has not returned yet."""
        return self._chunk is not None

    @property
    def is_overtaken(self) -> bool:
        """Whether records were removed before they could be read."""
        return self._place.offset < self.partition.log.log_start_offset

    async def fetch(self) -> bool:
        """See that there is something to hand out; False when nothing has come yet.

        FUSEError EPIPE, once, when records were removed before they could be read.
        """
        while self._chunk is None:
            place = self._place
            if self.is_overtaken:
                self._place = ReadPosition(self.partition.log.log_start_offset)
                raise FUSEError(errno.EPIPE)
            if place.is_end_of(self.partition.log):
                return False
            try:
                chunk = await self._files.chunk(place, is_json=self._is_json)
            except OffsetOutOfRange:
                continue  # just now
            except OSError:
                if self.is_overtaken:
                    continue
                raise
            if self._place is not place:
                continue  # another reader of this handle was faster
            if chunk is None:
                return False
            self._place, self._done = chunk.following, 0
            if chunk.data:
                self._chunk = chunk
            else:  # control batches, or damage
                await trio.lowlevel.checkpoint()
        return True

    def hand_out(self, size: int) -> Buffer:
        """Return whole records, at most `size` bytes; a part of one where it is larger. `has_records` must hold."""
        chunk = self._chunk
        assert chunk is not None
        begin, self._done = self._done, chunk.cut(self._done, size)
        if self._done == len(chunk.data):
            self._chunk = None
        return memoryview(chunk.data)[begin : self._done]

    def release(self) -> None:
        """End: followers are counted."""
        self._shared.waiting.followers -= 1
        self._counts.followers -= 1


class Joining(Protocol):
    """The partitions that a topic gets while it is followed."""

    @property
    def watched(self) -> Watched:
        """Changes when partitions come or go."""

    async def joined(self, followers: list[Follower]) -> list[Follower]:
        """Return followers of the partitions that none of `followers` reads, from their log start on."""


class FollowHandle:
    """An open stream of one partition, or of all partitions of a topic in turn: a read gives records of one of them."""

    def __init__(
        self, shared: Shared, followers: list[Follower], opening: Opening, joining: Joining | None = None
    ) -> None:
        self._shared = shared
        self._followers = followers
        self._opening = opening
        self._joining = joining
        self._known: Observation | None = None  # the topic, when its partitions were last listed
        self._current: Follower | None = None  # handed out last; followed to the end of what it has read
        self._turn = 0  # the place of the follower that is asked next
        self._is_released = False
        self._position = 0  # bytes that were handed out
        self._last: Buffer = b""  # the last of them

    async def read(self, position: int, size: int) -> Buffer:
        """Return whole records, at most `size` bytes of them, when there are some; or again what the last read gave."""
        size_max = size if size < SPLIT_READ_BYTES else size - 1
        while position == self._position:
            if self._current is not None and self._current.has_records:
                return self._hand_out(self._current, size_max)
            observed = await self._observe()
            follower = await self._fetched()
            if position != self._position:
                break  # another reader of this handle was faster
            if follower is not None:
                return self._hand_out(follower, size_max)
            if self._drop_gone():
                continue
            if not self._followers:
                raise FUSEError(errno.ESTALE)
            if self._opening.is_nonblocking and not self._shared.waiting.is_over:
                raise FUSEError(errno.EAGAIN)
            await self._shared.waiting.wait(observed, self._opening.pid)
        return self._again(position, size)

    def _again(self, position: int, size: int) -> Buffer:
        """Return what the last read gave, from a byte of it on."""
        begin = position - self._position + len(self._last)
        if not 0 <= begin < len(self._last):
            raise FUSEError(errno.ESPIPE)
        return memoryview(self._last)[begin : begin + size]

    async def _observe(self) -> list[Observation]:
        """Return what a reader waits for, as it is now, before anything is read; partitions that are new join."""
        observed = []
        if self._joining is not None:
            topic = observe(self._joining.watched)
            if topic != self._known:
                self._known = topic
                await self._join(self._joining)
            observed.append(topic)
        observed += [observe(follower.partition) for follower in self._followers]
        return observed

    async def _join(self, joining: Joining) -> None:
        followers = await joining.joined(self._followers)
        if self._is_released:
            release_all(followers)
            return
        known = {follower.partition for follower in self._followers}  # another reader may have been faster
        release_all([follower for follower in followers if follower.partition in known])
        self._followers += [follower for follower in followers if follower.partition not in known]

    async def _fetched(self) -> Follower | None:
        """Return a follower that has records; None where none has.

        The one whose records were handed out last comes first while it has some, because half a record may be left;
        the others have their turns.
        """
        followers, first = self._followers, self._turn
        for step in range(len(followers)):
            if self._current is not None and self._current.has_records:
                return self._current
            follower = followers[(first + step) % len(followers)]
            self._turn = first + step + 1  # also where this one fails
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
                return False  # the other partitions of the topic go on
            raise

    def _hand_out(self, follower: Follower, size: int) -> Buffer:
        self._current = follower
        self._last = follower.hand_out(size)
        self._position += len(self._last)
        return self._last

    def _drop_gone(self) -> bool:
        """Drop partitions that were deleted and have nothing left to hand out; return whether there were any."""
        gone = [each for each in self._followers if each.partition.is_gone and not each.has_records]
        release_all(gone)
        self._followers = [each for each in self._followers if each not in gone]
        if gone:
            self._known = None  # another partition may have taken the name
        return bool(gone)

    async def poll(self, number: int, poll: PollHandle | None) -> int:
        """Answer poll(2): readable when a read would not wait."""
        observed = await self._observe()
        followers = self._followers
        if all(follower.partition.is_gone for follower in followers) or self._shared.waiting.is_over:
            return READABLE | select.POLLHUP
        is_ready = any(follower.is_overtaken for follower in followers) or await self._fetched() is not None
        if poll is not None:
            self._shared.waiting.poll(observed, number, poll)
        return READABLE if is_ready else 0

    async def release(self) -> None:
        self._is_released = True
        release_all(self._followers)
        self._followers = []


def release_all(followers: list[Follower]) -> None:
    """Release readers that nothing is read from any more."""
    for follower in followers:
        follower.release()
