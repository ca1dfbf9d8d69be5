"""`topics`: whole topics: appends as from Kafka's producer, look-ups by key and time, follow files, snapshots, ranges.

topics/<topic>/append           see `append_file`: one record per line; each batch goes to the next partition
topics/<topic>/append.ndjson    see `append_file`: JSON lines, to their `partition`, else by the hash of the key
topics/<topic>/by-key/<key>     see `by_key`
topics/<topic>/follow           see `topic_follow`
topics/<topic>/values           see `topic_snapshots`, as for records.ndjson
topics/<topic>/range/<A..B>     see `topic_ranges`, as for last/<N>
topics/<topic>/by-time/<T>      see `topic_times`, as for first and latest
topics/<topic>/decoded          see `decoded_topics`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.appends.append_file import TopicAppends
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
from offsetfs.fs.nodes import Listing, ShortListing
from offsetfs.fs.partitions import Partitions
from offsetfs.fs.reporting.errors import is_fault
from offsetfs.storage import TopicPartition

_FILES = Kind.TOPIC_APPEND.file_names  # number: that of the topic × 2, plus the index in this tuple
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
        self.appends, self.decoded_appends = (
            TopicAppends(mount, partitions, accumulators, kind, schemas, self.numbers.at, self.partitions)
            for kind in (Kind.TOPIC_APPEND, Kind.TOPIC_DECODED_APPEND)
        )
        self.keys = TopicKeys(mount, self.all_at, nodes_of.keys)
        self.follow = TopicFollow(mount, partitions, nodes_of.follow)
        self.snapshots = TopicSnapshots(mount, self.all_at, nodes_of.growing)
        self.ranges = TopicRanges(mount, self.all_at, nodes_of.ranges)
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
