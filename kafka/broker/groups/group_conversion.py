"""The conversion of groups with members between the classic and the consumer protocol, without a pause of the members.

    upgrade     the first member of the consumer protocol joins a classic group of consumers
    downgrade   the last one leaves, or is replaced, and members of the classic protocol remain

`group.consumer.migration.policy` allows them. Follows ConsumerGroup.fromClassicGroup and
ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct, error
from typing import Any

from offsetfs.kafka.broker.groups.assignors import NOTHING, Assignment
from offsetfs.kafka.broker.groups.consumer_group import ConsumerGroup, ConsumerMember
from offsetfs.kafka.broker.groups.group import CONSUMER, Group, GroupError, GroupState, Member
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID
from offsetfs.kafka.protocol.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

_VERSION_MAX = 3  # of the messages of clients: later ones only add fields at the end
_SHORT = Struct(">h")


# --- what clients of the classic protocol send and get ---------------------------------------------------------------


def subscription_of(data: bytes) -> ConsumerProtocolSubscription:
    """Return the subscription that a consumer sends with JoinGroup; InvalidMessage."""
    subscription: ConsumerProtocolSubscription = _read("ConsumerProtocolSubscription", data)
    return subscription


def partitions_of(rows: Iterable[Any], topics: Topics) -> Assignment:
    """Return the partitions of topics that are named in a message of a client, of topics that there are."""
    named = ((topics.topic_id(row.topic), frozenset(row.partitions)) for row in rows)
    return {topic: partitions for topic, partitions in named if topic != NO_ID and partitions}


def assignment_data(assignment: Assignment, topics: Topics, subscription: bytes) -> bytes:
    """Return the message with which SyncGroup answers, in the version of the consumer's subscription."""
    named = ((topics.name_of(topic), sorted(partitions)) for topic, partitions in assignment.items())
    rows = [ConsumerProtocolAssignmentTopicPartition(name, partitions) for name, partitions in named if name]
    version = _version(subscription)
    message = ConsumerProtocolAssignment(rows, None)
    return _SHORT.pack(version) + b"".join(codec.writer("ConsumerProtocolAssignment", version)(message))


def _version(data: bytes) -> int:
    return min(max(int.from_bytes(data[:2], "big", signed=True), 0), _VERSION_MAX)


def _read(name: str, data: bytes) -> Any:
    return codec.reader(name, _version(data))(memoryview(data), _SHORT.size)[0]


# --- upgrade ---------------------------------------------------------------------------------------------------------


def check_upgrade(group: Group, settings: ServerSettings) -> None:
    """Check whether a classic group with members may become a consumer group; GROUP_ID_NOT_FOUND."""
    reason = ""
    if settings.group_consumer_migration_policy not in ("upgrade", "bidirectional"):
        reason = "the online upgrade is disabled"
    elif group.protocol_type != CONSUMER:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > settings.group_consumer_max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason:
        raise _not_upgraded(group, reason)


def upgraded(group: Group, topics: Topics) -> ConsumerGroup:
    """Return the consumer group that a classic one becomes, with its members and their assignments."""
    consumer_group = ConsumerGroup(group.group_id, epoch=group.generation, assignment_epoch=group.generation)
    protocol = group.protocol or group.elected()
    try:
        for classic in group.members.values():
            member = _upgraded_member(classic, protocol, group, topics)
            consumer_group.members[member.member_id] = member
    except (InvalidMessage, error):
        raise _not_upgraded(group, "the embedded consumer protocol is malformed") from None
    return consumer_group


def _upgraded_member(member: Member, protocol: str, group: Group, topics: Topics) -> ConsumerMember:
    # After a change of its assignors the one of the last generation may be gone.
    data = member.protocols.get(protocol) or next(iter(member.protocols.values()))
    subscription, assigned = subscription_of(data), NOTHING
    if member.assignment:
        assignment: ConsumerProtocolAssignment = _read("ConsumerProtocolAssignment", member.assignment)
        if assignment.user_data:
            raise _not_upgraded(
                group,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade",
            )
        assigned = partitions_of(assignment.assigned_partitions, topics)
    return ConsumerMember(
        member.member_id, member.instance_id, subscription.rack_id, member.client_id, member.client_host,
        int(member.rebalance_timeout_s * 1000), frozenset(subscription.topics),
        classic=classic_metadata(member.protocols, int(member.session_timeout_s * 1000)),
        epoch=group.generation, previous_epoch=group.generation, assigned=assigned,
    )  # fmt: skip


def classic_metadata(protocols: Mapping[str, bytes], session_ms: int) -> ClassicMemberMetadata:
    """Return what is stored of a member that uses the classic protocol."""
    return ClassicMemberMetadata(session_ms, [ClassicProtocol(name, data) for name, data in protocols.items()])


def _not_upgraded(group: Group, reason: str) -> GroupError:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message=message)


def common_protocols(members: Iterable[ConsumerMember]) -> frozenset[str] | None:
    """Return the assignors that all members of the classic protocol have; None without such members."""
    names = [
        frozenset(protocol.name for protocol in member.classic.supported_protocols)
        for member in members
        if member.classic is not None
    ]
    return frozenset.intersection(*names) if names else None


# --- downgrade -------------------------------------------------------------------------------------------------------


def is_downgraded(members: Iterable[ConsumerMember], settings: ServerSettings) -> bool:
    """Return whether a consumer group with these members becomes a classic one."""
    kept = list(members)
    is_allowed = settings.group_consumer_migration_policy in ("downgrade", "bidirectional")
    is_classic = bool(kept) and all(member.classic is not None for member in kept)
    return is_allowed and is_classic and len(kept) <= settings.group_max_size and bool(common_protocols(kept))


def downgraded(
    group: ConsumerGroup, members: Iterable[ConsumerMember], topics: Topics, now_s: float, now_ms: int
) -> Group:
    """Return the classic group that a consumer group becomes, with these members and their target assignments."""
    classic = Group(group.group_id, GroupState.STABLE, CONSUMER, group.epoch, since_ms=now_ms)
    for consumer in members:
        if consumer.classic is not None:
            session_s = consumer.classic.session_timeout_ms / 1000
            rebalance_s = session_s if consumer.rebalance_timeout_ms < 0 else consumer.rebalance_timeout_ms / 1000
            classic.members[consumer.member_id] = Member(
                consumer.member_id, consumer.instance_id, consumer.client_id, consumer.client_host,
                session_s, rebalance_s,
                {protocol.name: bytes(protocol.metadata) for protocol in consumer.classic.supported_protocols},
                seen_s=now_s,
            )  # fmt: skip
    classic.protocol = classic.elected()
    for member_id, member in classic.members.items():
        target = group.targets.get(member_id, NOTHING)
        member.assignment = assignment_data(target, topics, member.protocols[classic.protocol])
    return classic
