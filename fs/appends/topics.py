"""`topics`: whole topics: appends as from Kafka's producer, look-ups by key and time, follow files, snapshots, ranges.

    topics/<topic>/append           one record per line, without a key: each batch goes to the next partition
    topics/<topic>/append.ndjson    JSON lines: to their `partition`, else by the hash of the key
    topics/<topic>/by-key/<key>     see `by_key`
    topics/<topic>/follow           see `topic_follow`
    topics/<topic>/values           see `topic_snapshots`, as for records.ndjson
    topics/<topic>/range/<A..B>     see `topic_ranges`, as for last/<N>
    topics/<topic>/by-time/<T>      see `topic_times`, as for first and latest
    topics/<topic>/decoded          see `decoded_topics`

A file that is opened O_RDWR returns `partition offset timestamp` of each record. If a partition below the highest is
missing, the partition of a key is unknown, and appends fail with EINVAL.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from offsetfs.fs.appends.accumulator import Accumulator, Accumulators
from offsetfs.fs.appends.append_file import (
    APPEND_FILES,
    PREFERRED_WRITE_BYTES,
    encoding_framing,
    internal_refusal,
)
from offsetfs.fs.appends.framing import Lines
from offsetfs.fs.appends.handles import AppendHandle
from offsetfs.fs.appends.target import AppendTarget, Sticky
from offsetfs.fs.attributes import APPEND_MODE
from offsetfs.fs.files.by_key import KeysOf, TopicKeys
from offsetfs.fs.files.decoded import MountSchemas
from offsetfs.fs.files.decoded_topics import DecodedOf, DecodedTopics
from offsetfs.fs.files.masked import HiddenFiles
from offsetfs.fs.files.topic_follow import FollowOf, TopicFollow
from offsetfs.fs.files.topic_ranges import RangesOf, TopicRanges
from offsetfs.fs.files.topic_snapshots import SNAPSHOT_NAMES, GrowingOf, TopicListing, TopicSnapshot, TopicSnapshots
from offsetfs.fs.files.topic_times import LinksOf, TopicTimes
from offsetfs.fs.fuse_types import EntryAttributes
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.inodes import PermanentNumbers, pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, Opened, Opening, ShortListing
from offsetfs.fs.partitions import Partitions
from offsetfs.fs.reporting.errors import is_fault
from offsetfs.storage import INTERNAL_TOPICS, TopicPartition

_FILES = Kind.TOPIC_APPEND.file_names  # number: that of the topic × 2, plus the index in this tuple
_FRAMING_OF = {kind.file_name: framing for kind, framing in APPEND_FILES.items()}
_BY_KEY_NAME = Kind.TOPIC_KEYS.file_name
_DECODED_NAME = Kind.TOPIC_DECODED.file_name


@dataclass(frozen=True, slots=True)
class NodesOf:
    """Functions that return nodes of one partition, opening it."""

    keys: KeysOf
    follow: FollowOf
    growing: GrowingOf
    ranges: RangesOf
    links: LinksOf
    decoded: DecodedOf


class TopicsDirectory:
    """`topics` itself; `directories`, `appends`, `keys`, `follow` and the others are the nodes in it."""

    def __init__(
        self,
        mount: MountContext,
        partitions: Partitions,
        accumulators: Accumulators,
        nodes_of: NodesOf,
        schemas: MountSchemas,
    ) -> None:
        self._mount = mount
        self._listing: Sequence[TopicPartition] | None = None
        self._counts: Counter[str] = Counter()
        self.numbers: PermanentNumbers[str] = PermanentNumbers()
        self.directories = TopicDirectories(mount, self)
        self.appends = TopicAppends(mount, self, partitions, accumulators)
        self.keys = TopicKeys(mount, self.all_at, nodes_of.keys)
        self.follow = TopicFollow(mount, partitions, nodes_of.follow)
        self.snapshots = TopicSnapshots(mount, self.all_at, nodes_of.growing)
        self.ranges = TopicRanges(mount, self.all_at, nodes_of.ranges)
        self.decoded_appends = DecodedTopicAppends(mount, self, partitions, accumulators, schemas)
        self.decoded = DecodedTopics(
            *(mount, partitions, self.all_at, self.numbers.at, nodes_of.decoded, self.decoded_appends),
            *(self.keys, schemas),
        )
        self.times = TopicTimes(mount, self.all_at, nodes_of.links, self.ranges)

    def counts(self) -> Counter[str]:
        """Return the number of partitions of each topic."""
        listing = self._mount.directory.partitions()
        if listing is not self._listing:
            self._listing, self._counts = listing, Counter(partition.topic for partition in listing)
        return self._counts

    def all_at(self, number: int) -> list[TopicPartition]:
        """Return the existing partitions of the topic with this number, in order."""
        topic = self.numbers.at(number)
        return self._mount.directory.partitions_of(topic)

    def partitions(self, topic: str) -> list[TopicPartition] | None:
        """Return the partitions from 0 on. None if some are missing, or all."""
        wanted = [TopicPartition(topic, number) for number in range(self.counts()[topic])]
        return wanted if wanted and all(map(self._mount.directory.has, wanted)) else None

    def entry(self) -> EntryAttributes | None:
        """Return the attributes. None if there is no topic."""
        return self._attributes() if self.counts() else None

    def _attributes(self) -> EntryAttributes:
        return self._mount.attributes.directory(pack(Kind.TOPICS))

    async def attributes(self, number: int) -> EntryAttributes:
        return self._attributes()

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        topic = name.decode("ascii", "replace")
        return self.directories.entry(topic) if topic in self.counts() else None

    async def listing(self, number: int) -> Listing:
        return ShortListing([(topic.encode(), self.directories.entry(topic)) for topic in self.counts()])


class TopicDirectories:
    """`topics/<topic>`. `number`: the number of the topic."""

    def __init__(self, mount: MountContext, topics: TopicsDirectory) -> None:
        self._mount = mount
        self._topics = topics
        self._hidden = HiddenFiles(mount)

    def entry(self, topic: str) -> EntryAttributes:
        return self._mount.attributes.directory(pack(Kind.TOPIC, 0, self._topics.numbers.of(topic)))

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry(self._topics.numbers.at(number))

    def _finds(self, number: int) -> dict[bytes, Callable[[], Awaitable[EntryAttributes | None]]]:
        """Return the look-up of each name, in the order of a listing; those that are not listed last."""
        topics, first = self._topics, number * len(_FILES)
        return {
            **{name: partial(topics.appends.attributes, first + index) for index, name in enumerate(_FILES)},
            b"first": partial(topics.times.first, number),
            b"latest": partial(topics.times.latest, number),
            **{name: partial(topics.snapshots.lookup, number, name) for name in SNAPSHOT_NAMES},
            b"by-time": partial(topics.times.root, number),
            b"range": partial(topics.ranges.directories.entry, number, "range"),
            b"last": partial(topics.ranges.directories.entry, number, "last"),
            _BY_KEY_NAME: partial(topics.keys.attributes, number),
            _DECODED_NAME: partial(topics.decoded.attributes, number),
        }

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        topic = self._topics.numbers.at(number)
        if self._hidden.of_topic(topic, name):
            raise self._hidden.refusal(f"topics/{topic}", name)
        find = self._finds(number).get(name)
        return self._topics.follow.lookup(topic, name) if find is None else await find()

    async def listing(self, number: int) -> Listing:
        finds, topic = self._finds(number), self._topics.numbers.at(number)
        del finds[_BY_KEY_NAME]  # found by name only
        if not self._hidden.has_mask(topic):
            del finds[_DECODED_NAME]  # the same
        if not self._topics.appends.is_writable(number * len(_FILES)):
            for name in _FILES:
                del finds[name]
        entries: list[tuple[bytes, EntryAttributes | TopicSnapshot]] = []
        for name, find in finds.items():
            if self._hidden.of_topic(topic, name):
                continue
            try:
                entry = await (self._topics.snapshots.listed(number, name) if name in SNAPSHOT_NAMES else find())
            except Exception as error:  # one entry that fails must not hide the others
                if is_fault(error):
                    self._mount.error_log.add(error, "readdir", f"topics/{topic}/{name.decode()}")
                continue
            if entry is not None:
                entries.append((name, entry))
        return TopicListing(entries, self._topics.snapshots)


class TopicAppends:
    """`topics/<topic>/append[.ndjson]`. `number`: that of the topic × 2, plus 1 for JSON lines."""

    kind = Kind.TOPIC_APPEND

    def __init__(
        self, mount: MountContext, topics: TopicsDirectory, partitions: Partitions, accumulators: Accumulators
    ) -> None:
        self._mount = mount
        self._topics = topics
        self._partitions = partitions
        self._accumulators = accumulators
        self._sticky: dict[str, Sticky] = {}

    async def attributes(self, number: int) -> EntryAttributes:
        entry = self._mount.attributes.file(pack(self.kind, 0, number), 0, 0, mode=APPEND_MODE)
        entry.st_blksize = PREFERRED_WRITE_BYTES
        return entry

    def _topic(self, number: int) -> str:
        return self._topics.numbers.at(number // len(self.kind.spec.paths))

    def _path(self, number: int) -> str:
        paths = self.kind.spec.paths
        return paths[number % len(paths)].replace("<topic>", self._topic(number))

    async def _framing(self, number: int) -> Lines:
        return _FRAMING_OF[_FILES[number % len(_FILES)]]()

    async def open(self, number: int, opening: Opening) -> Opened:
        """Open the file and the logs of all partitions. EROFS, EPERM, or EINVAL if partitions are missing."""
        if not opening.writes:
            return Opened(b"", direct=True)
        self.check_writable(number)
        topic = self._topic(number)
        path = self._path(number)
        accumulators = await self._opened(topic, path)
        if not opening.is_nonblocking:
            await self._accumulators.context.files.wait_before_open(
                [accumulator.partition for accumulator in accumulators]
            )
        target = AppendTarget(accumulators, self._sticky_of(topic))
        handle = AppendHandle(
            target,
            opening.flags,
            await self._framing(number),
            path,
            lambda error: self._lost(error, path),
            self._mount.waiting.poll_space,
        )
        return Opened(handle, direct=True, is_stream=handle.wants_offsets)

    def is_writable(self, number: int) -> bool:
        """Whether records can be appended: not on a read-only mount, and not to an internal topic."""
        return not self._mount.is_read_only and self._topic(number) not in INTERNAL_TOPICS

    def check_writable(self, number: int) -> None:
        """Raise EROFS, or EPERM for an internal topic."""
        if not self.is_writable(number):
            raise internal_refusal(self._mount, self._path(number))

    async def _opened(self, topic: str, path: str) -> list[Accumulator]:
        names = self._topics.partitions(topic)
        if names is None:
            raise OSError(
                errno.EINVAL, "partitions of the topic are missing, so the partition of a key is unknown", path
            )
        for name in names:
            partition = self._partitions.of(name)
            await partition.open()
            await partition.recover()
        return [self._accumulators.of(name) for name in names]

    def _sticky_of(self, topic: str) -> Sticky:
        return self._sticky.setdefault(topic, Sticky())

    def _lost(self, error: OSError, path: str) -> None:
        self._mount.error_log.add(error, "write", path)


class DecodedTopicAppends(TopicAppends):
    """`topics/<topic>/decoded/append.ndjson`. `number`: that of the topic."""

    kind = Kind.TOPIC_DECODED_APPEND

    def __init__(
        self,
        mount: MountContext,
        topics: TopicsDirectory,
        partitions: Partitions,
        accumulators: Accumulators,
        schemas: MountSchemas,
    ) -> None:
        super().__init__(mount, topics, partitions, accumulators)
        self._schemas = schemas

    async def _framing(self, number: int) -> Lines:
        return await encoding_framing(self._mount, self._schemas, self._topic(number))
