"""`topics/<topic>/follow[@A][.ndjson]`: new records of all partitions of a topic in one stream.

Each partition has a follower, and one handle returns their records in turn: in order within a partition, in no order
between partitions. It never splits a record with records of another partition. A is a time, or -N for the newest N
records of each partition; an offset is EINVAL, because it belongs to one partition.

Records of a new partition are included from its log start on, at most a fifth of a second after it was created.
A deleted partition is dropped; without any partition, reads fail with ESTALE. EPIPE means, as for a partition, that
retention removed records before they were read.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from offsetfs.fs.attributes import PREFERRED_READ_BYTES
from offsetfs.fs.files.follow import (
    Follower,
    FollowFiles,
    FollowHandle,
    Start,
    explain_silence,
    find_start,
    name_of_stream,
    release_all,
)
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import parse_offset
from offsetfs.fs.naming.inodes import LookupNumbers, pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.partitions import MountedPartition, Partitions
from offsetfs.storage.errors import StorageError

FollowOf = Callable[[MountedPartition], Awaitable[FollowFiles]]
"""Returns the streams of a partition, opening it."""

LOG_START = b"0"
"""The position at which a new partition begins."""


@dataclass(frozen=True, slots=True)
class TopicStart:
    """A stream of a topic."""

    topic: str
    start: Start


class TopicPartitions:
    """The partitions of a topic, for readers that wait for new partitions."""

    def __init__(self, mount: MountContext, partitions: Partitions, topic: str) -> None:
        self.name = topic
        self.state: tuple[int, ...] = ()
        """The numbers of the partitions, as of the last `refresh`."""
        self._directory = mount.directory
        self._partitions = partitions

    def refresh(self) -> None:
        """List the partitions. If the log directory cannot be listed, the last list stays."""
        with contextlib.suppress(OSError):
            self.state = tuple(partition.number for partition in self.listed())

    def listed(self) -> list[MountedPartition]:
        """Return the partitions, sorted."""
        return [self._partitions.of(name) for name in self._directory.partitions_of(self.name)]


class TopicFollow:
    """The streams of all topics. `number`: from `names`."""

    def __init__(
        self,
        mount: MountContext,
        partitions: Partitions,
        follow_of: FollowOf,
        *,
        kind: Kind = Kind.TOPIC_FOLLOW,
        folder: str = "",
    ) -> None:
        """`folder`: in that of the topic."""
        self.names: LookupNumbers[TopicStart] = LookupNumbers()
        self._kind = kind
        self._folder = folder
        self._mount = mount
        self._partitions = partitions
        self._follow_of = follow_of
        self._topics: dict[str, TopicPartitions] = {}

    def lookup(self, topic: str, name: bytes) -> EntryAttributes | None:
        """Return the entry of a stream, None when the name is of something else."""
        start = find_start(name)
        if start is None:
            return None
        if parse_offset(start.text) is not None:
            offset = start.text.decode()
            raise OSError(
                errno.EINVAL,
                f"offset {offset} belongs to one partition; write {topic}-0/{self._folder}follow@{offset}, or for the "
                f"topic a time or the newest N of each partition, such as follow@-15m or follow@-10",
            )
        return self._attributes(self.names.look_up(TopicStart(topic, start)))

    async def attributes(self, number: int) -> EntryAttributes:
        self.names.at(number)
        return self._attributes(number)

    def _attributes(self, number: int) -> EntryAttributes:
        entry = self._mount.attributes.file(pack(self._kind, 0, number), 0, 0)
        entry.st_blksize = PREFERRED_READ_BYTES
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        """Open the stream, with the logs of all partitions; ESTALE where the topic has none."""
        wanted = self.names.at(number)
        explain_silence(self._mount, opening, f"topics/{wanted.topic}/{self._folder}{name_of_stream(wanted.start)}")
        topic = self._topics.setdefault(wanted.topic, TopicPartitions(self._mount, self._partitions, wanted.topic))
        followers: list[Follower] = []
        try:
            for partition in topic.listed():
                files = await self._follow_of(partition)
                followers.append(await files.follower(wanted.start))
        except BaseException:
            release_all(followers)
            raise
        if not followers:
            raise FUSEError(errno.ESTALE)
        joining = JoiningPartitions(self._mount, topic, self._follow_of, is_json=wanted.start.is_json)
        return Opened(FollowHandle(self._mount, followers, opening, joining), direct=True)


class JoiningPartitions:
    """The partitions that a topic gets while a stream of it is open."""

    def __init__(self, mount: MountContext, watched: TopicPartitions, follow_of: FollowOf, *, is_json: bool) -> None:
        self.watched = watched
        self._mount = mount
        self._follow_of = follow_of
        self._start = Start(LOG_START, is_json)

    async def joined(self, followers: list[Follower]) -> list[Follower]:
        """Return followers of the partitions that none of `followers` reads, from their log start on.

        One that does not open is reported and left out, until the partitions of the topic change again.
        """
        known, joined = {follower.partition for follower in followers}, []
        for partition in self.watched.listed():
            if partition not in known:
                try:
                    joined.append(await (await self._follow_of(partition)).follower(self._start))
                except (OSError, StorageError) as error:
                    self._mount.error_log.add(error, "read", f"{partition.name}/follow")
                except FUSEError:
                    pass  # gone again
        return joined
