"""`groups`: what consumer groups have committed, as a broker would answer them.

    groups/<group>/orders-0     the committed offset and a newline; its mtime is when that was committed
    groups/<group>/lag          a line for each partition: committed offset, log end, and how far apart they are

There when the log directory has partitions of `__consumer_offsets`. They are read when the first of these names is
asked for, in a thread, and then as they grow; who asks meanwhile waits ten seconds and then gets EAGAIN, and the next
one goes on from there. Nothing here is written.

A group's name is its bytes, with percent signs for those that no file name may hold (`encoded_names`).
"""

from __future__ import annotations

import errno
import functools

import trio
from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.attributes import milliseconds_ns
from offsetfs.fs.encoded_names import decoded as group_of
from offsetfs.fs.encoded_names import encoded as file_name
from offsetfs.fs.inodes import Fixed, Kind, pack
from offsetfs.fs.nodes import Listing, Opened, Opening, ShortListing
from offsetfs.fs.notes import Fault, Notes
from offsetfs.fs.places import Places
from offsetfs.fs.shared import Shared
from offsetfs.storage.coordinators.consumer_groups import STEP_BYTES, Commit, ConsumerGroups, Lag
from offsetfs.storage.errors import InvalidName
from offsetfs.storage.names import TopicPartition

GROUPS_NAME = b"groups"
LAG_NAME = b"lag"  # no partition has this name: it does not end in a number
WAIT_S = 10.0

_PARTITION_BITS = 20


class _Groups:
    """The groups of a mount, up to date whenever they are asked for, and the numbers they have in inodes."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.engine = ConsumerGroups(shared.directory, functools.partial(_passed_over, shared.notes))
        self.groups: Places[bytes] = Places()
        self.partitions: Places[TopicPartition] = Places()

    async def refresh(self) -> None:
        """Return when all that was committed is known; EAGAIN when that takes longer than ten seconds."""
        deadline = trio.current_time() + WAIT_S
        while not await self.shared.answer(_step, self.engine):
            if trio.current_time() > deadline:
                self.shared.notes.tell(
                    Fault(errno.EAGAIN, "lookup", "groups", "commits are still being read", "ask again")
                )
                raise FUSEError(errno.EAGAIN)

    async def names(self) -> list[bytes]:
        await self.refresh()
        return await self.shared.answer(self.engine.names)

    async def commits(self, group: bytes) -> list[Commit] | None:
        await self.refresh()
        return await self.shared.answer(self.engine.commits, group)

    async def lag(self, group: bytes) -> bytes:
        await self.refresh()
        return _table(await self.shared.answer(self.engine.lag, group))


def _passed_over(notes: Notes, sentence: str) -> None:
    notes.tell(Fault(None, "read", "groups", sentence, "none needed, everything else is shown"))


def _step(engine: ConsumerGroups, *, nowait: bool) -> bool:
    return engine.refresh(nowait=nowait, bytes_max=STEP_BYTES)


def _table(lags: list[Lag]) -> bytes:
    """Return the lines of `lag`, in columns; what is not known is a minus."""
    rows: list[tuple[str, ...]] = [("PARTITION", "COMMITTED", "END", "LAG")]
    for partition, committed, end in lags:
        behind = None if end is None else end - committed
        rows.append((str(partition), *("-" if number is None else str(number) for number in (committed, end, behind))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    return "".join(line + "\n" for line in lines).encode()


class GroupsDirectory:
    """`groups` itself, and the nodes below it: `directories`, `lags` and `commits`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._groups = _Groups(shared)
        self.lags = LagFiles(self._groups)
        self.commits = CommitFiles(self._groups)
        self.directories = GroupDirectories(self._groups, self.lags, self.commits)

    def entry(self) -> EntryAttributes | None:
        """Return the attributes, None when the log directory knows of no groups."""
        return self._attributes() if self._groups.engine.is_there else None

    def _attributes(self) -> EntryAttributes:
        return self._shared.attributes.directory(pack(Kind.FIXED, 0, Fixed.GROUPS))

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
                self._shared.notes.tell(
                    Fault(
                        None, "readdir", "groups", "the name of a group is too long for a directory", "rename the group"
                    )
                )
            else:
                entries.append((name, self.directories.entry(group)))
        return ShortListing(entries)


class GroupDirectories:
    """`groups/<group>`. `number`: the place of the group."""

    def __init__(self, groups: _Groups, lags: LagFiles, commits: CommitFiles) -> None:
        self._groups = groups
        self._lags = lags
        self._commits = commits

    def entry(self, group: bytes) -> EntryAttributes:
        return self._groups.shared.attributes.directory(pack(Kind.GROUP, 0, self._groups.groups.of(group)))

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry(self._groups.groups.at(number))

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        if name == LAG_NAME:
            return await self._lags.attributes(number)
        try:
            partition = TopicPartition.parse(name.decode("ascii", "replace"))
        except InvalidName:
            return None
        group = self._groups.groups.at(number)
        commits = await self._groups.commits(group) or []
        return next((self._commits.entry(group, each) for each in commits if each.partition == partition), None)

    async def listing(self, number: int) -> Listing:
        group = self._groups.groups.at(number)
        commits = await self._groups.commits(group)
        if commits is None:
            raise FUSEError(errno.ESTALE)
        entries = [(str(each.partition).encode(), self._commits.entry(group, each)) for each in commits]
        return ShortListing([(LAG_NAME, await self._lags.attributes(number)), *entries])


class LagFiles:
    """`groups/<group>/lag`. `number`: the place of the group."""

    def __init__(self, groups: _Groups) -> None:
        self._groups = groups

    async def attributes(self, number: int) -> EntryAttributes:
        content = await self._groups.lag(self._groups.groups.at(number))
        return self._groups.shared.attributes.file(pack(Kind.GROUP_LAG, 0, number), len(content), 0)

    async def open(self, number: int, opening: Opening) -> Opened:
        return Opened(await self._groups.lag(self._groups.groups.at(number)), direct=True)


class CommitFiles:
    """`groups/<group>/<partition>`. `number`: the place of the group, and that of the partition below it."""

    def __init__(self, groups: _Groups) -> None:
        self._groups = groups

    def entry(self, group: bytes, commit: Commit) -> EntryAttributes:
        place = self._groups.partitions.of(commit.partition)
        if place >> _PARTITION_BITS:
            raise OverflowError("commits of more than a million partitions")
        number = self._groups.groups.of(group) << _PARTITION_BITS | place
        inode = pack(Kind.GROUP_COMMIT, 0, number)
        mtime_ns = milliseconds_ns(max(commit.timestamp, 0))
        return self._groups.shared.attributes.file(inode, len(_content(commit)), mtime_ns)

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry(self._group(number), await self._commit(number))

    async def open(self, number: int, opening: Opening) -> Opened:
        return Opened(_content(await self._commit(number)), direct=True)

    def _group(self, number: int) -> bytes:
        return self._groups.groups.at(number >> _PARTITION_BITS)

    async def _commit(self, number: int) -> Commit:
        partition = self._groups.partitions.at(number & (1 << _PARTITION_BITS) - 1)
        commits = await self._groups.commits(self._group(number)) or []
        commit = next((each for each in commits if each.partition == partition), None)
        if commit is None:
            raise FUSEError(errno.ESTALE)  # expired, or deleted
        return commit


def _content(commit: Commit) -> bytes:
    return b"%d\n" % commit.offset
