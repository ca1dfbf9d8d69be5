"""The committed offsets of consumer groups: read from the source, and written to `__consumer_offsets` of the mirror.

    ListGroups at each broker ──► OffsetFetch for each chosen group ──► what differs, as commits of Kafka's format

So a consumer can continue from the mirror, when `offsetfs serve` serves it, and `groups/` of a mount shows the offsets.
It needs the permission to describe the groups and the topics. Only commits for mirrored partitions are taken over. An
offset beyond the end of the mirrored partition becomes that end: the records between are not in the mirror.

A group that is deleted at the source, or has no commit there, keeps its commits here, as a topic keeps its records. So
does a topic that this run does not mirror.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

import trio

from offsetfs.common.name_patterns import suggestion
from offsetfs.common.threads import in_thread
from offsetfs.kafka.client.cluster import Answer, ClusterClient, repeated
from offsetfs.kafka.client.errors import ClientError, check_code
from offsetfs.kafka.mirror.options import MirrorOptions
from offsetfs.kafka.mirror.partition import UNKNOWN
from offsetfs.kafka.protocol import messages as m
from offsetfs.storage import BatchBuilder, LogDirectory, TopicPartition
from offsetfs.storage.coordinators import (
    OFFSETS_TOPIC,
    Commit,
    CommittedOffset,
    ConsumerGroups,
    commit_at,
    commit_key,
    commit_value,
    partition_of_group,
)
from offsetfs.storage.errors import StorageError, sentence

SYNC_S = 5.0
"""The interval between reads of the committed offsets of the source."""

FETCH_VERSION_MAX = 7
"""Later versions of OffsetFetch ask for several groups at once."""

_Commits = Mapping[TopicPartition, CommittedOffset | None]
"""The commit of a group for each mirrored partition; None: no commit."""


def conflict(options: MirrorOptions, mirrored: Collection[str]) -> str:
    """Return the reason against commits: `__consumer_offsets` itself is mirrored. Empty if they can be written."""
    chosen = any(pattern.pattern == OFFSETS_TOPIC for pattern in options.topics)
    if not options.groups or (not chosen and OFFSETS_TOPIC not in mirrored):
        return ""
    return f"{OFFSETS_TOPIC} is mirrored, which has the offsets of all groups; leave --groups out, or the topic"


class GroupMirror:
    """The committed offsets of the chosen groups."""

    def __init__(
        self,
        directory: LogDirectory,
        client: ClusterClient,
        options: MirrorOptions,
        ends: Callable[[], Mapping[TopicPartition, int]],
        on_event: Callable[[str], None],
    ) -> None:
        """`ends`: returns the partitions whose log is that of the source, and where they end here."""
        self._directory = directory
        self._client = client
        self._patterns = options.groups
        self._is_once = options.once
        self._ends = ends
        self._on_event = on_event
        self._local = ConsumerGroups(directory, on_event)
        self._read: dict[tuple[str, TopicPartition], tuple[int, CommittedOffset | None]] = {}
        """Commits here, by group and partition, with the offsets of their records: each record is read once."""
        self._unmatched = {pattern for pattern in self._patterns if pattern.pattern == ".*"}
        """Patterns of which nothing is reported any more."""
        self.failures: dict[str, str] = {}
        """Groups whose offsets are not taken over, with the reasons; "" for all groups."""

    async def run(self) -> None:
        """Keep the commits in step, until cancelled. Errors are reported once, and tried again."""
        while True:
            await self.sync()
            await trio.sleep(SYNC_S)

    async def sync(self) -> None:
        """Take over the commits that differ. Errors are in `failures`."""
        try:
            names = await self._asked(self._names)
        except ClientError as error:
            self._failed("", error)
            return
        self.failures.pop("", None)
        self._report_unmatched(names)
        for name in sorted(set(names)):
            try:
                commits = await self._asked(partial(self._source_commits, name))
                with trio.CancelScope(shield=True):
                    await in_thread(partial(self._write, name, commits))
            except (ClientError, StorageError, OSError) as error:
                self._failed(name, error)
            else:
                self.failures.pop(name, None)

    def _report_unmatched(self, names: Collection[str]) -> None:
        """Report patterns that match no group, once: a wrong name would go unnoticed."""
        for pattern in self._patterns:
            if pattern not in self._unmatched and not any(pattern.fullmatch(name) for name in names):
                self._unmatched.add(pattern)
                text = f"no group that this user may describe matches {pattern.pattern!r}"
                near = suggestion([pattern.pattern], names)
                remedy = near or "check its name, and that the user of --config has DESCRIBE of it"
                if not self._is_once:
                    remedy = f"its offsets are taken over as soon as it exists{near and f'; {near}'}"
                self._on_event(f"{text}; {remedy}")

    async def _asked(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return an answer of the source; a single run waits for a coordinator that moves, `run` asks again later."""
        return await (repeated(ask, self._client.properties) if self._is_once else ask())

    async def _names(self) -> list[str]:
        metadata = await self._client.metadata()
        return [name for node in metadata.brokers for name in await self._groups_of(node)]

    def _failed(self, group: str, error: Exception) -> None:
        text = sentence(error)
        if self.failures.get(group) != text:
            self.failures[group] = text
            again = "" if self._is_once else "; trying again"
            self._on_event(f"{f'group {group}' if group else 'groups'}: offsets are not taken over: {text}{again}")

    async def _groups_of(self, node: int) -> list[str]:
        response = await self._client.request(m.ListGroupsRequest(), node=node)
        check_code(response.error_code, "ListGroups")
        names = (group.group_id for group in response.groups)
        return [name for name in names if any(pattern.fullmatch(name) for pattern in self._patterns)]

    async def _source_commits(self, group: str) -> _Commits:
        """Return the commits for mirrored partitions, none if the group has no commits at all; ClientError."""
        node = await self._client.coordinator(group)
        request = m.OffsetFetchRequest(group, None)
        response = await self._client.request(request, node=node, max_version=FETCH_VERSION_MAX)
        check_code(response.error_code, f"group {group}")
        if not any(topic.partitions for topic in response.topics):
            return {}  # it was deleted, or looks the same
        now_ms, ends = int(time.time() * 1000), self._ends()
        commits: dict[TopicPartition, CommittedOffset | None] = dict.fromkeys(ends)
        for topic in response.topics:
            for row in topic.partitions:
                name = TopicPartition(topic.name, row.partition_index)
                if name not in ends:
                    continue
                check_code(row.error_code, str(name))
                if row.committed_offset >= 0:
                    offset = min(row.committed_offset, ends[name])
                    # The epoch of a record that is not here would be unknown to the broker that serves the mirror.
                    epoch = row.committed_leader_epoch if offset == row.committed_offset else UNKNOWN
                    commits[name] = CommittedOffset(offset, epoch, row.metadata or "", now_ms)
        return commits

    def _write(self, group: str, commits: _Commits) -> None:
        """Write the commits that differ, and delete those of partitions without one, in a thread."""
        while not self._local.refresh():
            pass
        known = {commit.partition: commit for commit in self._local.commits(group.encode()) or []}
        records = list[tuple[bytes, bytes | None]]()
        for name, commit in commits.items():
            if commit is None and name in known:
                records.append((commit_key(group, name), None))
            elif commit is not None and (name not in known or self._differs(group, known[name], commit)):
                records.append((commit_key(group, name), commit_value(commit)))
        if not records:
            return
        home = partition_of_group(self._directory, group, may_create=True)
        log, now_ms = self._directory.writable_log(home), int(time.time() * 1000)
        for key, value in records:
            size = BatchBuilder.OVERHEAD_BYTES + _RECORD_BYTES + len(key) + len(value or b"")
            builder = BatchBuilder(size)
            builder.append(key, value, (), now_ms)
            log.append(builder.seal())

    def _differs(self, group: str, known: Commit, commit: CommittedOffset) -> bool:
        """Whether a commit here has other content than that of the source. The times are others in any case."""
        if known.offset != commit.offset:
            return True
        here = self._stored(group, known)
        return here is None or (here.leader_epoch, here.metadata) != (commit.leader_epoch, commit.metadata)

    def _stored(self, group: str, known: Commit) -> CommittedOffset | None:
        """Return a commit here as its record has it; None if the record cannot be read."""
        key = group, known.partition
        if key not in self._read or self._read[key][0] != known.at:
            home = partition_of_group(self._directory, group, may_create=False)
            commit = commit_at(self._directory.log(home), known.at)
            is_it = commit is not None and (commit.group, commit.partition) == key
            self._read[key] = known.at, commit.commit if commit is not None and is_it else None
        return self._read[key][1]


_RECORD_BYTES = 64
"""The most bytes that a record takes beside key and value."""
