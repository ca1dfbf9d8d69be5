"""Membership of consumer groups (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe, and the members' time-outs.

A heartbeat that changes something is answered when its records are in the segment file of `__consumer_offsets`; one
that changes nothing looks at its member alone. Follows Kafka's GroupMetadataManager for consumer groups.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import trio

from offsetfs.broker.assignors import Assignment
from offsetfs.broker.consumer_group import LEFT_STATIC, ConsumerGroup, ConsumerMember, MemberState, rows
from offsetfs.broker.deadline_queue import NEVER_S, DeadlineQueue
from offsetfs.broker.error_codes import ErrorCode
from offsetfs.broker.group import GroupError, GroupState
from offsetfs.broker.group_table import GroupTable
from offsetfs.broker.group_update import GroupUpdate, Heartbeat, Matches
from offsetfs.broker.partitions import Topic, Topics
from offsetfs.broker.settings import ServerSettings
from offsetfs.broker.topic_patterns import check_pattern, matching
from offsetfs.protocol import messages as m
from offsetfs.runtime.threads import in_thread
from offsetfs.storage.coordinators import Change, ClassicGroupChange

_log = logging.getLogger(__name__)

_LEAVES = -1
_ID_REQUIRED_SINCE = 1  # ConsumerGroupHeartbeat: members make their ids themselves
_PATTERNS_MAX = 1000
_RETRY_S = 1.0
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


@dataclass(slots=True, eq=False)
class MemberTimer:
    """The time-outs of one member. `revoking_epoch`: the epoch in which it has to give up partitions; -1 for none."""

    group_id: str
    member_id: str
    session_ends_s: float
    revokes_by_s: float = NEVER_S
    revoking_epoch: int = -1
    scheduled_s: float = NEVER_S

    def deadline_s(self) -> float:
        return min(self.session_ends_s, self.revokes_by_s)


class ConsumerMembership:
    """The members of all consumer groups."""

    def __init__(self, table: GroupTable, topics: Topics, settings: ServerSettings) -> None:
        self._table = table
        self._topics = topics
        self._settings = settings
        self._session_s = settings.group_consumer_session_timeout_ms / 1000
        self._timers: dict[tuple[str, str], MemberTimer] = {}
        self._deadlines = DeadlineQueue[MemberTimer]()
        self._matched: dict[str, frozenset[str]] = {}
        self._matched_in: object = None
        """The topics in which the regular expressions of `_matched` were looked up."""
        table.on_member = self._note_member

    # --- time-outs ---------------------------------------------------------------------------------------------------

    def _note_member(self, group_id: str, member_id: str, member: ConsumerMember | None) -> None:
        """Begin the session of a member that is new, and the time that it has to give up partitions."""
        key = (group_id, member_id)
        if member is None:
            self._timers.pop(key, None)
            return
        now_s = trio.current_time()
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = MemberTimer(group_id, member_id, now_s + self._session_s)
        if member.state is not MemberState.UNREVOKED:
            timer.revokes_by_s, timer.revoking_epoch = NEVER_S, -1
        elif timer.revoking_epoch != member.epoch:
            timer.revokes_by_s, timer.revoking_epoch = now_s + member.rebalance_timeout_ms / 1000, member.epoch
        self._deadlines.schedule(timer)

    def _touch(self, group_id: str, member_id: str) -> None:
        timer = self._timers.get((group_id, member_id))
        if timer is not None:
            timer.session_ends_s = trio.current_time() + self._session_s
            self._deadlines.schedule(timer)

    async def run(self) -> None:
        """Remove members whose time is over, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                now_s = trio.current_time()
                for timer in self._deadlines.due(now_s):
                    if timer.deadline_s() > now_s:
                        self._deadlines.schedule(timer)
                    else:
                        nursery.start_soon(self._expire, timer)
                await self._deadlines.wait()

    async def _expire(self, timer: MemberTimer) -> None:
        """Remove a member whose time is over, unless it has sent a heartbeat meanwhile."""

        def make() -> list[Change]:
            group = self._table.consumer(timer.group_id)
            is_over = timer.deadline_s() <= trio.current_time()
            if group is None or timer.member_id not in group.members or not is_over:
                return []
            return self._removal(group, timer.member_id)

        try:
            await self._table.current(timer.group_id)
            await self._table.append(timer.group_id, make)
        except GroupError as error:  # reported where it could not be stored
            _log.debug("group %s: %s", timer.group_id, error)
            await trio.sleep(_RETRY_S)
        except Exception:  # a bug: it must not end the broker, and the other groups go on
            _log.exception("group %s: expiry of member %s failed", timer.group_id, timer.member_id)
            return
        if self._timers.get((timer.group_id, timer.member_id)) is timer:
            self._deadlines.schedule(timer)

    def _removal(self, group: ConsumerGroup, member_id: str) -> list[Change]:
        update = self._update(group)
        update.remove(member_id)
        return update.changes

    def _update(self, group: ConsumerGroup, matches: Matches | None = None) -> GroupUpdate:
        return GroupUpdate(group, self._topics, self._settings, matches or {}, self._table.directory.clock.now_ms())

    # --- ConsumerGroupHeartbeat --------------------------------------------------------------------------------------

    async def heartbeat(
        self, request: m.ConsumerGroupHeartbeatRequest, version: int, client_id: str, host: str
    ) -> m.ConsumerGroupHeartbeatResponse:
        """Let a member join, go on or leave."""
        try:
            self._check(request, version)
            # An error that clients report: they would retry COORDINATOR_NOT_AVAILABLE forever.
            if self._table.directory.read_only:
                raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            await self._table.current(request.group_id)
            if request.member_epoch < 0:
                return await self._leave(request)
            if self._changes_nothing(request, client_id, host):
                self._touch(request.group_id, request.member_id)
                return self._response(request.member_id, request.member_epoch)
            member_id = request.member_id or str(uuid.uuid4())
            return await self._heartbeat(Heartbeat(request, member_id, client_id, host))
        except GroupError as error:
            return m.ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)

    def _check(self, request: m.ConsumerGroupHeartbeatRequest, version: int) -> None:
        epoch = request.member_epoch
        if not request.member_id and (version >= _ID_REQUIRED_SINCE or epoch > 0 or epoch == _LEAVES):
            raise _invalid("MemberId can't be empty.")
        for name, value in (
            ("GroupId", request.group_id), ("InstanceId", request.instance_id), ("RackId", request.rack_id),
        ):  # fmt: skip
            if value is not None and not value.strip():
                raise _invalid(f"{name} can't be empty.")
        if epoch == 0:
            if request.rebalance_timeout_ms == -1:
                raise _invalid("RebalanceTimeoutMs must be provided in first request.")
            if request.topic_partitions is None or request.topic_partitions:
                raise _invalid("TopicPartitions must be empty when (re-)joining.")
            if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
                raise _invalid(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
                )
        elif epoch == LEFT_STATIC and request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
        elif epoch < LEFT_STATIC:
            raise _invalid("MemberEpoch is invalid.")
        known = self._settings.consumer_assignors
        if request.server_assignor is not None and request.server_assignor not in known:
            reason = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            raise GroupError(ErrorCode.UNSUPPORTED_ASSIGNOR, message=reason + ", ".join(known) + ".")

    def _changes_nothing(self, request: m.ConsumerGroupHeartbeatRequest, client_id: str, host: str) -> bool:
        """Return whether a heartbeat only says that its member is there."""
        group = self._table.consumer(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if group is None or member is None or member.epoch != request.member_epoch:
            return False
        says_more = (
            request.rack_id is not None
            or request.subscribed_topic_names is not None
            or request.subscribed_topic_regex is not None
            or request.server_assignor is not None
            or request.rebalance_timeout_ms != -1
            or request.instance_id not in (None, member.instance_id)
        )
        if says_more or (member.client_id, member.client_host) != (client_id, host):
            return False
        is_current = group.epoch == group.assignment_epoch and group.listing is self._topics.all()
        return is_current and member.classic is None and member.is_reconciled(group.assignment_epoch)

    async def _heartbeat(self, beat: Heartbeat) -> m.ConsumerGroupHeartbeatResponse:
        request, listing = beat.request, self._topics.all()
        matches = await self._match(request, listing)
        response = m.ConsumerGroupHeartbeatResponse()

        def make() -> list[Change]:
            nonlocal response
            conversion, group = self._joined_group(request)
            update = self._update(group, matches)
            member, is_changed = update.heartbeat(beat)
            response = self._response(member.member_id, member.epoch)
            if beat.is_full or is_changed:
                response.assignment = m.ConsumerGroupHeartbeatResponseAssignment(
                    [m.ConsumerGroupHeartbeatResponseTopicPartitions(*each) for each in rows(member.assigned)]
                )
            return [*conversion, *update.changes]

        await self._table.convert(request.group_id, make)
        group = self._table.consumer(request.group_id)
        if group is not None:
            group.listing = listing
        self._touch(request.group_id, beat.member_id)
        return response

    def _joined_group(self, request: m.ConsumerGroupHeartbeatRequest) -> tuple[list[Change], ConsumerGroup]:
        """Return the group of a heartbeat, a new one for the first member, and what ends a classic group before it."""
        name = request.group_id
        found = self._table.consumer(name)
        live = self._table.live.get(name)
        if found is not None and live is None:
            return [], found
        if request.member_epoch > 0:
            kind = "not found" if found is None and live is None else "is not a consumer group"
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message=f"Group {name} {kind}.")
        stored = self._table.stored(name)
        is_other = found is None and bool(stored.newer)
        if is_other or (live is not None and live.state != GroupState.EMPTY):
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message=f"Group {name} is not a consumer group.")
        ends: list[Change] = [] if stored.metadata is None else [ClassicGroupChange(name, None)]
        return ends, found or ConsumerGroup(name)

    async def _match(self, request: m.ConsumerGroupHeartbeatRequest, listing: Mapping[str, Topic]) -> Matches:
        """Return the topics of `listing` that match the regular expressions of the group and of the request."""
        if self._matched_in is not listing or len(self._matched) > _PATTERNS_MAX:
            self._matched, self._matched_in = {}, listing
        matched = self._matched
        group = self._table.consumer(request.group_id)
        wanted = {request.subscribed_topic_regex or "", *(() if group is None else group.subscribed_regexes)} - {""}
        for regex in wanted - matched.keys():
            check_pattern(regex)
            matched[regex] = await in_thread(partial(matching, regex, list(listing)))
        return {regex: matched[regex] for regex in wanted}

    def _response(self, member_id: str, epoch: int) -> m.ConsumerGroupHeartbeatResponse:
        interval_ms = self._settings.group_consumer_heartbeat_interval_ms
        return m.ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms
        )

    async def _leave(self, request: m.ConsumerGroupHeartbeatRequest) -> m.ConsumerGroupHeartbeatResponse:
        def make() -> list[Change]:
            group = self._group(request.group_id)
            member = group.member(request.member_id, request.instance_id)
            update = self._update(group)
            if request.member_epoch == LEFT_STATIC:
                update.leave_for_now(member)
            else:
                update.remove(member.member_id)
            return update.changes

        make()  # nothing is created for a group that does not exist
        await self._table.append(request.group_id, make)
        return m.ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def _group(self, name: str) -> ConsumerGroup:
        found = self._table.consumer(name)
        if found is not None and name not in self._table.live:
            return found
        reason = f"Group {name} is not a consumer group." if self._table.is_known(name) else f"Group {name} not found."
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message=reason)

    # --- ConsumerGroupDescribe ---------------------------------------------------------------------------------------

    async def describe(self, request: m.ConsumerGroupDescribeRequest, version: int) -> m.ConsumerGroupDescribeResponse:
        """Return state and members of consumer groups."""
        groups = [await self._described(name, version) for name in request.group_ids]
        return m.ConsumerGroupDescribeResponse(groups=groups)

    async def _described(self, name: str, version: int) -> m.ConsumerGroupDescribeResponseDescribedGroup:
        try:
            if not name:
                raise GroupError(ErrorCode.INVALID_GROUP_ID)
            await self._table.current(name)
            group = self._group(name)
        except GroupError as error:
            return m.ConsumerGroupDescribeResponseDescribedGroup(error.code, error.message, name)
        return m.ConsumerGroupDescribeResponseDescribedGroup(
            group_id=name,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=group.preferred_assignor(self._settings.consumer_assignors[0]),
            members=[self._described_member(group, each, version) for each in group.members.values()],
        )

    def _described_member(
        self, group: ConsumerGroup, member: ConsumerMember, version: int
    ) -> m.ConsumerGroupDescribeResponseMember:
        found = m.ConsumerGroupDescribeResponseMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.regex,
            assignment=self._named(member.assigned),
            target_assignment=self._named(group.targets.get(member.member_id, {})),
        )
        if version >= 1:
            found.member_type = _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER
        return found

    def _named(self, assignment: Assignment) -> m.ConsumerGroupDescribeResponseAssignment:
        """Return an assignment with the names of topics; of those that there are."""
        named = ((topic, self._topics.name_of(topic), each) for topic, each in rows(assignment))
        return m.ConsumerGroupDescribeResponseAssignment(
            [m.ConsumerGroupDescribeResponseTopicPartitions(topic, name, each) for topic, name, each in named if name]
        )


def _invalid(reason: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_REQUEST, message=reason)
