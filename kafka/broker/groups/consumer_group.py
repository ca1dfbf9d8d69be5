"""One consumer group (KIP-848): what its records in `__consumer_offsets` say.

    group epoch         grows when a member, a subscription or a topic of the group changes
    assignment epoch    the group epoch that the target assignment was made for
    member epoch        the assignment epoch that a member has reached

A group changes by its records alone: a request computes records from the group as it is, and `apply` takes what the
log has. Members are values; a record replaces them. Follows Kafka's ConsumerGroup and ConsumerGroupMember.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Protocol

from offsetfs.kafka.broker.groups.assignors import NOTHING, Assignment
from offsetfs.kafka.broker.groups.group import GroupError
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMemberValueTopicPartition,
)
from offsetfs.storage.coordinators import ConsumerGroupRecord, ConsumerRecord

LEFT = -1
"""The epoch of a member that leaves, or has never joined."""

LEFT_STATIC = -2
"""The epoch of a static member that is away, and keeps its partitions until its session ends."""


class ConsumerGroupState(StrEnum):
    """Kafka's names of the states."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(IntEnum):
    """The progress of a member to its target assignment, with Kafka's numbers."""

    STABLE = 0
    UNREVOKED = 1
    """It must stop reading partitions first."""
    UNRELEASED = 2
    """It waits for partitions that other members still read."""
    UNKNOWN = 127


class _TopicPartitions(Protocol):
    topic_id: bytes
    partitions: list[int]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member of a consumer group. `classic`: only of members that use the classic protocol."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    epoch: int = 0
    previous_epoch: int = LEFT
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    revoked: Assignment = field(default_factory=dict)
    """Partitions that it still reads, and shall not."""

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Return whether it has all partitions of a target assignment."""
        return self.state == MemberState.STABLE and self.epoch == assignment_epoch

    def subscription_value(self) -> ConsumerGroupMemberMetadataValue:
        """Return the value of its record with the subscription."""
        return ConsumerGroupMemberMetadataValue(
            self.instance_id, self.rack_id, self.client_id, self.client_host, sorted(self.topics), self.regex,
            self.rebalance_timeout_ms, self.assignor, self.classic,
        )  # fmt: skip

    def current_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """Return the value of its record with the current assignment."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            self.epoch, self.previous_epoch, self.state, _current(self.assigned), _current(self.revoked)
        )

    def with_subscription(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """Return the member with the subscription of a record."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_current(self, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> ConsumerMember:
        """Return the member with the current assignment of a record; None for a member that has left."""
        if value is None:
            return replace(
                self, epoch=LEFT, previous_epoch=LEFT, state=MemberState.STABLE, assigned=NOTHING, revoked=NOTHING
            )
        is_known = value.state in MemberState.__members__.values()
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if is_known else MemberState.UNKNOWN,
            assigned=assignment_of(value.assigned_partitions),
            revoked=assignment_of(value.partitions_pending_revocation),
        )


def assignment_of(topics: Iterable[_TopicPartitions]) -> Assignment:
    """Return the assignment in a message."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}


def rows(assignment: Assignment) -> Iterator[tuple[bytes, list[int]]]:
    """Return topic ids and partitions for a message."""
    return ((topic, sorted(numbers)) for topic, numbers in assignment.items())


def _current(assignment: Assignment) -> list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions]:
    return [ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(*row) for row in rows(assignment)]


