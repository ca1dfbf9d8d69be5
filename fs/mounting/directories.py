"""The root, and a partition's directory with everything in it."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Awaitable, Callable
from typing import Any

from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.appends.append_file import APPEND_FILES, AppendFile
from offsetfs.fs.appends.start_file import StartFile
from offsetfs.fs.appends.topics import TopicsDirectory
from offsetfs.fs.errors import is_fault
from offsetfs.fs.groups.groups import GROUPS_NAME, GroupsDirectory
from offsetfs.fs.inodes import ROOT, Fixed, Kind, pack
from offsetfs.fs.lookup_numbers import LookupNumbers
from offsetfs.fs.mounting.map_keeping import Kept
from offsetfs.fs.nodes import DirectoryNode, FileNode, LinkNode, Listing, Reply
from offsetfs.fs.partitions import Partition, Partitions
from offsetfs.fs.shared import Shared
from offsetfs.fs.tree import TOPICS_NAME, parse_offset, parse_record_part
from offsetfs.fs.views.by_key import JSON_SUFFIX, KeyDirectory, KeyedFiles
from offsetfs.fs.views.by_time import TimeDirectories
from offsetfs.fs.views.follow import FollowFiles
from offsetfs.fs.views.growing_file import GrowingFile
from offsetfs.fs.views.links import EndLinks, OffsetLinks
from offsetfs.fs.views.ranges import RangeDirectory, RangeFiles
from offsetfs.fs.views.record_listing import RecordListing
from offsetfs.fs.views.record_parts import record_parts
from offsetfs.fs.views.records import RecordFiles
from offsetfs.fs.views.segment_files import SegmentFileNodes
from offsetfs.fs.views.texts import Text, partition_texts
from offsetfs.storage.views.view_format import VALUES, JsonFormat

CONTROL_NAME = b".offsetfs"

_FIRST_PARTITION_PLACE = 8  # of a listing of the root
_FIRST_RECORD_PLACE = 64  # of a listing; the entries before the records have the places below


def key(kind: int, number: int) -> int:
    """Return what a node is found by: its kind, or, for what exists once, its number."""
    return number if kind == Kind.FIXED else -kind


class PartitionTree:
    """Everything in the directory of one open partition, by `key`."""

    def __init__(self, shared: Shared, partition: Partition, accumulators: Accumulators) -> None:
        self.records = RecordFiles(shared, partition)
        self.values = GrowingFile(shared, partition, Kind.VALUES, VALUES)
        self.json = GrowingFile(shared, partition, Kind.RECORDS, JsonFormat(partition.name))
        self.appends: dict[int, FileNode] = {
            which: AppendFile(shared, partition, accumulators, which) for which in APPEND_FILES
        }
        self.start = StartFile(shared, partition, accumulators)
        self.follow = FollowFiles(shared, partition)
        self.texts = partition_texts(shared, partition)
        self.parts = record_parts(shared, partition, self.records)
        self.ranges = RangeFiles(shared, partition, (self.values, self.json))
        self._range = RangeDirectory(shared, partition, Fixed.RANGES, self.ranges.find_range)
        self._last = RangeDirectory(shared, partition, Fixed.LAST, self.ranges.find_last)
        self.keys = KeyDirectory(shared, partition, self.records, self.parts[JSON_SUFFIX])
        self._segments = SegmentFileNodes(shared, partition)
        self.links: dict[int, LinkNode] = {}
        links = {kind: OffsetLinks(shared, partition, kind) for kind in (Kind.LINK, Kind.TIME_LINK, Kind.MINUTE_LINK)}
        self.links.update({key(kind, 0): link for kind, link in links.items()})
        self._ends = EndLinks(shared, partition, links[Kind.LINK])
        self._times = TimeDirectories(shared, partition, links[Kind.TIME_LINK], links[Kind.MINUTE_LINK])
        self.directories: dict[int, DirectoryNode] = {
            Fixed.SEGMENTS: self._segments,
            Fixed.BY_TIME: self._times,
            Fixed.BY_KEY: self.keys,
            Fixed.RANGES: self._range,
            Fixed.LAST: self._last,
            key(Kind.TIME_DIRECTORY, 0): self._times,
        }
        self.files: dict[int, FileNode] = {
            key(Kind.RECORD, 0): self.records,
            key(Kind.VALUES, 0): self.values,
            key(Kind.RECORDS, 0): self.json,
            key(Kind.SEGMENT, 0): self._segments,
            key(Kind.KEYED, 0): self.keys.files,
            key(Kind.RANGE, 0): self.ranges,
            **{key(part.kind, 0): part for part in self.parts.values()},
            key(Kind.FOLLOW, 0): self.follow,
            **self.appends,
            Fixed.START: self.start,
            **self.texts,
        }
        self.looked_up: dict[int, LookupNumbers[Any]] = {Kind.FOLLOW: self.follow.names}
        """What has numbers by name only, by `Kind`: the kernel says when it may be forgotten."""
        self.looked_up[Kind.RANGE] = self.ranges.looked_up
        self.looked_up[Kind.KEYED] = self.keys.files.looked_up
        self.described: dict[int, RecordFiles | KeyedFiles] = {Kind.RECORD: self.records, Kind.KEYED: self.keys.files}
        """What has extended attributes, by `Kind`."""
        self.named: dict[bytes, Callable[[], Awaitable[EntryAttributes | None]]] = self._names()
        self.unlisted: dict[bytes, Callable[[], EntryAttributes]] = {
            b"range": self._range.entry,
            b"last": self._last.entry,
            b"by-key": self.keys.entry,
        }
        """Directories that are there by name only: what is in them answers a question."""

    def _names(self) -> dict[bytes, Callable[[], Awaitable[EntryAttributes | None]]]:
        async def segments() -> EntryAttributes:
            return self._segments.directory()

        async def by_time() -> EntryAttributes:
            return self._times.root()

        return {
            b"first": self._ends.first,
            b"latest": self._ends.latest,
            b"start": lambda: self.start.attributes(0),
            b"next": lambda: self.texts[Fixed.NEXT].attributes(0),
            b"info": lambda: self.texts[Fixed.INFO].attributes(0),
            b"append": lambda: self.appends[Fixed.APPEND].attributes(0),
            b"append.ndjson": lambda: self.appends[Fixed.APPEND_NDJSON].attributes(0),
            b"append.raw": lambda: self.appends[Fixed.APPEND_RAW].attributes(0),
            b"values": self.values.lookup,
            b"records.ndjson": self.json.lookup,
            b"by-time": by_time,
            b"segments": segments,
        }


class PartitionDirectory:
    """The directory of one partition. Opens the log when something in it is asked for."""

    def __init__(self, shared: Shared, partition: Partition, accumulators: Accumulators) -> None:
        self._shared = shared
        self._partition = partition
        self._accumulators = accumulators
        self._tree: PartitionTree | None = None

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry()

    def entry(self) -> EntryAttributes:
        """Return the attributes; those of a partition whose log does not open, too."""
        mtime_ns = os.stat(self._partition.path).st_mtime_ns
        return self._shared.attributes.directory(self._partition.inode(Kind.FIXED, Fixed.DIRECTORY), mtime_ns)

    async def tree(self) -> PartitionTree:
        """Return what is in the partition, as it is now; ESTALE when another partition has taken the name.

        The kernel then asks for the name again. Every request passes here, so this is where a log that a broker
        writes is looked at again, and settings that a command may have changed.
        """
        tree = await self.remains()
        if self._partition.is_gone:
            raise FUSEError(errno.ESTALE)
        return tree

    async def remains(self) -> PartitionTree:
        """Return what was in the partition when it was opened, be it gone: for those who have something of it open."""
        if self._tree is None:
            await self._partition.open()
            if self._tree is None:
                self._tree = PartitionTree(self._shared, self._partition, self._accumulators)
        self._shared.refresh_config()
        self._partition.log.refresh()
        return self._tree

    @property
    def kept(self) -> Kept | None:
        """The partition with its growing views, None until a request has opened it."""
        return None if self._tree is None else Kept(self._partition, (self._tree.values, self._tree.json))

    def forget(self, kind: int, number: int, lookups: int) -> None:
        """The kernel forgets so many look-ups of what is reached by name only."""
        known = None if self._tree is None else self._tree.looked_up.get(kind)
        if known is not None:
            known.forget(number, lookups)

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        tree = await self.tree()
        offset = parse_offset(name)
        if offset is not None:
            return await tree.records.lookup(offset)
        part = parse_record_part(name)
        if part is not None:
            return await tree.parts[part[1]].lookup(part[0])
        if name in tree.unlisted:
            return tree.unlisted[name]()
        find = tree.named.get(name)
        return tree.follow.lookup(name) if find is None else await find()

    async def listing(self, number: int) -> Listing:
        tree = await self.tree()
        find = {**tree.named, b"values": tree.values.listed, b"records.ndjson": tree.json.listed}
        entries = []
        for name, attributes in find.items():
            try:
                entry = await attributes()
            except Exception as error:  # one entry that fails must not hide the others
                if is_fault(error):
                    self._shared.error_log.add(error, "readdir", f"{self._partition.name}/{name.decode()}")
                continue
            if entry is not None:
                entries.append((name, entry))
        records = RecordListing(self._shared, self._partition, self._shared.options.listed_max)
        return PartitionListing(self._partition, entries, records)


class PartitionListing:
    """An open directory of a partition: its fixed entries, then records. A place there is an offset less the anchor."""

    def __init__(
        self, partition: Partition, entries: list[tuple[bytes, EntryAttributes]], records: RecordListing
    ) -> None:
        assert len(entries) < _FIRST_RECORD_PLACE
        self._partition = partition
        self._entries = entries
        self._records = records

    async def reply(self, start: int, reply: Reply) -> None:
        for place in range(start, len(self._entries)):
            if not reply(*self._entries[place], place + 1):
                return
        is_beginning = start < _FIRST_RECORD_PLACE
        offset = None if is_beginning else self._partition.anchor + start - _FIRST_RECORD_PLACE
        await self._records.reply(offset, _FIRST_RECORD_PLACE, reply)


class RootDirectory:
    """The mount point: README, the groups, the topics, and the partitions."""

    def __init__(
        self,
        shared: Shared,
        partitions: Partitions,
        texts: dict[int, Text],
        groups: GroupsDirectory,
        topics: TopicsDirectory,
        directory_of: Callable[[Partition], PartitionDirectory],
    ) -> None:
        self._shared = shared
        self._partitions = partitions
        self._groups = groups
        self._topics = topics
        self._readme = texts[Fixed.README]
        self._directory_of = directory_of
        self._control = pack(Kind.FIXED, 0, Fixed.CONTROL)

    async def attributes(self, number: int) -> EntryAttributes:
        options = self._shared.options
        directories = self._shared.directory.directories
        mtime_ns = 0
        for directory in directories:
            with contextlib.suppress(OSError):  # one disk that fails leaves the others served
                mtime_ns = max(mtime_ns, os.stat(directory.path).st_mtime_ns)
        writable = (options.create or options.delete) and not self._shared.is_read_only
        return self._shared.attributes.directory(ROOT, mtime_ns, writable=writable)

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        partition = self._partitions.find(name)
        if partition is not None:
            return self._directory_of(partition).entry()
        if name == b"README":
            return await self._readme.attributes(0)
        if name == GROUPS_NAME:
            return self._groups.entry()
        if name == TOPICS_NAME:
            return self._topics.entry()
        return self._shared.attributes.directory(self._control) if name == CONTROL_NAME else None

    async def listing(self, number: int) -> Listing:
        fixed = [(b"README", await self._readme.attributes(0))]
        for name, entry in ((GROUPS_NAME, self._groups.listed()), (TOPICS_NAME, self._topics.entry())):
            if entry is not None:
                fixed.append((name, entry))
        return RootListing(fixed, self._partitions.refresh(), self._directory_of)


class RootListing:
    """An open root directory. A partition's place comes from its number, so that new ones come last."""

    def __init__(
        self,
        fixed: list[tuple[bytes, EntryAttributes]],
        partitions: list[Partition],
        directory_of: Callable[[Partition], PartitionDirectory],
    ) -> None:
        assert len(fixed) <= _FIRST_PARTITION_PLACE
        self._fixed = fixed
        self._partitions = partitions
        self._directory_of = directory_of

    async def reply(self, start: int, reply: Reply) -> None:
        for place in range(start, len(self._fixed)):
            if not reply(*self._fixed[place], place + 1):
                return
        for partition in self._partitions:
            if partition.number + _FIRST_PARTITION_PLACE > start:
                try:
                    entry = self._directory_of(partition).entry()
                except FileNotFoundError:
                    continue  # removed since
                if not reply(str(partition.name).encode(), entry, partition.number + _FIRST_PARTITION_PLACE):
                    return
