"""Membership of consumer groups (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe, and the members' time-outs.

A heartbeat that changes something is answered when its records are in the segment file of `__consumer_offsets`; those
that arrive during an append share the next one. A heartbeat that changes nothing looks at its member alone. Follows
Kafka's GroupMetadataManager for consumer groups.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence

import trio

from offsetfs.kafka.broker.groups.assignors import Assignment
from offsetfs.kafka.broker.groups.consumer_group import LEFT_STATIC, ConsumerGroup, ConsumerMember, rows
from offsetfs.kafka.broker.groups.deadlines import MemberTimer, MemberTimers
from offsetfs.kafka.broker.groups.group import Group, GroupError, GroupState
from offsetfs.kafka.broker.groups.group_conversion import check_upgrade, downgraded, is_downgraded, upgraded
from offsetfs.kafka.broker.groups.group_table import GroupTable
from offsetfs.kafka.broker.groups.group_update import GroupUpdate, Heartbeat, HeartbeatQueue, Matches, WaitingHeartbeat
from offsetfs.kafka.broker.groups.topic_patterns import MayDescribe, TopicPatterns
from offsetfs.kafka.broker.operations import GROUP_OPERATIONS, show_group_operations
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.partitions import ServedTopic, Topics
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage.coordinators import Change, ClassicGroupChange, newer_deletions

_log = logging.getLogger(__name__)

_LEAVES = -1
SUBSCRIBED_MAX = 10_000
"""Topics that a member names, at most: each is stored, counted and compared with each change of the group. Clients with
more use a regular expression."""
_ID_REQUIRED_SINCE = 1  # ConsumerGroupHeartbeat: members make their ids themselves
_PATTERNS_MAX = 1000
_RETRY_S = 1.0
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


class ConsumerMembership:
    """The members of all consumer groups."""

    def __init__(self, table: GroupTable, timers: MemberTimers, topics: Topics, settings: ServerSettings) -> None:
        self._table = table
        self._topics = topics
        self._settings = settings
        self._queues: dict[str, HeartbeatQueue] = {}
        self._patterns = TopicPatterns()
        self._matched: dict[str, frozenset[str]] = {}
        self._matched_in: object = None
        """The topics in which the regular expressions of `_matched` were looked up."""
        self.timers = timers

    # --- time-outs ---------------------------------------------------------------------------------------------------

    async def expire(self, timer: MemberTimer) -> None:
        """Remove a member whose time is over, unless it has sent a heartbeat meanwhile."""

        def over() -> set[str]:
            return {timer.member_id} if timer.deadline_s() <= trio.current_time() else set()

        try:
            await self._table.current(timer.group_id)
            await self.remove(timer.group_id, over)
        except GroupError as error:  # reported where it could not be stored
            _log.debug("group %s: %s", timer.group_id, error)
            await trio.sleep(_RETRY_S)
        except Exception:  # a bug: it must not end the broker, and the other groups go on
            _log.exception("group %s: expiry of member %s failed", timer.group_id, timer.member_id)
            return
        self.timers.schedule(timer)

    async def remove(self, name: str, member_ids: Callable[[], set[str]]) -> None:
        """Remove those members of a group that are still there; it may become a classic group. GroupError."""
        now_s = trio.current_time()
        rebalancing: Group | None = None

        def make() -> tuple[list[Change], Group | None]:
            nonlocal rebalancing
            group = self._table.consumer(name)
            if group is None or name in self._table.live:
                return [], self._table.live.get(name)
            gone = member_ids() & group.members.keys()
            if not gone:
                return [], None
            left = [member for member in group.members.values() if member.member_id not in gone]
            if is_downgraded(left, self._settings):
                rebalancing = downgraded(group, left, self._topics, now_s, self._table.directory.clock.now_ms())
                return self.downgrade(rebalancing), rebalancing
            update = self.update(group)
            update.remove(gone)
            return update.changes, None

        await self._table.convert(name, make)
        if rebalancing is not None:
            rebalancing.prepare_rebalance(now_s)
            self._table.deadlines.schedule(rebalancing)

    def downgrade(self, classic: Group) -> list[Change]:
        """Return the changes that make a classic group of a consumer group."""
        name = classic.group_id
        _log.info("group %s: it is a classic group again, with %d members", name, len(classic.members))
        gone = newer_deletions(name, self._table.stored(name).newer)
        return [*gone, ClassicGroupChange(name, classic.stored())]

    def update(self, group: ConsumerGroup, matches: Matches | None = None) -> GroupUpdate:
        """Return an update of a group, without changes so far."""
        return GroupUpdate(group, self._topics, self._settings, matches or {}, self._table.directory.clock.now_ms())

    # --- ConsumerGroupHeartbeat --------------------------------------------------------------------------------------

    async def heartbeat(
        self,
        request: m.ConsumerGroupHeartbeatRequest,
        version: int,
        client_id: str,
        host: str,
        may_describe: MayDescribe | None = None,
    ) -> m.ConsumerGroupHeartbeatResponse:
        """Let a member join, go on or leave.

        `may_describe`: which topics may match its regular expression; None: all of them.
        """
        try:
            self._check(request, version)
            # An error that clients report: they would retry COORDINATOR_NOT_AVAILABLE forever.
            if self._table.directory.read_only:
                raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            await self._table.current(request.group_id)
            if request.member_epoch < 0:
                return await self._leave(request)
            if self._changes_nothing(request, client_id, host):
                self.timers.touch(request.group_id, request.member_id)
                return self._response(request.member_id, request.member_epoch)
            self._take_memory(request)
            member_id = request.member_id or str(uuid.uuid4())
            return await self._heartbeat(Heartbeat(request, member_id, client_id, host), may_describe)
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

    def _take_memory(self, request: m.ConsumerGroupHeartbeatRequest) -> None:
        """Note the topics that a member subscribes to; GROUP_MAX_SIZE_REACHED."""
        if len(request.subscribed_topic_names or ()) > SUBSCRIBED_MAX:
            raise GroupError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, message=f"a member subscribes to more than {SUBSCRIBED_MAX} topics"
            )
        group = self._table.consumer(request.group_id)
        known = None if group is None else group.members.get(request.member_id)
        size = sum(map(len, request.subscribed_topic_names or ()))
        self._table.memory.take(size, None if known is None else sum(map(len, known.topics)))

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

    async def _heartbeat(self, beat: Heartbeat, may_describe: MayDescribe | None) -> m.ConsumerGroupHeartbeatResponse:
        """Answer a heartbeat that changes something, with all others that wait for the group."""
        name, listing = beat.request.group_id, self._topics.all()
        matches = await self.match(name, beat.request.subscribed_topic_regex or "", listing, may_describe)
        waiting = WaitingHeartbeat(beat, matches, listing)
        queue = self._queues.setdefault(name, HeartbeatQueue())
        try:
            async with queue.enter(waiting) as batch:
                if batch:
                    with trio.CancelScope(shield=True):  # others wait for it, too
                        await self._answer(name, batch)
        finally:
            if queue.is_unused and self._queues.get(name) is queue:
                del self._queues[name]
        if waiting.error is not None:
            raise waiting.error
        return waiting.response

    async def _answer(self, name: str, batch: Sequence[WaitingHeartbeat]) -> None:
        """Let the members of all heartbeats go on, with one append; set what each gets."""

        def make() -> tuple[list[Change], Group | None]:
            update, conversion, taken = None, list[Change](), list[WaitingHeartbeat]()
            for waiting in batch:
                waiting.error = None
                try:
                    if update is None:
                        update, conversion = self._joined_group(waiting.beat.request, _all_matches(batch))
                    taken.append(waiting)
                except GroupError as refusal:  # the next one may be the first member
                    waiting.error = refusal
            if update is None:
                return [], self._table.live.get(name)
            for waiting, stepped in zip(taken, update.heartbeats(waiting.beat for waiting in taken), strict=True):
                if isinstance(stepped, GroupError):
                    waiting.error = stepped
                else:
                    waiting.response = self._stepped(waiting.beat, *stepped)
            is_refused = all(waiting.error is not None for waiting in taken)
            return ([], self._table.live.get(name)) if is_refused else ([*conversion, *update.changes], None)

        try:
            await self._table.convert(name, make)
        except Exception as failure:
            refusal = failure if isinstance(failure, GroupError) else GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)
            for waiting in batch:
                waiting.error = refusal
            if refusal is not failure:  # a bug: no member may take it for success
                raise
            return
        if all(waiting.listing is batch[0].listing for waiting in batch):
            self.note_listing(name, batch[0].listing)
        for waiting in batch:
            if waiting.error is None:
                self.timers.touch(name, waiting.beat.member_id)

    def _stepped(self, beat: Heartbeat, member: ConsumerMember, is_changed: bool) -> m.ConsumerGroupHeartbeatResponse:
        response = self._response(member.member_id, member.epoch)
        if beat.is_full or is_changed:
            response.assignment = m.ConsumerGroupHeartbeatResponseAssignment(
                [m.ConsumerGroupHeartbeatResponseTopicPartitions(*row) for row in rows(member.assigned)]
            )
        return response

    def note_listing(self, name: str, listing: Mapping[str, ServedTopic]) -> None:
        """Note that a group has been compared with the topics of `listing`."""
        group = self._table.consumer(name)
        if group is not None:
            group.listing = listing

    def _joined_group(
        self, request: m.ConsumerGroupHeartbeatRequest, matches: Matches
    ) -> tuple[GroupUpdate, list[Change]]:
        """Return an update of the group of a heartbeat, and what ends a classic group before it."""
        name = request.group_id
        group, live, stored = self._table.consumer(name), self._table.live.get(name), self._table.stored(name)
        if group is not None and live is None:
            return self.update(group, matches), []
        if request.member_epoch > 0:
            kind = "not found" if group is None and live is None else "is not a consumer group"
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message=f"Group {name} {kind}.")
        if group is None and stored.newer:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message=f"Group {name} is not a consumer group.")
        update = self.update(group or ConsumerGroup(name), matches)
        ends: list[Change] = [] if stored.metadata is None else [ClassicGroupChange(name, None)]
        if live is not None and live.state != GroupState.EMPTY:
            check_upgrade(live, self._settings)
            update.take(upgraded(live, self._topics))
            _log.info("group %s: it becomes a consumer group, with %d classic members", name, len(live.members))
        return update, ends

    async def match(
        self, name: str, regex: str, listing: Mapping[str, ServedTopic], may_describe: MayDescribe | None
    ) -> Matches:
        """Return the topics of `listing` that match a regular expression.

        If there are other topics than before, also those that match the expressions of the group: as in Kafka, a member
        brings them for all others, with its own permissions.
        """
        if self._matched_in is not listing or len(self._matched) > _PATTERNS_MAX:
            self._matched, self._matched_in = {}, listing
        matched = self._matched
        group = self._table.consumer(name)
        of_group = () if group is None or group.listing is listing else group.subscribed_regexes
        wanted = {regex, *of_group} - {""}
        for pattern in wanted - matched.keys():
            try:
                matched[pattern] = await self._patterns.matching(pattern, list(listing))
            except GroupError:
                if pattern == regex:  # another member's keeps the topics that it had
                    raise
        known = wanted & matched.keys()
        if may_describe is None:
            return {pattern: matched[pattern] for pattern in known}
        return {pattern: frozenset(filter(may_describe, matched[pattern])) for pattern in known}

    def _response(self, member_id: str, epoch: int) -> m.ConsumerGroupHeartbeatResponse:
        interval_ms = self._settings.group_consumer_heartbeat_interval_ms
        return m.ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms
        )

    async def _leave(self, request: m.ConsumerGroupHeartbeatRequest) -> m.ConsumerGroupHeartbeatResponse:
        def member() -> ConsumerMember:
            return self._group(request.group_id).member(request.member_id, request.instance_id)

        def leave_for_now() -> list[Change]:
            update = self.update(self._group(request.group_id))
            update.leave_for_now(member())
            return update.changes

        member()  # nothing is created for a group that does not exist
        if request.member_epoch == LEFT_STATIC:
            await self._table.append(request.group_id, leave_for_now)
        else:
            await self.remove(request.group_id, lambda: {member().member_id})
        return m.ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def _group(self, name: str) -> ConsumerGroup:
        group = self._table.consumer(name)
        if group is not None and name not in self._table.live:
            return group
        reason = f"Group {name} is not a consumer group." if self._table.is_known(name) else f"Group {name} not found."
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message=reason)

    # --- ConsumerGroupDescribe ---------------------------------------------------------------------------------------

    async def describe(self, request: m.ConsumerGroupDescribeRequest, version: int) -> m.ConsumerGroupDescribeResponse:
        """Return state and members of consumer groups."""
        response, slices = m.ConsumerGroupDescribeResponse(), Slices()
        for name in request.group_ids:
            await slices.step()
            response.groups.append(await self._described(name, version))
        show_group_operations(request, response, lambda _: GROUP_OPERATIONS)
        return response

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
            members=[self._described_member(group, member, version) for member in group.members.values()],
        )

    def _described_member(
        self, group: ConsumerGroup, member: ConsumerMember, version: int
    ) -> m.ConsumerGroupDescribeResponseMember:
        described = m.ConsumerGroupDescribeResponseMember(
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
            described.member_type = _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER
        return described

    def _named(self, assignment: Assignment) -> m.ConsumerGroupDescribeResponseAssignment:
        """Return an assignment with the names of topics; of those that there are."""
        named = ((topic, self._topics.name_of(topic), numbers) for topic, numbers in rows(assignment))
        return m.ConsumerGroupDescribeResponseAssignment(
            [
                m.ConsumerGroupDescribeResponseTopicPartitions(topic, name, numbers)
                for topic, name, numbers in named
                if name
            ]
        )


def _all_matches(batch: Sequence[WaitingHeartbeat]) -> Matches:
    """Return the matches of all; of one expression those of the last, as if they were answered in turn."""
    return {regex: topics for waiting in batch for regex, topics in waiting.matches.items()}


def _invalid(reason: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_REQUEST, message=reason)
