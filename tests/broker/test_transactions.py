"""Transactions of producers: commit, abort, fencing, time limits, offsets, restarts in each state, damage."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from fixtures.broker.group_requests import FEW_PARTITIONS
from fixtures.broker.produce_requests import altered, batch, produced
from fixtures.broker.running import Running
from fixtures.broker.transaction_requests import TransactionalProducer, committed_offset, fetched
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.cli import run
from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.coordinator_log import ProducerEpoch
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.transactions.transaction import EPOCH_MAX, completed
from offsetfs.kafka.broker.transactions.transaction_coordinator import TransactionCoordinator
from offsetfs.kafka.broker.transactions.transaction_markers import GROUP_MAX, Marker, TransactionMarkers
from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.records import PartitionsSchema, TransactionLogValue
from offsetfs.storage import (
    CREATE_TIME,
    READ_COMMITTED,
    BatchBuilder,
    Log,
    LogDirectory,
    LogReader,
    Record,
    TopicPartition,
)
from offsetfs.storage.coordinators import (
    ChangesReplay,
    Transaction,
    TransactionState,
    partition_of,
    transaction_key,
    transaction_value,
)
from offsetfs.storage.coordinators.changes_replay import UnreadableRecord
from offsetfs.storage.coordinators.transaction_records import transaction_change_of
from offsetfs.storage.units import Offset, Timestamp

pytestmark = pytest.mark.unit

T, U = TopicPartition("t", 0), TopicPartition("u", 0)
NONE = ErrorCode.NONE


@pytest.fixture
def directory(directory: LogDirectory) -> LogDirectory:
    directory.create_partitions([U])
    return directory


@pytest.fixture
def producer(running: Running) -> TransactionalProducer:
    return TransactionalProducer(running)


@asynccontextmanager
async def serving(path: str, clock: FakeClock | None = None) -> AsyncIterator[Running]:
    """Open a directory again, with a broker that has no more than what is stored."""
    directory = LogDirectory.open(path, clock=clock) if clock else LogDirectory.open(path)
    try:
        running = Running(directory, FEW_PARTITIONS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.run)
            yield running
            running.broker.stop()
    finally:
        directory.close()


def coordinator_of(running: Running) -> TransactionCoordinator:
    return running.broker._transactions


def committed(directory: LogDirectory, partition: TopicPartition = T) -> list[bytes | None]:
    """Return the values that a consumer of committed records gets."""
    return [each.value for each in LogReader(directory.log(partition), isolation=READ_COMMITTED).records()]


def is_stable(directory: LogDirectory, partition: TopicPartition = T) -> bool:
    log = directory.log(partition)
    return log.last_stable_offset() == log.next_offset


async def begun(producer: TransactionalProducer, value: bytes = b"1") -> None:
    """Let a producer write to both partitions in a new transaction."""
    assert await producer.add("t", "u") == [NONE, NONE]
    assert [await producer.send(value, topic) for topic in ("t", "u")] == [NONE, NONE]


# --- commit and abort


async def test_committed_records_are_seen_after_the_commit(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    assert await producer.init() == NONE
    await begun(producer)
    assert (committed(directory), is_stable(directory), await producer.state()) == ([], False, "Ongoing")
    assert await producer.end() == NONE
    assert (committed(directory), committed(directory, U), is_stable(directory)) == ([b"1"], [b"1"], True)
    assert await producer.state() == "CompleteCommit"
    await begun(producer, b"2")  # the next transaction of the same epoch
    assert await producer.end() == NONE
    assert committed(directory) == [b"1", b"2"]
    assert (await fetched(running)).last_stable_offset == 4


async def test_aborted_records_are_named_to_consumers_of_committed_records(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    await producer.init()
    await begun(producer)
    assert await producer.end(commits=False) == NONE
    assert (committed(directory), is_stable(directory), await producer.state()) == ([], True, "CompleteAbort")
    found = await fetched(running)
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [(producer.producer_id, 0)]
    assert found.last_stable_offset == 2


async def test_aborted_transactions_are_found_after_a_roll_and_a_restart(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    await producer.init()
    await begun(producer, b"aborted")
    assert await producer.end(commits=False) == NONE
    directory.log(T).roll()
    await begun(producer, b"committed")
    assert await producer.end() == NONE
    directory.log(T).roll()
    running.broker.stop()
    directory.close()
    opened = LogDirectory.open(directory.path)
    assert (committed(opened), is_stable(opened)) == ([b"committed"], True)
    assert [each[1] for each in opened.log(T).aborted(0, 9)] == [0]
    opened.close()


async def test_the_end_of_a_transaction_can_be_sent_again(producer: TransactionalProducer) -> None:
    await producer.init()
    assert await producer.end() == ErrorCode.INVALID_TXN_STATE  # nothing has begun
    await begun(producer)
    assert [await producer.end(), await producer.end()] == [NONE, NONE]
    assert await producer.end(commits=False) == ErrorCode.INVALID_TXN_STATE


async def test_partitions_that_do_not_exist_are_not_added(producer: TransactionalProducer) -> None:
    await producer.init()
    missing = [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await producer.add("t", "missing") == missing
    assert await producer.state() == "Empty"


async def test_a_partition_that_is_deleted_does_not_hold_up_the_end(
    directory: LogDirectory, producer: TransactionalProducer
) -> None:
    await producer.init()
    await begun(producer)
    directory.delete_partition(U)
    assert await producer.end() == NONE
    assert (committed(directory), await producer.state()) == ([b"1"], "CompleteCommit")


# --- appends that are not of the ongoing transaction


async def test_batches_of_no_transaction_are_refused(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    """Nothing would end the transaction: consumers of committed records would wait at it forever."""
    await producer.init()
    assert await producer.send(b"1") == ErrorCode.INVALID_TXN_STATE
    assert await producer.send(b"1", version=11) == ErrorCode.TRANSACTION_ABORTABLE
    await producer.add("u")
    assert await producer.send(b"1") == ErrorCode.INVALID_TXN_STATE
    await producer.add("t")
    assert await producer.send(b"1") == NONE
    await producer.end()
    assert await producer.send(b"2") == ErrorCode.INVALID_TXN_STATE
    stranger = TransactionalProducer(running, "another")
    stranger.producer_id, stranger.epoch = producer.producer_id, producer.epoch
    assert await stranger.send(b"2") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    data = altered(batch([(None, b"x")], producer_id=1, sequence=0), attributes=0x10)
    refused = await produced(running, "t", data)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert committed(directory) == [b"1"]


async def test_markers_wait_for_an_append_that_is_under_way(
    running: Running, directory: LogDirectory, producer: TransactionalProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records would be behind the marker, in a transaction that nothing ends."""
    await producer.init()
    await begun(producer)
    written: list[Marker] = []
    write_all = TransactionMarkers.write_all

    async def noted(self: TransactionMarkers, marker: Marker, missing: set[TopicPartition]) -> None:
        written.append(marker)
        await write_all(self, marker, missing)

    monkeypatch.setattr(TransactionMarkers, "write_all", noted)
    coordinator = coordinator_of(running)
    async with trio.open_nursery() as nursery:
        found = await coordinator.find("tx")
        assert found is not None
        with coordinator.appending(ProducerEpoch(found.producer_id, found.epoch)):
            nursery.start_soon(producer.end)
            while await producer.state() != "PrepareCommit":
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert (written, committed(directory)) == ([], [])
    assert (len(written), committed(directory)) == (1, [b"1"])


