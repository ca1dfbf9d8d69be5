"""Members of consumer groups that use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

While consumers are restarted with `group.protocol=consumer`, one after another, the others stay in the group. To them
the broker is the leader that assigns: a generation is a member epoch, and Heartbeat returns REBALANCE_IN_PROGRESS when
the member has to take its next step. Follows GroupMetadataManager.classicGroupJoinToConsumerGroup and those beside it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from struct import error

import trio

from offsetfs.kafka.broker.groups.consumer_group import ConsumerGroup, ConsumerMember, MemberState
from offsetfs.kafka.broker.groups.consumer_membership import ConsumerMembership
from offsetfs.kafka.broker.groups.group import CONSUMER, Group, GroupError, new_member_id
from offsetfs.kafka.broker.groups.group_conversion import (
    assignment_data,
    common_protocols,
    downgraded,
    is_downgraded,
    partitions_of,
    subscription_of,
)
from offsetfs.kafka.broker.groups.group_table import GroupTable
from offsetfs.kafka.broker.groups.group_update import ClassicJoin
from offsetfs.kafka.broker.groups.topic_patterns import MayDescribe
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.records import ClassicProtocol
from offsetfs.storage.coordinators import Change

_log = logging.getLogger(__name__)

_KNOWN_ID_SINCE = 4  # JoinGroup: a new member joins with the id that it got (KIP-394)
_PROTOCOL_TYPE_SINCE = 7  # JoinGroup
_ASSIGNMENT_TYPE_SINCE = 5  # SyncGroup


class ClassicMembers:
    """The members of consumer groups that use the classic protocol."""

    def __init__(
        self, table: GroupTable, consumers: ConsumerMembership, topics: Topics, settings: ServerSettings
    ) -> None:
        self._table = table
        self._consumers = consumers
        self._topics = topics
        self._settings = settings

    def has(self, name: str) -> bool:
        """Return whether a group is a consumer group with members. Without, the first classic member ends it."""
        group = self._table.consumer(name)
        return group is not None and bool(group.members) and name not in self._table.live

    def _group(self, name: str) -> ConsumerGroup:
        group = self._table.consumer(name)
        if group is None or name in self._table.live:  # converted, or deleted, while the request waited
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        return group

    # --- JoinGroup ---------------------------------------------------------------------------------------------------

    async def join(
        self, request: m.JoinGroupRequest, version: int, client_id: str, host: str, may_describe: MayDescribe | None
    ) -> m.JoinGroupResponse:
        """Let a member join, for the first time or again. GroupError."""
        name, listing = request.group_id, self._topics.all()
        self._check_protocols(self._group(name), request)
        if not request.member_id and request.group_instance_id is None and version >= _KNOWN_ID_SINCE:
            raise GroupError(ErrorCode.MEMBER_ID_REQUIRED, new_member_id(client_id, None))
        joining = self._joining(request, version, client_id, host)
        matches = await self._consumers.match(name, "", listing, may_describe)
        member = ConsumerMember("")

        def make() -> tuple[list[Change], Group | None]:
            nonlocal member
            group = self._group(name)
            self._check_protocols(group, request)
            is_replaced = not request.member_id and request.group_instance_id in group.static
            update = self._consumers.update(group, matches)
            member = update.join(joining)
            members = list(update.group.members.values())
            if not is_replaced or not is_downgraded(members, self._settings):
                return update.changes, None
            classic = downgraded(
                update.group, members, self._topics, trio.current_time(), self._table.directory.clock.now_ms()
            )
            return self._consumers.downgrade(classic), classic

        await self._table.convert(name, make)
        self._consumers.note_listing(name, listing)
        self._consumers.timers.touch(name, member.member_id)
        self._consumers.timers.note_rejoin(name, member.member_id, is_joining=True)
        response = m.JoinGroupResponse(
            generation_id=member.epoch, member_id=member.member_id, protocol_name=_protocol(member).name
        )
        if version >= _PROTOCOL_TYPE_SINCE:
            response.protocol_type = CONSUMER
        return response

    def _joining(self, request: m.JoinGroupRequest, version: int, client_id: str, host: str) -> ClassicJoin:
        try:
            subscription = subscription_of(bytes(request.protocols[0].metadata))
        except (InvalidMessage, error):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None
        member_id = request.member_id or new_member_id(client_id, request.group_instance_id)
        rebalance_ms = request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms
        owned = partitions_of(subscription.owned_partitions, self._topics)
        return ClassicJoin(request, member_id, client_id, host, rebalance_ms, subscription, owned)

    @staticmethod
    def _check_protocols(group: ConsumerGroup, request: m.JoinGroupRequest) -> None:
        """Check that all members of the classic protocol have an assignor in common; INCONSISTENT_GROUP_PROTOCOL."""
        names, common = {protocol.name for protocol in request.protocols}, common_protocols(group.members.values())
        if request.protocol_type != CONSUMER or not (names if common is None else names & common):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    # --- SyncGroup, Heartbeat ----------------------------------------------------------------------------------------

    def sync(self, request: m.SyncGroupRequest, version: int) -> m.SyncGroupResponse:
        """Return the partitions that a member reads. GroupError."""
        group, member = self._member_of(request)
        protocol = _protocol(member)
        if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, protocol.name):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        # A member that has to give up partitions has joined already; it comes back once it has.
        if group.epoch != member.epoch and member.state is not MemberState.UNREVOKED:
            self._consumers.timers.note_rejoin(request.group_id, member.member_id, is_joining=False)
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._consumers.timers.touch(request.group_id, member.member_id)
        self._consumers.timers.note_synced(request.group_id, member.member_id)
        data = assignment_data(member.assigned, self._topics, bytes(protocol.metadata))
        response = m.SyncGroupResponse(assignment=data)
        if version >= _ASSIGNMENT_TYPE_SINCE:
            response.protocol_type, response.protocol_name = CONSUMER, protocol.name
        return response

    def heartbeat(self, request: m.HeartbeatRequest) -> m.HeartbeatResponse:
        """Extend a session; REBALANCE_IN_PROGRESS asks the member to join again. GroupError."""
        group, member = self._member_of(request)
        self._consumers.timers.touch(request.group_id, member.member_id)
        is_released = member.state is MemberState.UNRELEASED and not group.waits_for_others(member)
        if member.epoch != group.epoch or member.state is MemberState.UNREVOKED or is_released:
            self._consumers.timers.note_rejoin(request.group_id, member.member_id, is_joining=False)
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        return m.HeartbeatResponse()

    def _member_of(self, request: m.SyncGroupRequest | m.HeartbeatRequest) -> tuple[ConsumerGroup, ConsumerMember]:
        """Return the group and the member that a request of the member's epoch names."""
        group = self._group(request.group_id)
        member = group.member(request.member_id, request.group_instance_id)
        _check_classic(member)
        if request.generation_id != member.epoch:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        return group, member

    # --- LeaveGroup --------------------------------------------------------------------------------------------------

    async def leave(self, name: str, leaving: Sequence[m.MemberIdentity]) -> list[m.MemberResponse]:
        """Remove members; return the code for each. GroupError if it cannot be stored."""
        group, gone, results, slices = self._group(name), set[str](), list[m.MemberResponse](), Slices()
        for identity in leaving:
            await slices.step()
            result = m.MemberResponse(identity.member_id, identity.group_instance_id)
            try:
                gone.add(_leaving(group, identity).member_id)
            except GroupError as refusal:
                result.error_code = refusal.code
            results.append(result)
        if gone:
            _log.debug("group %s: %d members leave", name, len(gone))
            await self._consumers.remove(name, lambda: gone)
        return results


def _leaving(group: ConsumerGroup, leaving: m.MemberIdentity) -> ConsumerMember:
    """Return the member that leaves: by its id, or a static one by its instance id alone."""
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if instance_id is not None and not member_id:
        member_id = group.static.get(instance_id, "")
    return group.member(member_id, instance_id)


def _check_classic(member: ConsumerMember) -> None:
    if member.classic is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)


def _protocol(member: ConsumerMember) -> ClassicProtocol:
    """Return the assignor that a member prefers, with its subscription."""
    protocols = [] if member.classic is None else member.classic.supported_protocols
    return protocols[0] if protocols else ClassicProtocol()
