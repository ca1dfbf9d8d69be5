"""Membership of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and the time-outs of members.

An assignment is answered when it is in the segment file of `__consumer_offsets`. Follows Kafka's GroupMetadataManager
for classic groups.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import trio

from offsetfs.kafka.broker.groups.classic_members import ClassicMembers
from offsetfs.kafka.broker.groups.group import (
    LOOKUPS_OF_A_CLIENT,
    Answer,
    CoordinatorLookups,
    Group,
    GroupError,
    GroupState,
    Member,
    Peer,
    new_member_id,
)
from offsetfs.kafka.broker.groups.group_memory import size_of, size_of_join
from offsetfs.kafka.broker.groups.group_table import GroupTable
from offsetfs.kafka.broker.groups.topic_patterns import MayDescribe
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode

_log = logging.getLogger(__name__)

PROTOCOLS_MAX = 1000
"""Assignors that a member offers, at most: clients offer less than ten, and all are compared with those of others."""

_PROTOCOL_SINCE = 5  # SyncGroup names the protocol
_LOOKED_UP_DELAY_S = 0.2  # how long an empty group waits for more members if several clients have looked it up

_KNOWN_ID_SINCE = 4  # JoinGroup: a new member joins with the id that it got (KIP-394)
_SKIP_SINCE = 9  # JoinGroup: a leader that comes back need not assign (KIP-814)


class Membership:
    """The members of all groups."""

    def __init__(self, table: GroupTable, classic: ClassicMembers, settings: ServerSettings) -> None:
        """`classic`: the members of consumer groups that use the classic protocol."""
        self._table = table
        self._classic = classic
        self._settings = settings
        self._delay_s = settings.group_initial_rebalance_delay_ms / 1000
        self._lookups = CoordinatorLookups()

    # --- time-outs ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """End sessions and rebalances until cancelled."""
        for group in self._table.live.values():
            if len(group.members) > self._settings.group_max_size:  # the limit was lowered: some cannot join again
                group.prepare_rebalance(trio.current_time())
                self._table.deadlines.schedule(group)
        async with trio.open_nursery() as nursery:
            while True:
                for group in self._table.due(trio.current_time()):
                    nursery.start_soon(self._expire_one, group)
                await self._table.deadlines.wait()

    async def _expire_one(self, group: Group) -> None:
        try:
            await self.expire(group, trio.current_time())
        except GroupError as error:  # reported where it could not be stored; what is stored has members, as before
            _log.debug("group %s: %s", group.group_id, error)
        except Exception:  # a bug: it must not end the broker, and the other groups go on
            _log.exception("group %s: expiry of its members failed", group.group_id)

    async def expire(self, group: Group, now_s: float) -> None:
        """Remove members whose time is over; let a rebalance go on that waited for them. GroupError."""
        are_members_gone, are_ids_gone = group.expire(now_s)
        if are_members_gone:
            self._members_left(group, now_s)
        elif are_ids_gone:
            self._ids_left(group, now_s)
        if group.state == GroupState.EMPTY and not group.pending and not group.generation:
            self._table.live.pop(group.group_id, None)  # nothing of it was ever stored
            return
        await self._go_on(group, now_s)

    async def _go_on(self, group: Group, now_s: float) -> None:
        """End the first phase of a rebalance if it waits for nothing; store a group that is empty then. GroupError."""
        is_over = group.state == GroupState.PREPARING and now_s >= group.rebalance_ends_s
        waits = not is_over or group.extend_initial(now_s)
        is_left_empty = not waits and group.complete_join(now_s, self._table.directory.clock.now_ms())
        self._table.deadlines.schedule(group)
        if is_left_empty:
            self._lookups.forget(group.group_id)
            # Without a check: what is stored of the next generation is behind it.
            await self._table.store(group, lambda: None)

    def _members_left(self, group: Group, now_s: float) -> None:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING):
            group.prepare_rebalance(now_s)
        self._ids_left(group, now_s)

    @staticmethod
    def _ids_left(group: Group, now_s: float) -> None:
        if group.state == GroupState.PREPARING and group.have_all_joined():
            group.rebalance_ends_s = min(group.rebalance_ends_s, now_s)

    # --- FindCoordinator, JoinGroup ----------------------------------------------------------------------------------

    def note_lookup(self, request: m.FindCoordinatorRequest, peer: Peer) -> None:
        """Note that a client is about to join a group, if it has looked up the coordinator of one group."""
        keys = request.coordinator_keys or [request.key]
        if request.key_type == 0 and len(keys) == 1:  # administrators look up several
            self._lookups.note(keys[0], peer, trio.current_time())

    async def join(
        self,
        request: m.JoinGroupRequest,
        version: int,
        client_id: str,
        host: str,
        may_describe: MayDescribe | None = None,
    ) -> m.JoinGroupResponse:
        """Let a member join; answered when all members have joined, or the rebalance time is over.

        `may_describe`: which topics may match the regular expressions of the group; None: all of them.
        """
        try:
            self._check_join(request)
            await self._table.current(request.group_id)
            self._take_memory(request, version)
            if self._classic.has(request.group_id):
                return await self._classic.join(request, version, client_id, host, may_describe)
            return await self._join(request, version, client_id, host)
        except GroupError as error:
            return m.JoinGroupResponse(
                error_code=error.code,
                member_id=error.member_id or request.member_id,
                protocol_name="" if version < 7 else None,
            )

    def _check_join(self, request: m.JoinGroupRequest) -> None:
        self._check(request.group_id)
        if len(request.protocols) > PROTOCOLS_MAX:
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        shortest_ms = self._settings.group_min_session_timeout_ms
        longest_ms = self._settings.group_max_session_timeout_ms
        if not shortest_ms <= request.session_timeout_ms <= longest_ms:
            raise GroupError(ErrorCode.INVALID_SESSION_TIMEOUT)

    def _take_memory(self, request: m.JoinGroupRequest, version: int) -> None:
        """Note the metadata of a member that joins; GROUP_MAX_SIZE_REACHED."""
        group = self._table.live.get(request.group_id)
        known = None if group is None else group.members.get(request.member_id)
        size = size_of_join(request)
        if not request.member_id and request.group_instance_id is None and version >= _KNOWN_ID_SINCE:
            size = 0  # it gets an id, and brings its metadata with the next request
        self._table.memory.take(size, None if known is None else size_of(known.protocols))

    def _check(self, group_id: str) -> None:
        if not group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        # An error that clients report: they would retry COORDINATOR_NOT_AVAILABLE forever.
        if self._table.directory.read_only:
            raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    async def _join(self, request: m.JoinGroupRequest, version: int, client_id: str, host: str) -> m.JoinGroupResponse:
        group = self._joined_group(request)
        holder = None
        if not request.member_id and request.group_instance_id is not None:
            holder = group.static_member(request.group_instance_id)
        if holder is not None:
            return await self._rejoin_static(group, holder, request, version, client_id)
        if request.member_id in group.pending and request.group_instance_id is not None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)  # this id was given to a member without an instance id
        if request.member_id and request.member_id not in group.pending:
            member = group.member(request.member_id, request.group_instance_id)
            if not self._must_rebalance(group, member, _protocols(request)):
                self._update(member, request, version)
                return _joined(group, member, version)
            return await self._rebalance(group, member, request, version)
        if not request.member_id and request.group_instance_id is None and version >= _KNOWN_ID_SINCE:
            member_id = new_member_id(client_id, None)
            group.pending[member_id] = trio.current_time() + request.session_timeout_ms / 1000
            self._table.deadlines.schedule(group)
            raise GroupError(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        member_id = request.member_id or new_member_id(client_id, request.group_instance_id)
        member = Member(member_id, request.group_instance_id, client_id, host, 0.0, 0.0, {})
        return await self._rebalance(group, member, request, version)

    def _joined_group(self, request: m.JoinGroupRequest) -> Group:
        """Return the group of a member that joins, a new one for the first member."""
        name = request.group_id
        group = self._table.live.get(name)
        if group is None:
            if self._table.has_newer_members(name):
                raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if request.member_id:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            if not request.protocol_type or not request.protocols:
                raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            group = self._table.live[name] = Group(name)
        if not group.accepts(request.member_id, self._settings.group_max_size):
            member = group.members.get(request.member_id)
            if member is not None:
                group.remove(member)
            group.pending.pop(request.member_id, None)
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return group

    @staticmethod
    def _must_rebalance(group: Group, member: Member, protocols: dict[str, bytes]) -> bool:
        """Return whether a member that joins again changes the group; else its answer may have been lost."""
        if group.state == GroupState.EMPTY:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state == GroupState.PREPARING or not member.offers(protocols):
            return True
        return group.state == GroupState.STABLE and group.leader == member.member_id

    def _update(self, member: Member, request: m.JoinGroupRequest, version: int) -> None:
        member.protocols, member.seen_s = _protocols(request), trio.current_time()
        member.session_timeout_s = request.session_timeout_ms / 1000
        rebalance_ms = request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms
        member.rebalance_timeout_s = rebalance_ms / 1000

    async def _rebalance(
        self, group: Group, member: Member, request: m.JoinGroupRequest, version: int
    ) -> m.JoinGroupResponse:
        """Let a new or changed member wait for the next generation."""
        now_s = trio.current_time()
        self._update(member, request, version)
        if member.member_id not in group.members:
            group.add(member)
        group.protocol_type = request.protocol_type
        if member.joining is not None:  # an earlier request of the same member, on a connection that is gone
            member.joining.set(ErrorCode.UNKNOWN_MEMBER_ID)
        member.joining = answer = Answer()
        lookups = self._lookups.count(group.group_id, now_s) if not self._delay_s else 0
        if group.state != GroupState.PREPARING:
            # Members with an id may never join: only a rebalance of a group with members waits longer for them.
            has_others = lookups > LOOKUPS_OF_A_CLIENT or bool(group.pending)
            group.prepare_rebalance(now_s, _LOOKED_UP_DELAY_S if has_others else self._delay_s)
        if not self._delay_s:
            group.expect(lookups)
        if group.have_all_joined():
            group.complete_join(now_s, self._table.directory.clock.now_ms())
        self._table.deadlines.schedule(group)
        try:
            await answer.wait()
        finally:
            if member.joining is answer:  # the client is gone: it does not count as joined, and its session can end
                member.joining = None
                self._table.deadlines.schedule(group)
        if answer.code != ErrorCode.NONE:
            raise GroupError(answer.code, member.member_id)
        return _joined(group, member, version)

    async def _rejoin_static(
        self, group: Group, member: Member, request: m.JoinGroupRequest, version: int, client_id: str
    ) -> m.JoinGroupResponse:
        """Let a static member that was restarted take its place under a new id, without a rebalance if it can."""
        leader_before, id_before = group.leader, member.member_id
        before = member.protocols, member.session_timeout_s, member.rebalance_timeout_s
        group.replace_static(member, new_member_id(client_id, request.group_instance_id))
        self._update(member, request, version)
        self._table.deadlines.schedule(group)
        # Before Stable the leader assigns partitions to the id that is gone.
        if group.state != GroupState.STABLE or group.elected() != group.protocol:
            return await self._rebalance(group, member, request, version)
        member_id, generation = member.member_id, group.generation

        def check() -> None:
            if group.generation != generation or group.members.get(member_id) is not member:
                raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, member_id)

        try:
            await self._table.store(group, check)
        except GroupError:
            if group.members.get(member_id) is member:
                group.replace_static(member, id_before)
                member.protocols, member.session_timeout_s, member.rebalance_timeout_s = before
            raise
        if version >= _SKIP_SINCE:
            return _joined(group, member, version, skips_assignment=group.leader == member_id)
        response = _joined(group, member, version)
        # The former id of the leader: it must not assign, because no member joins again.
        response.leader, response.members = leader_before or "", []
        return response

    # --- SyncGroup ---------------------------------------------------------------------------------------------------

    async def sync(self, request: m.SyncGroupRequest, version: int) -> m.SyncGroupResponse:
        """Return what the member reads; waits for the leader, which sends it."""
        try:
            if version >= _PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
                raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            await self._check_current(request.group_id)
            if self._classic.has(request.group_id):
                return self._classic.sync(request, version)
            group, member = self._member_of(request)
            self._check_protocol(group, request)
            if group.state == GroupState.PREPARING:
                raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
            member.seen_s, member.has_synced = trio.current_time(), True
            if group.state == GroupState.COMPLETING:
                await self._wait_for_assignment(group, member, request)
            group.note_synced()
        except GroupError as error:
            return m.SyncGroupResponse(error_code=error.code)
        response = m.SyncGroupResponse(assignment=member.assignment)
        if version >= _PROTOCOL_SINCE:
            response.protocol_type, response.protocol_name = group.protocol_type, group.protocol
        return response

    @staticmethod
    def _check_protocol(group: Group, request: m.SyncGroupRequest) -> None:
        is_type_other = request.protocol_type is not None and request.protocol_type != group.protocol_type
        is_name_other = request.protocol_name is not None and request.protocol_name != group.protocol
        if is_type_other or is_name_other:
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    async def _wait_for_assignment(self, group: Group, member: Member, request: m.SyncGroupRequest) -> None:
        if member.syncing is not None:  # an earlier request of the same member, on a connection that is gone
            member.syncing.set(ErrorCode.UNKNOWN_MEMBER_ID)
        member.syncing = answer = Answer()
        try:
            if group.leader == member.member_id:
                await self._assign(
                    group, {assignment.member_id: bytes(assignment.assignment) for assignment in request.assignments}
                )
            await answer.wait()
        finally:
            if member.syncing is answer:  # the client is gone, or its assignment could not be stored
                member.syncing = None
                self._table.deadlines.schedule(group)
        if answer.code != ErrorCode.NONE:
            raise GroupError(answer.code)

    async def _assign(self, group: Group, assignments: dict[str, bytes]) -> None:
        generation = group.generation
        given = {member_id: assignments.get(member_id, b"") for member_id in group.members}

        def check() -> None:
            if group.generation != generation or group.state != GroupState.COMPLETING:
                raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

        try:
            await self._table.store(group, check, given)
            check()
        except GroupError:
            if group.generation == generation and group.state == GroupState.COMPLETING:
                group.prepare_rebalance(trio.current_time())  # waiting members join again
                self._table.deadlines.schedule(group)
            raise
        group.complete_sync(assignments, trio.current_time(), self._table.directory.clock.now_ms())
        self._table.deadlines.schedule(group)

    # --- Heartbeat, LeaveGroup ---------------------------------------------------------------------------------------

    async def heartbeat(self, request: m.HeartbeatRequest, version: int) -> m.HeartbeatResponse:
        """Keep a session alive; REBALANCE_IN_PROGRESS asks the member to join again."""
        try:
            await self._check_current(request.group_id)
            if self._classic.has(request.group_id):
                return self._classic.heartbeat(request)
            group, member = self._member_of(request)
            member.seen_s = trio.current_time()
            if group.state == GroupState.PREPARING:
                raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        except GroupError as error:
            return m.HeartbeatResponse(error_code=error.code)
        return m.HeartbeatResponse()

    async def leave(self, request: m.LeaveGroupRequest, version: int) -> m.LeaveGroupResponse:
        """Remove members from a group; answered when a group without members is in the segment file."""
        try:
            await self._check_current(request.group_id)
            leaving = request.members if version >= 3 else [m.MemberIdentity(request.member_id)]
            if self._classic.has(request.group_id):
                results = await self._classic.leave(request.group_id, leaving)
            else:
                results = await self._leave(request.group_id, leaving)
        except GroupError as error:
            return m.LeaveGroupResponse(error_code=error.code)
        if version >= 3:
            return m.LeaveGroupResponse(members=results)
        return m.LeaveGroupResponse(error_code=results[0].error_code)

    async def _leave(self, name: str, leaving: Sequence[m.MemberIdentity]) -> list[m.MemberResponse]:
        results, slices, are_members_gone = list[m.MemberResponse](), Slices(), False
        for identity in leaving:
            await slices.step()
            group = self._table.live.get(name)
            size_before = 0 if group is None else len(group.members)
            results.append(m.MemberResponse(identity.member_id, identity.group_instance_id, _leave(group, identity)))
            are_members_gone |= group is not None and len(group.members) < size_before
        group = self._table.live.get(name)
        if group is not None:
            now_s = trio.current_time()
            changed = self._members_left if are_members_gone else self._ids_left
            changed(group, now_s)
            await self._go_on(group, now_s)
        return results

    async def _check_current(self, name: str) -> None:
        self._check(name)
        await self._table.current(name)

    def _member_of(self, request: m.SyncGroupRequest | m.HeartbeatRequest) -> tuple[Group, Member]:
        """Return the group and the member that a request of the current generation names."""
        group = self._table.live.get(request.group_id)
        if group is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        return group, member


def _leave(group: Group | None, leaving: m.MemberIdentity) -> ErrorCode:
    """Remove a member: by its id, or a static one by its instance id alone. Return the code of its answer."""
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_id in group.pending:
        del group.pending[member_id]
        return ErrorCode.NONE
    try:
        static = group.static_member(instance_id) if instance_id is not None and not member_id else None
        group.remove(static or group.member(member_id, instance_id))
    except GroupError as error:
        # No member has the instance id, so none fences this one.
        return ErrorCode.UNKNOWN_MEMBER_ID if not member_id else error.code
    return ErrorCode.NONE


def _protocols(request: m.JoinGroupRequest) -> dict[str, bytes]:
    return {protocol.name: bytes(protocol.metadata) for protocol in request.protocols}


def _joined(group: Group, member: Member, version: int, *, skips_assignment: bool = False) -> m.JoinGroupResponse:
    protocol = group.protocol or ""
    return m.JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type if version >= 7 else None,
        protocol_name=protocol,
        leader=group.leader or "",
        skip_assignment=skips_assignment,
        member_id=member.member_id,
        members=[
            m.JoinGroupResponseMember(
                participant.member_id,
                participant.instance_id if version >= 5 else None,
                participant.protocols.get(protocol, b""),
            )
            for participant in (group.members.values() if group.leader == member.member_id else ())
        ],
    )
