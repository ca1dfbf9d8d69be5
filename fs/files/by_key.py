"""`by-key/<key>`, of a partition or a topic: the value of the latest record with that key.

    cat orders-0/by-key/customer-17       the value, as `<offset>` shows it, with the same time and xattrs
    cat orders-0/by-key/a%2Fb             the key a/b; see `naming.grammar`
    cat orders-0/by-key/%sha256-…         the key with this SHA-256; only keys longer than 80 bytes have these names

    cat orders-0/by-key/customer-17.json  the record as a line of JSON, as `<offset>.json` shows it

A key that itself ends in `.json` comes first: its value has the name `a.json`, its line of JSON `a.json.json`. Found by
name only, because there may be any number of keys. ENOENT for a key without records, and if the latest is a tombstone.
The kernel looks the name up at each use, so a new value is visible at once. An inode is one record under one name, and
never changes; a reader that has it open reads the old record on.

An index maps keys to offsets (storage.views.key_index). Threads build it when it is first needed. A look-up waits up to
ten seconds for it and then fails with EAGAIN, while the build continues. The record is read like any other and its key
is compared: if the index is inconsistent with the log, it is rebuilt.
"""

from __future__ import annotations

import errno
import functools
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from offsetfs.fs.attributes import FOREVER_S, NEVER_S
from offsetfs.fs.caches import RecordContent
from offsetfs.fs.files.line_index_building import LineIndexBuilding
from offsetfs.fs.files.record_parts import RecordParts
from offsetfs.fs.files.records import RecordFiles
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import decoded_key
from offsetfs.fs.naming.inodes import LookupNumbers, pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, Opened, Opening, ShortListing
from offsetfs.fs.partitions import MountedPartition
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage import TopicPartition, views
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.records import partition_of
from offsetfs.storage.views import KeyDigest

if TYPE_CHECKING:
    from offsetfs.storage.views import KeyIndex, KeyLocation

_log = logging.getLogger(__name__)

JSON_SUFFIX = b".json"
ATTEMPTS_MAX = 5
"""The number of attempts of a search, repeated if compaction, truncation or another look-up removed the result."""

LOG_INTERVAL_S = 2.0


class Keyed(NamedTuple):
    """A record under the name of its key."""

    key: bytes
    offset: int


def unlisted(mount: MountContext, path: str) -> Listing:
    """Return the empty listing of `by-key`, and report how a key is looked up."""
    remedy = f"`cat {path}/KEY` prints the latest value of a key, KEY.json its record; a/b is called a%2Fb"
    mount.error_log.report(Fault(None, "readdir", path, "keys are not listed", remedy))
    return ShortListing([])