def target_value(assignment: Assignment) -> ConsumerGroupTargetAssignmentMemberValue:
    """Return the value of a record with the target assignment of a member."""
    return ConsumerGroupTargetAssignmentMemberValue(
        [ConsumerGroupTargetAssignmentMemberValueTopicPartition(*row) for row in rows(assignment)]
    )


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that match a regular expression. `timestamp`: when they were looked up."""

    topics: frozenset[str]
    version: int
    timestamp: int


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """A group and its members."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    """The target assignments of the members."""
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    """The ids of members by their instance ids."""
    owners: dict[tuple[bytes, int], str] = field(default_factory=dict)
    """The member that reads a partition, by topic id and partition."""
    topics: Counter[str] = field(default_factory=Counter)
    """The number of members that subscribe to each topic by its name."""
    subscribed_regexes: Counter[str] = field(default_factory=Counter)
    assignors: Counter[str] = field(default_factory=Counter)
    has_partition_metadata: bool = False
    """Whether a broker before 4.1 has stored the partitions of its topics."""
    listing: object = None
    """The topics of the directory that `metadata_hash` was last compared with."""

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch != self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        is_stable = all(member.is_reconciled(self.assignment_epoch) for member in self.members.values())
        return ConsumerGroupState.STABLE if is_stable else ConsumerGroupState.RECONCILING

    def member(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """Return a member. UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has its static id."""
        if instance_id is not None:
            holder = self.static.get(instance_id)
            if holder is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, message=f"Instance id {instance_id} is unknown.")
            if holder != member_id:
                reason = f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}."
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID, message=reason)
        member = self.members.get(member_id)
        if member is None:
            reason = f"Member {member_id} is not a member of group {self.group_id}."
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, message=reason)
        return member

    def check_epoch(self, member_id: str, epoch: int) -> None:
        """Check the epoch of a request for offsets; UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION."""
        member = self.member(member_id, None)
        if epoch != member.epoch:
            is_classic = member.classic is not None
            raise GroupError(ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether other members still read partitions that a member shall have."""
        return any(
            (topic, partition) in self.owners
            for topic, partitions in self.targets.get(member.member_id, NOTHING).items()
            for partition in partitions - member.assigned.get(topic, frozenset())
        )

    def subscribed(self) -> frozenset[str]:
        """Return the topics that its members subscribe to."""
        matched = (self.regexes[regex].topics for regex in self.subscribed_regexes if regex in self.regexes)
        return frozenset(self.topics).union(*matched)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics that a member subscribes to."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic."""
        return topic in self.subscribed()

    def preferred_assignor(self, default: str) -> str:
        """Return the assignor that most members prefer."""
        return max(self.assignors, key=lambda name: self.assignors[name], default=default)

    def copy(self) -> ConsumerGroup:
        """Return the group as a copy that can be changed."""
        return replace(
            self,
            members=dict(self.members),
            targets=dict(self.targets),
            regexes=dict(self.regexes),
            static=dict(self.static),
            owners=dict(self.owners),
            topics=self.topics.copy(),
            subscribed_regexes=self.subscribed_regexes.copy(),
            assignors=self.assignors.copy(),
        )

    # --- records -----------------------------------------------------------------------------------------------------

    def apply(self, record: ConsumerGroupRecord) -> None:
        """Take what a record of the group says."""
        value = record.value
        match record.kind:
            case ConsumerRecord.GROUP:
                self.epoch, self.metadata_hash = (0, 0) if value is None else (value.epoch, value.metadata_hash)
            case ConsumerRecord.PARTITIONS:
                self.has_partition_metadata = value is not None
            case ConsumerRecord.MEMBER:
                self._apply_member(record.detail, value)
            case ConsumerRecord.TARGET_EPOCH:
                self.assignment_epoch = 0 if value is None else value.assignment_epoch
            case ConsumerRecord.TARGET:
                if value is None:
                    self.targets.pop(record.detail, None)
                else:
                    self.targets[record.detail] = assignment_of(value.topic_partitions)
            case ConsumerRecord.CURRENT:
                self._apply_current(record.detail, value)
            case ConsumerRecord.REGEX:
                if value is None:
                    self.regexes.pop(record.detail, None)
                else:
                    self.regexes[record.detail] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)

    def _apply_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._count(before, -1)
        if value is None:
            if before is not None:
                self._release(before)
                del self.members[member_id]
                if before.instance_id is not None and self.static.get(before.instance_id) == member_id:
                    del self.static[before.instance_id]
            return
        member = (before or ConsumerMember(member_id)).with_subscription(value)
        self.members[member_id] = member
        self._count(member, 1)
        if member.instance_id is not None:
            self.static[member.instance_id] = member_id

    def _count(self, member: ConsumerMember, step: int) -> None:
        for counter, names in (
            (self.topics, member.topics),
            (self.subscribed_regexes, (member.regex,) if member.regex else ()),
            (self.assignors, (member.assignor,) if member.assignor is not None else ()),
        ):
            for name in names:
                counter[name] += step
                if not counter[name]:
                    del counter[name]

    def _apply_current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        before = self.members.get(member_id)
        if before is None:
            if value is None:
                return
            before = ConsumerMember(member_id)  # compaction has kept the later record of its subscription alone
        self._release(before)
        self.members[member_id] = member = before.with_current(value)
        for topic, partitions in (*member.assigned.items(), *member.revoked.items()):
            self.owners.update(dict.fromkeys(((topic, partition) for partition in partitions), member_id))

    def _release(self, member: ConsumerMember) -> None:
        for topic, partitions in (*member.assigned.items(), *member.revoked.items()):
            for partition in partitions:
                if self.owners.get((topic, partition)) == member.member_id:
                    del self.owners[topic, partition]


def is_subset(owned: Sequence[_TopicPartitions] | None, assigned: Assignment) -> bool:
    """Return whether a member reports that it reads some of its assigned partitions, and no others."""
    if owned is None:
        return False
    return all(frozenset(topic.partitions) <= assigned.get(topic.topic_id, frozenset()) for topic in owned)
