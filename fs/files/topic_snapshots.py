"""`topics/<topic>/values` and `records.ndjson`: all partitions of a topic in one file, as they are at the look-up.

The file holds the `values` or `records.ndjson` of each partition, one after the other in partition order. Each look-up
takes the sizes of the partitions' growing files (`growing_file`), which have the same line indexes, isolation
level and damage policy. It returns the inode of that combination of sizes, which never changes: appended records and
new partitions are in the next look-up. So `tail -f` sees no growth; `follow` does.

Partitions of the topic that the log directory does not have are not in the file. A partition that does not open makes
the look-up fail, because a part of a topic is not the topic. If retention or compaction removed records, reading them
is ESTALE after `file.delete.delay.ms`.

Listed, as in a partition, when the line indexes of all partitions exist or are made in some milliseconds.
"""

from __future__ import annotations

import errno
import itertools
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from offsetfs.fs.attributes import FOREVER_S, PREFERRED_READ_BYTES
from offsetfs.fs.files.follow import explain_no_growth
from offsetfs.fs.files.growing_file import FrozenFile, GrowingFile
from offsetfs.fs.files.line_index_building import WAIT_S
from offsetfs.fs.files.view_handle import ViewHandle, left_out
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.inodes import LookupNumbers, pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Buffer, Opened, Opening, Reply
from offsetfs.fs.options import EIO
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage import TopicPartition

GrowingOf = Callable[[TopicPartition], Awaitable[tuple[GrowingFile, GrowingFile]]]
"""Returns `values` and `records.ndjson` of a partition, opening it."""

