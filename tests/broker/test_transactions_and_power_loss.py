"""Transactions and power loss, on a simulated disk: after a cut at each sync, all partitions have the same end."""

from __future__ import annotations

from random import Random

import pytest
from fixtures.broker.direct import DirectBroker
from fixtures.broker.transaction_requests import TransactionalProducer, committed_offset
from fixtures.simulation.simdisk import SimDisk
from fixtures.simulation.simsystem import System

from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import READ_COMMITTED, LogDirectory, LogReader, TopicPartition

pytestmark = pytest.mark.unit

T, U = TopicPartition("t", 0), TopicPartition("u", 0)
NONE = ErrorCode.NONE


async def recovered(broker: DirectBroker) -> tuple[list[bytes | None], list[bytes | None], int]:
    """Complete and abort what is left; return the committed values of both partitions, and the offset."""
    await broker.complete()
    producer = TransactionalProducer(broker)
    if await producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS:  # aborts an open one
        assert await producer.init() == NONE
    for each in (T, U):
        log = broker.directory.log(each)
        assert log.last_stable_offset() == log.next_offset, f"a transaction of {each} is open"
    found = [
        [each.value for each in LogReader(broker.directory.log(partition), isolation=READ_COMMITTED).records()]
        for partition in (T, U)
    ]
    return found[0], found[1], max(await committed_offset(broker), 0)


async def transact(producer: TransactionalProducer, number: int) -> None:
    """Write a value to both partitions, and commit its number as an offset; abort where the number is 9."""
    assert await producer.add("t", "u") == [NONE, NONE]
    assert [await producer.add_offsets(), await producer.commit_offset(number)] == [NONE, NONE]
    assert [await producer.send(b"%d" % number, topic) for topic in ("t", "u")] == [NONE, NONE]
    assert await producer.end(commits=number != 9) == NONE


@pytest.mark.long
async def test_a_power_cut_leaves_a_transaction_in_all_partitions_or_in_none(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = LogDirectory.open("/logs")
    small = {"segment.index.bytes": "1200"}
    directory.create_partitions([T, U], small)
    for internal in ("__transaction_state", "__consumer_offsets"):
        directory.create_partitions([TopicPartition(internal, 0)], {**small, "cleanup.policy": "compact"})
    producer = TransactionalProducer(DirectBroker(directory))
    assert await producer.init() == NONE
    await transact(producer, 1)
    cuts: list[tuple[SimDisk, int]] = []
    answered = 1
    sync = SimDisk._do_sync

    def cut_before(self: SimDisk, inode: int) -> None:
        cuts.append((self.clone(), answered))
        sync(self, inode)

    with monkeypatch.context() as patch:
        patch.setattr(SimDisk, "_do_sync", cut_before)
        for number in (9, 2):
            await transact(producer, number)
            answered = answered if number == 9 else number
            cuts.append((system.disk.clone(), answered))
    ends: set[int] = set()
    for seed, (disk, count) in enumerate(cuts):
        system.disk = disk.crash(Random(seed), (None, "none")[seed % 2])
        of_t, of_u, offset = await recovered(DirectBroker(LogDirectory.open("/logs")))
        assert of_t == of_u == [b"%d" % each for each in range(1, offset + 1)], seed
        assert offset >= count, "a transaction that was answered is not there"
        ends.add(offset)
    assert ends == {1, 2} and len(cuts) > 10
