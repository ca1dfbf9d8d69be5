"""`groups`: the commits of consumer groups and the progress of share groups, as a broker would return them.

    groups/<group>/orders-0     the committed offset and a newline; mtime is the time of the commit (`group_commits`)
    groups/<group>/state        type, state and members of the group as JSON, if its coordinator has written them
    groups/<group>/lag          one line per partition: committed offset, next offset, lag in records and seconds

For a share group `state` contains the progress in each partition, and `lag` the start offset instead of the commit.

The directory exists if the log directory has partitions of `__consumer_offsets` or `__share_group_state`. The first
look-up reads these partitions in a thread; later look-ups read the records that were added. A request waits at most ten
seconds for this and then fails with EAGAIN; the next request continues at the same position.

On a writable mount `groups` can be looked up before these partitions exist; mkdir creates a group without commits. Only
the mount remembers the group: if it gets no commit, it disappears with the mount.

A directory's name is the name of the group; bytes that no file name can contain are percent-encoded (`grammar`).
"""

from __future__ import annotations

import errno
import functools
import os

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.groups.group_commits import CommitFiles
from offsetfs.fs.groups.known_groups import Groups
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import decoded as group_of
from offsetfs.fs.naming.grammar import encoded as file_name
from offsetfs.fs.naming.inodes import pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, Opened, Opening, ShortListing
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.fs.reporting.errors import errno_of
from offsetfs.storage import TopicPartition, coordinators
from offsetfs.storage.errors import StorageError, sentence

STATE_NAME = Kind.GROUP_STATE.file_name
LAG_NAME = Kind.GROUP_LAG.file_name  # no partition has one of these two names: names of partitions end in a number


def is_text(group: bytes) -> bool:
    """Whether the name is UTF-8: Kafka's clients can send no other name."""
    try:
        group.decode()
    except UnicodeDecodeError:
        return False
    return True


class GroupsDirectory:
    """`groups` itself, and the nodes below it: `directories`, `lags` and `commits`."""

    def __init__(self, mount: MountContext, accumulators: Accumulators) -> None:
        self._mount = mount
        self._groups = self.known = Groups(mount)
        self.lags = LagFiles(self._groups)
        self.commits = CommitFiles(self._groups, accumulators)
        self.states = StateFiles(self._groups)
        self.directories = GroupDirectories(self._groups, self.lags, self.states, self.commits)

    def entry(self) -> EntryAttributes | None:
        """Return the attributes for a look-up. None if there are no groups, and the mount is read-only."""
        # Without -o create mkdir needs the look-up, too: otherwise the kernel refuses it, and nothing explains that.
        return None if self._mount.is_read_only and not self._groups.is_there else self._attributes()

    def listed(self) -> EntryAttributes | None:
        """Return the attributes for a listing. None if there are no groups."""
        return self._attributes() if self._groups.is_there or self._groups.made else None

    def _attributes(self) -> EntryAttributes:
        number = pack(Kind.GROUPS)
        return self._mount.attributes.directory(number, writable=self._groups.is_writable)

    async def make(self, name: bytes) -> EntryAttributes:
        """Create a group without commits, as mkdir does. EEXIST, EINVAL, EROFS."""
        group = group_of(name)
        if not self._groups.is_writable:
            raise self._mount.refusals.missing_option("create", "mkdir", f"groups/{os.fsdecode(name)}")
        if group is None or not is_text(group):
            raise FUSEError(errno.EINVAL)
        if await self._groups.commits(group) is not None:
            raise FUSEError(errno.EEXIST)
        self._groups.made.add(group)
        return self.directories.entry(group)

    async def remove(self, name: bytes) -> None:
        """Remove a group that mkdir created and that has no commits. ENOENT, ENOTEMPTY, EPERM, EROFS."""
        group, path = group_of(name), f"groups/{os.fsdecode(name)}"
        if not self._groups.is_writable:
            raise self._mount.refusals.missing_option("create", "rmdir", path)
        commits = None if group is None else await self._groups.commits(group)
        if group is None or commits is None:
            raise FUSEError(errno.ENOENT)
        if commits:
            raise FUSEError(errno.ENOTEMPTY)
        if group not in self._groups.made:  # its coordinator knows the group, for example its members
            remedy = "with -o listen= or `offsetfs serve`, kafka-consumer-groups.sh --delete deletes it"
            raise self._mount.refusals.other_way("rmdir", path, "the group has members or a state", remedy)
        self._groups.made.discard(group)

    async def forget(self, partition: TopicPartition) -> None:
        """Delete all commits of a partition that is about to be deleted. An error is reported only: on a full disk,
        records are deleted to get space.
        """
        if not self._groups.is_there:
            return
        work = functools.partial(coordinators.delete_commits, self._mount.directory, self._groups.engine, [partition])
        try:
            await self._mount.executor.in_thread(work)
        except (StorageError, OSError) as error:
            cause = f"committed offsets were not deleted: {sentence(error)}"
            cure = "they expire later; until then they count for a new partition of this name"
            self._mount.error_log.report(Fault(errno_of(error), "rmdir", str(partition), cause, cure))

    async def attributes(self, number: int) -> EntryAttributes:
        return self._attributes()

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        group = group_of(name)
        if group is None or await self._groups.commits(group) is None:
            return None
        return self.directories.entry(group)

    async def listing(self, number: int) -> Listing:
        entries = []
        for group in await self._groups.names():
            name = file_name(group)
            if name is None:
                self._mount.error_log.report(
                    Fault(
                        None, "readdir", "groups", "the name of a group is too long for a directory", "rename the group"
                    )
                )
            else:
                entries.append((name, self.directories.entry(group)))
        return ShortListing(entries)