class KeyDirectory:
    """The directory `by-key` of one partition."""

    def __init__(
        self, mount: MountContext, partition: MountedPartition, records: RecordFiles, lines: RecordParts
    ) -> None:
        """`lines`: the records as lines of JSON."""
        self._mount = mount
        self._partition = partition
        self._records = records
        self._lines = lines
        self._index: LoggedKeyIndex | None = None
        name = f"{partition.name}/by-key"
        advice = ", or look through last/, range/ or follow, which need no index"
        self._building = LineIndexBuilding(mount, name, lambda: partition.log.size_bytes, advice)
        self.files = KeyedFiles(mount, partition, records)

    @property
    def name(self) -> TopicPartition:
        """The partition."""
        return self._partition.name

    def entry(self) -> EntryAttributes:
        return self._mount.attributes.directory(self._partition.inode(Kind.BY_KEY))

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry()

    async def listing(self, number: int) -> Listing:
        return unlisted(self._mount, f"{self._partition.name}/by-key")

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        key = decoded_key(name)
        content = None if key is None else await self.find(key)
        if key is not None and content is not None and content.record.value is not None:
            return self.files.entry(Keyed(content.record.key or b"", content.record.offset), content)
        if content is not None or not name.endswith(JSON_SUFFIX):
            return None
        key = decoded_key(name.removesuffix(JSON_SUFFIX))
        content = None if key is None else await self.find(key)
        if content is None or content.record.value is None:
            return None
        entry = await self._lines.lookup(content.record.offset)
        if entry is not None:
            entry.entry_timeout = NEVER_S  # the next look-up of the name may find a newer record
        return entry

    async def find(self, key: bytes | KeyDigest) -> RecordContent | None:
        """Return the latest record of a key; None if no record has the key."""
        missed: KeyLocation | None = None
        for _ in range(ATTEMPTS_MAX):
            index = await self._complete()
            try:
                location = await self._mount.executor.in_thread(functools.partial(index.find, key))
            except WouldBlock:
                continue  # another look-up closed the index
            if location is None or location == missed:
                return None
            content = await self._record(location)
            if content is not None and _is_key(content.record.key, key):
                return content
            if content is None and not location.is_transactional:
                missed = location  # compaction removed it: a tombstone, unless a newer record was appended
            else:
                await self._mount.executor.in_thread(index.rebuild)
        raise OSError(errno.EIO, "the index of keys and the log do not agree", self._partition.path)

    async def _complete(self) -> KeyIndex:
        """Return the complete index. EAGAIN if building it takes longer than ten seconds."""
        if self._index is None:
            stem = await self._mount.executor.in_thread(self._stem)
            if self._index is None:
                index = views.KeyIndex(self._partition.view, stem, self._mount.damage.report)
                self._mount.directory.directory_of(self._partition.name).closing.append(index.close)
                self._index = LoggedKeyIndex(index, f"{self._partition.name}/by-key", self._partition)
        for idle in self._mount.caches.key_indexes.use(self._index.index):
            await self._mount.executor.in_thread(idle.close)
        await self._building.complete(self._index)
        return self._index.index

    def _stem(self) -> str | None:
        """Return its path: beside the log, or in the user cache if the log directory is read-only. None: nowhere."""
        view, cache = self._partition.view, self._mount.options.cache_directory
        if not self._mount.directory.read_only:
            return views.stem_beside(view)
        if cache is None:
            return None
        try:
            return views.stem_in_cache(cache, view)
        except OSError:
            return None

    async def _record(self, location: KeyLocation) -> RecordContent | None:
        try:
            return await self._records.find(location.offset)
        except FUSEError as error:
            if error.errno != errno.ENOENT:
                raise
            return None


def _is_key(key: bytes | None, wanted: bytes | KeyDigest) -> bool:
    """Whether the key of a record is the key or digest of a name."""
    return key is not None and wanted.is_of(key) if isinstance(wanted, KeyDigest) else key == wanted


class KeyedFiles:
    """The records that were looked up by key. `number`: from `LookupNumbers`."""

    def __init__(self, mount: MountContext, partition: MountedPartition, records: RecordFiles) -> None:
        self._mount = mount
        self._partition = partition
        self._records = records
        self.lookups: LookupNumbers[Keyed] = LookupNumbers()

    def entry(self, keyed: Keyed, content: RecordContent) -> EntryAttributes:
        """Return the entry of a record, and count the look-up as the kernel does."""
        return self._attributes(self.lookups.look_up(keyed), content)

    async def attributes(self, number: int) -> EntryAttributes:
        return self._attributes(number, await self._records.content(self._record(number)))

    async def open(self, number: int, opening: Opening) -> Opened:
        return Opened(await self._records.hold(self._record(number)))

    async def xattr(self, number: int, name: bytes) -> bytes:
        return await self._records.xattr(self._record(number), name)

    async def xattrs(self, number: int) -> list[bytes]:
        return await self._records.xattrs(self._record(number))

    def _record(self, number: int) -> int:
        """Return the number of the record in `RecordFiles`."""
        return self.lookups.at(number).offset - self._partition.anchor

    def _attributes(self, number: int, content: RecordContent) -> EntryAttributes:
        inode = self._partition.inode(Kind.KEYED, number)
        return self._mount.attributes.file(
            inode, len(content.value), content.mtime_ns, attr_timeout_s=FOREVER_S, entry_timeout_s=NEVER_S
        )


