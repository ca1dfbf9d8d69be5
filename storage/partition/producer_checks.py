"""What may be appended by a producer with an id, and what it has appended already.

A producer numbers its records; the log takes a batch only when its numbers follow the last ones, so that nothing is
lost or twice when a connection breaks. A batch that was taken already is answered with the offsets it got. The last
five batches of each producer are remembered, as many as it may have under way (`max.in.flight`); after a restart only
the last one, which is what a snapshot keeps. Follows Kafka's `ProducerAppendInfo` and `ProducerStateEntry` for batches
of clients (KIP-98); what is already in a log is not refused (`ProducerState.replay`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from offsetfs.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from offsetfs.storage.partition.producers import NONE, ProducerEntry, ProducerState
from offsetfs.storage.records.batch import BatchHeader

BATCHES_KEPT = 5
SEQUENCE_MAX = 2**31 - 1

_UNKNOWN = ProducerEntry()


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """A batch that the log took: its sequences and its offsets, both ends included."""

    producer_epoch: int
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class ProducerChecks:
    """The gate before a log for batches with a producer id. `state` is kept up as batches are taken."""

    __slots__ = ("_taken", "state")

    def __init__(self, state: ProducerState) -> None:
        """Begin with the state at the end of the log; each producer's last batch is remembered from it."""
        self.state = state
        self._taken: dict[int, deque[AppendedBatch]] = {}
        for producer_id, entry in state.entries.items():
            if entry.last_offset != NONE:
                self._remember(producer_id, _last_of(entry))

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Return the batch that this one repeats, None when it is to be appended; raise when it must not be.

        `InvalidProducerEpoch`, `OutOfOrderSequence`, `InvalidTransactionState`. Batches without a producer id pass.
        """
        if header.producer_id < 0 or header.is_control:
            return None
        repeated = self._repeated(header)
        if repeated is not None:
            return repeated
        entry = self.state.entries.get(header.producer_id, _UNKNOWN)
        _check_epoch(entry, header)
        self._check_sequence(entry, header)
        if entry.current_txn_first_offset != NONE and not header.is_transactional:
            raise InvalidTransactionState(f"producer {header.producer_id} has a transaction open")
        return None

    def check_marker(self, header: BatchHeader, coordinator_epoch: int) -> None:
        """Raise when an end transaction marker comes from a fenced coordinator or for a fenced producer."""
        entry = self.state.entries.get(header.producer_id, _UNKNOWN)
        _check_epoch(entry, header)
        if coordinator_epoch < entry.coordinator_epoch:
            raise CoordinatorFenced(f"epoch {coordinator_epoch} of the coordinator, known is {entry.coordinator_epoch}")

    def taken(self, header: BatchHeader, control: tuple[int, int] | None = None) -> None:
        """Take note of a batch that was appended, stamped with its offsets; `control` as `ProducerState.replay`."""
        if header.producer_id < 0:
            return
        before = self.state.entries.get(header.producer_id, _UNKNOWN).producer_epoch
        self.state.replay(header, control)
        entry = self.state.entries.get(header.producer_id, _UNKNOWN)
        if entry.producer_epoch != before:
            self._taken.pop(header.producer_id, None)
        if not header.is_control:
            self._remember(header.producer_id, _last_of(entry))

    def _remember(self, producer_id: int, batch: AppendedBatch) -> None:
        self._taken.setdefault(producer_id, deque(maxlen=BATCHES_KEPT)).append(batch)

    def _repeated(self, header: BatchHeader) -> AppendedBatch | None:
        """Only a whole batch counts: the same epoch, the same first and last sequence."""
        last = increment(header.base_sequence, header.last_offset_delta)
        wanted = (header.producer_epoch, header.base_sequence, last)
        kept = self._taken.get(header.producer_id, ())
        found = (each for each in kept if (each.producer_epoch, each.first_sequence, each.last_sequence) == wanted)
        return next(found, None)

    def _check_sequence(self, entry: ProducerEntry, header: BatchHeader) -> None:
        first = header.base_sequence
        if header.producer_epoch != entry.producer_epoch:
            if first != 0 and entry.producer_epoch != NONE:
                raise OutOfOrderSequence(f"producer {header.producer_id} begins an epoch with {first} instead of 0")
        elif entry.last_sequence != NONE and first != increment(entry.last_sequence, 1):
            expected = increment(entry.last_sequence, 1)
            raise OutOfOrderSequence(f"producer {header.producer_id} sent {first} where {expected} is next")


def _check_epoch(entry: ProducerEntry, header: BatchHeader) -> None:
    if header.producer_epoch < entry.producer_epoch:
        raise InvalidProducerEpoch(
            f"epoch {header.producer_epoch} of producer {header.producer_id}, known is {entry.producer_epoch}"
        )


def _last_of(entry: ProducerEntry) -> AppendedBatch:
    return AppendedBatch(
        entry.producer_epoch,
        decrement(entry.last_sequence, entry.offset_delta),
        entry.last_sequence,
        entry.last_offset - entry.offset_delta,
        entry.last_offset,
    )


def increment(sequence: int, count: int) -> int:
    """Return the sequence `count` behind; after 2³¹−1 comes 0 (DefaultRecordBatch.incrementSequence)."""
    return (sequence + count) & SEQUENCE_MAX if sequence >= 0 else NONE


def decrement(sequence: int, count: int) -> int:
    """Return the sequence `count` before; before 0 comes 2³¹−1."""
    return (sequence - count) & SEQUENCE_MAX if sequence >= 0 else NONE
