"""`topics/<topic>/decoded`: the files of `decoded/` of all partitions of a topic.

decoded/append.ndjson             see `append_file`
decoded/values, records.ndjson    see `topic_snapshots`
decoded/range/A..B, last/N        see `topic_ranges`
decoded/follow[@A]                see `topic_follow`
decoded/first, latest, by-time/T  see `topic_times`
decoded/by-key/KEY                see `decoded_by_key`
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from offsetfs.fs.files.by_key import TopicKeys
from offsetfs.fs.files.decoded import MountSchemas
from offsetfs.fs.files.decoded_by_key import DecodedKeys, TopicDecodedKeys
from offsetfs.fs.files.follow import FollowFiles
from offsetfs.fs.files.growing_file import GrowingFile
from offsetfs.fs.files.ranges import RangeFiles
from offsetfs.fs.files.topic_follow import TopicFollow
from offsetfs.fs.files.topic_ranges import TopicRanges
from offsetfs.fs.files.topic_snapshots import SNAPSHOT_NAMES, TopicListing, TopicSnapshot, TopicSnapshots
from offsetfs.fs.files.topic_times import TopicLinks, TopicTimes
from offsetfs.fs.fuse_types import EntryAttributes
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.inodes import pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, WritableFile
from offsetfs.fs.partitions import MountedPartition, Partitions
from offsetfs.fs.reporting.errors import is_fault
from offsetfs.storage import TopicPartition

_FOLDER = "decoded/"
_RANGES = ("range", "last")
_END_LINKS = (b"first", b"latest")
_BY_TIME = b"by-time"


@dataclass(frozen=True, slots=True)
class DecodedFiles:
    """The files in `decoded/` of one partition."""

    partition: MountedPartition
    growing: tuple[GrowingFile, GrowingFile]
    ranges: RangeFiles
    follow: FollowFiles
    topic_links: TopicLinks
    keys: DecodedKeys


DecodedOf = Callable[[TopicPartition], Awaitable[DecodedFiles]]
"""Returns the files of a partition, opening it."""


class DecodedTopics:
    """`topics/<topic>/decoded`. `number`: that of the topic."""

    def __init__(
        self,
        mount: MountContext,
        partitions: Partitions,
        all_at: Callable[[int], list[TopicPartition]],
        topic_at: Callable[[int], str],
        decoded_of: DecodedOf,
        appends: WritableFile,
        keys: TopicKeys,
        schemas: MountSchemas,
    ) -> None:
        """`all_at`, `topic_at`: the partitions, and the name, of the topic with a number."""
        self._appends = appends
        self._mount = mount
        self._topic_at = topic_at

        async def growing(name: TopicPartition) -> tuple[GrowingFile, GrowingFile]:
            return (await decoded_of(name)).growing

        async def ranges(name: TopicPartition) -> RangeFiles:
            return (await decoded_of(name)).ranges

        async def follow(partition: MountedPartition) -> FollowFiles:
            return (await decoded_of(partition.name)).follow

        async def links(name: TopicPartition) -> tuple[MountedPartition, TopicLinks]:
            files = await decoded_of(name)
            return files.partition, files.topic_links

        async def keys_of(name: TopicPartition) -> DecodedKeys:
            return (await decoded_of(name)).keys

        snapshot, kinds = Kind.TOPIC_DECODED_SNAPSHOT, (Kind.TOPIC_DECODED_RANGES, Kind.TOPIC_DECODED_RANGE)
        self.snapshots = TopicSnapshots(mount, all_at, growing, kind=snapshot, folder=_FOLDER)
        self.ranges = TopicRanges(mount, all_at, ranges, kinds=kinds, folder=_FOLDER)
        self.follow = TopicFollow(mount, partitions, follow, kind=Kind.TOPIC_DECODED_FOLLOW, folder=_FOLDER)
        self.times = TopicTimes(mount, all_at, links, self.ranges, kind=Kind.TOPIC_DECODED_TIMES)
        self.keys = TopicDecodedKeys(mount, topic_at, keys, keys_of, schemas)
        finds = self.times.first, self.times.latest, self.times.root
        self._links = dict(zip((*_END_LINKS, _BY_TIME), finds, strict=True))

    async def attributes(self, number: int) -> EntryAttributes:
        return self._mount.attributes.directory(pack(Kind.TOPIC_DECODED, 0, number))

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        if name == Kind.TOPIC_DECODED_APPEND.file_name:
            return await self._appends.attributes(number)
        if name in SNAPSHOT_NAMES:
            return await self.snapshots.lookup(number, name)
        if name in self._links:
            return await self._links[name](number)
        if name == Kind.TOPIC_DECODED_KEYS.file_name:
            return await self.keys.attributes(number)
        if name.decode("ascii", "replace") in _RANGES:
            return await self.ranges.directories.entry(number, name.decode())
        return self.follow.lookup(self._topic_at(number), name)

    async def listing(self, number: int) -> Listing:
        entries: list[tuple[bytes, EntryAttributes | TopicSnapshot]] = []
        for name in (*_END_LINKS, *SNAPSHOT_NAMES, _BY_TIME):
            try:
                is_link = name in self._links
                entry = await (self._links[name](number) if is_link else self.snapshots.listed(number, name))
            except Exception as error:  # one entry that fails must not hide the others
                if is_fault(error):
                    path = f"topics/{self._topic_at(number)}/{_FOLDER}{name.decode()}"
                    self._mount.error_log.add(error, "readdir", path)
                continue
            if entry is not None:
                entries.append((name, entry))
        if not self._mount.is_read_only:
            appends = Kind.TOPIC_DECODED_APPEND.file_name
            entries.append((appends, await self._appends.attributes(number)))
        return TopicListing(entries, self.snapshots)
