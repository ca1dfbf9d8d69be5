"""The group coordinator: membership, rebalances and committed offsets of classic groups.

Answers FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch, OffsetDelete,
DescribeGroups, ListGroups, DeleteGroups. A join or a commit is answered when its record is in the segment file of
`__consumer_offsets`. Follows Kafka's GroupCoordinatorService for classic groups.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

import trio

from offsetfs.broker.cluster import BrokerNode
from offsetfs.broker.error_codes import ErrorCode, code_of
from offsetfs.broker.group import Answer, Group, GroupError, GroupState, Member, new_member_id
from offsetfs.broker.group_log import Change, GroupLog, StoredOffset, commit_change, group_change
from offsetfs.broker.report import GroupSnapshot
from offsetfs.broker.settings import ServerSettings
from offsetfs.protocol import messages as m
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.errors import InvalidName, StorageError

_log = logging.getLogger(__name__)

_TICK_S = 0.05
_GROUP_KEY_TYPE = 0


class GroupCoordinator:
    """The groups of one log directory."""

    def __init__(self, directory: LogDirectory, node: BrokerNode, settings: ServerSettings) -> None:
        self._directory = directory
        self._node = node
        self._settings = settings
        self._groups: dict[str, Group] = {}
        self._offsets: dict[str, dict[TopicPartition, StoredOffset]] = {}
        self._log = GroupLog(directory)
        self._loaded = trio.Event()
        self._appending = trio.Lock()

    # --- life --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Load the groups, then expire sessions and rebalances until cancelled."""
        for group, partition, value in await trio.to_thread.run_sync(lambda: list(self._log.load())):
            self._take(group, partition, value)
        self._loaded.set()
        if self._directory.read_only:  # the members are those of the broker that writes
            return
        while True:
            await trio.sleep(_TICK_S)
            now_s = trio.current_time()
            for each in list(self._groups.values()):
                try:
                    await self._expire(each, now_s)
                except Exception:  # a full disk, or a bug: it must not end the broker, and the other groups go on
                    _log.exception("group %s: expiry of its members failed", each.group_id)

    def _take(
        self, name: str, partition: TopicPartition | None, value: StoredOffset | m.GroupMetadataValue | None
    ) -> None:
        if partition is not None:
            offsets = self._offsets.setdefault(name, {})
            if isinstance(value, StoredOffset):
                offsets[partition] = value
            else:
                offsets.pop(partition, None)
            return
        self._groups.pop(name, None)
        if isinstance(value, m.GroupMetadataValue):
            group = self._groups[name] = Group(name, protocol_type=value.protocol_type, generation=value.generation)
            group.protocol, group.leader = value.protocol, value.leader
            for each in value.members:
                member = Member(
                    each.member_id,
                    each.group_instance_id,
                    each.client_id,
                    each.client_host,
                    each.session_timeout / 1000,
                    each.rebalance_timeout / 1000,
                    {value.protocol or "": each.subscription},
                    each.assignment,
                    trio.current_time(),
                )
                group.members[each.member_id] = member
            group.state = GroupState.STABLE if group.members else GroupState.EMPTY

    async def _expire(self, group: Group, now_s: float) -> None:
        are_members_gone, are_ids_gone = group.expire(now_s)
        if are_members_gone:
            self._after_change(group, now_s)
        elif are_ids_gone:
            self._go_on(group, now_s)
        if group.state == GroupState.EMPTY and not group.pending and not group.generation:
            self._groups.pop(group.group_id, None)  # nothing of it was ever stored
            return
        if group.state == GroupState.PREPARING and now_s >= group.rebalance_ends_s:
            await self._complete_join(group)
        elif group.state == GroupState.COMPLETING and now_s >= group.rebalance_ends_s:
            for member in [each for each in group.members.values() if each.syncing is None]:
                group.remove(member)
            self._after_change(group, now_s)

    def _after_change(self, group: Group, now_s: float) -> None:
        """Begin a rebalance after members are gone; let one that waited for them go on."""
        if group.state in (GroupState.STABLE, GroupState.COMPLETING):
            group.prepare_rebalance(now_s)
        self._go_on(group, now_s)

    @staticmethod
    def _go_on(group: Group, now_s: float) -> None:
        if group.state == GroupState.PREPARING and group.have_all_joined():
            group.rebalance_ends_s = min(group.rebalance_ends_s, now_s)

    async def _complete_join(self, group: Group) -> None:
        group.complete_join(trio.current_time())
        if group.state == GroupState.EMPTY:
            await self._store(group)

    # --- membership --------------------------------------------------------------------------------------------------

    async def join(self, request: m.JoinGroupRequest, version: int, client_id: str, host: str) -> m.JoinGroupResponse:
        """Let a member join; answered when all members have joined, or the rebalance time is over."""
        await self._loaded.wait()
        try:
            member, answer = await self._join(request, version, client_id, host)
        except GroupError as error:
            return m.JoinGroupResponse(
                error_code=error.code,
                member_id=str(error.__notes__[0] if hasattr(error, "__notes__") else request.member_id),
            )
        group = self._groups[request.group_id]
        try:
            await answer.wait()
        finally:
            if member.joining is answer:  # the client is gone: it does not count as joined, and its session can end
                member.joining = None
        if answer.code != ErrorCode.NONE:
            return m.JoinGroupResponse(error_code=answer.code, member_id=member.member_id)
        return self._joined(group, member, version)

    def _joined(self, group: Group, member: Member, version: int) -> m.JoinGroupResponse:
        is_leader = group.leader == member.member_id
        protocol = group.protocol or ""
        return m.JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type if version >= 7 else None,
            protocol_name=protocol,
            leader=group.leader or "",
            member_id=member.member_id,
            members=[
                m.JoinGroupResponseMember(
                    each.member_id, each.instance_id if version >= 5 else None, each.protocols.get(protocol, b"")
                )
                for each in (group.members.values() if is_leader else ())
            ],
        )

    async def _join(
        self, request: m.JoinGroupRequest, version: int, client_id: str, host: str
    ) -> tuple[Member, Answer]:
        now_s = trio.current_time()
        session_s = request.session_timeout_ms / 1000
        if not request.group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        self._check_writable()
        shortest_ms, longest_ms = (
            self._settings.group_min_session_timeout_ms,
            self._settings.group_max_session_timeout_ms,
        )
        if not shortest_ms <= request.session_timeout_ms <= longest_ms:
            raise GroupError(ErrorCode.INVALID_SESSION_TIMEOUT)
        group = self._groups.setdefault(request.group_id, Group(request.group_id))
        protocols = {each.name: bytes(each.metadata) for each in request.protocols}
        if not group.supports(request.protocol_type, list(protocols)):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member = self._known_member(group, request, version, client_id, now_s, session_s)
        if member is None:
            member = Member(
                request.member_id or new_member_id(client_id, request.group_instance_id),
                request.group_instance_id, client_id, host, session_s, 0.0, protocols,
            )  # fmt: skip
        is_replaced = bool(request.group_instance_id) and not request.member_id
        changed = protocols != member.protocols or member.member_id not in group.members
        if is_replaced and group.state == GroupState.COMPLETING:
            changed = True  # the leader assigns partitions to the id that is gone
        member.protocols, member.seen_s, member.session_timeout_s = protocols, now_s, session_s
        rebalance_ms = request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms
        member.rebalance_timeout_s = rebalance_ms / 1000
        if member.member_id not in group.members:
            group.add(member)
        group.protocol_type = request.protocol_type
        if member.joining is not None:  # an earlier request of the same member, on a connection that is gone
            member.joining.set(ErrorCode.UNKNOWN_MEMBER_ID)
        member.joining = answer = Answer()
        is_settled = group.state in (GroupState.STABLE, GroupState.COMPLETING)
        if is_settled and not changed and (group.state == GroupState.COMPLETING or group.leader != member.member_id):
            answer.set()  # the member has lost our answer: it gets the generation as it is
            member.joining = None
            return member, answer
        if group.state != GroupState.PREPARING:
            group.prepare_rebalance(now_s, self._settings.group_initial_rebalance_delay_ms / 1000)
        if group.have_all_joined():
            await self._complete_join(group)
        return member, answer

    def _check_writable(self) -> None:
        # An error that clients report: they would retry COORDINATOR_NOT_AVAILABLE forever.
        if self._directory.read_only:
            raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def _known_member(
        self, group: Group, request: m.JoinGroupRequest, version: int, client_id: str, now_s: float, session_s: float
    ) -> Member | None:
        if request.member_id:
            if request.member_id in group.pending:
                return None
            return group.member(request.member_id, request.group_instance_id)
        if request.group_instance_id is not None:
            holder = group.static_member(request.group_instance_id)
            if holder is not None:  # a static member that was restarted takes its place under a new id
                del group.members[holder.member_id]
                if holder.joining is not None:
                    holder.joining.set(ErrorCode.FENCED_INSTANCE_ID)
                    holder.joining = None
                if holder.syncing is not None:
                    holder.syncing.set(ErrorCode.FENCED_INSTANCE_ID)
                    holder.syncing = None
                was_leader = group.leader == holder.member_id
                holder.member_id = new_member_id(client_id, request.group_instance_id)
                group.members[holder.member_id] = holder
                if was_leader:
                    group.leader = holder.member_id
                return holder
            return None
        if version >= 4:
            member_id = new_member_id(client_id, None)
            group.pending[member_id] = now_s + session_s
            error = GroupError(ErrorCode.MEMBER_ID_REQUIRED)
            error.add_note(member_id)
            raise error
        return None

    async def sync(self, request: m.SyncGroupRequest, version: int) -> m.SyncGroupResponse:
        """Return what the member reads; waits for the leader, which sends it."""
        await self._loaded.wait()
        try:
            self._check_writable()
            group = self._group(request.group_id)
            member = group.member(request.member_id, request.group_instance_id)
            group.check_generation(request.generation_id)
            if group.state == GroupState.PREPARING:
                raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
            member.seen_s = trio.current_time()
            if group.state == GroupState.COMPLETING:
                if member.syncing is not None:  # an earlier request of the same member, on a connection that is gone
                    member.syncing.set(ErrorCode.UNKNOWN_MEMBER_ID)
                member.syncing = answer = Answer()
                try:
                    if group.leader == member.member_id:
                        assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
                        await self._complete_sync(group, assignments)
                    await answer.wait()
                finally:
                    if member.syncing is answer:  # the client is gone, or its assignment could not be stored
                        member.syncing = None
                if answer.code != ErrorCode.NONE:
                    raise GroupError(answer.code)
        except GroupError as error:
            return m.SyncGroupResponse(error_code=error.code)
        except (StorageError, OSError) as error:
            _log.error("group %s could not be stored: %s", request.group_id, error)
            return m.SyncGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response = m.SyncGroupResponse(assignment=member.assignment)
        if version >= 5:
            response.protocol_type, response.protocol_name = group.protocol_type, group.protocol
        return response

    async def _complete_sync(self, group: Group, assignments: dict[str, bytes]) -> None:
        generation = group.generation
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        try:
            await self._store(group)
        except BaseException:
            if group.generation == generation:
                group.fail_sync(trio.current_time())
            raise
        if group.generation == generation and group.state == GroupState.COMPLETING:
            group.complete_sync(assignments, trio.current_time())

    async def heartbeat(self, request: m.HeartbeatRequest, version: int) -> m.HeartbeatResponse:
        """Keep a session alive; REBALANCE_IN_PROGRESS asks the member to join again."""
        await self._loaded.wait()
        try:
            group = self._group(request.group_id)
            member = group.member(request.member_id, request.group_instance_id)
            group.check_generation(request.generation_id)
            member.seen_s = trio.current_time()
            if group.state == GroupState.PREPARING:
                raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        except GroupError as error:
            return m.HeartbeatResponse(error_code=error.code)
        return m.HeartbeatResponse()

    async def leave(self, request: m.LeaveGroupRequest, version: int) -> m.LeaveGroupResponse:
        """Remove members from a group."""
        await self._loaded.wait()
        leaving = request.members if version >= 3 else [m.MemberIdentity(request.member_id)]
        group = None if self._directory.read_only else self._groups.get(request.group_id)
        results = []
        are_members_gone = False
        for each in leaving:
            code = ErrorCode.NONE
            try:
                if group is None:
                    raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
                if each.group_instance_id is not None and not each.member_id:
                    member = group.static_member(each.group_instance_id)
                    if member is None:
                        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
                elif each.member_id in group.pending:
                    del group.pending[each.member_id]
                    member = None
                else:
                    member = group.member(each.member_id, each.group_instance_id)
                if member is not None:
                    group.remove(member)
                    are_members_gone = True
            except GroupError as error:
                code = error.code
            results.append(m.MemberResponse(each.member_id, each.group_instance_id, code))
        if group is not None and are_members_gone:
            self._after_change(group, trio.current_time())
        elif group is not None:
            self._go_on(group, trio.current_time())
        if version >= 3:
            return m.LeaveGroupResponse(members=results)
        return m.LeaveGroupResponse(error_code=results[0].error_code)

    def _group(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    async def _store(self, group: Group) -> None:
        value = m.GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=group.protocol,
            leader=group.leader,
            current_state_timestamp=self._directory.clock.now_ms(),
            members=[
                m.MemberMetadata(
                    each.member_id, each.instance_id, each.client_id, each.client_host,
                    int(each.rebalance_timeout_s * 1000), int(each.session_timeout_s * 1000),
                    each.protocols.get(group.protocol or "", b""), each.assignment,
                )
                for each in group.members.values()
            ],
        )  # fmt: skip
        await self._append(group.group_id, [group_change(group.group_id, value)])

    async def _append(self, group: str, changes: list[Change]) -> None:
        # One at a time and in the order of arrival: two threads could store the older of two commits last, or create
        # the topic twice.
        with trio.CancelScope(shield=True):
            async with self._appending:
                await trio.to_thread.run_sync(partial(self._log.append, group, changes))

    # --- offsets -----------------------------------------------------------------------------------------------------

    async def commit(self, request: m.OffsetCommitRequest, version: int) -> m.OffsetCommitResponse:
        """Store committed offsets; in the segment file when answered."""
        await self._loaded.wait()
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED if self._directory.read_only else self._may_commit(request)
        response, changes, stored = m.OffsetCommitResponse(), [], {}
        now = self._directory.clock.now_ms()
        for topic in request.topics:
            answer = m.OffsetCommitResponseTopic(name=topic.name)
            response.topics.append(answer)
            for each in topic.partitions:
                result = m.OffsetCommitResponsePartition(each.partition_index, code)
                answer.partitions.append(result)
                metadata = each.committed_metadata or ""
                if code == ErrorCode.NONE:
                    result.error_code = self._commit_problem(topic.name, each.partition_index, metadata)
                if result.error_code == ErrorCode.NONE:
                    partition = TopicPartition(topic.name, each.partition_index)
                    commit = StoredOffset(each.committed_offset, each.committed_leader_epoch, metadata, now)
                    stored[partition] = commit
                    changes.append(commit_change(request.group_id, partition, commit))
        if changes:
            try:
                await self._append(request.group_id, changes)
            except (StorageError, OSError) as error:
                _log.error("commits of %s could not be stored: %s", request.group_id, error)
                for answer in response.topics:
                    for result in answer.partitions:
                        result.error_code = result.error_code or ErrorCode.COORDINATOR_NOT_AVAILABLE
            else:
                self._offsets.setdefault(request.group_id, {}).update(stored)
        return response

    def _may_commit(self, request: m.OffsetCommitRequest) -> ErrorCode:
        group = self._groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        if generation < 0 and not request.member_id:  # a consumer that assigns partitions to itself
            return ErrorCode.UNKNOWN_MEMBER_ID if group is not None and group.members else ErrorCode.NONE
        try:
            if group is None:
                return ErrorCode.ILLEGAL_GENERATION
            member = group.member(request.member_id, request.group_instance_id)
            group.check_generation(generation)
            member.seen_s = trio.current_time()
            if group.state == GroupState.COMPLETING:
                return ErrorCode.REBALANCE_IN_PROGRESS
        except GroupError as error:
            return error.code
        return ErrorCode.NONE

    def _commit_problem(self, topic: str, partition: int, metadata: str) -> ErrorCode:
        try:
            if not self._directory.has(TopicPartition(topic, partition)):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        except InvalidName:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        size_max = self._settings.offset_metadata_max_bytes
        return ErrorCode.OFFSET_METADATA_TOO_LARGE if len(metadata.encode()) > size_max else ErrorCode.NONE

    async def fetch_offsets(self, request: m.OffsetFetchRequest, version: int) -> m.OffsetFetchResponse:
        """Return committed offsets; -1 where there is none."""
        await self._loaded.wait()
        if version < 8:
            topics = (
                None if request.topics is None else [(each.name, each.partition_indexes) for each in request.topics]
            )
            response = m.OffsetFetchResponse()
            for name, commits in self._fetched(request.group_id, topics):
                found = [m.OffsetFetchResponsePartition(*each) for each in _rows(commits, version)]
                response.topics.append(m.OffsetFetchResponseTopic(name, found))
            return response
        response = m.OffsetFetchResponse()
        for group in request.groups:
            wanted = None if group.topics is None else [(each.name, each.partition_indexes) for each in group.topics]
            answer = m.OffsetFetchResponseGroup(group.group_id)
            for name, commits in self._fetched(group.group_id, wanted):
                partitions = [m.OffsetFetchResponsePartitions(*each) for each in _rows(commits, version)]
                answer.topics.append(m.OffsetFetchResponseTopics(name=name, partitions=partitions))
            response.groups.append(answer)
        return response

    def _fetched(
        self, group: str, topics: list[tuple[str, list[int]]] | None
    ) -> Iterable[tuple[str, list[tuple[int, StoredOffset | None]]]]:
        known = self._offsets.get(group, {})
        if topics is None:
            by_topic: dict[str, list[int]] = {}
            for each in sorted(known):
                by_topic.setdefault(each.topic, []).append(each.partition)
            topics = list(by_topic.items())
        for name, partitions in topics:
            yield name, [(each, _find(known, name, each)) for each in partitions]

    async def delete_offsets(self, request: m.OffsetDeleteRequest, version: int) -> m.OffsetDeleteResponse:
        """Delete committed offsets of an empty group."""
        await self._loaded.wait()
        if request.group_id not in self._groups and request.group_id not in self._offsets:
            return m.OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        group = self._groups.get(request.group_id)
        is_busy = group is not None and bool(group.members)
        response, changes = m.OffsetDeleteResponse(), []
        deleted: list[TopicPartition] = []
        known = self._offsets.get(request.group_id, {})
        for topic in request.topics:
            answer = m.OffsetDeleteResponseTopic(topic.name)
            response.topics.append(answer)
            for each in topic.partitions:
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_busy else ErrorCode.NONE
                answer.partitions.append(m.OffsetDeleteResponsePartition(each.partition_index, code))
                if code == ErrorCode.NONE and _find(known, topic.name, each.partition_index) is not None:
                    partition = TopicPartition(topic.name, each.partition_index)
                    deleted.append(partition)
                    changes.append(commit_change(request.group_id, partition, None))
        if changes:
            try:
                await self._append(request.group_id, changes)
            except (StorageError, OSError, MemoryError) as error:
                _log.error("offsets of group %s could not be deleted: %s", request.group_id, error)
                return m.OffsetDeleteResponse(error_code=code_of(error))
            for partition in deleted:
                known.pop(partition, None)
        return response

    async def forget_topic(self, topic: str) -> None:
        """Delete all groups' committed offsets of a topic that was deleted: a new one of its name begins at 0."""
        await self._loaded.wait()
        for group, offsets in list(self._offsets.items()):
            deleted = [each for each in offsets if each.topic == topic]
            if deleted:
                await self._append(group, [commit_change(group, each, None) for each in deleted])
                for each in deleted:
                    offsets.pop(each, None)

    # --- administration ----------------------------------------------------------------------------------------------

    async def find(self, request: m.FindCoordinatorRequest, version: int) -> m.FindCoordinatorResponse:
        """Return this broker for every group."""
        node = self._node
        if request.key_type != _GROUP_KEY_TYPE:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if version >= 4:
                failed = [m.Coordinator(key, -1, "", -1, code) for key in request.coordinator_keys]
                return m.FindCoordinatorResponse(coordinators=failed)
            return m.FindCoordinatorResponse(error_code=code, node_id=-1)
        if version >= 4:
            found = [m.Coordinator(key, node.node_id, node.host, node.port) for key in request.coordinator_keys]
            return m.FindCoordinatorResponse(coordinators=found)
        return m.FindCoordinatorResponse(node_id=node.node_id, host=node.host, port=node.port)

    def snapshot(self) -> list[GroupSnapshot]:
        """Return all groups, those with committed offsets alone included."""
        return [
            GroupSnapshot(
                name,
                group.state,
                len(group.members),
                {partition: each.offset for partition, each in self._offsets.get(name, {}).items()},
            )
            for name, group in self._known()
        ]

    def _known(self) -> list[tuple[str, Group]]:
        """Return all groups by name, sorted; one that has committed offsets alone is empty."""
        names = {*self._groups, *(name for name, offsets in self._offsets.items() if offsets)}
        return [(name, self._groups.get(name) or Group(name)) for name in sorted(names)]

    async def describe(self, request: m.DescribeGroupsRequest, version: int) -> m.DescribeGroupsResponse:
        """Return state and members of groups."""
        await self._loaded.wait()
        return m.DescribeGroupsResponse(groups=[self._described(name, version) for name in request.groups])

    def _described(self, name: str, version: int) -> m.DescribeGroupsResponseDescribedGroup:
        group = self._groups.get(name)
        if group is None:
            if self._offsets.get(name):
                return m.DescribeGroupsResponseDescribedGroup(group_id=name, group_state=GroupState.EMPTY)
            code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
            return m.DescribeGroupsResponseDescribedGroup(code, group_id=name, group_state=GroupState.DEAD)
        is_stable = group.state == GroupState.STABLE
        return m.DescribeGroupsResponseDescribedGroup(
            group_id=name,
            group_state=group.state,
            protocol_type=group.protocol_type,
            protocol_data=(group.protocol or "") if is_stable else "",
            members=[
                m.DescribedGroupMember(
                    each.member_id,
                    each.instance_id if version >= 4 else None,
                    each.client_id,
                    each.client_host,
                    each.protocols.get(group.protocol or "", b"") if is_stable else b"",
                    each.assignment if is_stable else b"",
                )
                for each in group.members.values()
            ],
        )

    async def list(self, request: m.ListGroupsRequest, version: int) -> m.ListGroupsResponse:
        """Return the groups, those with committed offsets alone included."""
        await self._loaded.wait()
        states = {each.lower() for each in request.states_filter or ()}
        types = {each.lower() for each in request.types_filter or ()}
        response = m.ListGroupsResponse()
        for name, group in self._known():
            if (states and group.state.lower() not in states) or (types and "classic" not in types):
                continue
            listed = m.ListedGroup(name, group.protocol_type)
            if version >= 4:
                listed.group_state = group.state
            if version >= 5:
                listed.group_type = "classic"
            response.groups.append(listed)
        return response

    async def delete(self, request: m.DeleteGroupsRequest, version: int) -> m.DeleteGroupsResponse:
        """Delete empty groups with their offsets."""
        await self._loaded.wait()
        response = m.DeleteGroupsResponse()
        for name in request.groups_names:
            response.results.append(m.DeletableGroupResult(name, await self._delete(name)))
        return response

    async def _delete(self, name: str) -> ErrorCode:
        group, offsets = self._groups.get(name), self._offsets.get(name, {})
        if group is None and not offsets:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group is not None and (group.members or group.state != GroupState.EMPTY):
            return ErrorCode.NON_EMPTY_GROUP
        changes = [*(commit_change(name, each, None) for each in offsets), group_change(name, None)]
        if self._directory.read_only:
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        # Before the append: joins and commits that arrive meanwhile are of a new group, and are stored behind it.
        self._groups.pop(name, None)
        self._offsets.pop(name, None)
        try:
            await self._append(name, changes)
        except (StorageError, OSError, MemoryError) as error:
            _log.error("group %s could not be deleted: %s", name, error)
            if group is not None:
                self._groups.setdefault(name, group)
            self._offsets[name] = {**offsets, **self._offsets.get(name, {})}
            return code_of(error)
        return ErrorCode.NONE


def _find(known: dict[TopicPartition, StoredOffset], topic: str, partition: int) -> StoredOffset | None:
    try:
        return known.get(TopicPartition(topic, partition))
    except InvalidName:
        return None


def _rows(commits: list[tuple[int, StoredOffset | None]], version: int) -> Iterable[tuple[int, int, int, str]]:
    """Return partition, offset, leader epoch and metadata of each, as the response of a version has them."""
    for partition, commit in commits:
        if commit is None:
            yield partition, -1, -1, ""
        else:
            yield partition, commit.offset, commit.leader_epoch if version >= 5 else -1, commit.metadata
