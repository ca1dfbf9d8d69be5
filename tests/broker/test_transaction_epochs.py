"""Producers with `transaction.version` 2: an epoch for each transaction, partitions that batches add (KIP-890)."""

from __future__ import annotations

import pytest
import trio
from fixtures.broker.produce_requests import altered, batch
from fixtures.broker.running import Running
from fixtures.broker.transaction_requests import TRANSACTIONAL, TransactionalProducer, committed_offset, fetched

from offsetfs.kafka.broker.coordinator_log import ProducerEpoch
from offsetfs.kafka.broker.transactions.transaction import EPOCH_MAX
from offsetfs.kafka.broker.transactions.transaction_coordinator import TransactionCoordinator
from offsetfs.kafka.broker.transactions.transaction_markers import Marker, TransactionMarkers
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import (
    CREATE_TIME,
    READ_COMMITTED,
    BatchBuilder,
    LogDirectory,
    LogReader,
    Record,
    TopicPartition,
    read_batch,
)
from offsetfs.storage.coordinators import (
    Transaction,
    TransactionState,
    partition_of,
    transaction_key,
    transaction_value,
)
from offsetfs.storage.coordinators.transaction_records import transaction_change_of
from offsetfs.storage.units import Offset, Timestamp

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)
NONE = ErrorCode.NONE
ADDS = 12
"""The first version of Produce that adds partitions to the transaction."""
BUMPS = 5
"""The first version of EndTxn that returns the next epoch."""


@pytest.fixture
def producer(running: Running) -> TransactionalProducer:
    return TransactionalProducer(running)


def committed(directory: LogDirectory) -> list[bytes | None]:
    return [each.value for each in LogReader(directory.log(T), isolation=READ_COMMITTED).records()]


def coordinator_of(running: Running) -> TransactionCoordinator:
    return running.broker._transactions


async def test_the_feature_is_announced(running: Running) -> None:
    """Java's producer reads it from version 3 of ApiVersions."""
    found = await running.send(18, "ApiVersions", 4, m.ApiVersionsRequest("test", "1"))
    assert [(each.name, each.min_version, each.max_version) for each in found.supported_features] == [
        ("group.version", 0, 1),
        ("transaction.version", 0, 2),
    ]
    assert [(each.name, each.max_version_level) for each in found.finalized_features] == [
        ("group.version", 1),
        ("transaction.version", 2),
    ]
    assert found.finalized_features_epoch >= 0
    assert (await running.send(18, "ApiVersions", 2, m.ApiVersionsRequest())).finalized_features == []


