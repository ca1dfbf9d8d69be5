"""The records that one request adds to a consumer group: computed on a copy of the group, which takes each of them.

The order of the records is Kafka's. Follows GroupMetadataManager.consumerGroupHeartbeat and consumerGroupLeave, and
TargetAssignmentBuilder.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import trio

from offsetfs.kafka.broker.groups.assignors import ASSIGNORS, NOTHING, Assignee, Assignment
from offsetfs.kafka.broker.groups.consumer_group import (
    LEFT_STATIC,
    ConsumerGroup,
    ConsumerMember,
    assignment_of,
    is_subset,
    target_value,
)
from offsetfs.kafka.broker.groups.group import GroupError, next_epoch
from offsetfs.kafka.broker.groups.group_conversion import classic_metadata
from offsetfs.kafka.broker.groups.reconciliation import reconciled
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.topics.partitions import ServedTopic, Topics
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID
from offsetfs.kafka.protocol.records import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerProtocolSubscription,
)
from offsetfs.storage.coordinators import Change, ConsumerGroupRecord, ConsumerRecord, consumer_change

Matches = Mapping[str, frozenset[str]]
"""The topics that match each regular expression."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat of a member, and its client. `member_id`: the id that the member has, or gets."""

    request: m.ConsumerGroupHeartbeatRequest
    member_id: str
    client_id: str
    client_host: str

    @property
    def joins(self) -> bool:
        return self.request.member_epoch == 0

    @property
    def owned(self) -> Assignment | None:
        """The partitions that the member reads; None if it does not say."""
        owned = self.request.topic_partitions
        return None if owned is None else assignment_of(owned)

    @property
    def is_full(self) -> bool:
        """Whether the member does not know its assignment: it joins, or has not got an earlier response."""
        asked = self.request
        has_subscription = asked.subscribed_topic_names is not None or asked.subscribed_topic_regex is not None
        is_complete = asked.rebalance_timeout_ms != -1 and has_subscription and asked.topic_partitions is not None
        return self.joins or is_complete

    def subscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Return the member with what the request says of its subscription."""
        asked = self.request
        names, regex = asked.subscribed_topic_names, asked.subscribed_topic_regex
        rebalance_ms = asked.rebalance_timeout_ms
        return replace(
            member,
            instance_id=member.instance_id if asked.instance_id is None else asked.instance_id,
            rack_id=member.rack_id if asked.rack_id is None else asked.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if rebalance_ms == -1 else rebalance_ms,
            assignor=member.assignor if asked.server_assignor is None else asked.server_assignor,
            topics=member.topics if names is None else frozenset(names),
            regex=member.regex if regex is None else regex,
            client_id=self.client_id,
            client_host=self.client_host,
            classic=None,
        )


@dataclass(frozen=True, slots=True)
class ClassicJoin:
    """JoinGroup of a member of a consumer group that uses the classic protocol. `member_id`: as in `Heartbeat`.

    `owned`: the partitions that it reads. A client of the eager protocol has stopped reading all of them.
    """

    request: m.JoinGroupRequest
    member_id: str
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    subscription: ConsumerProtocolSubscription
    owned: Assignment

    def subscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Return the member with what the request says of its subscription."""
        asked, rack_id = self.request, self.subscription.rack_id
        protocols = {protocol.name: bytes(protocol.metadata) for protocol in asked.protocols}
        return replace(
            member,
            instance_id=member.instance_id if asked.group_instance_id is None else asked.group_instance_id,
            rack_id=member.rack_id if rack_id is None else rack_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topics=frozenset(self.subscription.topics),
            client_id=self.client_id,
            client_host=self.client_host,
            classic=classic_metadata(protocols, asked.session_timeout_ms),
        )


@dataclass(slots=True, eq=False)
class WaitingHeartbeat:
    """A heartbeat that waits, and its answer: an error or a response. `listing`: the topics that `matches` is of."""

    beat: Heartbeat
    matches: Matches
    listing: Mapping[str, ServedTopic]
    response: m.ConsumerGroupHeartbeatResponse = field(default_factory=m.ConsumerGroupHeartbeatResponse)
    error: GroupError | None = None


