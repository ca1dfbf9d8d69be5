"""Which batches of a producer are taken, repeated or refused (Kafka's ProducerStateManagerTest, for clients)."""

import pytest

from offsetfs.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    StorageError,
)
from offsetfs.storage.partition.producer_checks import ProducerChecks, decrement, increment
from offsetfs.storage.partition.producers import ABORT, COMMIT, SEQUENCE_MAX, ProducerState
from offsetfs.storage.records.format.batch import BatchHeader, build, parse_header

pytestmark = pytest.mark.unit

PRODUCER = 42


def batch(
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    offset: int = 0,
    transactional: bool = False,
    control: bool = False,
) -> BatchHeader:
    records = [(None, b"x", (), 1000)] * count
    return parse_header(
        build(
            records,
            producer_id=PRODUCER,
            producer_epoch=epoch,
            base_sequence=-1 if control else sequence,
            base_offset=offset,
            transactional=transactional or control,
            control=control,
        )
    )


@pytest.fixture
def checks() -> ProducerChecks:
    return ProducerChecks(ProducerState())


def take(checks: ProducerChecks, header: BatchHeader, control: tuple[int, int] | None = None) -> None:
    assert checks.check(header) is None
    checks.taken(header, control)


def test_an_unknown_producer_may_begin_anywhere(checks: ProducerChecks) -> None:
    take(checks, batch(17))
    take(checks, batch(18))
    assert checks.state.entries[PRODUCER].last_sequence == 18


@pytest.mark.parametrize(("sequence", "epoch"), [(2, 0), (0, 0), (9, 0), (1, 1)])
def test_a_gap_or_a_step_back_is_out_of_order(checks: ProducerChecks, sequence: int, epoch: int) -> None:
    take(checks, batch(0, offset=0))
    checks.taken(batch(5, offset=1))  # so that 0 is no longer the last, and only batches of one record are known
    with pytest.raises(OutOfOrderSequence):
        checks.check(batch(sequence, 2, epoch=epoch))


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(checks: ProducerChecks) -> None:
    take(checks, batch(0, 3))
    take(checks, batch(0, epoch=1, offset=3))
    with pytest.raises(InvalidProducerEpoch, match="epoch 0 of producer 42, known is 1"):
        checks.check(batch(3))


def test_the_last_five_batches_are_recognized_when_they_come_again(checks: ProducerChecks) -> None:
    for number in range(7):
        take(checks, batch(10 * number, 10, offset=10 * number))
    for number in range(2, 7):
        repeated = checks.check(batch(10 * number, 10))
        assert repeated is not None
        assert (repeated.base_offset, repeated.last_offset) == (10 * number, 10 * number + 9)
    for number in range(2):
        with pytest.raises(OutOfOrderSequence):
            checks.check(batch(10 * number, 10))
    with pytest.raises(OutOfOrderSequence):  # part of a batch is no batch
        checks.check(batch(60, 5))


def test_after_a_restart_the_last_batch_is_still_recognized(checks: ProducerChecks) -> None:
    for number in range(3):
        take(checks, batch(2 * number, 2, offset=2 * number))
    again = ProducerChecks(ProducerState.load(checks.state.dump()))
    repeated = again.check(batch(4, 2))
    assert repeated is not None and (repeated.base_offset, repeated.last_offset) == (4, 5)
    with pytest.raises(OutOfOrderSequence):
        again.check(batch(2, 2))
    take(again, batch(6))


def test_after_a_restart_the_last_five_are_recognized_by_the_end_of_the_log(checks: ProducerChecks) -> None:
    """Only the last one was: a producer that had several batches in flight got OUT_OF_ORDER_SEQUENCE_NUMBER."""
    log = [batch(2 * number, 2, offset=2 * number) for number in range(7)]
    for header in log:
        checks.taken(header)
    other = batch(0, epoch=5)  # of the producer's former epoch
    again = ProducerChecks(ProducerState.load(checks.state.dump()), [other, *log])
    for number in range(2, 7):
        repeated = again.check(log[number])
        assert repeated is not None and (repeated.base_offset, repeated.timestamp) == (2 * number, 1000)
    with pytest.raises(OutOfOrderSequence):
        again.check(log[1])
    partly = ProducerChecks(ProducerState.load(checks.state.dump()), log[:3])
    assert partly.check(log[6]) is not None, "the last one is known from the snapshot"
    with pytest.raises(OutOfOrderSequence):
        partly.check(log[2])


def test_expired_producers_are_forgotten_with_their_batches(checks: ProducerChecks) -> None:
    """A repeat was still recognized by the batches that stayed in memory."""
    take(checks, batch(0))
    checks.state.expire(1000 + 86_400_000, 86_400_000)
    checks.forget_expired()
    assert checks.check(batch(0)) is None and not checks._taken


def test_sequences_wrap_around(checks: ProducerChecks) -> None:
    take(checks, batch(SEQUENCE_MAX - 1, 3))
    take(checks, batch(1, offset=3))
    assert checks.check(batch(SEQUENCE_MAX - 1, 3)) is not None
    assert (increment(SEQUENCE_MAX, 1), increment(SEQUENCE_MAX - 5, 10), decrement(0, 1)) == (0, 4, SEQUENCE_MAX)


def test_a_batch_outside_the_open_transaction_is_refused(checks: ProducerChecks) -> None:
    take(checks, batch(0, transactional=True))
    with pytest.raises(InvalidTransactionState):
        checks.check(batch(1))
    take(checks, batch(1, offset=1, transactional=True))
    checks.taken(batch(-1, offset=2, control=True), (COMMIT, 7))
    take(checks, batch(2, offset=3))
    assert checks.state.entries[PRODUCER].current_txn_first_offset == -1


def test_a_marker_that_bumps_the_epoch_forgets_the_sequences(checks: ProducerChecks) -> None:
    take(checks, batch(0, transactional=True))
    checks.taken(batch(-1, epoch=1, offset=1, control=True), (ABORT, 7))
    with pytest.raises(InvalidProducerEpoch):
        checks.check(batch(1, transactional=True))
    with pytest.raises(OutOfOrderSequence, match="sent 3 where 0 is next"):
        checks.check(batch(3, epoch=1, transactional=True))
    take(checks, batch(0, epoch=1, offset=2, transactional=True))


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "error"), [(0, 6, CoordinatorFenced), (-1, 7, InvalidProducerEpoch), (0, 8, None)]
)
def test_markers_of_the_fenced_are_refused(
    checks: ProducerChecks, epoch: int, coordinator_epoch: int, error: type[StorageError] | None
) -> None:
    take(checks, batch(0, epoch=1, transactional=True))
    checks.taken(batch(-1, epoch=1, offset=1, control=True), (COMMIT, 7))
    marker = batch(-1, epoch=1 + epoch, control=True)
    if error is None:
        checks.check_marker(marker, coordinator_epoch)
        assert checks.state.entries[PRODUCER].coordinator_epoch == 7
        return
    with pytest.raises(error):
        checks.check_marker(marker, coordinator_epoch)


def test_batches_without_a_producer_pass(checks: ProducerChecks) -> None:
    plain = parse_header(build([(None, b"x", (), 1)]))
    assert checks.check(plain) is None and checks.check(plain) is None
    checks.taken(plain)
    assert checks.state.entries == {}
