"""The consumer groups and share groups of a mount, refreshed by each request (`groups` has the tree)."""

from __future__ import annotations

import errno
import functools
import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import trio

from offsetfs.common.formatting import columns
from offsetfs.common.group_lags import GroupLags, LagReader
from offsetfs.fs.fuse_types import FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.inodes import PermanentNumbers
from offsetfs.fs.reporting.error_log import ErrorLog, Fault
from offsetfs.storage import TopicPartition, coordinators

if TYPE_CHECKING:  # a mount whose groups are not read does without their modules
    from offsetfs.storage.coordinators import Commit, ConsumerGroups, Lag, ShareGroups, ShareProgress

WAIT_S = 10.0
METRICS_WAIT_S = 1.0
"""The time in which metrics wait for commits that were not read yet."""
_LAGS_SHARE = 0.05
"""The share of its time that a mount spends on lags for metrics: half a millisecond for a partition that is closed."""
_SECONDS_WIDTH = 16


class Groups:
    """The groups of a mount, refreshed by each request, and their numbers in inodes."""

    def __init__(self, mount: MountContext) -> None:
        self.mount = mount
        self.made: set[bytes] = set()
        """Groups that mkdir created in this mount; they may have no commits."""
        self.groups: PermanentNumbers[bytes] = PermanentNumbers()
        self.partitions: PermanentNumbers[TopicPartition] = PermanentNumbers()
        self._last_lags = GroupLags()
        self._lags_until = -math.inf

    @functools.cached_property
    def engine(self) -> ConsumerGroups:
        """The consumer groups. First used on the event loop."""
        return coordinators.ConsumerGroups(
            self.mount.directory, functools.partial(_report_skipped, self.mount.error_log)
        )

    @functools.cached_property
    def shares(self) -> ShareGroups:
        """The share groups. First used on the event loop."""
        return coordinators.ShareGroups(self.mount.directory, functools.partial(_report_skipped, self.mount.error_log))

    @functools.cached_property
    def _lag_reader(self) -> LagReader:
        return LagReader(self.mount.directory)

    async def refresh(self) -> None:
        """Return when all commits have been read. EAGAIN if that takes longer than ten seconds."""
        deadline = trio.current_time() + WAIT_S
        while not (
            await self.mount.executor.answer(_step, self.engine)
            and await self.mount.executor.answer(_step, self.shares)
        ):
            if trio.current_time() > deadline:
                self.mount.error_log.report(
                    Fault(errno.EAGAIN, "lookup", "groups", "commits are still being read", "try again")
                )
                raise FUSEError(errno.EAGAIN)

    async def lags(self) -> GroupLags:
        """Return how far consumer groups are behind; none before their commits have been read, which goes on."""
        began = trio.current_time()
        if not self._has(coordinators.OFFSETS_TOPIC):
            return GroupLags()
        if began < self._lags_until:
            return self._last_lags
        while not await self.mount.executor.answer(_step, self.engine):
            if trio.current_time() > began + METRICS_WAIT_S:
                return GroupLags()
        self._last_lags = await self.mount.executor.in_thread(lambda: self._lag_reader.lags(self._committed()))
        self._lags_until = trio.current_time() + (trio.current_time() - began) / _LAGS_SHARE
        return self._last_lags

    def _committed(self) -> Iterator[tuple[str, dict[TopicPartition, int]]]:
        for name in self.engine.names():
            offsets = {commit.partition: commit.offset for commit in self.engine.commits(name) or ()}
            yield name.decode(errors="replace"), offsets

    @property
    def is_there(self) -> bool:
        """Whether the log directory has partitions of `__consumer_offsets` or `__share_group_state`."""
        return self._has(coordinators.OFFSETS_TOPIC, coordinators.SHARE_TOPIC)

    @property
    def is_writable(self) -> bool:
        """Whether offsets may be committed."""
        return not self.mount.is_read_only and (self._has(coordinators.OFFSETS_TOPIC) or self.may_create)

    def _has(self, *topics: str) -> bool:
        return any(partition.topic in topics for partition in self.mount.directory.partitions())

    @property
    def may_create(self) -> bool:
        """Whether the mount may create the topic of the commits."""
        return self.mount.options.create and not self.mount.is_read_only

    async def names(self) -> list[bytes]:
        await self.refresh()
        committed, shares = (
            await self.mount.executor.answer(self.engine.names),
            await self.mount.executor.answer(self.shares.names),
        )
        return sorted({*committed, *shares, *self.made})

    async def commits(self, group: bytes) -> list[Commit] | None:
        """Return the group's commits. None if the group does not exist."""
        await self.refresh()
        commits = await self.mount.executor.answer(self.engine.commits, group)
        if commits is None and (group in self.made or await self.mount.executor.answer(self.shares.knows, group)):
            return []
        return commits

    async def state(self, group: bytes) -> bytes | None:
        """Return type, state, members and progress of a group as JSON. None if only its commits are known."""
        await self.refresh()
        return await self.mount.executor.answer(self._state, group)

    async def lag(self, group: bytes) -> bytes:
        """Return the table of `lag`. Reads batches, for the seconds."""
        await self.refresh()
        return await self.mount.executor.in_thread(lambda: self._lag(group, self.engine.timed_lag(group)))

    async def lag_size(self, group: bytes) -> int:
        """Return the size of the table. Reads no records, because of `ls -l`: the seconds have a fixed width."""
        await self.refresh()
        return len(await self.mount.executor.answer(self._untimed_lag, group))

    def _state(self, group: bytes, *, nowait: bool) -> bytes | None:
        state, progress = self.engine.state(group, nowait=nowait), self._progress(group, nowait)
        if progress:
            state = state or {"type": "share", "state": None}
            state["partitions"] = [share.described() for share in progress]
        return None if state is None else (json.dumps(state, indent=2) + "\n").encode()

    def _untimed_lag(self, group: bytes, *, nowait: bool) -> bytes:
        return self._lag(group, self.engine.lag(group, nowait=nowait), nowait=nowait)

    def _lag(self, group: bytes, commits: list[Lag], *, nowait: bool = False) -> bytes:
        progress = self._progress(group, nowait)
        tables = [lag_table(commits)] if commits or not progress else []
        return b"".join([*tables, _of_shares(progress)] if progress else tables)

    def _progress(self, group: bytes, nowait: bool) -> list[ShareProgress]:
        """Return the progress of a share group as of the last `refresh`; empty for other groups."""
        topics = self.engine.share_topics(group, nowait=nowait)
        return self.shares.progress(group, topics, nowait=nowait)