class HeartbeatQueue:
    """The heartbeats of one group that wait for the append of those before them, and then share the next append.

    They are in the order of their arrival.
    """

    def __init__(self) -> None:
        self._lock = trio.Lock()
        self._waiting: list[WaitingHeartbeat] = []
        self._users = 0

    @property
    def is_unused(self) -> bool:
        """Whether no heartbeat waits or is being answered."""
        return not self._users

    @asynccontextmanager
    async def enter(self, own: WaitingHeartbeat) -> AsyncIterator[list[WaitingHeartbeat]]:
        """Wait for the append before; yield the heartbeats to answer, at most one of each member.

        The list is empty if the task of another heartbeat has answered this one, too.
        """
        self._users += 1
        self._waiting.append(own)
        try:
            async with self._lock:
                yield self._take() if own in self._waiting else []
        finally:
            self._users -= 1
            if own in self._waiting:  # the client is gone
                self._waiting.remove(own)

    def _take(self) -> list[WaitingHeartbeat]:
        """Remove and return the first heartbeat of each member: two of one member are answered in turn.

        The lock is granted in the order of arrival, so that the heartbeat that has it is the first of its member.
        """
        first = {waiting.beat.member_id: waiting for waiting in reversed(self._waiting)}
        batch = [waiting for waiting in self._waiting if first[waiting.beat.member_id] is waiting]
        self._waiting = [waiting for waiting in self._waiting if first[waiting.beat.member_id] is not waiting]
        return batch


