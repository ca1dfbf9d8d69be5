"""Later requests of one connection are not handled before an earlier one of another, by Kafka 4.4 and by `serve`."""

from __future__ import annotations

import pytest
from fixtures.broker.overtaking import APPENDED, COMMITTED, REQUESTS, overtaking
from fixtures.broker.served import Cluster

pytestmark = pytest.mark.interop

ROUNDS = 20

OVERTAKEN_MAX = {"kafka": REQUESTS, "offsetfs": 1}
"""How many later requests may overtake one in three quarters of the rounds. `serve` may handle two requests that it
receives at the same moment in any order, and the third after both; a handler that waits for a thread is overtaken in
each round. On a busy machine, the broker receives more requests at the same moment, in some rounds. Kafka has no bound,
because several threads handle requests: it was 0 in nearly all rounds."""


def usual(counts: list[int]) -> int:
    """Return the count that three quarters of the rounds reach."""
    return sorted(counts)[len(counts) // 4]


def test_the_end_of_a_partition_does_not_count_records_that_are_produced_later(cluster: Cluster) -> None:
    with overtaking(cluster.address, "overtaking") as clients:
        counts = {name: [clients.count(each) for _ in range(ROUNDS)] for name, each in APPENDED.items()}
    assert {name: found for name, found in counts.items() if usual(found) > OVERTAKEN_MAX[cluster.name]} == {}


def test_committed_offsets_are_not_those_that_are_committed_later(cluster: Cluster) -> None:
    with overtaking(cluster.address, "overtaking-commits") as clients:
        assert usual([clients.count(COMMITTED) for _ in range(ROUNDS)]) <= OVERTAKEN_MAX[cluster.name]
