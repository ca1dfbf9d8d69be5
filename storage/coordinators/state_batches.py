"""State batches of a share partition: which offsets were delivered how often, and what became of them.

A share coordinator writes a snapshot of all batches, then updates, whose batches may overlap those before them. Where
batches overlap, the one with the higher delivery count holds, and of the same count the one with the higher state.
Batches below the start offset are done. Follows PersisterStateBatchCombiner (KIP-932).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import NamedTuple

STATES = ("Available", "Acquired", "Acknowledged", "Archiving", "Archived")
"""The names of delivery states by number. Brokers keep acquired records in memory and do not write that state."""

FINISHED = (STATES.index("Acknowledged"), STATES.index("Archived"))


class StateBatch(NamedTuple):
    """The records from `first_offset` to `last_offset`, both included."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int


def combined(batches: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return the batches from `start_offset` on, sorted, without overlaps, and as few as there can be.

    Costs n log n.
    """
    ordered = sorted(batch for batch in batches if batch.last_offset >= start_offset)
    edges = sorted(
        {edge for batch in ordered for edge in (max(batch.first_offset, start_offset), batch.last_offset + 1)}
    )
    found: list[StateBatch] = []
    covering: list[tuple[int, int, int]] = []  # minus delivery count, minus state, last offset: the first one holds
    place = 0
    for edge, following in itertools.pairwise(edges):
        while place < len(ordered) and ordered[place].first_offset <= edge:
            batch = ordered[place]
            # A heap instead of comparing all pairs: a snapshot and its updates may hold 10,000 overlapping batches of
            # one partition.
            heapq.heappush(covering, (-batch.delivery_count, -batch.state, batch.last_offset))
            place += 1
        while covering and covering[0][2] < edge:
            heapq.heappop(covering)
        if covering:
            _add(found, StateBatch(edge, following - 1, -covering[0][1], -covering[0][0]))
    return found


def _add(found: list[StateBatch], batch: StateBatch) -> None:
    """Add a batch behind those found, or lengthen the last one where it is of the same kind."""
    if found and found[-1].last_offset + 1 == batch.first_offset and found[-1][2:] == batch[2:]:
        found[-1] = found[-1]._replace(last_offset=batch.last_offset)
    else:
        found.append(batch)
