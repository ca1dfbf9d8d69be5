"""`by-key/<key>`: the value of the latest record with that key.

    cat orders-0/by-key/customer-17       the value, as `<offset>` shows it, with the same time and xattrs
    cat orders-0/by-key/a%2Fb             the key a/b; see `encoded_names`
    cat orders-0/by-key/%sha256-…         the key with this SHA-256; only keys longer than 80 bytes have such a name

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
from typing import TYPE_CHECKING, NamedTuple

from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.attributes import FOREVER_S, NEVER_S
from offsetfs.fs.caches.mount_caches import RecordContent
from offsetfs.fs.files.line_index_building import LineIndexBuilding
from offsetfs.fs.files.record_parts import RecordParts
from offsetfs.fs.files.records import RecordFiles
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.encoded_names import decoded_key
from offsetfs.fs.naming.lookup_numbers import LookupNumbers
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, Opened, Opening, ShortListing
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage import views
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.views import KeyDigest

if TYPE_CHECKING:  # a mount without look-ups by key does without SQLite
    from offsetfs.storage.views import KeyIndex, KeyLocation

_log = logging.getLogger(__name__)

JSON_SUFFIX = b".json"
ATTEMPTS_MAX = 5
"""How often a search is repeated if compaction, truncation or another look-up removed the result."""

LOG_INTERVAL_S = 2.0


class Keyed(NamedTuple):
    """A record under the name of its key."""

    key: bytes
    offset: int


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

    def entry(self) -> EntryAttributes:
        return self._mount.attributes.directory(self._partition.inode(Kind.BY_KEY))

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry()

    async def listing(self, number: int) -> Listing:
        return ShortListing([])

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        key = decoded_key(name)
        found = None if key is None else await self.find(key)
        if key is not None and found is not None and found.record.value is not None:
            return self.files.entry(Keyed(found.record.key or b"", found.record.offset), found)
        if found is not None or not name.endswith(JSON_SUFFIX):
            return None
        key = decoded_key(name.removesuffix(JSON_SUFFIX))
        found = None if key is None else await self.find(key)
        if found is None or found.record.value is None:
            return None
        entry = await self._lines.lookup(found.record.offset)
        if entry is not None:
            entry.entry_timeout = NEVER_S  # the next look-up of the name may find a newer record
        return entry

    async def find(self, key: bytes | KeyDigest) -> RecordContent | None:
        """Return the latest record of a key. None if there is none."""
        missed: KeyLocation | None = None
        for _ in range(ATTEMPTS_MAX):
            index = await self._complete()
            try:
                found = await self._mount.executor.in_thread(functools.partial(index.find, key))
            except WouldBlock:
                continue  # another look-up closed the index
            if found is None or found == missed:
                return None
            content = await self._record(found)
            if content is not None and _is_key(content.record.key, key):
                return content
            if content is None and not found.is_transactional:
                missed = found  # compaction removed it: a tombstone, unless a newer record was appended
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

    async def _record(self, found: KeyLocation) -> RecordContent | None:
        try:
            return await self._records.find(found.offset)
        except FUSEError as error:
            if error.errno != errno.ENOENT:
                raise
            return None


def _is_key(key: bytes | None, wanted: bytes | KeyDigest) -> bool:
    """Whether the key of a record is the key or digest of a name."""
    return key is not None and wanted.is_of(key) if isinstance(wanted, KeyDigest) else key == wanted


class KeyedFiles:
    """The records that were looked up by key. `number`: from `lookup_numbers`."""

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
