"""The assignors of consumer groups: every partition has one reader that subscribes to it, and few of them move."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from offsetfs.kafka.broker.groups.assignors import NOTHING, Assignee, Assignment, by_range, uniform

pytestmark = pytest.mark.unit

A, B, C = (bytes([each]) * 16 for each in (1, 2, 3))


def members(count: int, *topics: bytes) -> dict[str, Assignee]:
    return {f"m{each}": Assignee(None, frozenset(topics), NOTHING) for each in range(count)}


def shares(found: Mapping[str, Assignment], topic: bytes = A) -> list[list[int]]:
    return [sorted(each.get(topic, ())) for each in found.values()]


def kept(given: Mapping[str, Assignee], found: Mapping[str, Assignment]) -> dict[str, Assignee]:
    return {name: Assignee(each.instance_id, each.topics, found[name]) for name, each in given.items() if name in found}


def check(
    given: Mapping[str, Assignee], partitions: Mapping[bytes, list[int]], found: Mapping[str, Assignment]
) -> None:
    """Each partition with a subscriber has one reader, which subscribes to its topic."""
    read = [(topic, each) for share in found.values() for topic, numbers in share.items() for each in numbers]
    subscribed = {topic for each in given.values() for topic in each.topics}
    wanted = [(topic, each) for topic, numbers in partitions.items() if topic in subscribed for each in numbers]
    assert sorted(read) == sorted(wanted)
    assert all(topic in given[name].topics for name, share in found.items() for topic in share)
    assert found.keys() == given.keys()


def test_range_gives_consecutive_partitions_and_the_first_members_one_more() -> None:
    found = by_range(members(3, A, B), {A: list(range(7)), B: [0, 1]})
    assert shares(found) == [[0, 1, 2], [3, 4], [5, 6]]
    assert shares(found, B) == [[0], [1], []]


def test_range_puts_static_members_first_in_the_order_of_their_instance_ids() -> None:
    given = {
        "x": Assignee(None, frozenset([A]), NOTHING), "y": Assignee("2", frozenset([A]), NOTHING),
        "z": Assignee("1", frozenset([A]), NOTHING),
    }  # fmt: skip
    assert shares(by_range(given, {A: [0, 1, 2]})) == [[2], [1], [0]]


def test_uniform_moves_no_partition_more_than_a_new_member_needs() -> None:
    given, partitions = members(2, A), {A: list(range(6))}
    before = uniform(given, partitions)
    grown = {**kept(given, before), "new": Assignee(None, frozenset([A]), NOTHING)}
    after = uniform(grown, partitions)
    assert [len(each) for each in shares(after)] == [2, 2, 2]
    assert all(after[name][A] < before[name][A] for name in given)


def test_uniform_keeps_an_assignment_that_is_balanced() -> None:
    given, partitions = members(3, A), {A: list(range(7))}
    found = uniform(given, partitions)
    again = uniform(kept(given, found), partitions)
    assert all(again[name] is found[name] for name in given)


def test_uniform_without_members_or_topics() -> None:
    assert uniform({}, {A: [0]}) == {}
    assert uniform(members(2, C), {}) == {"m0": {}, "m1": {}}


@pytest.mark.parametrize("seed", range(8))
def test_uniform_is_balanced_whatever_the_subscriptions_are(seed: int) -> None:
    random = Random(seed)
    partitions = {topic: list(range(random.randrange(1, 9))) for topic in (A, B, C)}
    given = {
        f"m{each}": Assignee(None, frozenset(random.sample((A, B, C), random.randrange(1, 4))), NOTHING)
        for each in range(random.randrange(1, 7))
    }
    found: Mapping[str, Assignment] = {}
    for _ in range(6):
        found = uniform(given, partitions)
        check(given, partitions, found)
        counts = {name: sum(map(len, share.values())) for name, share in found.items()}
        for name, share in found.items():
            rivals = (counts[other] for other, each in given.items() if each.topics & share.keys())
            assert counts[name] - min(rivals, default=counts[name]) <= 1
        given = kept(given, found)
        if len(given) > 1 and random.random() < 0.5:
            del given[random.choice(list(given))]
        else:
            given[f"n{random.random()}"] = Assignee(None, frozenset(random.sample((A, B, C), 2)), NOTHING)
