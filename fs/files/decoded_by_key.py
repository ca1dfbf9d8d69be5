"""`decoded/by-key/<key>`, of a partition or a topic: the latest record with that key, with its value decoded.

    cat orders-0/decoded/by-key/customer-17         the value, as `decoded/<offset>` shows it
    cat orders-0/decoded/by-key/17.json             the record, as `decoded/<offset>.json` shows it
    cat 'orders-0/decoded/by-key/{"id":17}'         a key that is a record

A name is that of `by-key`, of the key as decoded lines have it: text as it is, anything else as its JSON. The key is
found by its bytes: the text is encoded by each version of the schema for keys, and of what is found the latest record
counts. A key that is not decoded, or is too long for a name, has the name that it has in `by-key`. A name without a
key, and `.json`, mean what they mean there. The file is that of the offset: the same inode.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from offsetfs.fs.caches import RecordContent
from offsetfs.fs.files.by_key import JSON_SUFFIX, KeyDirectory, TopicKeys, unlisted
from offsetfs.fs.files.decoded import DecodedRecords, MountSchemas
from offsetfs.fs.fuse_types import EntryAttributes
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import decoded_key
from offsetfs.fs.naming.inodes import pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage import TopicPartition
from offsetfs.storage.views import KeyDigest

Found = tuple[KeyDirectory, RecordContent]
"""A record, and `by-key` of its partition."""

Find = Callable[[bytes | KeyDigest], Awaitable[Found | None]]
"""Returns the latest record of the bytes of a key."""


class _Names:
    """The records that names in `decoded/by-key` mean."""

    def __init__(self, mount: MountContext, schemas: MountSchemas) -> None:
        self._mount, self._schemas = mount, schemas

    async def record(
        self, topic: str, name: bytes, find: Find, age: Callable[[Found], Any]
    ) -> tuple[bytes, Found] | None:
        """Return what follows the key in the name, and the latest record; None without one. `age`: orders records."""
        for suffix in (b"", JSON_SUFFIX):
            if not name.endswith(suffix):
                break
            found = await self._latest(topic, name.removesuffix(suffix), find, age)
            if found is not None:
                value = found[1].record.value
                return None if value is None else (suffix, found)
        return None

    async def _latest(self, topic: str, name: bytes, find: Find, age: Callable[[Found], Any]) -> Found | None:
        key = decoded_key(name)
        if key is None:
            return None
        keys, error = list[bytes](), None
        if isinstance(key, bytes):
            text = key
            try:
                keys = await self._mount.executor.in_thread(lambda: self._schemas.keys(topic, text))
            except OSError as failure:
                error = failure
        found = [each for each in [await find(each) for each in keys] if each is not None]
        if found:
            return max(found, key=age)
        raw = await find(key)
        if raw is None and error is not None:
            raise error  # it is unknown whether there is such a key
        return raw


class DecodedKeys:
    """`decoded/by-key` of one partition."""

    def __init__(
        self,
        mount: MountContext,
        partition: MountedPartition,
        keys: KeyDirectory,
        records: Mapping[bytes, DecodedRecords],
        schemas: MountSchemas,
    ) -> None:
        """`records`: by what follows the offset in their names."""
        self._mount = mount
        self._partition = partition
        self._keys = keys
        self._records = records
        self._names = _Names(mount, schemas)

    async def attributes(self, number: int) -> EntryAttributes:
        return self._mount.attributes.directory(self._partition.inode(Kind.DECODED_BY_KEY))

    async def listing(self, number: int) -> Listing:
        return unlisted(self._mount, f"{self._partition.name}/decoded/by-key")

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        found = await self._names.record(
            self._partition.name.topic, name, self._find, lambda each: each[1].record.offset
        )
        return None if found is None else await self.entry(found[0], found[1][1].record.offset)

    async def entry(self, suffix: bytes, offset: int) -> EntryAttributes | None:
        """Return the entry of a record."""
        return await self._records[suffix].lookup(offset)

    async def _find(self, key: bytes | KeyDigest) -> Found | None:
        content = await self._keys.find(key)
        return None if content is None else (self._keys, content)


DecodedKeysOf = Callable[[TopicPartition], Awaitable[DecodedKeys]]
"""Returns `decoded/by-key` of a partition, opening it."""


class TopicDecodedKeys:
    """`topics/<topic>/decoded/by-key`. `number`: that of the topic.

    The bytes of a key are searched as in `topics/<topic>/by-key`; of several, the latest timestamp counts.
    """

    def __init__(
        self,
        mount: MountContext,
        topic_at: Callable[[int], str],
        keys: TopicKeys,
        keys_of: DecodedKeysOf,
        schemas: MountSchemas,
    ) -> None:
        """`topic_at` returns the name of the topic with a number. `keys`: `by-key` of the topics."""
        self._mount = mount
        self._topic_at = topic_at
        self._keys = keys
        self._keys_of = keys_of
        self._names = _Names(mount, schemas)

    async def attributes(self, number: int) -> EntryAttributes:
        return self._mount.attributes.directory(pack(Kind.TOPIC_DECODED_KEYS, 0, number))

    async def listing(self, number: int) -> Listing:
        return unlisted(self._mount, f"topics/{self._topic_at(number)}/decoded/by-key")

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        async def find(key: bytes | KeyDigest) -> Found | None:
            return await self._keys.find(number, key)

        found = await self._names.record(self._topic_at(number), name, find, lambda each: each[1].record.timestamp)
        if found is None:
            return None
        suffix, (keys, content) = found
        return await (await self._keys_of(keys.name)).entry(suffix, content.record.offset)