class GroupUpdate:
    """The changes of one consumer group by one request. `changes`: what is to be stored."""

    def __init__(
        self, group: ConsumerGroup, topics: Topics, settings: ServerSettings, matches: Matches, now_ms: int
    ) -> None:
        """`matches`: of the regular expressions that are to be looked up again."""
        self.group = group.copy()
        self.changes: list[Change] = []
        self._topics = topics
        self._settings = settings
        self._matches = matches
        self._now_ms = now_ms
        self._listing: Mapping[str, ServedTopic] = topics.all()

    def _add(self, kind: ConsumerRecord, detail: str | None, value: Any) -> None:
        self.changes.append(consumer_change(self.group.group_id, kind, detail, value))
        self.group.apply(ConsumerGroupRecord(kind, detail or "", value))

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeats(self, beats: Iterable[Heartbeat]) -> list[tuple[ConsumerMember, bool] | GroupError]:
        """Let members join or go on, each at most once; return for each the member after its next step.

        And whether its assigned partitions have changed; an error, if it is refused. All that join or change their
        subscription at the same time share a group epoch and a target assignment.
        """
        taken: list[tuple[ConsumerMember, Heartbeat] | GroupError] = []
        is_bumped = False
        for beat in beats:
            try:
                self._check_size(beat.member_id)
                member = self._member(beat)
            except GroupError as refusal:  # nothing is changed so far
                taken.append(refusal)
                continue
            is_bumped = self._subscribe(member, beat.subscribed(member)) or is_bumped
            taken.append((member, beat))
        self._retarget(is_bumped=is_bumped)
        steps: list[tuple[ConsumerMember, bool] | GroupError] = []
        for heartbeat in taken:
            if isinstance(heartbeat, GroupError):
                steps.append(heartbeat)
                continue
            member, beat = heartbeat
            try:
                stepped = self._step(member.member_id, beat.owned)
            except GroupError as refusal:
                steps.append(refusal)
                continue
            steps.append((stepped, stepped.assigned != member.assigned))
        return steps

    def join(self, joining: ClassicJoin) -> ConsumerMember:
        """Let a member that uses the classic protocol join, for the first time or again; return it. GroupError."""
        self._check_size(joining.member_id)
        member = self._classic_member(joining)
        self._retarget(is_bumped=self._subscribe(member, joining.subscribed(member)))
        return self._step(member.member_id, joining.owned)

    def _check_size(self, member_id: str) -> None:
        size_max = self._settings.group_consumer_max_size
        if len(self.group.members) >= size_max and member_id not in self.group.members:
            reason = f"The consumer group has reached its maximum capacity of {size_max} members."
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, message=reason)

    def _subscribe(self, member: ConsumerMember, updated: ConsumerMember) -> bool:
        """Store the subscription of a member; return whether the group needs another epoch."""
        if updated != member or member.member_id not in self.group.members:
            self._add(ConsumerRecord.MEMBER, member.member_id, updated.subscription_value())
        return self.group.epoch == 0 or updated.topics != member.topics or updated.regex != member.regex

    def _retarget(self, *, is_bumped: bool) -> None:
        """Begin a group epoch if the group or its topics have changed; make its target assignment."""
        group = self.group
        if is_bumped or group.listing is not self._listing:
            self._refresh(is_bumped=self._resolve() or is_bumped)
        if group.epoch != group.assignment_epoch:
            self._assign()

    def _step(self, member_id: str, owned: Assignment | None) -> ConsumerMember:
        """Store the next step of a member to the target assignment; return it."""
        group = self.group
        current, target = group.members[member_id], group.targets.get(member_id, NOTHING)
        stepped = reconciled(
            current,
            group.assignment_epoch,
            target,
            owned,
            lambda topic, partition: (topic, partition) not in group.owners,
        )
        if stepped != current:
            self._add(ConsumerRecord.CURRENT, member_id, stepped.current_value())
        return stepped

    def _classic_member(self, joining: ClassicJoin) -> ConsumerMember:
        """Return the member of a JoinGroup request, a new one if it joins."""
        group, instance_id = self.group, joining.request.group_instance_id
        if instance_id is None:
            return group.members.get(joining.member_id) or ConsumerMember(joining.member_id)
        if joining.request.member_id:
            return group.member(joining.member_id, instance_id)
        holder = group.static.get(instance_id)
        return ConsumerMember(joining.member_id) if holder is None else self._replaced(holder, joining.member_id)

    def _member(self, beat: Heartbeat) -> ConsumerMember:
        """Return the member of a heartbeat, a new one if it joins."""
        group, instance_id, member_id = self.group, beat.request.instance_id, beat.member_id
        if not beat.joins or (instance_id is None and member_id in group.members):
            member = group.member(member_id, instance_id)
            self._check_epoch(member, beat)
            return member
        holder = None if instance_id is None else group.static.get(instance_id)
        if instance_id is None or holder is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        return self._replace_static(group.members[holder], member_id, instance_id)

    @staticmethod
    def _check_epoch(member: ConsumerMember, beat: Heartbeat) -> None:
        received = beat.request.member_epoch
        if received == member.epoch:
            return
        # The response with the present epoch may have been lost.
        is_behind = received == member.previous_epoch and is_subset(beat.request.topic_partitions, member.assigned)
        if received > member.epoch or not is_behind:
            size = "greater" if received > member.epoch else "smaller"
            raise GroupError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                message=f"The consumer group member has a {size} member epoch ({received}) than the one known by the "
                f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
            )

    def _replace_static(self, holder: ConsumerMember, member_id: str, instance_id: str) -> ConsumerMember:
        """Let a static member that comes back take the place that it left."""
        if holder.epoch != LEFT_STATIC and holder.classic is None:
            reason = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {holder.member_id} member."
            )
            raise GroupError(ErrorCode.UNRELEASED_INSTANCE_ID, message=reason)
        return self._replaced(holder.member_id, member_id)

    def _replaced(self, former_id: str, member_id: str) -> ConsumerMember:
        """Give a static member another id; it has to take the next step to the target assignment."""
        target = self.group.targets.get(former_id, NOTHING)
        returned = replace(self.group.members[former_id], member_id=member_id, epoch=0, previous_epoch=0)
        self._remove(former_id)
        self._add(ConsumerRecord.MEMBER, member_id, returned.subscription_value())
        self._add(ConsumerRecord.TARGET, member_id, target_value(target))
        self._add(ConsumerRecord.CURRENT, member_id, returned.current_value())
        return self.group.members[member_id]

    def _resolve(self) -> bool:
        """Look up the topics of the group's regular expressions; return whether any has others than before."""
        group, has_changed = self.group, False
        for regex in group.regexes.keys() - group.subscribed_regexes.keys():
            self._add(ConsumerRecord.REGEX, regex, None)
        for regex, topics in self._matches.items():
            known = group.regexes.get(regex)
            if regex in group.subscribed_regexes and (known is None or known.topics != topics):
                value = ConsumerGroupRegularExpressionValue(sorted(topics), 0, self._now_ms)
                self._add(ConsumerRecord.REGEX, regex, value)
                has_changed = True
        return has_changed

    def _refresh(self, *, is_bumped: bool) -> None:
        """Begin a group epoch if the topics of the group have changed, or anything else has."""
        metadata_hash = self._metadata_hash()
        if is_bumped or metadata_hash != self.group.metadata_hash:
            if self.group.has_partition_metadata:
                self._add(ConsumerRecord.PARTITIONS, None, None)
            self._add(
                ConsumerRecord.GROUP, None, ConsumerGroupMetadataValue(next_epoch(self.group.epoch), metadata_hash)
            )

    def _metadata_hash(self) -> int:
        """Return a number that changes with the group's topics and their partitions; 0 without topics."""
        digest = hashlib.blake2b(digest_size=8)
        is_empty = True
        for name in sorted(self._listing.keys() & self.group.subscribed()):
            topic_id = self._topics.topic_id(name)
            if topic_id != NO_ID:
                digest.update(topic_id + repr((name, *self._listing[name].partitions)).encode())
                is_empty = False
        return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)

    # --- target assignment -------------------------------------------------------------------------------------------

    def _assign(self) -> None:
        """Make the target assignment of the present group epoch."""
        group = self.group
        partitions: dict[bytes, tuple[int, ...]] = {}
        ids: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
        assignees: dict[str, Assignee] = {}
        for member_id, member in group.members.items():
            subscription = (member.topics, member.regex)
            if subscription not in ids:
                ids[subscription] = self._topic_ids(group.topics_of(member), partitions)
            target = group.targets.get(member_id, NOTHING)
            assignees[member_id] = Assignee(member.instance_id, ids[subscription], target)
        default = self._settings.consumer_assignors[0]
        assignor = ASSIGNORS.get(group.preferred_assignor(default), ASSIGNORS[default])
        for member_id, target in assignor(assignees, partitions).items():
            if group.targets.get(member_id) != target:
                self._add(ConsumerRecord.TARGET, member_id, target_value(target))
        self._add(ConsumerRecord.TARGET_EPOCH, None, ConsumerGroupTargetAssignmentMetadataValue(group.epoch))

    def _topic_ids(self, names: Iterable[str], partitions: dict[bytes, tuple[int, ...]]) -> frozenset[bytes]:
        """Return the ids of the topics that there are, and note their partitions."""
        topic_ids = set()
        for name in self._listing.keys() & names:  # a member may name any number of topics that there are not
            topic_id = self._topics.topic_id(name)
            if topic_id != NO_ID:
                topic_ids.add(topic_id)
                partitions[topic_id] = tuple(self._listing[name].partitions)
        return frozenset(topic_ids)

    # --- members that leave ------------------------------------------------------------------------------------------

    def leave_for_now(self, member: ConsumerMember) -> None:
        """Let a static member go that will come back: it keeps its partitions until its session ends."""
        away = replace(member, epoch=LEFT_STATIC, revoked=NOTHING)
        self._add(ConsumerRecord.CURRENT, member.member_id, away.current_value())

    def take(self, group: ConsumerGroup) -> None:
        """Store the members of a group that was a classic one, in the order that Kafka loads."""
        members = group.members.values()
        for member in members:
            self._add(ConsumerRecord.MEMBER, member.member_id, member.subscription_value())
        self._add(ConsumerRecord.GROUP, None, ConsumerGroupMetadataValue(group.epoch, group.metadata_hash))
        for member in members:
            self._add(ConsumerRecord.TARGET, member.member_id, target_value(member.assigned))
        self._add(ConsumerRecord.TARGET_EPOCH, None, ConsumerGroupTargetAssignmentMetadataValue(group.assignment_epoch))
        for member in members:
            self._add(ConsumerRecord.CURRENT, member.member_id, member.current_value())

    def remove(self, member_ids: Iterable[str]) -> None:
        """Remove members; a new group epoch gives their partitions to others."""
        for member_id in member_ids:
            self._remove(member_id)
        for regex in self.group.regexes.keys() - self.group.subscribed_regexes.keys():
            self._add(ConsumerRecord.REGEX, regex, None)
        self._refresh(is_bumped=True)

    def _remove(self, member_id: str) -> None:
        self._add(ConsumerRecord.CURRENT, member_id, None)
        self._add(ConsumerRecord.TARGET, member_id, None)
        self._add(ConsumerRecord.MEMBER, member_id, None)
