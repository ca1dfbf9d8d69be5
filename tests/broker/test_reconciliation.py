"""The steps of a member to its target assignment, as in Kafka's CurrentAssignmentBuilder."""

from __future__ import annotations

import pytest

from offsetfs.kafka.broker.groups.assignors import Assignment
from offsetfs.kafka.broker.groups.consumer_group import ConsumerMember, MemberState
from offsetfs.kafka.broker.groups.group import GroupError
from offsetfs.kafka.broker.groups.reconciliation import reconciled

pytestmark = pytest.mark.unit

T = b"t" * 16


def of(*partitions: int) -> Assignment:
    return {T: frozenset(partitions)} if partitions else {}


def step(
    member: ConsumerMember, epoch: int, target: Assignment, owned: Assignment | None, *, taken: tuple[int, ...] = ()
) -> ConsumerMember:
    return reconciled(member, epoch, target, owned, lambda topic, each: each not in taken)


def test_a_stable_member_of_the_present_epoch_has_no_step() -> None:
    member = ConsumerMember("m", epoch=3, assigned=of(1))
    assert step(member, 3, of(1), None) is member


def test_a_member_without_changes_reaches_the_epoch() -> None:
    member = ConsumerMember("m", epoch=3, assigned=of(1))
    found = step(member, 5, of(1), None)
    assert (found.state, found.epoch, found.previous_epoch, found.assigned) == (MemberState.STABLE, 5, 3, of(1))


def test_partitions_are_given_up_before_the_epoch_is_reached() -> None:
    member = ConsumerMember("m", epoch=3, assigned=of(1, 2))
    revoking = step(member, 4, of(2, 3), None)
    assert (revoking.state, revoking.epoch) == (MemberState.UNREVOKED, 3)
    assert (revoking.assigned, revoking.revoked) == (of(2), of(1))
    assert step(revoking, 4, of(2, 3), of(1, 2)) is revoking
    assert step(revoking, 4, of(2, 3), None) is revoking
    done = step(revoking, 4, of(2, 3), of(2))
    assert (done.state, done.epoch, done.assigned, done.revoked) == (MemberState.STABLE, 4, of(2, 3), {})


def test_a_member_that_does_not_read_its_partitions_gives_them_up_at_once() -> None:
    member = ConsumerMember("m", epoch=3, assigned=of(1, 2))
    found = step(member, 4, of(2), of())
    assert (found.state, found.epoch, found.assigned, found.revoked) == (MemberState.STABLE, 4, of(2), {})


def test_a_member_waits_for_partitions_that_others_read() -> None:
    member = ConsumerMember("m", epoch=0)
    waiting = step(member, 4, of(1, 2), of(), taken=(2,))
    assert (waiting.state, waiting.epoch, waiting.assigned) == (MemberState.UNRELEASED, 4, of(1))
    assert step(waiting, 4, of(1, 2), of(1)).assigned == of(1, 2)


def test_a_newer_target_while_partitions_are_given_up_takes_one_epoch_more() -> None:
    member = ConsumerMember("m", epoch=3, assigned=of(2), revoked=of(1), state=MemberState.UNREVOKED)
    found = step(member, 7, of(3), of(2))
    assert (found.state, found.epoch) == (MemberState.UNREVOKED, 4)
    assert (found.assigned, found.revoked) == (of(), of(2))


def test_a_member_in_a_state_of_a_later_version_begins_without_partitions() -> None:
    member = ConsumerMember("m", epoch=3, assigned=of(1), state=MemberState.UNKNOWN)
    with pytest.raises(GroupError):
        step(member, 4, of(1), of(1))
    assert step(member, 4, of(1), of()).state == MemberState.STABLE