def _partition_of(name: bytes) -> TopicPartition | None:
    return TopicPartition.parse_or_none(name.decode("ascii", "replace"))


class GroupDirectories:
    """`groups/<group>`. `number`: the number of the group."""

    def __init__(self, groups: Groups, lags: LagFiles, states: StateFiles, commits: CommitFiles) -> None:
        self._groups = groups
        self._lags = lags
        self._states = states
        self._commits = commits

    def entry(self, group: bytes) -> EntryAttributes:
        number = pack(Kind.GROUP, 0, self._groups.groups.of(group))
        return self._groups.mount.attributes.directory(number, writable=self._groups.is_writable)

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry(self._groups.groups.at(number))

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        if name == LAG_NAME:
            return await self._lags.attributes(number)
        if name == STATE_NAME:
            return await self._states.entry(number)
        partition = _partition_of(name)
        return None if partition is None else await self._commits.lookup(self._groups.groups.at(number), partition)

    async def create(self, number: int, name: bytes, opening: Opening) -> tuple[EntryAttributes, Opened]:
        """Open the file of a partition without a commit. EINVAL if the name is not that of a partition."""
        partition = _partition_of(name)
        if partition is None:
            raise FUSEError(errno.EINVAL if self._groups.is_writable else errno.EROFS)
        return await self._commits.create(self._groups.groups.at(number), partition, opening)

    async def remove(self, number: int, name: bytes) -> None:
        """Delete a commit, with the durability of `CommitFiles.write`. ENOENT, EPERM, EROFS."""
        partition = _partition_of(name)
        path = f"groups/{os.fsdecode(self._groups.groups.at(number))}/{os.fsdecode(name)}"
        if not self._groups.is_writable:
            raise self._groups.mount.refusals.missing_option("create", "unlink", path)
        if partition is None:
            remedy = "rm removes the commit of a partition, rmdir a group without commits"
            raise self._groups.mount.refusals.other_way("unlink", path, "it follows from the group", remedy)
        await self._commits.remove(self._groups.groups.at(number), partition)

    async def listing(self, number: int) -> Listing:
        group = self._groups.groups.at(number)
        commits = await self._groups.commits(group)
        if commits is None:
            raise FUSEError(errno.ESTALE)
        entries = [(str(commit.partition).encode(), self._commits.entry(group, commit)) for commit in commits]
        state = await self._states.entry(number)
        described = [] if state is None else [(STATE_NAME, state)]
        return ShortListing([(LAG_NAME, await self._lags.attributes(number)), *described, *entries])


class LagFiles:
    """`groups/<group>/lag`. `number`: the number of the group."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    async def attributes(self, number: int) -> EntryAttributes:
        size = await self._groups.lag_size(self._groups.groups.at(number))
        return self._groups.mount.attributes.file(pack(Kind.GROUP_LAG, 0, number), size, 0)

    async def open(self, number: int, opening: Opening) -> Opened:
        return Opened(await self._groups.lag(self._groups.groups.at(number)), direct=True)


class StateFiles:
    """`groups/<group>/state`. `number`: the number of the group."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    async def entry(self, number: int) -> EntryAttributes | None:
        """Return the attributes. None if only commits of the group are known."""
        content = await self._groups.state(self._groups.groups.at(number))
        if content is None:
            return None
        return self._groups.mount.attributes.file(pack(Kind.GROUP_STATE, 0, number), len(content), 0)

    async def attributes(self, number: int) -> EntryAttributes:
        entry = await self.entry(number)
        if entry is None:
            raise FUSEError(errno.ESTALE)
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        return Opened(await self._groups.state(self._groups.groups.at(number)) or b"", direct=True)