class LoggedKeyIndex:
    """A key index whose build is logged when it takes longer than `LOG_INTERVAL_S`."""

    def __init__(self, index: KeyIndex, name: str, partition: MountedPartition) -> None:
        self.index = index
        self._name = name
        self._partition = partition
        self._begun_s: float | None = None
        self._logged_s = 0.0

    @property
    def scanned_bytes(self) -> int:
        return self.index.scanned_bytes

    def refresh(self, *, nowait: bool = False, bytes_max: int | None = None) -> bool:
        is_complete = self.index.refresh(nowait=nowait, bytes_max=bytes_max)
        self.log_progress(time.monotonic(), is_complete)
        return is_complete

    def log_progress(self, now_s: float, is_complete: bool) -> None:
        """Log the progress of the build every two seconds, and its end."""
        if is_complete and self._begun_s is not None and self._logged_s > self._begun_s:
            _log.info("%s: the index is complete after %.0f s", self._name, now_s - self._begun_s)
        if is_complete:
            self._begun_s = None
        elif self._begun_s is None:
            self._begun_s = self._logged_s = now_s
        elif now_s - self._logged_s >= LOG_INTERVAL_S:
            self._logged_s = now_s
            total = self._partition.log.size_bytes
            _log.info("%s: the index is being made, %d of %d bytes are read", self._name, self.scanned_bytes, total)


KeysOf = Callable[[TopicPartition], Awaitable[KeyDirectory]]
"""Returns `by-key` of a partition, opening it."""


class TopicKeys:
    """`topics/<topic>/by-key`: the latest record of a key in any partition of the topic. `number`: that of the topic.

    The partition that Kafka's partitioner selects for the key is searched first, and its result counts, also a
    tombstone. Only if that partition has no record of the key, the others are searched, because clients may use another
    partitioner (librdkafka's default hashes with CRC-32). Then the record with the latest timestamp counts; of equal
    ones, that in the lowest partition. Each partition that is searched builds its key index at the first use.

    The result is the file in the partition: the same inode as `orders-3/by-key/<key>`.
    """

    def __init__(self, mount: MountContext, partitions: Callable[[int], list[TopicPartition]], keys_of: KeysOf) -> None:
        """`partitions` returns the partitions of the topic with a number, in order."""
        self._mount = mount
        self._partitions = partitions
        self._keys_of = keys_of

    async def attributes(self, number: int) -> EntryAttributes:
        return self._mount.attributes.directory(pack(Kind.TOPIC_KEYS, 0, number))

    async def listing(self, number: int) -> Listing:
        partitions = self._partitions(number)
        return unlisted(self._mount, f"topics/{partitions[0].topic}/by-key") if partitions else ShortListing([])

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        found = await self.find(number, decoded_key(name))
        if found is None and name.endswith(JSON_SUFFIX):
            found = await self.find(number, decoded_key(name.removesuffix(JSON_SUFFIX)))
        return None if found is None else await found[0].lookup(0, name)

    async def find(self, number: int, key: bytes | KeyDigest | None) -> tuple[KeyDirectory, RecordContent] | None:
        """Return the latest record of a key and its partition, None when no partition has one."""
        if isinstance(key, KeyDigest):
            key = await self._key_of(number, key)
        partitions = self._partitions(number)
        if key is None or not partitions:
            return None
        likely = partition_of(key, len(partitions))
        if partitions[likely].partition == likely:  # else some are missing, and the hash leads nowhere
            directory = await self._keys_of(partitions[likely])
            content = await directory.find(key)
            if content is not None:
                return directory, content
        latest: tuple[KeyDirectory, RecordContent] | None = None
        for partition in partitions:
            directory = await self._keys_of(partition)
            content = await directory.find(key)
            if content is not None and (latest is None or content.record.timestamp > latest[1].record.timestamp):
                latest = directory, content
        return latest

    async def _key_of(self, number: int, digest: KeyDigest) -> bytes | None:
        """Return the key with this digest, None when no record of the topic has it."""
        for partition in self._partitions(number):
            content = await (await self._keys_of(partition)).find(digest)
            if content is not None:
                return content.record.key
        return None
