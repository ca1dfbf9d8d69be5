"""State batches of share groups are combined as Kafka's PersisterStateBatchCombiner combines them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fixtures.kafka.programs import java, run

from offsetfs.storage.coordinators.share_groups import StateBatch, combined

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).parents[1] / "kafka" / "CombineStateBatches.java"
CASES = 20_000


def disjoint(chance: random.Random, count: int) -> list[StateBatch]:
    """Return batches as a coordinator keeps and writes them: sorted, and without overlaps."""
    edges = sorted(chance.sample(range(40), 2 * count))
    return [
        StateBatch(edges[2 * number], edges[2 * number + 1], chance.choice([0, 2, 4]), chance.randrange(4))
        for number in range(count)
    ]


def test_random_updates_come_to_the_same_batches() -> None:
    chance = random.Random(20)
    cases = []
    for _ in range(CASES):
        before, added = disjoint(chance, chance.randrange(6)), disjoint(chance, chance.randrange(6))
        cases.append((chance.randrange(-1, 30), before, added))
    lines = []
    for start, before, added in cases:
        numbers = [start, len(before), len(added), *(number for batch in before + added for number in batch)]
        lines.append(" ".join(map(str, numbers)))
    printed = run(java(str(PROGRAM)), "\n".join(lines).encode()).stdout.decode().splitlines()
    assert len(printed) == CASES
    for line, (start, before, added) in zip(printed, cases, strict=True):
        numbers = list(map(int, line.split()))
        kafkas = sorted(StateBatch(*numbers[place : place + 4]) for place in range(0, len(numbers), 4))
        assert combined(kafkas, -1) == combined(before + added, start), (start, before, added)
