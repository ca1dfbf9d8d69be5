"""Committed offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete, and their expiry.

A commit is answered when its record is in the segment file of `__consumer_offsets`. Member and generation are checked
when all commits before it are stored: a commit that had to wait is not stored for a generation that is over. Follows
Kafka's OffsetMetadataManager; the expiry is that of KIP-211.

The commits of a deleted partition are deleted with it, whatever part of the process deletes it. Until that is stored
they count no longer.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from functools import partial

import trio

from offsetfs.kafka.broker.coordinator_log import ProducerEpoch
from offsetfs.kafka.broker.groups.consumer_group import ConsumerGroup
from offsetfs.kafka.broker.groups.group import CONSUMER, GroupError, GroupState
from offsetfs.kafka.broker.groups.group_table import GroupTable
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.partitions import (
    IDS_SINCE_OFFSET_COMMIT,
    IDS_SINCE_OFFSET_FETCH,
    IDS_SINCE_TXN_OFFSET_COMMIT,
    unknown_topic,
)
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import TopicPartition
from offsetfs.storage.coordinators import NO_EXPIRY, Change, CommitChange, CommittedOffset
from offsetfs.storage.directory import LogChange

_log = logging.getLogger(__name__)

_MINUTE_MS = 60_000
_FORGET_RETRY_S = 10.0
_NOT_FOUND_SINCE = 9  # OffsetCommit: clients know GROUP_ID_NOT_FOUND (KIP-848)
_NEW_CODES_IN_TRANSACTIONS_SINCE = 6  # TxnOffsetCommit: GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)


class GroupOffsets:
    """The committed offsets of all groups."""

    def __init__(self, table: GroupTable, settings: ServerSettings) -> None:
        self._table = table
        self._settings = settings
        self._gone: set[TopicPartition] = set()
        self._has_deleted = trio.Event()
        self._forgetting = trio.Lock()
        self._outdated: dict[tuple[str, TopicPartition], CommittedOffset] = {}
        """Commits of deleted partitions, by group and partition, whose deletion is not stored yet."""
        self._outdated_staged: set[tuple[str, TopicPartition]] = set()
        """The same of open transactions."""

    # --- OffsetCommit ------------------------------------------------------------------------------------------------

    async def commit(self, request: m.OffsetCommitRequest, version: int) -> m.OffsetCommitResponse:
        """Store committed offsets; in the segment file when answered."""
        listing = self._table.directory.partitions()
        response, changes = await self._checked(request, version)

        def make() -> list[Change]:
            self._check_commit(request, version)
            return self._left(changes, listing)

        try:
            if self._table.directory.read_only:
                raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            await self._table.current(request.group_id)
            await self._settled()
            if changes:
                await self._table.append(request.group_id, make)
            else:
                make()
        except GroupError as error:
            for topic in response.topics:
                for partition in topic.partitions:
                    if partition.error_code in (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE):
                        partition.error_code = error.code
        return response

    def _left(self, changes: list[CommitChange], listing: Sequence[TopicPartition]) -> list[Change]:
        """Return the commits without those of partitions that were deleted since there was `listing`.

        Such a partition has taken its commits with it.
        """
        if self._table.directory.partitions() is listing:
            return [*changes]
        return [change for change in changes if self._table.directory.has(change.partition)]

    async def _checked(
        self, request: m.OffsetCommitRequest, version: int
    ) -> tuple[m.OffsetCommitResponse, list[CommitChange]]:
        """Return the answer for partitions that cannot have a commit, and the commits of the others."""
        retention_ms = request.retention_time_ms
        response, changes, slices = m.OffsetCommitResponse(), list[CommitChange](), Slices()
        for topic in (topic for topic in request.topics if topic.partitions):
            answer = m.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            response.topics.append(answer)
            missing = unknown_topic(topic.name, has_ids=version >= IDS_SINCE_OFFSET_COMMIT)
            for partition in topic.partitions:
                await slices.step()
                code, change = self._commit_of(request.group_id, topic.name, partition, retention_ms, missing)
                answer.partitions.append(m.OffsetCommitResponsePartition(partition.partition_index, code))
                changes += change
        return response, changes

    def _commit_of(
        self,
        group: str,
        topic: str,
        asked: m.OffsetCommitRequestPartition | m.TxnOffsetCommitRequestPartition,
        retention_ms: int,
        missing: ErrorCode,
    ) -> tuple[ErrorCode, list[CommitChange]]:
        """Return the code for a partition, `missing` if there is none, and its commit unless that is an error."""
        now = self._table.directory.clock.now_ms()
        metadata = asked.committed_metadata or ""
        partition = self._partition(topic, asked.partition_index)
        if partition is None:
            return missing, []
        if len(metadata.encode()) > self._settings.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE, []
        expires = NO_EXPIRY if retention_ms < 0 else now + retention_ms
        commit = CommittedOffset(asked.committed_offset, asked.committed_leader_epoch, metadata, now, expires)
        return ErrorCode.NONE, [CommitChange(group, partition, commit, 0)]

    def _partition(self, topic: str, index: int) -> TopicPartition | None:
        """Return a partition that is there, or None."""
        name = TopicPartition.valid_or_none(topic, index)
        return name if name is not None and self._table.directory.has(name) else None

    def _check_commit(self, request: m.OffsetCommitRequest, version: int) -> None:
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        is_of_member = generation >= 0 or bool(member_id) or request.group_instance_id is not None
        group = self._table.live.get(request.group_id)
        if group is None:
            self._check_commit_without_group(request, version)
            return
        if generation < 0 and group.state == GroupState.EMPTY:
            return  # of a consumer that assigns partitions to itself, or of an administrator
        if not is_of_member:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.member(member_id, request.group_instance_id)
        group.check_generation(generation)
        member.seen_s = trio.current_time()
        if group.state == GroupState.COMPLETING:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def _check_commit_without_group(self, request: m.OffsetCommitRequest, version: int) -> None:
        epoch, consumers = request.generation_id_or_member_epoch, self._table.consumer(request.group_id)
        if consumers is not None:
            if epoch >= 0 or consumers.members:
                member = consumers.member(request.member_id, None)
                if member.classic is None and version < _NOT_FOUND_SINCE:
                    raise GroupError(ErrorCode.UNSUPPORTED_VERSION)
                consumers.check_epoch(request.member_id, epoch)
            return
        if self._table.has_newer_members(request.group_id):
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        if request.generation_id_or_member_epoch >= 0:
            if self._table.is_known(request.group_id):  # it has commits and never had members
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            is_code_known = version >= _NOT_FOUND_SINCE
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND if is_code_known else ErrorCode.ILLEGAL_GENERATION)

    # --- TxnOffsetCommit ---------------------------------------------------------------------------------------------

    async def commit_in_transaction(
        self, request: m.TxnOffsetCommitRequest, version: int, producer: ProducerEpoch
    ) -> m.TxnOffsetCommitResponse:
        """Store offsets that count when the transaction of a producer commits; on disk when answered. GroupError."""
        listing = self._table.directory.partitions()
        response, changes, slices = m.TxnOffsetCommitResponse(), list[CommitChange](), Slices()
        for topic in (topic for topic in request.topics if topic.partitions):
            answer = m.TxnOffsetCommitResponseTopic(topic.name, topic.topic_id)
            response.topics.append(answer)
            missing = unknown_topic(topic.name, has_ids=version >= IDS_SINCE_TXN_OFFSET_COMMIT)
            for partition in topic.partitions:
                await slices.step()
                code, change = self._commit_of(request.group_id, topic.name, partition, NO_EXPIRY, missing)
                answer.partitions.append(m.TxnOffsetCommitResponsePartition(partition.partition_index, code))
                changes += change

        def make() -> list[Change]:
            self._check_in_transaction(request, version)
            staged = self._outdated_staged
            if staged and any((change.group, change.partition) in staged for change in changes):
                # The deletion of what the transaction of a deleted topic has committed would take this away.
                raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return self._left(changes, listing)

        if not request.group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        await self._table.current(request.group_id)
        await self._settled()
        await self._table.append(request.group_id, make, producer)
        return response

    def _check_in_transaction(self, request: m.TxnOffsetCommitRequest, version: int) -> None:
        """Check the member; old producers send none. `OffsetMetadataManager.validateTransactionalOffsetCommit`."""
        is_of_member = (
            request.generation_id_or_member_epoch >= 0
            or bool(request.member_id)
            or request.group_instance_id is not None
        )
        group, consumers = self._table.live.get(request.group_id), self._table.consumer(request.group_id)
        if group is None and consumers is not None:
            self._check_consumer_in_transaction(consumers, request, version, is_of_member=is_of_member)
        elif group is None:
            if self._table.has_newer_members(request.group_id) and is_of_member:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            if request.generation_id_or_member_epoch >= 0:
                is_code_known = version >= _NEW_CODES_IN_TRANSACTIONS_SINCE and not self._table.is_known(
                    request.group_id
                )
                raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND if is_code_known else ErrorCode.ILLEGAL_GENERATION)
        elif is_of_member and (request.generation_id_or_member_epoch >= 0 or group.state != GroupState.EMPTY):
            member = group.member(request.member_id, request.group_instance_id)
            group.check_generation(request.generation_id_or_member_epoch)
            member.seen_s = trio.current_time()

    @staticmethod
    def _check_consumer_in_transaction(
        group: ConsumerGroup, request: m.TxnOffsetCommitRequest, version: int, *, is_of_member: bool
    ) -> None:
        if not is_of_member or (request.generation_id_or_member_epoch < 0 and not group.members):
            return
        try:
            group.check_epoch(request.member_id, request.generation_id_or_member_epoch)
        except GroupError as error:
            if version >= _NEW_CODES_IN_TRANSACTIONS_SINCE or error.code != ErrorCode.STALE_MEMBER_EPOCH:
                raise
            raise GroupError(ErrorCode.ILLEGAL_GENERATION) from None

    # --- OffsetFetch -------------------------------------------------------------------------------------------------

    async def fetch(self, request: m.OffsetFetchRequest, version: int) -> m.OffsetFetchResponse:
        """Return committed offsets; -1 where there is none."""
        response, slices = m.OffsetFetchResponse(), Slices()
        if version < 8:
            topics = (
                None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
            )
            code, fetched = await self._fetched(slices, request.group_id, topics, request.require_stable)
            response.error_code = code if version >= 2 else ErrorCode.NONE
            for name, rows in fetched:
                await slices.step()
                partitions = [m.OffsetFetchResponsePartition(*row) for row in _of_version(rows, version)]
                response.topics.append(m.OffsetFetchResponseTopic(name, partitions))
            return response
        for group in request.groups:
            await slices.step()
            response.groups.append(await self._fetched_group(slices, group, request, version))
        return response

    async def _fetched_group(
        self, slices: Slices, group: m.OffsetFetchRequestGroup, request: m.OffsetFetchRequest, version: int
    ) -> m.OffsetFetchResponseGroup:
        topics = group.topics or []
        unknown, wanted = list[m.OffsetFetchRequestTopics](), list[tuple[str, list[int]]]()
        for topic in topics:
            await slices.step()
            if not topic.name and version >= IDS_SINCE_OFFSET_FETCH:
                unknown.append(topic)
            else:
                wanted.append((topic.name, topic.partition_indexes))
        asked = None if group.topics is None else wanted
        code, fetched = await self._fetched(slices, group.group_id, asked, request.require_stable, group)
        answer = m.OffsetFetchResponseGroup(group.group_id, error_code=code)
        for name, rows in fetched:
            await slices.step()
            answers = [m.OffsetFetchResponsePartitions(*row) for row in _of_version(rows, version)]
            answer.topics.append(m.OffsetFetchResponseTopics(name=name, partitions=answers))
        for topic in unknown if code == ErrorCode.NONE else ():
            failed = [(index, -1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
            answers = [m.OffsetFetchResponsePartitions(*row) for row in failed]
            answer.topics.append(m.OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=answers))
        return answer

    async def _fetched(
        self,
        slices: Slices,
        group: str,
        topics: list[tuple[str, list[int]]] | None,
        is_stable_only: bool,
        member: m.OffsetFetchRequestGroup | None = None,
    ) -> tuple[ErrorCode, list[tuple[str, list[_Row]]]]:
        """Return the code of a group, and for each topic the rows of its partitions."""
        try:
            await self._table.current(group)
            self._check_fetch(member)
            await self._settled()
        except GroupError as error:
            # Not -1 without an error: the consumer would begin elsewhere, and repeat or lose records.
            failed = [(name, [(index, -1, -1, "", error.code) for index in indexes]) for name, indexes in topics or ()]
            return error.code, failed
        known = dict(self._current_offsets(group))  # of one moment: commits may follow while the answer is made
        unstable = self._table.log.pending_commits(group) if is_stable_only else set[TopicPartition]()
        if topics is None:
            by_topic: dict[str, list[int]] = {}
            for partition in sorted(known):
                by_topic.setdefault(partition.topic, []).append(partition.partition)
            topics = list(by_topic.items())
        fetched: list[tuple[str, list[_Row]]] = []
        for name, indexes in topics:
            rows: list[_Row] = []
            for index in indexes:
                await slices.step()
                rows.append(_row(TopicPartition.valid_or_none(name, index), index, known, unstable))
            fetched.append((name, rows))
        return ErrorCode.NONE, fetched

    def _check_fetch(self, request: m.OffsetFetchRequestGroup | None) -> None:
        """Check the member epoch of a consumer (KIP-848); administrators and classic consumers send none."""
        if request is None or (request.member_id is None and request.member_epoch < 0):
            return
        group = self._table.consumer(request.group_id)
        if group is not None and request.group_id not in self._table.live:
            group.check_epoch(request.member_id or "", request.member_epoch)

    # --- OffsetDelete ------------------------------------------------------------------------------------------------

    async def delete(self, request: m.OffsetDeleteRequest, version: int) -> m.OffsetDeleteResponse:
        """Delete committed offsets of a group, except of topics that its members read."""
        there, slices, read = set[TopicPartition](), Slices(), set[str]()
        for topic in request.topics:
            for asked in topic.partitions:
                await slices.step()
                if (partition := self._partition(topic.name, asked.partition_index)) is not None:
                    there.add(partition)

        def make() -> list[Change]:
            self._check_delete(request.group_id)
            known = [partition for partition in self._table.committed(request.group_id) if partition in there]
            read.clear()
            read.update(partition.topic for partition in known if self._is_read(request.group_id, partition.topic))
            return [
                CommitChange(request.group_id, partition, None, 0) for partition in known if partition.topic not in read
            ]

        try:
            if not request.group_id:
                raise GroupError(ErrorCode.INVALID_GROUP_ID)
            await self._table.current(request.group_id)
            self._check_delete(request.group_id)
            if self._table.directory.read_only:
                raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            await self._table.append(request.group_id, make)
        except GroupError as error:
            return m.OffsetDeleteResponse(error_code=error.code)
        return await self._deleted(request, there, read)

    def _check_delete(self, name: str) -> None:
        if not self._table.is_known(name):
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
        group = self._table.live.get(name)
        is_busy = group is not None and group.state != GroupState.EMPTY and group.protocol_type != CONSUMER
        is_other = self._table.consumer(name) is None and self._table.has_newer_members(name)
        if is_busy or is_other:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def _is_read(self, name: str, topic: str) -> bool:
        group = self._table.live.get(name) or self._table.consumer(name)
        return group is not None and group.is_subscribed(topic) and bool(group.members)

    async def _deleted(
        self, request: m.OffsetDeleteRequest, there: set[TopicPartition], read: set[str]
    ) -> m.OffsetDeleteResponse:
        """Return the response: an error for what is not `there`, and for topics that members `read`."""
        response, slices = m.OffsetDeleteResponse(), Slices()
        for topic in (topic for topic in request.topics if topic.partitions):
            is_read = topic.name in read or self._is_read(request.group_id, topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
            result = m.OffsetDeleteResponseTopic(topic.name)
            response.topics.append(result)
            for partition in topic.partitions:
                await slices.step()
                is_there = TopicPartition.valid_or_none(topic.name, partition.partition_index) in there
                result_code = code if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                result.partitions.append(m.OffsetDeleteResponsePartition(partition.partition_index, result_code))
        return response

    # --- deleted partitions ------------------------------------------------------------------------------------------

    def changed(self, partition: TopicPartition, change: LogChange) -> None:
        """Note that a partition was deleted, by any part of the process: its commits are deleted, too."""
        if change is LogChange.DELETED and not self._table.directory.read_only:
            self._gone.add(partition)
            self._has_deleted.set()

    async def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Delete all groups' commits of partitions; new ones of their names begin without commits.

        What cannot be stored is in the log, and is tried again; it counts no longer. COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._gone.update(partitions)
        async with self._forgetting:
            if self._gone:
                await self._table.log.current_all()
                self._outdate()
            for name in sorted({group for group, _ in (*self._outdated, *self._outdated_staged)}):
                await self._forget_group(name)

    async def forget_topic(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the offsets of a topic that is being deleted; also during loading, before the first answer."""
        with contextlib.suppress(GroupError):
            await self.forget(partitions)

    def _outdate(self) -> None:
        deleted, self._gone = self._gone, set()
        for name in self._table.names():
            for partition, commit in self._table.stored(name).offsets.items():
                if partition in deleted:
                    self._outdated[name, partition] = commit
            self._outdated_staged.update(
                (name, partition) for partition in self._table.log.pending_commits(name) & deleted
            )

    async def _forget_group(self, name: str) -> None:
        try:
            await self._table.append(name, partial(self._deletions, name))
        except GroupError as error:
            _log.error(
                "group %s: its offsets of deleted topics could not be deleted: %s; tried again every %.0f s",
                name, error, _FORGET_RETRY_S,
            )  # fmt: skip
        else:
            self._outdated = {key: commit for key, commit in self._outdated.items() if key[0] != name}
            self._outdated_staged = {key for key in self._outdated_staged if key[0] != name}

    def _deletions(self, name: str) -> list[Change]:
        """Return the deletions of a group's commits of deleted partitions, unless later commits have replaced them."""
        stored = {
            partition
            for partition, commit in self._table.stored(name).offsets.items()
            if self._outdated.get((name, partition)) is commit
        }
        staged = {
            partition
            for partition in self._table.log.pending_commits(name)
            if (name, partition) in self._outdated_staged
        }
        return [CommitChange(name, partition, None, 0) for partition in sorted(stored | staged)]

    async def _settled(self) -> None:
        """Return when commits that are stored now cannot be taken for those of a deleted partition of their name."""
        if self._gone or self._forgetting.locked():
            await self.forget(())

    def _current_offsets(self, name: str) -> dict[TopicPartition, CommittedOffset]:
        """Return a group's commits without those of deleted partitions."""
        offsets = self._table.stored(name).offsets
        if not self._outdated:
            return offsets
        return {
            partition: commit
            for partition, commit in offsets.items()
            if self._outdated.get((name, partition)) is not commit
        }

    @property
    def _has_outdated(self) -> bool:
        return bool(self._outdated or self._outdated_staged or self._gone)

    async def forget_deleted(self) -> None:
        """Delete the commits of partitions that are deleted, until cancelled."""
        while True:
            with trio.move_on_after(_FORGET_RETRY_S) if self._has_outdated else trio.CancelScope():
                await self._has_deleted.wait()
            self._has_deleted = trio.Event()
            try:
                await self.forget(())
            except GroupError as error:
                _log.debug("offsets of deleted topics: %s", error)
            except Exception:  # a bug: it must not end the broker
                _log.exception("offsets of deleted topics could not be deleted")

    # --- expiry ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Delete offsets that have expired, and groups without members and offsets, until cancelled."""
        while True:
            await trio.sleep(self._settings.offsets_retention_check_interval_ms / 1000)
            for name in self._table.names():
                try:
                    await self.expire(name)
                except GroupError as error:  # reported where it could not be stored; tried again at the next check
                    _log.debug("group %s: %s", name, error)
                except Exception:  # a bug: it must not end the broker, and the other groups go on
                    _log.exception("group %s: expiry of its offsets failed", name)
                await trio.lowlevel.checkpoint()

    async def expire(self, name: str) -> None:
        """Delete what has expired of a group; GroupError."""
        await self._table.current(name)
        if self._is_over(name):
            await self._table.delete(name, partial(self._ended, name))
        elif self._expired(name):
            await self._table.append(name, partial(self._expired, name))

    def _ended(self, name: str) -> list[Change]:
        """Return the deletion of a group that is over; NON_EMPTY_GROUP if it is in use again."""
        if not self._is_over(name):
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)
        return self._table.deletions(name)

    def _is_over(self, name: str) -> bool:
        """Return whether nothing of a group is in use: no members, only offsets that have expired."""
        group = self._table.live.get(name)
        if group is not None and (group.state != GroupState.EMPTY or group.pending):
            return False
        is_unused = not self._table.has_newer_members(name) and not self._table.log.pending_commits(name)
        return is_unused and len(self._expired(name)) == len(self._table.stored(name).offsets)

    def _expired(self, name: str) -> list[Change]:
        """Return the deletions of the offsets that have expired."""
        offsets, unstable = self._table.stored(name).offsets, self._table.log.pending_commits(name)
        now = self._table.directory.cautious_clock.now_ms()
        return [
            CommitChange(name, partition, None, 0)
            for partition, commit in sorted(offsets.items(), key=lambda item: item[0])
            if partition not in unstable and self._is_expired(name, partition, commit, now)
        ]

    def _is_expired(self, name: str, partition: TopicPartition, commit: CommittedOffset, now: int) -> bool:
        since = self._unused_since(name, partition, commit)
        if since is None:
            return False
        if commit.expires != NO_EXPIRY:
            return now >= commit.expires
        return now - since >= self._settings.offsets_retention_minutes * _MINUTE_MS

    def _unused_since(self, name: str, partition: TopicPartition, commit: CommittedOffset) -> int | None:
        """Return the time from which a commit ages (KIP-211); None while its group may use it."""
        group, consumers = self._table.live.get(name), self._table.consumer(name)
        if group is None and consumers is not None:
            return None if consumers.is_subscribed(partition.topic) else commit.timestamp
        if group is None or not group.protocol_type:  # of consumers that assign partitions to themselves
            return None if self._table.has_newer_members(name) else commit.timestamp
        if group.state == GroupState.EMPTY:
            return commit.timestamp if group.since_ms < 0 else group.since_ms
        is_read = group.subscribed_topics() is None or group.is_subscribed(partition.topic)
        return None if is_read or group.state != GroupState.STABLE else commit.timestamp


_Row = tuple[int, int, int, str, ErrorCode]
"""Partition, offset, leader epoch, metadata and code of a committed offset."""


def _row(
    partition: TopicPartition | None,
    index: int,
    known: dict[TopicPartition, CommittedOffset],
    unstable: set[TopicPartition],
) -> _Row:
    if partition is not None and partition in unstable:
        return index, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT
    commit = None if partition is None else known.get(partition)
    if commit is None:
        return index, -1, -1, "", ErrorCode.NONE
    return index, commit.offset, commit.leader_epoch, commit.metadata, ErrorCode.NONE


def _of_version(rows: Iterable[_Row], version: int) -> Iterable[_Row]:
    """Return rows as the response of a version has them."""
    for index, offset, epoch, metadata, code in rows:
        yield index, offset, epoch if version >= 5 else -1, metadata, code
