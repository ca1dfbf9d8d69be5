"""The root directory, the directories of partitions, and the nodes in a partition.

`TreeNodes` and `NamedEntries` follow the table of the tree (`naming/tree_table`); a test checks that each row has
exactly one node.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.appends.append_file import APPEND_FILES, AppendFile
from offsetfs.fs.appends.start_file import StartFile
from offsetfs.fs.files.by_key import JSON_SUFFIX, KeyDirectory, KeyedFiles
from offsetfs.fs.files.decoded import (
    DECODED_RECORDS,
    DECODED_VALUES,
    LINE_KINDS,
    DecodedRecords,
    MountSchemas,
    PartitionFormats,
)
from offsetfs.fs.files.decoded_by_key import DecodedKeys
from offsetfs.fs.files.follow import FollowFiles
from offsetfs.fs.files.growing_file import GrowingFile, json_format
from offsetfs.fs.files.links import DEPTH, EndLinks, OffsetLinks, TimeDirectories
from offsetfs.fs.files.masked import HiddenFiles
from offsetfs.fs.files.ranges import RangeDirectory, RangeFiles
from offsetfs.fs.files.record_listing import RecordListing
from offsetfs.fs.files.record_parts import record_parts
from offsetfs.fs.files.records import RecordFiles
from offsetfs.fs.files.segment_files import SegmentFileNodes
from offsetfs.fs.files.texts import partition_texts
from offsetfs.fs.files.topic_times import TopicLinks
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.mounting.line_index_upkeep import GrowingFiles
from offsetfs.fs.naming.grammar import newest_records, parse_newest, parse_offset, parse_record_part
from offsetfs.fs.naming.inodes import ROOT, LookupNumbers
from offsetfs.fs.naming.tree_table import IN_DECODED, IN_PARTITION, Kind, fixed_names
from offsetfs.fs.nodes import DirectoryNode, FileNode, LinkNode, Listing, Node, Reply, ShortListing
from offsetfs.fs.partitions import MountedPartition, Partitions
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.fs.reporting.errors import is_fault
from offsetfs.storage import files
from offsetfs.storage.views import VALUES

Find = Callable[[], Awaitable[EntryAttributes | None]]
"""Returns the attributes of an entry; None if there is no such file now."""

_FIRST_PARTITION_POSITION = 8  # in a listing of the root; fixed entries have the positions below
_FIRST_RECORD_POSITION = 64  # in a listing of a partition; fixed entries have the positions below


@dataclass(frozen=True, slots=True)
class TreeNodes:
    """The nodes of the mount, or of one partition, by kind. A kind has one node for all its numbers."""

    directories: dict[int, DirectoryNode]
    files: dict[int, FileNode]
    links: dict[int, LinkNode] = field(default_factory=dict)
    lookup_numbers: dict[int, LookupNumbers[Any]] = field(default_factory=dict)
    """The numbers that look-ups assigned. They are kept until the kernel forgets the look-ups."""

    def node(self, kind: int) -> Node:
        """Return the node of a kind; ESTALE if there is none."""
        node: Node | None = self.files.get(kind) or self.directories.get(kind) or self.links.get(kind)
        if node is None:
            raise FUSEError(errno.ESTALE)
        return node


class NamedEntries:
    """The files of one directory that the table declares by name.

    A file that exists once has the attributes of its node. `lookups` has the names that are looked up in another way,
    `listed` those for which a listing returns something else than a look-up. Names whose look-up assigns a number are
    left to the node of their kind.
    """

    def __init__(
        self,
        directory: str,
        node: Callable[[int], Node],
        lookups: Mapping[str, Find],
        listed: Mapping[str, Find],
    ) -> None:
        assert {*lookups, *listed} <= {name for name, _ in fixed_names(directory)}, "a name that the table lacks"
        self.lookups: dict[bytes, Find] = {}
        """Looks each name up."""
        self.listed: dict[bytes, Find] = {}
        """Returns the entry of each listed name, in the order of the table."""
        for name, kind in fixed_names(directory):
            if name not in lookups and not kind.exists_once:
                continue
            find = self.lookups[name.encode()] = lookups.get(name) or partial(node(kind).attributes, kind)
            if kind.spec.is_listed:
                self.listed[name.encode()] = listed.get(name, find)


class PartitionTree:
    """The nodes in the directory of one open partition, and its entries by name."""

    def __init__(
        self, mount: MountContext, partition: MountedPartition, accumulators: Accumulators, schemas: MountSchemas
    ) -> None:
        self.records = RecordFiles(mount, partition)
        self.values = GrowingFile(mount, partition, Kind.VALUES, VALUES)
        self.json = GrowingFile(mount, partition, Kind.RECORDS, json_format(mount.options, partition.name))
        self.follow = FollowFiles(mount, partition, (self.values.renew, self.json.renew))
        self.parts = record_parts(mount, partition, self.records)
        self.keys = KeyDirectory(mount, partition, self.records, self.parts[JSON_SUFFIX])
        self.ranges = ranges = RangeFiles(mount, partition, (self.values, self.json))
        self.topic_links = TopicLinks(mount, partition)
        segments = SegmentFileNodes(mount, partition)
        links = {kind: OffsetLinks(mount, partition, kind) for kind in DEPTH}
        times = TimeDirectories(mount, partition, links[Kind.TIME_LINK], links[Kind.MINUTE_LINK])
        ends = EndLinks(mount, partition, links[Kind.LINK])
        self.decoded = decoded = DecodedTree(
            mount, partition, accumulators, self.records, self.keys, links, ends, schemas
        )
        self.nodes = TreeNodes(
            directories={
                Kind.BY_TIME: times,
                Kind.TIME_DIRECTORY: times,
                Kind.SEGMENTS: segments,
                Kind.RANGES: RangeDirectory(mount, partition, Kind.RANGES, ranges.find_range),
                Kind.LAST: RangeDirectory(mount, partition, Kind.LAST, ranges.find_last),
                Kind.BY_KEY: self.keys,
                **decoded.directories,
            },
            files={
                Kind.RECORD: self.records,
                **{part.kind: part for part in self.parts.values()},
                Kind.VALUES: self.values,
                Kind.RECORDS: self.json,
                Kind.START: StartFile(mount, partition, accumulators),
                **partition_texts(mount, partition),
                **{kind: AppendFile(mount, partition, accumulators, kind, schemas) for kind in APPEND_FILES},
                Kind.SEGMENT: segments,
                Kind.RANGE: ranges,
                Kind.KEYED: self.keys.files,
                Kind.FOLLOW: self.follow,
                **decoded.files,
            },
            links=dict(
                [
                    *links.items(),
                    (Kind.TOPIC_LINK, self.topic_links),
                    (Kind.TOPIC_DECODED_LINK, decoded.topic_links),
                ]
            ),
            lookup_numbers={
                Kind.RANGE: ranges.lookups,
                Kind.KEYED: self.keys.files.lookups,
                Kind.FOLLOW: self.follow.names,
                Kind.DECODED_RANGE: decoded.ranges.lookups,
                Kind.DECODED_FOLLOW: decoded.follow.names,
            },
        )
        self.with_xattrs: dict[int, RecordFiles | KeyedFiles] = {
            Kind.RECORD: self.records,
            Kind.KEYED: self.keys.files,
        }
        self.entries = NamedEntries(
            IN_PARTITION,
            self.nodes.node,
            lookups={
                "first": ends.first,
                "latest": ends.latest,
                "values": self.values.lookup,
                "records.ndjson": self.json.lookup,
            },
            listed={"values": self.values.listed, "records.ndjson": self.json.listed},
        )
        decoded.name_entries(self.nodes.node)


class DecodedTree:
    """`decoded/` of one open partition, and the nodes in it."""

    def __init__(
        self,
        mount: MountContext,
        partition: MountedPartition,
        accumulators: Accumulators,
        records: RecordFiles,
        keys: KeyDirectory,
        links: Mapping[Kind, OffsetLinks],
        ends: EndLinks,
        schemas: MountSchemas,
    ) -> None:
        self._mount = mount
        self._partition = partition
        self._ends = ends
        self._formats = formats = PartitionFormats(mount, schemas, partition.name)
        self.values = GrowingFile(mount, partition, Kind.DECODED_VALUES, DECODED_VALUES, formats.values)
        self.json = GrowingFile(mount, partition, Kind.DECODED_RECORDS, DECODED_RECORDS, formats.records)
        self.ranges = ranges = RangeFiles(mount, partition, (self.values, self.json), kind=Kind.DECODED_RANGE)
        self.follow = FollowFiles(mount, partition, (formats.values, formats.records), Kind.DECODED_FOLLOW)
        self.topic_links = TopicLinks(mount, partition, Kind.TOPIC_DECODED_LINK, "decoded/")
        kinds = Kind.DECODED_BY_TIME, Kind.DECODED_TIME_DIRECTORY
        times = TimeDirectories(mount, partition, links[Kind.TIME_LINK], links[Kind.MINUTE_LINK], kinds=kinds)
        self._records = {
            suffix: DecodedRecords(mount, partition, records, kind, formats) for suffix, kind in LINE_KINDS.items()
        }
        self.keys = DecodedKeys(mount, partition, keys, self._records, schemas)
        self.directories: dict[int, DirectoryNode] = {
            Kind.DECODED: self,
            Kind.DECODED_BY_KEY: self.keys,
            Kind.DECODED_BY_TIME: times,
            Kind.DECODED_TIME_DIRECTORY: times,
            Kind.DECODED_RANGES: RangeDirectory(mount, partition, Kind.DECODED_RANGES, ranges.find_range),
            Kind.DECODED_LAST: RangeDirectory(mount, partition, Kind.DECODED_LAST, ranges.find_last),
        }
        self.files: dict[int, FileNode] = {
            Kind.DECODED_VALUES: self.values,
            Kind.DECODED_RECORDS: self.json,
            Kind.DECODED_RANGE: ranges,
            Kind.DECODED_FOLLOW: self.follow,
            Kind.DECODED_APPEND: AppendFile(mount, partition, accumulators, Kind.DECODED_APPEND, schemas),
            **{record_files.kind: record_files for record_files in self._records.values()},
        }

    def name_entries(self, node: Callable[[int], Node]) -> None:
        """Set the entries by name, when the nodes of the partition are there."""
        self._entries = NamedEntries(
            IN_DECODED,
            node,
            lookups={
                "first": self._ends.first,
                "latest": self._ends.latest,
                "values": self.values.lookup,
                "records.ndjson": self.json.lookup,
            },
            listed={"values": self.values.listed, "records.ndjson": self.json.listed},
        )

    async def attributes(self, number: int) -> EntryAttributes:
        await self._formats.current()  # an error of the packages that decode is that of the directory
        return self._mount.attributes.directory(self._partition.inode(Kind.DECODED))

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        offset = parse_offset(name.removesuffix(JSON_SUFFIX))
        if offset is not None:
            return await self._records[JSON_SUFFIX if name.endswith(JSON_SUFFIX) else b""].lookup(offset)
        find = self._entries.lookups.get(name)
        return self.follow.lookup(name) if find is None else await find()

    async def listing(self, number: int) -> Listing:
        found = []
        for name, find in self._entries.listed.items():
            try:
                entry = await find()
            except Exception as error:  # one entry that fails must not hide the others
                if is_fault(error):
                    self._mount.error_log.add(error, "readdir", f"{self._partition.name}/decoded/{name.decode()}")
                continue
            if entry is not None:
                found.append((name, entry))
        return ShortListing(found)


class PartitionDirectory:
    """The directory of one partition. The first request for something in it opens the log."""

    def __init__(
        self, mount: MountContext, partition: MountedPartition, accumulators: Accumulators, schemas: MountSchemas
    ) -> None:
        self._mount = mount
        self._partition = partition
        self._accumulators = accumulators
        self._schemas = schemas
        self._hidden = HiddenFiles(mount)
        self._tree: PartitionTree | None = None

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry()

    def entry(self) -> EntryAttributes:
        """Return the attributes, which need no open log: `ls` of the mount shows partitions that cannot be opened."""
        mtime_ns = files.status(self._partition.path).st_mtime_ns
        return self._mount.attributes.directory(self._partition.inode(Kind.DIRECTORY), mtime_ns)

    async def tree(self) -> PartitionTree:
        """Return the nodes of the partition; ESTALE if it was deleted, also if another partition has the name now.

        On ESTALE the kernel looks the name up again and repeats the request once. Checks for changed settings and, on a
        read-only mount, for records that a broker has written, because every request calls this.
        """
        tree = await self.last_tree()
        if self._partition.is_gone:
            raise FUSEError(errno.ESTALE)
        return tree

    async def last_tree(self) -> PartitionTree:
        """Return the nodes of the partition, also after its deletion, for files that are still open."""
        if self._tree is None:
            await self._partition.open()
            if self._tree is None:  # another request may have made it while this one waited for the log
                self._tree = PartitionTree(self._mount, self._partition, self._accumulators, self._schemas)
        self._mount.config.refresh()
        self._partition.log.refresh()
        return self._tree

    @property
    def growing_files(self) -> GrowingFiles | None:
        """The growing files of the partition; None until a request has opened it."""
        return None if self._tree is None else GrowingFiles(self._partition, (self._tree.values, self._tree.json))

    def forget(self, kind: int, number: int, lookups: int) -> None:
        """Count FORGET for a number of look-ups of a file that is found by name only."""
        known = None if self._tree is None else self._tree.nodes.lookup_numbers.get(kind)
        if known is not None:
            known.forget(number, lookups)

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        if self._hidden.of_partition(self._partition.name.topic, name):
            raise self._hidden.refusal(str(self._partition.name), name)
        tree = await self.tree()
        offset = parse_offset(name)
        if offset is not None:
            return await tree.records.lookup(offset)
        part = parse_record_part(name)
        if part is not None:
            return await tree.parts[part[1]].lookup(part[0])
        find = tree.entries.lookups.get(name)
        if find is not None:
            return await find()
        newest = parse_newest(name)
        if newest is not None:
            cause, cure = "a record has the name of its offset", newest_records(newest)
            path = f"{self._partition.name}/{name.decode()}"
            self._mount.error_log.report(Fault(errno.ENOENT, "lookup", path, cause, cure))
        return tree.follow.lookup(name)

    async def listing(self, number: int) -> Listing:
        tree = await self.tree()
        entries = []
        topic = self._partition.name.topic
        for name, find in tree.entries.listed.items():
            if self._hidden.of_partition(topic, name):
                continue
            try:
                entry = await find()
            except Exception as error:  # one entry that fails must not hide the others
                if is_fault(error):
                    self._mount.error_log.add(error, "readdir", f"{self._partition.name}/{name.decode()}")
                continue
            if entry is not None:
                entries.append((name, entry))
        if self._hidden.has_mask(topic):  # nothing shows a record twice
            decoded = Kind.DECODED.file_name
            return ShortListing([*entries, (decoded, await tree.decoded.attributes(0))])
        records = RecordListing(self._mount, self._partition, self._mount.options.listed_max)
        return PartitionListing(self._partition, entries, records)


class PartitionListing:
    """An open directory of a partition: its fixed entries, then records.

    The position of a record is its offset less the anchor of the partition, so that a listing that continues after
    retention or appends neither repeats nor skips a record.
    """

    def __init__(
        self, partition: MountedPartition, entries: list[tuple[bytes, EntryAttributes]], records: RecordListing
    ) -> None:
        assert len(entries) < _FIRST_RECORD_POSITION
        self._partition = partition
        self._entries = entries
        self._records = records

    async def reply(self, start: int, reply: Reply) -> None:
        for index in range(start, len(self._entries)):
            if not reply(*self._entries[index], index + 1):
                return
        is_beginning = start < _FIRST_RECORD_POSITION
        offset = None if is_beginning else self._partition.anchor + start - _FIRST_RECORD_POSITION
        await self._records.reply(offset, _FIRST_RECORD_POSITION, reply)


class RootDirectory:
    """The mount point: files that the table of the tree declares, and a directory for each partition."""

    def __init__(
        self,
        mount: MountContext,
        partitions: Partitions,
        entries: NamedEntries,
        directory_of: Callable[[MountedPartition], PartitionDirectory],
    ) -> None:
        self._mount = mount
        self._partitions = partitions
        self._entries = entries
        self._directory_of = directory_of

    async def attributes(self, number: int) -> EntryAttributes:
        options = self._mount.options
        directories = self._mount.directory.directories
        mtime_ns = 0
        for directory in directories:
            with contextlib.suppress(OSError):  # one disk that fails leaves the others served
                mtime_ns = max(mtime_ns, files.status(directory.path).st_mtime_ns)
        writable = (options.create or options.delete) and not self._mount.is_read_only
        return self._mount.attributes.directory(ROOT, mtime_ns, writable=writable)

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        partition = self._partitions.find(name)
        if partition is not None:
            return self._directory_of(partition).entry()
        find = self._entries.lookups.get(name)
        return None if find is None else await find()

    async def listing(self, number: int) -> Listing:
        fixed = []
        for name, find in self._entries.listed.items():
            entry = await find()
            if entry is not None:
                fixed.append((name, entry))
        return RootListing(fixed, self._partitions.refresh(), self._directory_of)


class RootListing:
    """An open root directory. The position of a partition is its number, so that new partitions come last."""

    def __init__(
        self,
        fixed: list[tuple[bytes, EntryAttributes]],
        partitions: list[MountedPartition],
        directory_of: Callable[[MountedPartition], PartitionDirectory],
    ) -> None:
        assert len(fixed) <= _FIRST_PARTITION_POSITION
        self._fixed = fixed
        self._partitions = partitions
        self._directory_of = directory_of

    async def reply(self, start: int, reply: Reply) -> None:
        for index in range(start, len(self._fixed)):
            if not reply(*self._fixed[index], index + 1):
                return
        for partition in self._partitions:
            if partition.number + _FIRST_PARTITION_POSITION > start:
                try:
                    entry = self._directory_of(partition).entry()
                except FileNotFoundError:
                    continue  # removed since
                if not reply(str(partition.name).encode(), entry, partition.number + _FIRST_PARTITION_POSITION):
                    return
