"""The state machine of a transactional id: what each request makes of its state, or the error that it gets.

    Empty ─ partitions are added ─→ Ongoing ─ EndTxn ─→ PrepareCommit ─ markers are written ─→ CompleteCommit
      ↑                              ↑  └──── EndTxn, or the time is up ─→ PrepareAbort ─→ CompleteAbort ─┤
      │                              └─────────────── partitions are added ───────────────────────────────┤
      └──────────────────────────────────────── InitProducerId ───────────────────────────────────────────┘

A transaction that another instance of the producer, or the time limit, aborts gets the next epoch: the markers have it,
so that partitions refuse the older instance. With `transaction.version` 2 each end does so, and EndTxn returns the
epoch of the next transaction; a late batch of an ended transaction is then in no other transaction. Clients with that
level may also abort when no partition was added. Follows TransactionCoordinator and TransactionMetadata (KIP-98,
KIP-360, KIP-890). All but the source of producer ids are pure functions.
"""

from __future__ import annotations

import secrets
from collections.abc import Set
from dataclasses import replace

from offsetfs.kafka.broker.coordinator_log import ProducerEpoch
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import I16_MAX, I64_MAX, TopicPartition
from offsetfs.storage.coordinators import NO_PRODUCER, Transaction, TransactionState

EPOCH_MAX = I16_MAX
"""The last epoch only fences: a producer gets a smaller one, or a new id."""

BUMPS_EPOCHS = 2
"""The `transaction.version` with an epoch for each transaction (KIP-890)."""


class TransactionError(Exception):
    """A request that is not granted."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


def initialized(
    known: Transaction | None, asked: ProducerEpoch | None, timeout_ms: int, new_producer_id: int, now_ms: int
) -> Transaction:
    """Return the state after InitProducerId; an ongoing transaction is aborted by it, in the state that is returned.

    `asked`: the id and the epoch that the producer has (KIP-360). PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    if known is None:
        return Transaction(new_producer_id, 0, timeout_ms, updated_ms=now_ms)
    if asked is not None and not _is_of(known, asked):
        raise TransactionError(ErrorCode.PRODUCER_FENCED)
    if known.state.is_ending:
        raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.state == TransactionState.ONGOING:
        return fenced(known, now_ms)
    asked_epoch = NO_PRODUCER if asked is None else asked.epoch
    last_epoch = NO_PRODUCER if asked is None else known.epoch
    empty = replace(
        known,
        state=TransactionState.EMPTY,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        started_ms=NO_PRODUCER,
        updated_ms=now_ms,
        last_epoch=last_epoch,
    )
    if _is_exhausted(known.epoch) and asked_epoch in (NO_PRODUCER, known.epoch):
        return replace(empty, producer_id=new_producer_id, epoch=0, previous_producer_id=known.producer_id)
    if asked is None or asked_epoch == known.epoch:
        return replace(empty, epoch=known.epoch + 1)
    if asked_epoch == known.last_epoch:  # the answer to an earlier request was lost
        return replace(empty, last_epoch=known.last_epoch)
    raise TransactionError(ErrorCode.PRODUCER_FENCED)


def _is_of(known: Transaction, asked: ProducerEpoch) -> bool:
    """Return whether a producer id is the current one, or one whose epochs ran out (the answer may have been lost)."""
    if asked.producer_id == known.producer_id:
        return True
    return asked.producer_id == known.previous_producer_id and _is_exhausted(asked.epoch)


def _is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1


def fenced(known: Transaction, now_ms: int) -> Transaction:
    """Return the state in which an ongoing transaction is aborted, and its producer fenced by the next epoch."""
    epoch = min(known.epoch + 1, EPOCH_MAX)
    state = TransactionState.PREPARE_ABORT
    return replace(known, state=state, epoch=epoch, last_epoch=known.epoch, updated_ms=now_ms)


def extended(
    known: Transaction | None,
    producer: ProducerEpoch,
    partitions: Set[TopicPartition],
    now_ms: int,
    *,
    client_version: int = 0,
) -> Transaction | None:
    """Return the state with these partitions in the transaction; None if they are in it.

    `client_version`: the `transaction.version` of the client. INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
    CONCURRENT_TRANSACTIONS.
    """
    current = _of_producer(known, producer)
    if current.state.is_ending:
        raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_ongoing = current.state == TransactionState.ONGOING
    if is_ongoing and partitions <= current.partitions:
        return None
    return replace(
        current,
        state=TransactionState.ONGOING,
        partitions=current.partitions | partitions,
        started_ms=current.started_ms if is_ongoing else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def ended(known: Transaction | None, producer: ProducerEpoch, now_ms: int, *, is_commit: bool) -> Transaction | None:
    """Return the state after EndTxn, in which the markers are to be written; None if that is done.

    For clients without `transaction.version` 2. INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
    INVALID_TXN_STATE.
    """
    current = _of_producer(known, producer)
    state = current.state
    prepared = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
    if state == TransactionState.ONGOING:
        return replace(current, state=prepared, updated_ms=now_ms, client_version=0)
    if state == (TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT):
        return None  # the answer to the first request was lost
    raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS if state == prepared else ErrorCode.INVALID_TXN_STATE)


