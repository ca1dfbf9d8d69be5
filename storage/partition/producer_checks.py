"""Checks appends of producers with an id: sequences, epochs, repeats.

A producer numbers its records. The log accepts a batch only if its sequence follows the last one, so that no record is
lost or repeated when a connection breaks. A repeated batch is answered with its earlier offsets. The last five batches
of each producer are remembered, as many as it may have in flight (`max.in.flight`). After a restart they come from the
end of the log (`producer_loading.recent_batches`); a snapshot has only the last one of each producer. Follows Kafka's
`ProducerAppendInfo` and `ProducerStateEntry` for client batches (KIP-98). Batches that are already in a log are not
checked (`ProducerState.replay`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from offsetfs.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from offsetfs.storage.partition.producers import EPOCH_MAX, NONE, SEQUENCE_MAX, ProducerEntry, ProducerState
from offsetfs.storage.records.format.batch import BatchHeader

BATCHES_KEPT = 5

_UNKNOWN = ProducerEntry()


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """An accepted batch: its sequences and its offsets, both ends included, and its largest timestamp."""

    producer_epoch: int
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerChecks:
    """The checks before an append. `state` is updated as batches are accepted."""

    __slots__ = ("_taken", "state")

    def __init__(self, state: ProducerState, recent: Iterable[BatchHeader] = ()) -> None:
        """Start with the state at the end of the log, which has each producer's last batch, and batches before it.

        `recent` are data batches of the log, in order. Those of another epoch, or that do not lead to the last batch of
        their producer, are not remembered.
        """
        self.state = state
        self._taken: dict[int, deque[AppendedBatch]] = {}
        for header in recent:
            entry = state.entries.get(header.producer_id)
            if entry is not None and entry.producer_epoch == header.producer_epoch and header.base_sequence >= 0:
                self._remember(header.producer_id, _of_header(header))
        for producer_id, entry in state.entries.items():
            kept = self._taken.get(producer_id)
            if entry.last_offset == NONE:
                self._taken.pop(producer_id, None)
            elif kept is None or kept[-1].last_offset != entry.last_offset:
                self._taken[producer_id] = deque([_last_of(entry)], BATCHES_KEPT)

    def check(self, header: BatchHeader, *, bumps_epochs: bool = False) -> AppendedBatch | None:
        """Return the earlier batch that this one repeats, None if it may be appended; raise if it may not.

        `bumps_epochs`: the producer has another epoch in each transaction, so that the first batch of an epoch begins
        with 0 even if the producer is not known (KIP-890). `InvalidProducerEpoch`, `OutOfOrderSequence`,
        `InvalidTransactionState`. Batches without a producer id pass.
        """
        if header.producer_id < 0 or header.is_control:
            return None
        repeated = self._repeated(header)
        if repeated is not None:
            return repeated
        entry = self.state.entries.get(header.producer_id, _UNKNOWN)
        _check_epoch(entry, header)
        self._check_sequence(entry, header, bumps_epochs=bumps_epochs)
        if entry.current_txn_first_offset != NONE and not header.is_transactional:
            raise InvalidTransactionState(f"producer {header.producer_id} has a transaction open")
        return None

    def check_marker(self, header: BatchHeader, coordinator_epoch: int, *, bumps_epochs: bool = False) -> None:
        """Raise if an end transaction marker comes from a fenced coordinator or is for a fenced producer.

        `bumps_epochs`: it is the end of a transaction whose marker has the next epoch. One with that of the open
        transaction is late, of the transaction before (KIP-1228).
        """
        entry = self.state.entries.get(header.producer_id, _UNKNOWN)
        _check_epoch(entry, header)
        is_same = entry.producer_epoch == header.producer_epoch < EPOCH_MAX
        if bumps_epochs and is_same and entry.current_txn_first_offset != NONE:
            raise InvalidProducerEpoch(f"producer {header.producer_id} has begun epoch {header.producer_epoch}")
        if coordinator_epoch < entry.coordinator_epoch:
            raise CoordinatorFenced(f"epoch {coordinator_epoch} of the coordinator, known is {entry.coordinator_epoch}")

    def taken(self, header: BatchHeader, control: tuple[int, int] | None = None) -> None:
        """Record an appended batch, stamped with its offsets; `control` as in `ProducerState.replay`."""
        if header.producer_id < 0:
            return
        before = self.state.entries.get(header.producer_id, _UNKNOWN).producer_epoch
        self.state.replay(header, control)
        entry = self.state.entries.get(header.producer_id, _UNKNOWN)
        if entry.producer_epoch != before:
            self._taken.pop(header.producer_id, None)
        if not header.is_control:
            self._remember(header.producer_id, _last_of(entry))

    def forget_expired(self) -> None:
        """Forget the batches of producers that are no longer in `state`."""
        for producer_id in self._taken.keys() - self.state.entries.keys():
            del self._taken[producer_id]

    def _remember(self, producer_id: int, batch: AppendedBatch) -> None:
        self._taken.setdefault(producer_id, deque(maxlen=BATCHES_KEPT)).append(batch)

    def _repeated(self, header: BatchHeader) -> AppendedBatch | None:
        """Return the earlier batch with the same epoch, first and last sequence, or None."""
        last = increment(header.base_sequence, header.last_offset_delta)
        wanted = (header.producer_epoch, header.base_sequence, last)
        kept = self._taken.get(header.producer_id, ())
        repeated = (
            batch for batch in kept if (batch.producer_epoch, batch.first_sequence, batch.last_sequence) == wanted
        )
        return next(repeated, None)

    def _check_sequence(self, entry: ProducerEntry, header: BatchHeader, *, bumps_epochs: bool) -> None:
        first = header.base_sequence
        if header.producer_epoch != entry.producer_epoch:
            if first != 0 and (entry.producer_epoch != NONE or (bumps_epochs and header.is_transactional)):
                raise OutOfOrderSequence(f"producer {header.producer_id} begins an epoch with {first} instead of 0")
        # As ProducerAppendInfo.inSequence: without a batch in its epoch, which a marker has raised, it begins with 0.
        elif entry.producer_epoch != NONE and first != (expected := _next_sequence(entry)):
            raise OutOfOrderSequence(f"producer {header.producer_id} sent {first} where {expected} is next")


def _check_epoch(entry: ProducerEntry, header: BatchHeader) -> None:
    if header.producer_epoch < entry.producer_epoch:
        raise InvalidProducerEpoch(
            f"epoch {header.producer_epoch} of producer {header.producer_id}, known is {entry.producer_epoch}"
        )


def _next_sequence(entry: ProducerEntry) -> int:
    return 0 if entry.last_sequence == NONE else increment(entry.last_sequence, 1)


def _of_header(header: BatchHeader) -> AppendedBatch:
    last = increment(header.base_sequence, header.last_offset_delta)
    offsets = header.base_offset, header.last_offset
    return AppendedBatch(header.producer_epoch, header.base_sequence, last, *offsets, header.max_timestamp)


def _last_of(entry: ProducerEntry) -> AppendedBatch:
    return AppendedBatch(
        entry.producer_epoch,
        decrement(entry.last_sequence, entry.offset_delta),
        entry.last_sequence,
        entry.last_offset - entry.offset_delta,
        entry.last_offset,
        entry.timestamp,
    )


def increment(sequence: int, count: int) -> int:
    """Return the sequence `count` later; 0 follows 2³¹−1 (DefaultRecordBatch.incrementSequence)."""
    return (sequence + count) & SEQUENCE_MAX if sequence >= 0 else NONE


def decrement(sequence: int, count: int) -> int:
    """Return the sequence `count` earlier; 2³¹−1 precedes 0."""
    return (sequence - count) & SEQUENCE_MAX if sequence >= 0 else NONE
