"""`topics`: whole topics: appends as from Kafka's producer, look-ups by key, follow files, and snapshots.

    topics/<topic>/append           one record per line, without a key: each batch goes to the next partition
    topics/<topic>/append.ndjson    JSON lines: to their `partition`, else by the hash of the key
    topics/<topic>/by-key/<key>     see `topic_keys`
    topics/<topic>/follow           see `topic_follow`
    topics/<topic>/values           see `topic_snapshots`, as for records.ndjson

A file that is opened O_RDWR returns `partition offset timestamp` of each record. If a partition below the highest is
missing, the partition of a key is unknown, and appends fail with EINVAL.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Sequence

from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.appends.accumulator import Accumulator, Accumulators
from offsetfs.fs.appends.append_file import APPEND_FILES, PREFERRED_WRITE_BYTES
from offsetfs.fs.appends.handles import AppendHandle
from offsetfs.fs.appends.target import AppendTarget, Sticky
from offsetfs.fs.attributes import APPEND_MODE
from offsetfs.fs.files.topic_follow import FollowOf, TopicFollow
from offsetfs.fs.files.topic_keys import KeysOf, TopicKeys
from offsetfs.fs.files.topic_snapshots import SNAPSHOT_NAMES, GrowingOf, TopicSnapshots
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.inodes import pack
from offsetfs.fs.naming.permanent_numbers import PermanentNumbers
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, Opened, Opening, ShortListing
from offsetfs.fs.partitions import Partitions
from offsetfs.storage import INTERNAL_TOPICS, TopicPartition

_FILES = Kind.TOPIC_APPEND.file_names  # number: that of the topic × 2, plus the index in this tuple
_FRAMING_OF = {kind.file_name: framing for kind, framing in APPEND_FILES.items()}
_BY_KEY_NAME = Kind.TOPIC_KEYS.file_name


class TopicsDirectory:
    """`topics` itself; `directories`, `appends`, `keys`, `follow` and `snapshots` are the nodes in it."""

    def __init__(
        self,
        mount: MountContext,
        partitions: Partitions,
        accumulators: Accumulators,
        keys_of: KeysOf,
        follow_of: FollowOf,
        growing_of: GrowingOf,
    ) -> None:
        self._mount = mount
        self._listing: Sequence[TopicPartition] | None = None
        self._counts: Counter[str] = Counter()
        self.numbers: PermanentNumbers[str] = PermanentNumbers()
        self.directories = TopicDirectories(mount, self)
        self.appends = TopicAppends(mount, self, partitions, accumulators)
        self.keys = TopicKeys(mount, self.all_at, keys_of)
        self.follow = TopicFollow(mount, partitions, follow_of)
        self.snapshots = TopicSnapshots(mount, self.all_at, growing_of)

    def counts(self) -> Counter[str]:
        """Return the number of partitions of each topic."""
        listing = self._mount.directory.partitions()
        if listing is not self._listing:
            self._listing, self._counts = listing, Counter(each.topic for each in listing)
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

    def entry(self, topic: str) -> EntryAttributes:
        return self._mount.attributes.directory(pack(Kind.TOPIC, 0, self._topics.numbers.of(topic)))

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry(self._topics.numbers.at(number))

    def _entries(self, number: int) -> list[tuple[bytes, EntryAttributes]]:
        return [(name, self._topics.appends.entry(number * len(_FILES) + index)) for index, name in enumerate(_FILES)]

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        if name == _BY_KEY_NAME:  # found by name only
            return self._topics.keys.entry(number)
        if name in SNAPSHOT_NAMES:
            return await self._topics.snapshots.lookup(number, name)
        entry = dict(self._entries(number)).get(name)
        return self._topics.follow.lookup(self._topics.numbers.at(number), name) if entry is None else entry

    async def listing(self, number: int) -> Listing:
        return ShortListing(self._entries(number))


class TopicAppends:
    """`topics/<topic>/append[.ndjson]`. `number`: that of the topic × 2, plus 1 for JSON lines."""

    def __init__(
        self, mount: MountContext, topics: TopicsDirectory, partitions: Partitions, accumulators: Accumulators
    ) -> None:
        self._mount = mount
        self._topics = topics
        self._partitions = partitions
        self._accumulators = accumulators
        self._sticky: dict[str, Sticky] = {}

    def entry(self, number: int) -> EntryAttributes:
        entry = self._mount.attributes.file(pack(Kind.TOPIC_APPEND, 0, number), 0, 0, mode=APPEND_MODE)
        entry.st_blksize = PREFERRED_WRITE_BYTES
        return entry

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry(number)

    def _topic(self, number: int) -> str:
        return self._topics.numbers.at(number // len(_FILES))

    async def open(self, number: int, opening: Opening) -> Opened:
        """Open the file and the logs of all partitions. EROFS, EPERM, or EINVAL if partitions are missing."""
        if not opening.writes:
            return Opened(b"", direct=True)
        self.check_writable(number)
        topic = self._topic(number)
        name = _FILES[number % len(_FILES)]
        path = f"topics/{topic}/{name.decode()}"
        accumulators = await self._opened(topic, path)
        if not opening.is_nonblocking:
            await self._accumulators.context.files.wait_before_open([each.partition for each in accumulators])
        target = AppendTarget(accumulators, self._sticky_of(topic))
        handle = AppendHandle(
            target,
            opening.flags,
            _FRAMING_OF[name](),
            path,
            lambda error: self._lost(error, path),
            self._mount.waiting.poll_space,
        )
        return Opened(handle, direct=True, is_stream=handle.wants_offsets)

    def check_writable(self, number: int) -> None:
        """Raise EROFS, or EPERM for an internal topic."""
        if self._mount.is_read_only:
            raise FUSEError(errno.EROFS)
        if self._topic(number) in INTERNAL_TOPICS:
            raise FUSEError(errno.EPERM)

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
