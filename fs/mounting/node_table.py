"""From an inode number to its node, and back to a path: what there is in a mount.

    mount point: texts, control, groups, topics      by kind and number
    partitions: a directory each                     made when a request opens it

Only inodes that are found by name alone have a table (`lookup_numbers`). Any other inode number encodes what it is
(`inodes`), and this module returns its node. Raises FUSEError ESTALE, ENOTDIR for numbers that mean nothing here.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from pyfuse3 import FUSEError

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.appends.topics import TopicsDirectory
from offsetfs.fs.control.control import ControlDirectory
from offsetfs.fs.counters import PartitionCounts
from offsetfs.fs.groups.groups import GroupsDirectory
from offsetfs.fs.inodes import Fixed, Kind
from offsetfs.fs.lookup_numbers import LookupNumbers
from offsetfs.fs.mounting.directories import PartitionDirectory, PartitionTree, RootDirectory, key
from offsetfs.fs.mounting.map_keeping import Kept
from offsetfs.fs.nodes import DirectoryNode, FileNode, Node
from offsetfs.fs.partitions import Partition, Partitions
from offsetfs.fs.paths import path_of
from offsetfs.fs.shared import Shared
from offsetfs.fs.views.by_key import KeyDirectory
from offsetfs.fs.views.follow import FollowFiles
from offsetfs.fs.views.growing_file import GrowingFile
from offsetfs.fs.views.texts import mount_texts
from offsetfs.storage.names import TopicPartition

_OPEN_LONG = frozenset(
    {
        Kind.RECORD,
        Kind.RECORD_JSON,
        Kind.RECORD_KEY,
        Kind.RECORD_HEADERS,
        Kind.VALUES,
        Kind.RECORDS,
        Kind.RANGE,
        Kind.SEGMENT,
        Kind.KEYED,
        Kind.FOLLOW,
    }
)
"""Kinds of files that are read over a time in which what they show may be removed."""


class NodeTable:
    """The nodes of one mount. `open_handles` says how many files are open."""

    def __init__(self, shared: Shared, accumulators: Accumulators, open_handles: Callable[[], int]) -> None:
        self.partitions = Partitions(shared)
        self.groups = GroupsDirectory(shared, accumulators)
        self._shared = shared
        self._accumulators = accumulators
        self._of_partitions: dict[int, PartitionDirectory] = {}
        texts = mount_texts(shared)
        control = ControlDirectory(shared, texts, accumulators, open_handles)
        topics = TopicsDirectory(
            shared, self.partitions, accumulators, self._keys_of, self._follow_of, self._growing_of
        )
        self._directories: dict[int, DirectoryNode] = {
            Fixed.DIRECTORY: RootDirectory(shared, self.partitions, texts, self.groups, topics, self.directory_of),
            Fixed.CONTROL: control,
            Fixed.GROUPS: self.groups,
            Fixed.TOPICS: topics,
            key(Kind.TOPIC, 0): topics.directories,
            key(Kind.TOPIC_KEYS, 0): topics.keys,
            key(Kind.GROUP, 0): self.groups.directories,
        }
        self._files: dict[int, FileNode] = {
            **texts,
            **control.files,
            key(Kind.GROUP_LAG, 0): self.groups.lags,
            key(Kind.GROUP_COMMIT, 0): self.groups.commits,
            key(Kind.GROUP_STATE, 0): self.groups.states,
            key(Kind.TOPIC_APPEND, 0): topics.appends,
            key(Kind.TOPIC_FOLLOW, 0): topics.follow,
            key(Kind.TOPIC_SNAPSHOT, 0): topics.snapshots,
        }
        self._looked_up: dict[int, LookupNumbers[Any]] = {
            Kind.TOPIC_FOLLOW: topics.follow.names,
            Kind.TOPIC_SNAPSHOT: topics.snapshots.looked_up,
        }

    # --- partitions --------------------------------------------------------------------------------------------------

    def directory_of(self, partition: Partition) -> PartitionDirectory:
        """Return the directory of a partition, the same each time."""
        directory = self._of_partitions.get(partition.number)
        if directory is None:
            directory = PartitionDirectory(self._shared, partition, self._accumulators)
            self._of_partitions[partition.number] = directory
        return directory

    async def _keys_of(self, name: TopicPartition) -> KeyDirectory:
        return (await self.directory_of(self.partitions.of(name)).tree()).keys

    async def _follow_of(self, partition: Partition) -> FollowFiles:
        return (await self.directory_of(partition).tree()).follow

    async def _growing_of(self, name: TopicPartition) -> tuple[GrowingFile, GrowingFile]:
        tree = await self.directory_of(self.partitions.of(name)).tree()
        return tree.values, tree.json

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
        """Return what is in the partition with this number, as it is now; ESTALE where it is gone."""
        return await self.numbered(number).tree()

    def kept(self, name: TopicPartition) -> Kept | None:
        """Return the growing views of a partition, None until a request has opened it."""
        partition = self.partitions.seen(name)
        directory = None if partition is None else self._of_partitions.get(partition.number)
        return None if directory is None else directory.kept

    def forget(self, kind: int, partition: int, number: int, lookups: int) -> None:
        """The kernel forgets so many look-ups of an inode; what is not known stays so."""
        if kind in self._looked_up:
            self._looked_up[kind].forget(number, lookups)
            return
        directory = self._of_partitions.get(partition)
        if directory is not None:
            directory.forget(kind, number, lookups)

    def counts_of(self, partition: int) -> PartitionCounts:
        """Return where reads of a partition's files count; 0 is the mount point."""
        counters, known = self._shared.counters, self.partitions.numbered(partition)
        return counters.elsewhere if known is None else counters.of(known.name)

    # --- nodes -------------------------------------------------------------------------------------------------------

    async def directory(self, kind: int, partition: int, number: int) -> DirectoryNode:
        """Return what lists and looks up names; ENOTDIR for anything else."""
        if not partition:
            node = self._directories.get(key(kind, number))
        elif kind == Kind.FIXED and number == Fixed.DIRECTORY:
            return self.numbered(partition)
        else:
            node = (await self.tree(partition)).directories.get(key(kind, number))
        if node is None:
            raise FUSEError(errno.ENOTDIR)
        return node

    async def file(self, kind: int, partition: int, number: int) -> FileNode:
        """Return what can be opened; ESTALE for anything else."""
        files = (await self.tree(partition)).files if partition else self._files
        node = files.get(key(kind, number))
        if node is None:
            raise FUSEError(errno.ESTALE)
        return node

    async def node(self, kind: int, partition: int, number: int) -> Node:
        """Return what has attributes: files, directories and links, and files of a partition that is gone."""
        if kind == Kind.FIXED and number == Fixed.DIRECTORY and partition:
            return self.numbered(partition)
        which = key(kind, number)
        node: Node | None
        if not partition:
            node = self._directories.get(which) or self._files.get(which)
        else:
            directory = self.numbered(partition)
            # Who has a file open asks for its attributes, too, and a partition may be gone by then.
            tree = await (directory.remains() if kind in _OPEN_LONG else directory.tree())
            node = tree.files.get(which) or tree.directories.get(which) or tree.links.get(which)
        if node is None:
            raise FUSEError(errno.ESTALE)
        return node

    def path_of(self, inode: int, name: bytes = b"") -> str:
        """Return the path in the mount of an inode, or of a name in it, to tell people."""
        return path_of(inode, self.partitions, name)