def ended_with_next_epoch(
    known: Transaction | None, producer: ProducerEpoch, now_ms: int, *, is_commit: bool, new_producer_id: int
) -> Transaction | None:
    """Return the state after EndTxn of a client with `transaction.version` 2; None if its markers are written.

    It has the epoch of the next transaction; when epochs run out, `new_producer_id` follows. Errors as of `ended`.
    """
    if known is None:
        raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_of_previous_id = (
        known.previous_producer_id == producer.producer_id and producer.epoch == EPOCH_MAX - 1 and known.epoch == 0
    )
    if known.producer_id != producer.producer_id and not is_of_previous_id:
        raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    state = known.state
    # With the epoch of the next transaction stored, the one before is that of a request whose answer was lost.
    is_again = is_of_previous_id or known.epoch == producer.epoch + 1
    if state.is_ending:
        is_valid = known.epoch == producer.epoch + 1
    elif state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        is_valid = is_again or known.epoch == producer.epoch
    else:
        is_valid = known.epoch == producer.epoch
    if not is_valid:
        raise TransactionError(ErrorCode.PRODUCER_FENCED)
    prepared = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
    if state == prepared:
        raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if is_again and state == (TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT):
        return None
    is_ongoing = state == TransactionState.ONGOING
    # A client may abort what it has not begun: it cannot know whether a batch has added its partition.
    if not is_ongoing and (is_commit or is_again):
        raise TransactionError(ErrorCode.INVALID_TXN_STATE)
    return replace(
        known,
        state=prepared,
        epoch=min(known.epoch + 1, EPOCH_MAX),
        last_epoch=known.epoch,
        started_ms=known.started_ms if is_ongoing else now_ms,
        updated_ms=now_ms,
        next_producer_id=new_producer_id if _is_exhausted(known.epoch) else NO_PRODUCER,
        client_version=BUMPS_EPOCHS,
    )


def completed(known: Transaction, now_ms: int) -> Transaction:
    """Return the state after the markers of an ended transaction are written."""
    is_commit = known.state == TransactionState.PREPARE_COMMIT
    done = replace(
        known,
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        updated_ms=now_ms,
        next_producer_id=NO_PRODUCER,
    )
    if known.next_producer_id == NO_PRODUCER or known.client_version < BUMPS_EPOCHS:
        return done
    # Epochs have run out with this transaction (KIP-890).
    return replace(done, producer_id=known.next_producer_id, previous_producer_id=known.producer_id, epoch=0)


def check_contains(known: Transaction | None, producer: ProducerEpoch, partition: TopicPartition) -> None:
    """Raise unless a partition is in the ongoing transaction of a producer; INVALID_TXN_STATE if it is not."""
    current = _of_producer(known, producer)
    if current.state.is_ending:
        raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if partition not in current.partitions:
        raise TransactionError(ErrorCode.INVALID_TXN_STATE)


def _of_producer(known: Transaction | None, producer: ProducerEpoch) -> Transaction:
    if known is None or known.producer_id != producer.producer_id:
        raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if known.epoch != producer.epoch:
        raise TransactionError(ErrorCode.PRODUCER_FENCED)
    return known


ID_MIN = 1 << 40
BLOCK_SIZE = 1 << 10


class ProducerIds:
    """Hands out producer ids to idempotent and transactional producers.

    A broker counts from 0 in its metadata. Here blocks of `BLOCK_SIZE` ids begin at random from `ID_MIN` on, which no
    broker reaches. Nothing is stored, so that a directory that is restored from a backup, or copied, hands out no id
    twice either. Two of a million blocks are the same with a probability of 1 to 18,000; of the thousand that a busy
    broker takes, 1 to 18 billion.
    """

    def __init__(self) -> None:
        self._ids = iter(range(0))

    def next(self) -> int:
        """Return a new id."""
        producer_id = next(self._ids, None)
        if producer_id is None:
            producer_id = ID_MIN + secrets.randbelow((I64_MAX + 1 - ID_MIN) // BLOCK_SIZE) * BLOCK_SIZE
            self._ids = iter(range(producer_id + 1, producer_id + BLOCK_SIZE))
        return producer_id
