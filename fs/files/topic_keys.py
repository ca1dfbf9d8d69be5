"""`topics/<topic>/by-key/<key>[.json]`: the latest record of a key in any partition of the topic.

The partition that Kafka's partitioner selects for the key is searched first, and its result counts, also a tombstone.
Only if that partition has no record of the key, the others are searched, because clients may use another partitioner
(librdkafka's default hashes with CRC-32). Then the record with the latest timestamp counts; of equal ones, that in
the lowest partition. Each partition that is searched builds its key index at the first use.

The result is the file in the partition: the same inode as `orders-3/by-key/<key>`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pyfuse3 import EntryAttributes

from offsetfs.fs.files.by_key import JSON_SUFFIX, KeyDirectory
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.encoded_names import decoded_key
from offsetfs.fs.naming.inodes import pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, ShortListing
from offsetfs.storage import TopicPartition
from offsetfs.storage.records import partition_of
from offsetfs.storage.views import KeyDigest

KeysOf = Callable[[TopicPartition], Awaitable[KeyDirectory]]
"""Returns `by-key` of a partition, opening it."""


class TopicKeys:
    """`topics/<topic>/by-key`. `number`: that of the topic."""

    def __init__(self, mount: MountContext, partitions: Callable[[int], list[TopicPartition]], keys_of: KeysOf) -> None:
        """`partitions` returns the partitions of the topic with a number, in order."""
        self._mount = mount
        self._partitions = partitions
        self._keys_of = keys_of

    def entry(self, number: int) -> EntryAttributes:
        return self._mount.attributes.directory(pack(Kind.TOPIC_KEYS, 0, number))

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry(number)

    async def listing(self, number: int) -> Listing:
        return ShortListing([])

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        holder = await self._holder(number, decoded_key(name))
        if holder is None and name.endswith(JSON_SUFFIX):
            holder = await self._holder(number, decoded_key(name.removesuffix(JSON_SUFFIX)))
        return None if holder is None else await holder.lookup(0, name)

    async def _holder(self, number: int, key: bytes | KeyDigest | None) -> KeyDirectory | None:
        """Return the partition that has the latest record of a key, None when no partition has one."""
        if isinstance(key, KeyDigest):
            key = await self._key_of(number, key)
        partitions = self._partitions(number)
        if key is None or not partitions:
            return None
        likely = partition_of(key, len(partitions))
        if partitions[likely].partition == likely:  # else some are missing, and the hash leads nowhere
            directory = await self._keys_of(partitions[likely])
            if await directory.find(key) is not None:
                return directory
        latest: tuple[int, KeyDirectory] | None = None
        for partition in partitions:
            directory = await self._keys_of(partition)
            found = await directory.find(key)
            if found is not None and (latest is None or found.record.timestamp > latest[0]):
                latest = found.record.timestamp, directory
        return None if latest is None else latest[1]

    async def _key_of(self, number: int, digest: KeyDigest) -> bytes | None:
        """Return the key with this digest, None when no record of the topic has it."""
        for partition in self._partitions(number):
            found = await (await self._keys_of(partition)).find(digest)
            if found is not None:
                return found.record.key
        return None
