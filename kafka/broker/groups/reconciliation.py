"""The next step of a member on its way to the target assignment: it stops reading partitions before it gets others.

    STABLE ─ new target ─┬─→ UNREVOKED ─ the member reports that it has stopped ─┐
                         │                                                       ↓
                         └───────────────→ STABLE, or UNRELEASED until other members have stopped

Follows Kafka's CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from offsetfs.kafka.broker.groups.assignors import NOTHING, Assignment
from offsetfs.kafka.broker.groups.consumer_group import ConsumerMember, MemberState
from offsetfs.kafka.broker.groups.group import GroupError, next_epoch
from offsetfs.kafka.protocol.error_codes import ErrorCode

IsFree = Callable[[bytes, int], bool]
"""Whether no member reads a partition."""

_NO_PARTITIONS: frozenset[int] = frozenset()


def reconciled(
    member: ConsumerMember, epoch: int, target: Assignment, owned: Assignment | None, is_free: IsFree
) -> ConsumerMember:
    """Return the member after its next step, itself if there is none.

    `epoch` is that of the target assignment, `owned` what the member reports that it reads; None if it does not say.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch == epoch:
                return member
            return _next(member, member.epoch, epoch, target, owned, is_free)
        case MemberState.UNREVOKED:
            if owned is None or _overlap(owned, member.revoked):
                return member
            # One epoch further: it has done what the epoch before has asked for.
            return _next(member, next_epoch(member.epoch), epoch, target, owned, is_free)
        case MemberState.UNRELEASED:
            return _next(member, member.epoch, epoch, target, owned, is_free)
    if owned is None or owned:  # a state of a later version
        raise GroupError(ErrorCode.FENCED_MEMBER_EPOCH)
    return _next(member, epoch, epoch, target, owned, is_free)


def _next(
    member: ConsumerMember, own_epoch: int, epoch: int, target: Assignment, owned: Assignment | None, is_free: IsFree
) -> ConsumerMember:
    kept: dict[bytes, frozenset[int]] = {}
    revoked: dict[bytes, frozenset[int]] = {}
    added: dict[bytes, frozenset[int]] = {}
    waits = False
    for topic in {**target, **member.assigned}:
        wanted, has = target.get(topic, _NO_PARTITIONS), member.assigned.get(topic, _NO_PARTITIONS)
        more = wanted - has
        free = frozenset(partition for partition in more if is_free(topic, partition))
        waits = waits or len(free) < len(more)
        for assignment, partitions in ((kept, has & wanted), (revoked, has - wanted), (added, free)):
            if partitions:
                assignment[topic] = partitions
    if revoked and (owned is None or _overlap(owned, revoked)):
        return replace(
            member, state=MemberState.UNREVOKED, epoch=own_epoch, previous_epoch=member.epoch, assigned=kept,
            revoked=revoked,
        )  # fmt: skip
    assigned = {
        topic: kept.get(topic, _NO_PARTITIONS) | added.get(topic, _NO_PARTITIONS) for topic in {**kept, **added}
    }
    state = MemberState.UNRELEASED if waits else MemberState.STABLE
    return replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, revoked=NOTHING)


def _overlap(owned: Assignment, revoked: Assignment) -> bool:
    return any(partitions & revoked.get(topic, _NO_PARTITIONS) for topic, partitions in owned.items())
