"""The nodes of a mount by the parts of an inode number.

    mount point: texts, control, groups, topics      by kind
    partitions: a `PartitionDirectory` each          by partition number; its nodes by kind, made at the first access

An inode number contains kind, partition and number (`naming/inodes`), so that no table grows with look-ups. Only files
that are found by name alone have one (`LookupNumbers`). A number without a node is FUSEError ESTALE or ENOTDIR.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.control.control import ControlDirectory
from offsetfs.fs.files.by_key import KeyDirectory
from offsetfs.fs.files.decoded import MountSchemas
from offsetfs.fs.files.decoded_topics import DecodedFiles
from offsetfs.fs.files.follow import FollowFiles
from offsetfs.fs.files.growing_file import GrowingFile
from offsetfs.fs.files.ranges import RangeFiles
from offsetfs.fs.files.schema_files import SchemasDirectory
from offsetfs.fs.files.texts import mount_texts
from offsetfs.fs.files.topic_times import TopicLinks
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.groups.groups import GroupsDirectory
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.mounting.directories import (
    Find,
    NamedEntries,
    PartitionDirectory,
    PartitionTree,
    RootDirectory,
    TreeNodes,
)
from offsetfs.fs.mounting.line_index_upkeep import GrowingFiles
from offsetfs.fs.mounting.topics import NodesOf, TopicsDirectory
from offsetfs.fs.naming.tree_table import IN_MOUNT, Kind
from offsetfs.fs.nodes import DirectoryNode, FileNode, Node
from offsetfs.fs.partitions import MountedPartition, Partitions
from offsetfs.fs.reporting.counters import PartitionCounts
from offsetfs.storage import TopicPartition

_OPEN_LONG = frozenset(kind for kind in Kind if kind.spec.is_open_long)


class NodeTable:
    """The nodes of one mount. `open_handles` returns the number of open files."""

    def __init__(self, mount: MountContext, accumulators: Accumulators, open_handles: Callable[[], int]) -> None:
        self.partitions = Partitions(mount)
        self.groups = GroupsDirectory(mount, accumulators)
        self._mount = mount
        self._accumulators = accumulators
        self._of_partitions: dict[int, PartitionDirectory] = {}
        self._schemas = MountSchemas(mount)
        texts = mount_texts(mount)
        control = ControlDirectory(mount, texts, accumulators, self.groups.known, open_handles)
        nodes_of = NodesOf(
            self._keys_of, self._follow_of, self._growing_of, self._ranges_of, self._links_of, self._decoded_of
        )
        schemas = SchemasDirectory(mount)
        topics = TopicsDirectory(mount, self.partitions, accumulators, nodes_of, self._schemas)
        self._nodes = TreeNodes(
            directories={
                Kind.CONTROL: control,
                Kind.GROUPS: self.groups,
                Kind.GROUP: self.groups.directories,
                Kind.TOPICS: topics,
                Kind.SCHEMAS: schemas,
                Kind.SCHEMA_IDS: schemas.ids,
                Kind.SCHEMA_SUBJECT: schemas.subjects,
                Kind.TOPIC: topics.directories,
                Kind.TOPIC_KEYS: topics.keys,
                Kind.TOPIC_RANGES: topics.ranges.directories,
                Kind.TOPIC_TIMES: topics.times,
                Kind.TOPIC_DECODED: topics.decoded,
                Kind.TOPIC_DECODED_RANGES: topics.decoded.ranges.directories,
                Kind.TOPIC_DECODED_TIMES: topics.decoded.times,
                Kind.TOPIC_DECODED_KEYS: topics.decoded.keys,
            },
            files={
                **texts,
                **control.files,
                Kind.GROUP_LAG: self.groups.lags,
                Kind.GROUP_STATE: self.groups.states,
                Kind.GROUP_COMMIT: self.groups.commits,
                Kind.TOPIC_APPEND: topics.appends,
                Kind.SCHEMA_FILE: schemas.files,
                Kind.TOPIC_FOLLOW: topics.follow,
                Kind.TOPIC_SNAPSHOT: topics.snapshots,
                Kind.TOPIC_RANGE: topics.ranges,
                Kind.TOPIC_DECODED_APPEND: topics.decoded_appends,
                Kind.TOPIC_DECODED_FOLLOW: topics.decoded.follow,
                Kind.TOPIC_DECODED_SNAPSHOT: topics.decoded.snapshots,
                Kind.TOPIC_DECODED_RANGE: topics.decoded.ranges,
            },
            links={Kind.SCHEMA_LINK: schemas.links},
            lookup_numbers={
                Kind.TOPIC_FOLLOW: topics.follow.names,
                Kind.TOPIC_SNAPSHOT: topics.snapshots.lookups,
                Kind.TOPIC_RANGE: topics.ranges.lookups,
                Kind.TOPIC_DECODED_FOLLOW: topics.decoded.follow.names,
                Kind.TOPIC_DECODED_SNAPSHOT: topics.decoded.snapshots.lookups,
                Kind.TOPIC_DECODED_RANGE: topics.decoded.ranges.lookups,
            },
        )
        entries = NamedEntries(
            IN_MOUNT,
            self._nodes.node,
            lookups={"groups": _finding(self.groups.entry), "topics": _finding(topics.entry), "schemas": schemas.entry},
            listed={"groups": _finding(self.groups.listed)},
        )
        self._nodes.directories[Kind.DIRECTORY] = RootDirectory(mount, self.partitions, entries, self.directory_of)

    # --- partitions --------------------------------------------------------------------------------------------------

    def directory_of(self, partition: MountedPartition) -> PartitionDirectory:
        """Return the directory of a partition, the same each time."""
        directory = self._of_partitions.get(partition.number)
        if directory is None:
            directory = PartitionDirectory(self._mount, partition, self._accumulators, self._schemas)
            self._of_partitions[partition.number] = directory
        return directory

    async def _keys_of(self, name: TopicPartition) -> KeyDirectory:
        return (await self.directory_of(self.partitions.of(name)).tree()).keys

    async def _follow_of(self, partition: MountedPartition) -> FollowFiles:
        return (await self.directory_of(partition).tree()).follow

    async def _growing_of(self, name: TopicPartition) -> tuple[GrowingFile, GrowingFile]:
        tree = await self.directory_of(self.partitions.of(name)).tree()
        return tree.values, tree.json

    async def _ranges_of(self, name: TopicPartition) -> RangeFiles:
        return (await self.directory_of(self.partitions.of(name)).tree()).ranges

    async def _links_of(self, name: TopicPartition) -> tuple[MountedPartition, TopicLinks]:
        partition = self.partitions.of(name)
        return partition, (await self.directory_of(partition).tree()).topic_links

    async def _decoded_of(self, name: TopicPartition) -> DecodedFiles:
        partition = self.partitions.of(name)
        decoded = (await self.directory_of(partition).tree()).decoded
        growing = decoded.values, decoded.json
        return DecodedFiles(partition, growing, decoded.ranges, decoded.follow, decoded.topic_links, decoded.keys)

    def numbered(self, number: int) -> PartitionDirectory:
        """Return the directory of the partition with this number; ESTALE where there never was one."""
        directory = self._of_partitions.get(number)
        if directory is None:
            partition = self.partitions.numbered(number)
            if partition is None:
                raise FUSEError(errno.ESTALE)
            directory = self.directory_of(partition)
        return directory

    async def tree(self, number: int) -> PartitionTree:
        """Return the nodes of the partition with this number; ESTALE if it was deleted."""
        return await self.numbered(number).tree()

    def growing_files(self, name: TopicPartition) -> GrowingFiles | None:
        """Return the growing files of a partition; None until a request has opened it."""
        partition = self.partitions.seen(name)
        directory = None if partition is None else self._of_partitions.get(partition.number)
        return None if directory is None else directory.growing_files

    def forget(self, kind: int, partition: int, number: int, lookups: int) -> None:
        """Count FORGET for a number of look-ups of an inode. An unknown inode is ignored."""
        if kind in self._nodes.lookup_numbers:
            self._nodes.lookup_numbers[kind].forget(number, lookups)
            return
        directory = self._of_partitions.get(partition)
        if directory is not None:
            directory.forget(kind, number, lookups)

    def counts_of(self, partition: int) -> PartitionCounts:
        """Return the counters for reads of a partition's files; partition 0 is the mount point."""
        counters, known = self._mount.counters, self.partitions.numbered(partition)
        return counters.elsewhere if known is None else counters.of(known.name)

    # --- nodes -------------------------------------------------------------------------------------------------------

    async def directory(self, kind: int, partition: int) -> DirectoryNode:
        """Return the node of a directory; ENOTDIR for any other inode."""
        if partition and kind == Kind.DIRECTORY:
            return self.numbered(partition)
        node = (await self.nodes_in(partition)).directories.get(kind)
        if node is None:
            raise FUSEError(errno.ENOTDIR)
        return node

    async def file(self, kind: int, partition: int) -> FileNode:
        """Return the node of a file; ESTALE for any other inode."""
        node = (await self.nodes_in(partition)).files.get(kind)
        if node is None:
            raise FUSEError(errno.ESTALE)
        return node

    async def nodes_in(self, partition: int) -> TreeNodes:
        """Return the nodes of a partition; 0: those of the mount."""
        return (await self.tree(partition)).nodes if partition else self._nodes

    async def node(self, kind: int, partition: int) -> Node:
        """Return the node of a file, directory or link. Files that stay open for long outlive their partition."""
        if not partition:
            return self._nodes.node(kind)
        directory = self.numbered(partition)
        if kind == Kind.DIRECTORY:
            return directory
        # fstat(2) sends GETATTR also for a file that was opened before its partition was deleted.
        tree = await (directory.last_tree() if kind in _OPEN_LONG else directory.tree())
        return tree.nodes.node(kind)


def _finding(entry: Callable[[], EntryAttributes | None]) -> Find:
    """Return `entry` as a coroutine function."""

    async def find() -> EntryAttributes | None:
        return entry()

    return find