def _report_skipped(error_log: ErrorLog, sentence: str) -> None:
    error_log.report(Fault(None, "read", "groups", sentence, "no action needed, everything else is shown"))


def _step(engine: ConsumerGroups | ShareGroups, *, nowait: bool) -> bool:
    return engine.refresh(nowait=nowait)


def lag_table(lags: list[Lag]) -> bytes:
    """Return the lines of `lag` for a group that commits offsets."""
    rows = [(str(lag.partition), *_numbers(lag), _seconds(lag.seconds).rjust(_SECONDS_WIDTH)) for lag in lags]
    return _table(("PARTITION", "COMMITTED", "END", "LAG", "SECONDS"), rows)


def _numbers(lag: Lag) -> tuple[int | None, int | None, int | None]:
    if lag.committed < 0:  # no offset, as for Kafka's coordinator and its tools
        return None, lag.end, None
    return lag.committed, lag.end, None if lag.end is None else lag.end - lag.committed


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    text = f"{seconds:.3f}"
    return text if len(text) <= _SECONDS_WIDTH else f"{seconds:.0f}"  # 16 digits at most, of 2^63 ms


def _of_shares(progress: list[ShareProgress]) -> bytes:
    """Return the lines of `lag` for a share group."""
    rows = [
        (
            f"{share.topic or share.topic_id}-{share.partition}",
            None if share.start_offset < 0 else share.start_offset,
            share.end_offset,
            share.lag,
        )
        for share in progress
    ]
    return _table(("PARTITION", "START", "END", "LAG"), rows)


def _table(head: tuple[str, ...], numbers: Sequence[tuple[str, *tuple[int | str | None, ...]]]) -> bytes:
    """Return the rows as aligned columns, with a minus for each unknown value."""
    rows = [head, *((name, *("-" if value is None else str(value) for value in row)) for name, *row in numbers)]
    return "".join(line + "\n" for line in columns(rows)).encode()
