"""The assignors of consumer groups: which member shall read which partitions.

    uniform   every member reads as many partitions as the others, and keeps those that it has
    range     of each topic, members read consecutive partitions in the order of their ids

Follow Kafka's UniformAssignor and RangeAssignor. Of members with different subscriptions Kafka's uniform assignor
balances by other steps than this one; both leave no member two partitions behind another that could take one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id. No topic is without partitions."""

NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True)
class Assignee:
    """A member for an assignor. `target`: the assignment that it shall have so far."""

    instance_id: str | None
    topics: frozenset[bytes]
    target: Assignment


Assignees = Mapping[str, Assignee]
Partitions = Mapping[bytes, Sequence[int]]
Assignor = Callable[[Assignees, Partitions], dict[str, Assignment]]


def uniform(members: Assignees, partitions: Partitions) -> dict[str, Assignment]:
    """Return an assignment in which the members' numbers of partitions differ by one at most, if that can be."""
    subscriptions = {member.topics for member in members.values()}
    if not subscriptions:
        return {}
    if len(subscriptions) == 1:
        return _Equal(members, partitions, next(iter(subscriptions))).assign()
    return _different(members, partitions)


class _Equal:
    """Assigns to members that subscribe to the same topics, as UniformHomogeneousAssignmentBuilder."""

    def __init__(self, members: Assignees, partitions: Partitions, topics: frozenset[bytes]) -> None:
        self._members = members
        self._partitions = {topic: frozenset(partitions.get(topic, ())) for topic in topics}
        count = sum(len(numbers) for numbers in self._partitions.values())
        self._quota, self._extras = divmod(count, len(members))
        self._found: dict[str, Assignment] = {}
        self._unfilled: list[tuple[str, int]] = []
        self._revoked: list[tuple[bytes, int]] = []

    def assign(self) -> dict[str, Assignment]:
        for member_id, member in self._members.items():
            self._keep(member_id, member.target)
        unassigned = iter([*self._never_assigned(), *self._revoked])
        for member_id, quota in self._unfilled:
            more = {topic: set(numbers) for topic, numbers in self._found[member_id].items()}
            for topic, partition in islice(unassigned, quota):
                more.setdefault(topic, set()).add(partition)
            self._found[member_id] = {topic: frozenset(numbers) for topic, numbers in more.items()}
        return self._found

    def _keep(self, member_id: str, target: Assignment) -> None:
        """Keep what a member has of its subscription, within its quota."""
        has_extra = self._extras > 0
        quota = self._quota + has_extra
        kept: dict[bytes, frozenset[int]] = {}
        for topic, given in target.items():
            there = given & self._partitions.get(topic, frozenset())
            taken = there if len(there) <= quota else frozenset(sorted(there)[:quota])
            self._revoked += [(topic, partition) for partition in sorted(there - taken)]
            quota -= len(taken)
            if taken:
                kept[topic] = taken
        if quota and has_extra and len(self._members) - len(self._found) > self._extras:
            quota, has_extra = quota - 1, False  # a later member may have one more already
        if quota:
            self._unfilled.append((member_id, quota))
        if has_extra:
            self._extras -= 1
        self._found[member_id] = target if kept == target else kept

    def _never_assigned(self) -> list[tuple[bytes, int]]:
        assigned: defaultdict[bytes, set[int]] = defaultdict(set)
        for member in self._members.values():
            for topic, given in member.target.items():
                assigned[topic] |= given
        return [
            (topic, partition)
            for topic in sorted(self._partitions)
            for partition in sorted(self._partitions[topic] - assigned[topic])
        ]


def _different(members: Assignees, partitions: Partitions) -> dict[str, Assignment]:
    """Assign to members with different subscriptions: keep, give the rest to those with least, then balance."""
    subscribers = {
        topic: readers
        for topic in sorted(partitions)
        if (readers := [member_id for member_id in members if topic in members[member_id].topics])
    }
    owners: dict[tuple[bytes, int], str] = {}
    counts = dict.fromkeys(members, 0)
    for member_id, member in members.items():
        for topic, given in member.target.items():
            if topic in member.topics:
                for partition in sorted(given & frozenset(partitions.get(topic, ()))):
                    if owners.setdefault((topic, partition), member_id) == member_id:
                        counts[member_id] += 1
    for topic in sorted(subscribers, key=lambda name: len(subscribers[name])):
        for partition in partitions[topic]:
            if (topic, partition) not in owners:
                owners[topic, partition] = least = min(subscribers[topic], key=counts.__getitem__)
                counts[least] += 1
    is_balanced = False
    while not is_balanced:  # each move makes the sum of the squared counts smaller
        is_balanced = True
        for (topic, partition), owner in owners.items():
            least = min(subscribers[topic], key=counts.__getitem__)
            if counts[owner] - counts[least] > 1:
                owners[topic, partition] = least
                counts[owner] -= 1
                counts[least] += 1
                is_balanced = False
    assignment: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in members}
    for (topic, partition), owner in owners.items():
        assignment[owner].setdefault(topic, set()).add(partition)
    return {
        member_id: {topic: frozenset(numbers) for topic, numbers in topics.items()}
        for member_id, topics in assignment.items()
    }


def by_range(members: Assignees, partitions: Partitions) -> dict[str, Assignment]:
    """Return an assignment of consecutive partitions of each topic, static members first."""
    ordered = sorted(
        members,
        key=lambda member_id: (members[member_id].instance_id is None, members[member_id].instance_id or "", member_id),
    )
    assignment: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic, numbers in partitions.items():
        readers = [member_id for member_id in ordered if topic in members[member_id].topics]
        if not readers:
            continue
        quota, extras = divmod(len(numbers), len(readers))
        start = 0
        for place, member_id in enumerate(readers):
            end = start + quota + (place < extras)
            if end > start:
                assignment[member_id][topic] = frozenset(numbers[start:end])
            start = end
    return dict(assignment)


ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform, "range": by_range}
"""The assignors by the names that clients give (`group.remote.assignor`)."""