async def test_each_transaction_has_an_epoch_of_its_own(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    await producer.init()
    producer_id = producer.producer_id
    for number, commits in enumerate((True, False, True)):
        assert (producer.producer_id, producer.epoch) == (producer_id, number)
        assert await producer.send(b"%d" % number, version=ADDS) == NONE
        assert await producer.state() == "Ongoing"
        assert await producer.end(commits=commits, version=BUMPS) == NONE
    assert committed(directory) == [b"0", b"2"]
    data, epochs = memoryview((await fetched(running)).records), list[int]()
    while data:
        header = read_batch(data).header
        epochs.append(header.producer_epoch)
        data = data[header.size :]
    assert epochs == [0, 1, 1, 2, 2, 3], "a marker has the next epoch"
    assert await producer.state() == "CompleteCommit"


async def test_a_late_batch_is_in_no_later_transaction(
    directory: LogDirectory, producer: TransactionalProducer
) -> None:
    """It was appended before KIP-890 if its partition was in the next transaction as well."""
    await producer.init()
    assert await producer.send(b"1", version=ADDS) == NONE
    assert await producer.end(version=BUMPS) == NONE
    assert await producer.send(b"2", version=ADDS) == NONE
    late = TransactionalProducer(producer._running)
    late.producer_id, late.epoch, late.sequences = producer.producer_id, producer.epoch - 1, {"t": 1}
    assert await late.send(b"late", version=ADDS) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.end(version=BUMPS) == NONE
    assert committed(directory) == [b"1", b"2"]


@pytest.mark.parametrize("commits", [True, False])
async def test_an_end_whose_answer_was_lost_is_answered_again(
    producer: TransactionalProducer, directory: LogDirectory, *, commits: bool
) -> None:
    await producer.init()
    assert await producer.send(b"1", version=ADDS) == NONE
    again = TransactionalProducer(producer._running)
    again.producer_id, again.epoch = producer.producer_id, producer.epoch
    assert await producer.end(commits=commits, version=BUMPS) == NONE
    assert await again.end(commits=not commits, version=BUMPS) == ErrorCode.INVALID_TXN_STATE
    assert await again.end(commits=commits, version=BUMPS) == NONE
    assert (again.producer_id, again.epoch) == (producer.producer_id, producer.epoch) == (producer.producer_id, 1)
    again.epoch = 5
    assert await again.end(commits=commits, version=BUMPS) == ErrorCode.PRODUCER_FENCED
    again.producer_id += 1
    assert await again.end(commits=commits, version=BUMPS) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_a_transaction_without_partitions_can_be_aborted(producer: TransactionalProducer) -> None:
    """A client does not know whether its batch has added the partition."""
    await producer.init()
    assert await producer.end(version=BUMPS) == ErrorCode.INVALID_TXN_STATE
    for epoch in (1, 2):  # of the states Empty and CompleteAbort
        assert await producer.end(commits=False, version=BUMPS) == NONE
        assert (await producer.state(), producer.epoch) == ("CompleteAbort", epoch)
    assert await producer.send(b"1", version=ADDS) == NONE
    assert await producer.end(version=BUMPS) == NONE
    assert await producer.end(commits=False, version=BUMPS) == NONE  # of CompleteCommit
    assert (await producer.state(), producer.epoch) == ("CompleteAbort", 4)


async def test_epochs_that_run_out_give_a_new_producer_id(
    directory: LogDirectory, producer: TransactionalProducer
) -> None:
    await producer.init()
    first = producer.producer_id
    stored = Transaction(first, EPOCH_MAX - 1, 60_000, updated_ms=1)
    log = directory.writable_log(TopicPartition("__transaction_state", partition_of("tx", 2)))
    builder = BatchBuilder(1 << 12)
    builder.append(transaction_key("tx"), transaction_value(stored), (), 1)
    log.append(builder.seal())
    producer.epoch = EPOCH_MAX - 1
    assert await producer.send(b"1", version=ADDS) == NONE
    assert await producer.end(version=BUMPS) == NONE
    second = producer.producer_id
    assert (second != first, producer.epoch) == (True, 0)
    producer.producer_id, producer.epoch = first, EPOCH_MAX - 1  # the answer was lost
    assert await producer.end(version=BUMPS) == NONE
    assert (producer.producer_id, producer.epoch) == (second, 0)
    assert await producer.send(b"2", version=ADDS) == NONE
    assert await producer.end(version=BUMPS) == NONE
    assert (producer.epoch, committed(directory)) == (1, [b"1", b"2"])


async def test_the_first_batch_of_a_transaction_begins_with_the_sequence_0(
    directory: LogDirectory, producer: TransactionalProducer
) -> None:
    """The batch before it may have been refused, and is sent again: records would be stored in another order."""
    await producer.init()
    producer.sequences["t"] = 1
    assert await producer.send(b"2", version=ADDS) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequences["t"] = 0
    assert [await producer.send(value, version=ADDS) for value in (b"1", b"2")] == [NONE, NONE]
    assert await producer.end(version=BUMPS) == NONE
    assert committed(directory) == [b"1", b"2"]


async def test_partitions_are_stored_before_their_first_batch(
    running: Running, directory: LogDirectory, producer: TransactionalProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that does not know a partition with its records would never end there."""
    await producer.init()
    stored: list[bool] = []
    extend = TransactionCoordinator.extend

    async def noted(
        self: TransactionCoordinator,
        transactional_id: str,
        producer: ProducerEpoch,
        partitions: set[TopicPartition],
        *,
        client_version: int,
    ) -> None:
        assert directory.log(T).next_offset == 0
        await extend(self, transactional_id, producer, partitions, client_version=client_version)
        stored.append(not self._storing)

    monkeypatch.setattr(TransactionCoordinator, "extend", noted)
    assert [await producer.send(value, version=ADDS) for value in (b"1", b"2")] == [NONE, NONE]
    assert stored == [True], "once for each partition"


async def test_a_batch_waits_for_a_partition_that_another_request_stores(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    await producer.init()
    epoch = ProducerEpoch(producer.producer_id, producer.epoch)
    coordinator = coordinator_of(running)
    await coordinator.extend("tx", epoch, {T}, client_version=2)
    assert coordinator.contains("tx", epoch, T)
    coordinator._storing["tx"] += 1
    assert not coordinator.contains("tx", epoch, T)
    del coordinator._storing["tx"]


async def test_batches_that_are_refused_add_no_partition(running: Running, producer: TransactionalProducer) -> None:
    await producer.init()
    data = altered(
        batch([(None, b"x")], producer_id=producer.producer_id, epoch=0, sequence=0), attributes=TRANSACTIONAL
    )
    plain = batch([(None, b"x")])
    named = [("missing", data), ("__consumer_offsets", data), ("__transaction_state", data), ("t", plain), ("t", b"?")]
    topics = [m.TopicProduceData(name, partition_data=[m.PartitionProduceData(0, each)]) for name, each in named]
    response = await running.send(0, "Produce", ADDS, m.ProduceRequest("tx", acks=-1, topic_data=topics))
    codes = [each.partition_responses[0].error_code for each in response.responses]
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        NONE,
        ErrorCode.INVALID_RECORD,
    ]
    assert await producer.state() == "Empty"


async def test_offsets_add_the_partition_of_their_group(running: Running, producer: TransactionalProducer) -> None:
    await producer.init()
    assert await producer.commit_offset(3) == ErrorCode.INVALID_TXN_STATE
    assert await producer.commit_offset(3, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.commit_offset(3, version=5) == NONE
    assert await committed_offset(running) == -1
    assert await producer.end(version=BUMPS) == NONE
    assert await committed_offset(running) == 3


@pytest.mark.expect_log("the end of a transaction of tx is not in all partitions")
async def test_the_next_transaction_waits_for_markers_that_cannot_be_written(
    running: Running, directory: LogDirectory, producer: TransactionalProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batches would be behind no marker. Clients of this version know the error as one that is tried again."""

    def full(self: TransactionMarkers, marker: Marker, partition: TopicPartition) -> None:
        raise OSError(28, "No space left on device")

    await producer.init()
    assert await producer.send(b"1", version=ADDS) == NONE
    with monkeypatch.context() as patch:
        patch.setattr(TransactionMarkers, "_append", full)
        assert await producer.end(version=BUMPS) == NONE
        assert await producer.send(b"2", version=ADDS) == ErrorCode.CONCURRENT_TRANSACTIONS
        assert await producer.commit_offset(1, version=5) == ErrorCode.CONCURRENT_TRANSACTIONS
        assert await producer.end(version=BUMPS) == ErrorCode.PRODUCER_FENCED
    with trio.fail_after(30):
        while await producer.state() != "CompleteCommit":
            await coordinator_of(running).complete_prepared()
    assert await producer.send(b"2", version=ADDS) == NONE
    assert await producer.end(version=BUMPS) == NONE
    assert committed(directory) == [b"1", b"2"]


async def test_a_producer_that_was_timed_out_goes_on_after_an_abort(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    """As with Kafka 4.1: the abort got the next epoch, and no newer instance has it."""
    producer.timeout_ms = 1
    await producer.init()
    assert await producer.send(b"1", version=ADDS) == NONE
    await trio.sleep(0.005)
    await coordinator_of(running).abort_timed_out()
    assert await producer.send(b"2", version=ADDS) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.end(version=BUMPS) == ErrorCode.INVALID_TXN_STATE
    assert [await producer.end(commits=False, version=BUMPS), producer.epoch] == [NONE, 1]
    assert await producer.send(b"3", version=ADDS) == NONE
    assert await producer.end(version=BUMPS) == NONE
    assert committed(directory) == [b"3"]


def test_records_have_the_version_of_their_client() -> None:
    """Brokers that know version 0 only read the transactions of older clients."""
    older = Transaction(7, 3, 1000, TransactionState.ONGOING, frozenset({T}), 1, 2)
    newer = Transaction(
        7, EPOCH_MAX, 1000, TransactionState.PREPARE_COMMIT, frozenset({T}), 1, 2, 6, 8, client_version=2
    )
    versions = [int.from_bytes(transaction_value(each)[:2]) for each in (older, newer)]
    assert versions == [0, 1]
    for each in (older, newer):
        record = Record(Offset(0), Timestamp(0), CREATE_TIME, transaction_key("tx"), transaction_value(each))
        assert transaction_change_of(record).transaction == each