async def test_ends_of_several_producers_wait_for_appends_at_the_same_time(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    """The end of one append was hidden from an end that waited for another: its EndTxn was never answered."""
    others = [TransactionalProducer(running, f"tx-{number}") for number in range(6)]
    for each in (producer, *others):
        assert [await each.init(), await each.add("t"), await each.send(b"1")] == [NONE, [NONE], NONE]
    coordinator = coordinator_of(running)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            with coordinator.appending(ProducerEpoch(producer.producer_id, producer.epoch)):
                with contextlib.ExitStack() as appends:
                    for each in others:
                        appends.enter_context(coordinator.appending(ProducerEpoch(each.producer_id, each.epoch)))
                    for each in (producer, *others):
                        nursery.start_soon(each.end)
                        while await each.state() != "PrepareCommit":
                            await trio.lowlevel.checkpoint()
                    await trio.testing.wait_all_tasks_blocked(0.01)
                for each in others:
                    await until_state(each, "CompleteCommit")
    assert (committed(directory), is_stable(directory)) == ([b"1"] * 7, True)


# --- fencing


async def test_a_newer_instance_aborts_the_transaction_and_fences_the_older_one(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    await producer.init()
    await begun(producer)
    newer = TransactionalProducer(running)
    assert [await newer.init(), await newer.init()] == [ErrorCode.CONCURRENT_TRANSACTIONS, NONE]
    assert (newer.producer_id, newer.epoch) == (producer.producer_id, 2)
    assert (committed(directory), is_stable(directory)) == ([], True)
    assert await producer.send(b"2") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.add("t") == [ErrorCode.PRODUCER_FENCED]
    assert await producer.add("t", version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await producer.add_offsets() == ErrorCode.PRODUCER_FENCED
    assert await producer.end() == ErrorCode.PRODUCER_FENCED
    assert await producer.end(version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.init(recovers=True) == ErrorCode.PRODUCER_FENCED
    assert await producer.init(recovers=True, version=3) == ErrorCode.INVALID_PRODUCER_EPOCH
    await begun(newer, b"of the newer one")
    assert await newer.end() == NONE
    assert committed(directory) == [b"of the newer one"]


async def test_a_producer_goes_on_with_the_next_epoch(producer: TransactionalProducer) -> None:
    """KIP-360; a request whose answer was lost gets the same epoch again."""
    await producer.init()
    producer_id = producer.producer_id
    assert [await producer.init(recovers=True), producer.epoch] == [NONE, 1]
    producer.epoch = 0
    assert [await producer.init(recovers=True), producer.epoch] == [NONE, 1]
    assert [await producer.init(recovers=True), producer.epoch] == [NONE, 2]
    assert producer.producer_id == producer_id


async def test_epochs_that_have_run_out_give_a_new_producer_id(
    directory: LogDirectory, producer: TransactionalProducer
) -> None:
    await producer.init()
    first = producer.producer_id
    store(directory, Transaction(first, EPOCH_MAX - 1, 60_000, updated_ms=1))
    producer.epoch = EPOCH_MAX - 1
    await begun(producer)
    assert await producer.end() == NONE
    assert await producer.init(recovers=True) == NONE
    second = producer.producer_id
    assert (second != first, producer.epoch) == (True, 0)
    producer.producer_id, producer.epoch = first, EPOCH_MAX - 1  # the answer was lost
    assert await producer.init(recovers=True) == NONE
    assert (producer.producer_id, producer.epoch) == (second, 0)


def store(directory: LogDirectory, transaction: Transaction, transactional_id: str = "tx") -> None:
    """Store a state, as another coordinator does."""
    log = directory.writable_log(TopicPartition("__transaction_state", partition_of(transactional_id, 2)))
    builder = BatchBuilder(1 << 12)
    builder.append(transaction_key(transactional_id), transaction_value(transaction), (), 1)
    log.append(builder.seal())


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (m.InitProducerIdRequest("", 1000), ErrorCode.INVALID_REQUEST),
        (m.InitProducerIdRequest("tx", 1000, producer_id=5), ErrorCode.INVALID_REQUEST),
        (m.InitProducerIdRequest("tx", 0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (m.InitProducerIdRequest("tx", 900_001), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
    ids=["no name", "half a producer", "no time", "too much time"],
)
async def test_requests_for_an_id_that_are_refused(
    running: Running, request_: m.InitProducerIdRequest, code: ErrorCode
) -> None:
    response = await running.send(22, "InitProducerId", 5, request_)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)


async def test_an_id_that_is_not_known(producer: TransactionalProducer) -> None:
    producer.producer_id, producer.epoch = 5, 0
    assert await producer.add("t") == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert await producer.end() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await producer.add_offsets() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (await producer.described()).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


# --- offsets in transactions


async def test_offsets_count_when_their_transaction_commits(running: Running, producer: TransactionalProducer) -> None:
    await producer.init()
    assert await producer.commit_offset(3) == ErrorCode.INVALID_TXN_STATE  # the group is not in the transaction
    assert [await producer.add_offsets(), await producer.commit_offset(3)] == [NONE, NONE]
    assert await committed_offset(running) == -1
    assert await committed_offset(running, is_stable_only=True) == -ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert await producer.end() == NONE
    assert await committed_offset(running) == await committed_offset(running, is_stable_only=True) == 3
    assert [await producer.add_offsets(), await producer.commit_offset(7)] == [NONE, NONE]
    assert await producer.end(commits=False) == NONE
    assert await committed_offset(running) == await committed_offset(running, is_stable_only=True) == 3


async def test_offsets_of_a_member_that_is_gone_are_refused(running: Running, producer: TransactionalProducer) -> None:
    await producer.init()
    await producer.add_offsets()
    assert await producer.commit_offset(3, generation=4, member="gone") == ErrorCode.ILLEGAL_GENERATION
    assert await producer.commit_offset(3, group="") != NONE
    assert await producer.commit_offset(3) == NONE


# --- time limits


async def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    tmp_path: Path, directory: LogDirectory, clock: FakeClock
) -> None:
    directory.close()
    async with serving(str(tmp_path), clock) as running:
        coordinator = coordinator_of(running)
        producer = TransactionalProducer(running, timeout_ms=1000)
        await producer.init()
        await begun(producer)
        clock.advance(1000)
        await coordinator.abort_timed_out()
        assert await producer.state() == "Ongoing"
        clock.advance(1)
        await coordinator.abort_timed_out()
        assert await producer.state() == "CompleteAbort"
        opened = running.broker._directory
        assert (committed(opened), is_stable(opened), is_stable(opened, U)) == ([], True, True)
        assert await producer.send(b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await producer.end() == ErrorCode.PRODUCER_FENCED
        assert [await producer.init(), producer.epoch] == [NONE, 2]


async def test_an_id_that_is_not_used_expires(tmp_path: Path, directory: LogDirectory, clock: FakeClock) -> None:
    directory.close()
    async with serving(str(tmp_path), clock) as running:
        coordinator = coordinator_of(running)
        used, idle = TransactionalProducer(running, "used"), TransactionalProducer(running, "idle")
        assert [await used.init(), await idle.init()] == [NONE, NONE]
        await used.add("t")
        clock.advance(ServerSettings().transactional_id_expiration_ms)
        await coordinator.remove_expired()
        assert [each for each, _ in await coordinator.all()] == ["used"]
    async with serving(str(tmp_path), clock) as running:
        assert [each for each, _ in await coordinator_of(running).all()] == ["used"]


# --- restarts and crashes


@pytest.mark.parametrize("commits", [True, False])
async def test_a_prepared_end_is_completed_after_a_restart(
    tmp_path: Path, directory: LogDirectory, commits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.close()
    async with serving(str(tmp_path)) as running:
        producer = TransactionalProducer(running)
        await producer.init()
        await begun(producer)
        with monkeypatch.context() as patch:
            patch.setattr(TransactionCoordinator, "_complete", _killed)
            assert await producer.end(commits=commits) == NONE
            running.broker._transactions._completing["tx"] = trio.Event()  # no later attempt, either
            assert await producer.state() == ("PrepareCommit" if commits else "PrepareAbort")
            assert await producer.add("t") == [ErrorCode.CONCURRENT_TRANSACTIONS]
            assert await TransactionalProducer(running).init() == ErrorCode.CONCURRENT_TRANSACTIONS
            assert await producer.send(b"late") == ErrorCode.NOT_ENOUGH_REPLICAS
    async with serving(str(tmp_path)) as running:
        again = TransactionalProducer(running)
        await until_state(again, "CompleteCommit" if commits else "CompleteAbort")
        opened = running.broker._directory
        assert committed(opened) == committed(opened, U) == ([b"1"] if commits else [])
        assert is_stable(opened) and is_stable(opened, U)


async def _killed(self: TransactionCoordinator, transactional_id: str) -> None:
    pass


async def until_state(producer: TransactionalProducer, state: str) -> None:
    with trio.fail_after(30):
        while await producer.state() != state:
            await trio.lowlevel.checkpoint()


async def test_an_open_transaction_goes_on_after_a_restart(tmp_path: Path, directory: LogDirectory) -> None:
    directory.close()
    async with serving(str(tmp_path)) as running:
        producer = TransactionalProducer(running)
        await producer.init()
        await begun(producer)
        assert [await producer.add_offsets(), await producer.commit_offset(3)] == [NONE, NONE]
    async with serving(str(tmp_path)) as running:
        producer._running = running
        assert await committed_offset(running) == -1
        assert await producer.send(b"2") == NONE
        assert await producer.end() == NONE
        assert (committed(running.broker._directory), await committed_offset(running)) == ([b"1", b"2"], 3)
    async with serving(str(tmp_path)) as running:
        producer._running = running
        assert (await producer.state(), await producer.end()) == ("CompleteCommit", NONE)
        assert await committed_offset(running) == 3


async def test_nothing_is_answered_from_a_part_of_the_records(
    tmp_path: Path, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread has read a partition to its end, and what it has read is not applied yet."""
    directory.close()
    async with serving(str(tmp_path)) as running:
        producer = TransactionalProducer(running)
        await producer.init()
        await begun(producer)
        assert [await producer.add_offsets(), await producer.commit_offset(3), await producer.end()] == [NONE] * 3
    has_read, may_return = threading.Semaphore(0), threading.Event()
    advance = ChangesReplay.advance

    def advance_slowly(self: ChangesReplay[Any], bytes_max: int) -> list[Any]:
        changes = advance(self, bytes_max)
        if changes:
            has_read.release()
            assert may_return.wait(60)
        return changes

    monkeypatch.setattr(ChangesReplay, "advance", advance_slowly)
    found: dict[str, object] = {}
    async with serving(str(tmp_path)) as running:
        producer._running = running

        async def ask_for_state() -> None:
            found["state"] = await producer.state()

        async def ask_for_offset() -> None:
            found["offset"] = await committed_offset(running)

        async with trio.open_nursery() as nursery:
            await trio.to_thread.run_sync(has_read.acquire)
            nursery.start_soon(ask_for_state)
            nursery.start_soon(ask_for_offset)
            await trio.sleep(0.05)  # without the wait both are answered by then
            answered_early = dict(found)
            may_return.set()
    assert answered_early == {}
    assert found == {"state": "CompleteCommit", "offset": 3}


@pytest.mark.expect_log("is not in all partitions")
async def test_markers_that_could_not_be_written_are_tried_again(
    running: Running, directory: LogDirectory, producer: TransactionalProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await producer.init()
    await begun(producer)
    append = TransactionMarkers._append
    with monkeypatch.context() as patch:
        patch.setattr(TransactionMarkers, "_append", _full)
        assert await producer.end() == NONE  # decided, and stored
        assert (await producer.state(), committed(directory)) == ("PrepareCommit", [])
    assert TransactionMarkers._append is append
    await coordinator_of(running).complete_prepared()
    assert (await producer.state(), committed(directory)) == ("CompleteCommit", [b"1"])


@pytest.mark.expect_log("is not in all partitions")
async def test_a_partition_gets_one_marker_while_another_one_takes_none(
    running: Running, directory: LogDirectory, producer: TransactionalProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It got one with each attempt, one a second."""
    await producer.init()
    await begun(producer)
    append = TransactionMarkers._append

    def full(self: TransactionMarkers, marker: Marker, partition: TopicPartition) -> object:
        if partition == U:
            _full(self, marker, partition)
        return append(self, marker, partition)

    with monkeypatch.context() as patch:
        patch.setattr(TransactionMarkers, "_append", full)
        assert await producer.end() == NONE
        for _ in range(3):
            await coordinator_of(running).complete_prepared()
        assert (await producer.state(), directory.log(T).next_offset) == ("PrepareCommit", 2)
    await coordinator_of(running).complete_prepared()
    assert (await producer.state(), committed(directory, U), directory.log(T).next_offset) == (
        "CompleteCommit", [b"1"], 2,
    )  # fmt: skip
    await begun(producer, b"2")  # the same producer and epoch: another transaction gets markers of its own
    assert await producer.end() == NONE
    assert (committed(directory), is_stable(directory), is_stable(directory, U)) == ([b"1", b"2"], True, True)


async def test_the_log_of_the_cluster_is_in_no_transaction(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    """It takes no marker: the end of the transaction was tried again forever."""
    directory.create_partitions([TopicPartition("__cluster_metadata", 0)])
    await producer.init()
    unknown, not_tried = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert await producer.add("__cluster_metadata", "t") == [unknown, not_tried]
    assert await producer.state() == "Empty"


@pytest.mark.expect_log("are not available until it can be read again")
async def test_an_open_transaction_times_out_after_its_partition_could_not_be_read(
    running: Running, directory: LogDirectory, producer: TransactionalProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client is gone, so that no request reads the partition again."""
    producer.timeout_ms = 1
    await producer.init()
    await begun(producer)
    coordinator = coordinator_of(running)
    monkeypatch.setattr("offsetfs.kafka.broker.coordinator_log.RETRY_S", 0)
    for shard in coordinator._log._shards.values():
        coordinator._log._failed(shard, OSError(24, "Too many open files"))
    await coordinator.complete_prepared()
    await trio.sleep(0.01)
    await coordinator.abort_timed_out()
    assert (await producer.state(), is_stable(directory)) == ("CompleteAbort", True)


def _full(self: TransactionMarkers, marker: Marker, partition: TopicPartition) -> None:
    raise OSError(28, "No space left on device")


async def test_an_end_that_another_coordinator_has_prepared_is_completed(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    """With transaction.version 2 the decision has the epoch of the next transaction (KIP-890)."""
    await producer.init()
    await begun(producer)
    partitions, state = frozenset({T, U}), TransactionState.PREPARE_COMMIT
    store(directory, Transaction(producer.producer_id, producer.epoch + 1, 60_000, state, partitions, 1, 1))
    assert await producer.state() == "PrepareCommit"
    assert coordinator_of(running)._log.ending() == ["tx"]  # a check needs no look at each id
    await coordinator_of(running).complete_prepared()
    assert coordinator_of(running)._log.ending() == []
    assert (await producer.state(), committed(directory)) == ("CompleteCommit", [b"1"])
    assert await producer.send(b"late") == ErrorCode.INVALID_PRODUCER_EPOCH


def record(key: bytes | None, value: bytes) -> Record:
    return Record(Offset(0), Timestamp(0), CREATE_TIME, key, value)


def test_a_broker_with_transaction_version_2_has_stored_the_next_producer_id() -> None:
    value = TransactionLogValue(
        7, 6, 8, EPOCH_MAX, -1, 1000, TransactionState.PREPARE_ABORT, [PartitionsSchema("t", [0])], 5, 4, 2
    )
    data = b"\0\1" + b"".join(codec.writer("TransactionLogValue", 1)(value))
    found = transaction_change_of(record(transaction_key("tx"), data)).transaction
    assert found is not None and (found.partitions, found.previous_producer_id) == (frozenset({T}), 6)
    done = completed(found, 9)
    assert (done.producer_id, done.epoch, done.previous_producer_id, done.next_producer_id) == (8, 0, 7, -1)
    assert (done.state, done.partitions, done.updated_ms) == (TransactionState.COMPLETE_ABORT, frozenset(), 9)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0", b""),
        (b"\0\1\0\1x", b""),
        (transaction_key("tx"), b"\0\2"),
        (transaction_key("tx"), b"\0\0x"),
    ],
    ids=["no key", "half a type", "another type", "another version", "half a value"],
)
def test_records_that_no_coordinator_has_written_are_named(key: bytes | None, value: bytes) -> None:
    """With one of another type the others count; without one that cannot be read they must not."""
    with pytest.raises(ValueError, match="a record of a transactional id") as refused:
        transaction_change_of(record(key, value))
    assert isinstance(refused.value, UnreadableRecord) == (key != b"\0\1\0\1x")


# --- damage


@pytest.mark.damages
@pytest.mark.expect_log("transactions are not available until it can be read again")
async def test_ids_of_a_damaged_partition_get_an_error_and_the_others_are_served(
    tmp_path: Path, directory: LogDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    """A transaction that is missing would never end, or its producer would not be fenced."""
    directory.close()
    other = next(name for name in "abcdefg" if partition_of(name, 2) != partition_of("tx", 2))
    async with serving(str(tmp_path)) as running:
        assert await TransactionalProducer(running).init() == NONE
    path = tmp_path / f"__transaction_state-{partition_of('tx', 2)}" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    async with serving(str(tmp_path)) as running:
        producer = TransactionalProducer(running)
        assert await producer.init() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await producer.end() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await producer.send(b"1") == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await producer.described()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert str(path) in caplog.text
        served = TransactionalProducer(running, other)
        assert await served.init() == NONE
        await begun(served)
        assert await served.end() == NONE


@pytest.mark.damages
@pytest.mark.parametrize("place", [-1, 222 + 16], ids=["in the records", "in the header"])
async def test_ids_of_a_damaged_partition_are_served_after_the_proposed_repair(
    tmp_path: Path, directory: LogDirectory, place: int, capsys: pytest.CaptureFixture[str]
) -> None:
    directory.close()
    async with serving(str(tmp_path)) as running:
        first = TransactionalProducer(running)
        assert [await first.init(), await first.init(), await first.add("t")] == [NONE, NONE, [NONE]]
    name = f"__transaction_state-{partition_of('tx', 2)}"
    path = tmp_path / name / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[place] ^= 0x55
    path.write_bytes(data)
    assert run(["verify", str(tmp_path)]) == 1
    assert f"{path}, position 222" in capsys.readouterr().out
    assert run(["repair", str(tmp_path), "--yes"]) == 1
    (line,) = (each for each in capsys.readouterr().out.splitlines() if "are refused until" in each)
    assert line.startswith(f"{tmp_path / name}: its transactional ids are refused")
    assert line.endswith(f"`offsetfs truncate LOGDIR {name} 2`")
    assert run(["truncate", str(tmp_path), name, "2", "--yes"]) == 0
    assert run(["verify", str(tmp_path)]) == 0
    async with serving(str(tmp_path)) as running:
        again = TransactionalProducer(running)
        assert [await again.init(), again.epoch] == [NONE, first.epoch + 1]
        await begun(again)
        assert await again.end() == NONE


# --- administration


async def test_transactions_are_described_and_listed(running: Running, producer: TransactionalProducer) -> None:
    await producer.init()
    await begun(producer)
    found = await producer.described()
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (NONE, "Ongoing", 60_000)
    assert [(each.topic, each.partitions) for each in found.topics] == [("t", [0]), ("u", [0])]
    await TransactionalProducer(running, "idle").init()
    assert await listed(running) == [("idle", "Empty"), ("tx", "Ongoing")]
    assert await listed(running, state_filters=["Ongoing"]) == [("tx", "Ongoing")]
    assert await listed(running, state_filters=["unknown"]) == []
    assert await listed(running, producer_id_filters=[producer.producer_id]) == [("tx", "Ongoing")]
    assert await listed(running, duration_filter=1 << 40) == [("idle", "Empty")]


async def listed(running: Running, **filters: object) -> list[tuple[str, str]]:
    request = m.ListTransactionsRequest()
    for name, value in filters.items():
        setattr(request, name, value)
    response = await running.send(66, "ListTransactions", 2, request)
    return [(each.transactional_id, each.transaction_state) for each in response.transaction_states]


async def test_transactional_ids_are_listed_by_a_pattern(running: Running) -> None:
    for name in ("orders-1", "orders-2", "x-orders-1"):
        await TransactionalProducer(running, name).init()
    every = await listed(running)
    assert await listed(running, transactional_id_pattern="orders-.*") == every[:2]
    assert await listed(running, transactional_id_pattern="orders") == []
    assert await listed(running, transactional_id_pattern="orders-.*", state_filters=["Ongoing"]) == []
    assert await listed(running, transactional_id_pattern="") == await listed(running) == every


@pytest.mark.parametrize("pattern", ["(", "(?=t)t", "(?i", "t" * 1001])
async def test_a_pattern_of_transactional_ids_that_cannot_be_is_refused(running: Running, pattern: str) -> None:
    request = m.ListTransactionsRequest(["unknown"], transactional_id_pattern=pattern)
    response = await running.send(66, "ListTransactions", 2, request)
    assert (response.error_code, response.unknown_state_filters) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])


async def test_an_administrator_ends_a_transaction(
    running: Running, directory: LogDirectory, producer: TransactionalProducer
) -> None:
    await producer.init()
    await begun(producer)
    topics = [m.WritableTxnMarkerTopic("t", [0, 1])]

    async def written(epoch: int, coordinator_epoch: int) -> list[int]:
        marker = m.WritableTxnMarker(producer.producer_id, epoch, False, topics, coordinator_epoch)
        response = await running.send(27, "WriteTxnMarkers", 1, m.WriteTxnMarkersRequest([marker]))
        return [each.error_code for each in response.markers[0].topics[0].partitions]

    assert await written(producer.epoch, 5) == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (is_stable(directory), is_stable(directory, U)) == (True, False)
    assert (await written(producer.epoch, 4))[0] == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert (await written(producer.epoch - 1, 5))[0] == ErrorCode.INVALID_REQUEST


async def test_markers_of_a_request_share_threads_and_syncs(
    running: Running, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request for 99,990 markers took minutes: each had a thread and a sync of its own."""
    threads, syncs = list[object](), list[str]()
    flush = Log.flush

    async def threaded(work: Any, **options: Any) -> Any:
        threads.append(work)
        return await in_thread(work, **options)

    def noted(self: Log) -> None:
        syncs.append(str(self.partition))
        flush(self)

    monkeypatch.setattr("offsetfs.kafka.broker.transactions.transaction_markers.in_thread", threaded)
    monkeypatch.setattr(Log, "flush", noted)
    count = GROUP_MAX + 10
    topics = [m.WritableTxnMarkerTopic("t", [0]), m.WritableTxnMarkerTopic("u", [0, 1])]
    markers = [m.WritableTxnMarker(producer_id, 0, False, topics) for producer_id in range(count)]
    response = await running.send(27, "WriteTxnMarkers", 1, m.WriteTxnMarkersRequest(markers))
    assert [each.producer_id for each in response.markers] == list(range(count))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for each in response.markers:
        codes = {topic.name: [found.error_code for found in topic.partitions] for topic in each.topics}
        assert codes == {"t": [NONE], "u": [NONE, unknown]}
    assert (directory.log(T).next_offset, directory.log(U).next_offset) == (count, count)
    assert (len(threads), sorted(syncs)) == (3, ["t-0"] * 3 + ["u-0"] * 3)


async def test_a_partition_that_a_marker_names_twice_gets_one(running: Running, directory: LogDirectory) -> None:
    """As in Kafka, whose answer has a producer and a partition once, too."""
    markers = [
        m.WritableTxnMarker(1, 0, False, [m.WritableTxnMarkerTopic("t", [0, 0]), m.WritableTxnMarkerTopic("t", [0])]),
        m.WritableTxnMarker(1, 0, False, [m.WritableTxnMarkerTopic("u", [0])]),
    ]
    response = await running.send(27, "WriteTxnMarkers", 1, m.WriteTxnMarkersRequest(markers))
    (result,) = response.markers
    assert [(each.name, [found.partition_index for found in each.partitions]) for each in result.topics] == [
        ("t", [0]), ("u", [0]),
    ]  # fmt: skip
    assert (directory.log(T).next_offset, directory.log(U).next_offset) == (1, 1)


@pytest.mark.expect_log("no marker in u-0")
async def test_a_marker_whose_sync_fails_has_the_error_and_the_others_do_not(
    running: Running, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = Log.flush

    def failing(self: Log) -> None:
        if self.partition == U:
            raise OSError(5, "Input/output error")
        flush(self)

    topics = [m.WritableTxnMarkerTopic(name, [0]) for name in ("t", "u")]
    markers = [m.WritableTxnMarker(1, 0, False, topics)]
    with monkeypatch.context() as patch:
        patch.setattr(Log, "flush", failing)
        response = await running.send(27, "WriteTxnMarkers", 1, m.WriteTxnMarkersRequest(markers))
    codes = [each.partitions[0].error_code for each in response.markers[0].topics]
    assert codes == [NONE, ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize("version", [4, 5])
async def test_another_broker_adds_and_verifies_partitions(
    running: Running, producer: TransactionalProducer, version: int
) -> None:
    await producer.init()

    async def asked(topic: str, *, only_verifies: bool) -> int:
        topics = [m.AddPartitionsToTxnTopic(topic, [0])]
        each = m.AddPartitionsToTxnTransaction("tx", producer.producer_id, producer.epoch, only_verifies, topics)
        response = await running.send(24, "AddPartitionsToTxn", version, m.AddPartitionsToTxnRequest([each]))
        result = response.results_by_transaction[0].topic_results[0].results_by_partition[0]
        return int(result.partition_error_code)

    assert await asked("t", only_verifies=True) == ErrorCode.TRANSACTION_ABORTABLE
    assert await asked("t", only_verifies=False) == NONE
    assert await asked("t", only_verifies=True) == NONE


async def test_a_read_only_directory_takes_no_transactions(tmp_path: Path, directory: LogDirectory) -> None:
    directory.close()
    async with serving(str(tmp_path)) as running:
        assert await TransactionalProducer(running).init() == NONE
    opened = LogDirectory.open(str(tmp_path), read_only=True)
    running = Running(opened, FEW_PARTITIONS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.run)
        producer = TransactionalProducer(running)
        assert await producer.init() == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await producer.state() == "Empty"
        running.broker.stop()
    opened.close()