SNAPSHOT_NAMES = Kind.TOPIC_SNAPSHOT.file_names
RECORDS_NAME = Kind.RECORDS.file_name.decode()


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """The frozen files of the partitions, in partition order."""

    topic: str
    name: str
    parts: tuple[FrozenFile, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


class TopicSnapshots:
    """The snapshots of all topics. `number`: from `LookupNumbers`."""

    def __init__(
        self,
        mount: MountContext,
        partitions: Callable[[int], list[TopicPartition]],
        growing_of: GrowingOf,
        *,
        kind: Kind = Kind.TOPIC_SNAPSHOT,
        folder: str = "",
    ) -> None:
        """`partitions` returns the partitions of the topic with a number, in order. `folder`: in that of the topic."""
        self._kind = kind
        self._folder = folder
        self.lookups: LookupNumbers[TopicSnapshot] = LookupNumbers()
        self._mount = mount
        self._partitions = partitions
        self._growing_of = growing_of

    async def lookup(self, place: int, name: bytes) -> EntryAttributes | None:
        """Return the entry of a snapshot of the topic at `place`; None for a topic without partitions.

        EAGAIN when the partitions cannot be measured within ten seconds.
        """
        partitions = self._partitions(place)
        if not partitions:
            return None
        parts: list[FrozenFile] = []
        with trio.move_on_after(WAIT_S):
            for partition in partitions:
                growing = await self._growing_of(partition)
                parts.append(await growing[SNAPSHOT_NAMES.index(name)].frozen())
        if len(parts) < len(partitions):
            self._report_progress(partitions[len(parts)], name, f"{len(parts)} of {len(partitions)}")
            raise FUSEError(errno.EAGAIN)
        snapshot = TopicSnapshot(partitions[0].topic, name.decode(), tuple(parts))
        return await self.attributes(self.lookups.look_up(snapshot))

    async def listed(self, place: int, name: bytes) -> TopicSnapshot | None:
        """Return a snapshot of the topic at `place` for a listing; None if a partition must be measured first."""
        parts, partitions = list[FrozenFile](), self._partitions(place)
        for partition in partitions:
            growing = (await self._growing_of(partition))[SNAPSHOT_NAMES.index(name)]
            if await growing.listed() is None:
                return None
            parts.append(await growing.frozen())
        return TopicSnapshot(partitions[0].topic, name.decode(), tuple(parts)) if parts else None

    def _report_progress(self, partition: TopicPartition, name: bytes, done: str) -> None:
        path = f"topics/{partition.topic}/{self._folder}{name.decode()}"
        cause = f"the line indexes of {done} partitions are complete, {partition} is next"
        follow = f"topics/{partition.topic}/{self._folder}follow"
        cure = f"ask again, or use {follow} or last/ of a partition, which need no whole index"
        self._mount.error_log.report(Fault(errno.EAGAIN, "lookup", path, cause, cure))

    async def attributes(self, number: int) -> EntryAttributes:
        snapshot = self.lookups.at(number)
        entry = self._mount.attributes.file(
            pack(self._kind, 0, number),
            snapshot.size,
            max(part.mtime_ns for part in snapshot.parts),
            attr_timeout_s=FOREVER_S,
        )
        entry.st_blksize = PREFERRED_READ_BYTES
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        snapshot = self.lookups.at(number)
        topic = f"topics/{snapshot.topic}/{self._folder}".rstrip("/")
        suffix = ".ndjson" if snapshot.name == RECORDS_NAME else ""
        remedy = f"use `cat {topic}/follow{suffix}`; follow@-10{suffix} begins with the newest ten of each partition"
        explain_no_growth(self._mount, opening, f"{topic}/{snapshot.name}", remedy)
        # Past the page cache: the kernel would fill up a read that ends before damage with zeros.
        return Opened(SnapshotHandle(self._mount, snapshot), direct=True)


class TopicListing:
    """An open directory of a topic. A snapshot gets its number when it is replied: the kernel counts a look-up then."""

    def __init__(self, entries: list[tuple[bytes, EntryAttributes | TopicSnapshot]], snapshots: TopicSnapshots) -> None:
        self._entries = entries
        self._snapshots = snapshots

    async def reply(self, start: int, reply: Reply) -> None:
        for index, (name, entry) in enumerate(self._entries[start:], start + 1):
            if not isinstance(entry, TopicSnapshot):
                if not reply(name, entry, index):
                    return
                continue
            number = self._snapshots.lookups.look_up(entry)
            if not reply(name, await self._snapshots.attributes(number), index):
                self._snapshots.lookups.forget(number, 1)
                return


class SnapshotHandle:
    """An open snapshot. A partition's view is read from when the reader comes to it."""

    def __init__(self, mount: MountContext, snapshot: TopicSnapshot) -> None:
        self._mount = mount
        self._parts = snapshot.parts
        self._ends = list(itertools.accumulate(part.size for part in snapshot.parts))
        self._fails_at_damage = mount.options.damage == EIO
        self._index = -1  # the part of `_handle`
        self._handle: ViewHandle | None = None

    async def read(self, position: int, size: int) -> Buffer:
        end = min(position + size, self._ends[-1])
        pieces: list[Buffer] = []
        for index in range(bisect_left(self._ends, position), len(self._parts)):
            try:
                piece, is_whole = await self._read_part(index, position, end)
            except Exception:
                if not pieces:
                    raise
                break  # the next read begins there, and fails
            if piece:
                pieces.append(piece)
                position += len(piece)
            if not is_whole:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _read_part(self, index: int, position: int, end: int) -> tuple[Buffer, bool]:
        """Return what lies between two bytes of the snapshot and in a part, and whether the next part may follow."""
        part, part_end = self._parts[index], self._ends[index]
        wanted = min(end, part_end) - position
        piece: Buffer = b""
        if wanted > 0:
            piece = await self._handle_of(index).read(position - part_end + part.size, wanted)
        if position + len(piece) < part_end or not self._fails_at_damage or part.damage_at_end is None:
            return piece, position + len(piece) == part_end
        if not piece:
            raise left_out(part.damage_at_end)
        return piece, False

    def _handle_of(self, index: int) -> ViewHandle:
        if self._handle is None or self._index != index:
            part = self._parts[index]
            self._handle = ViewHandle(
                self._mount, part.view, part.inode, _closed, fails_at_damage=self._fails_at_damage
            )
            self._index = index
        return self._handle

    async def release(self) -> None:
        """Nothing is held but what the inode holds."""


def _closed(_inode: int) -> None:
    """Do nothing: a snapshot is dropped when the kernel forgets its inode."""
