"""Transactions and power loss, on a simulated disk: after a cut at each sync, all partitions have the same end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from group_requests import NODE
from produce_requests import response_of
from simdisk import SimDisk
from simsystem import System
from transaction_requests import TransactionalProducer, committed_offset

from offsetfs.broker.error_codes import ErrorCode
from offsetfs.broker.group_coordinator import GroupCoordinator
from offsetfs.broker.log_sync import LogSync
from offsetfs.broker.metrics import BrokerMetrics
from offsetfs.broker.partitions import Topics
from offsetfs.broker.produce import Producing
from offsetfs.broker.settings import ServerSettings
from offsetfs.broker.transaction_coordinator import TransactionCoordinator
from offsetfs.storage import READ_COMMITTED, LogDirectory, LogReader, TopicPartition

pytestmark = pytest.mark.unit

T, U = TopicPartition("t", 0), TopicPartition("u", 0)
SETTINGS = ServerSettings(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)
NONE = ErrorCode.NONE


class Direct:
    """The handlers of a broker, without connections: the simulated disk is for one thread."""

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        syncs = LogSync()
        topics = Topics(directory, 1, creates=False)
        groups = GroupCoordinator(topics, NODE, SETTINGS, syncs)
        self.transactions = TransactionCoordinator(directory, groups, SETTINGS, syncs)
        self._producing = Producing(topics, self.transactions, syncs, SETTINGS, BrokerMetrics())
        self._handlers: dict[int, Callable[[Any, int], Awaitable[Any]]] = {
            9: groups.offsets.fetch,
            22: self.transactions.init_producer_id,
            24: self.transactions.add_partitions,
            25: self.transactions.add_offsets,
            26: self.transactions.end,
            28: self.transactions.commit_offsets,
        }

    async def send(self, key: int, name: str, version: int, request: Any) -> Any:
        if name == "Produce":
            return await response_of(self._producing, request, version)
        return await self._handlers[key](request, version)

    async def recovered(self) -> tuple[list[bytes | None], list[bytes | None], int]:
        """Complete and abort what is left; return the committed values of both partitions, and the offset."""
        await self.transactions.all()  # which loads them
        await self.transactions.complete_prepared()
        producer = TransactionalProducer(self)
        if await producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS:  # aborts an open one
            assert await producer.init() == NONE
        for each in (T, U):
            log = self.directory.log(each)
            assert log.last_stable_offset() == log.next_offset, f"a transaction of {each} is open"
        found = [
            [each.value for each in LogReader(self.directory.log(partition), isolation=READ_COMMITTED).records()]
            for partition in (T, U)
        ]
        return found[0], found[1], max(await committed_offset(self), 0)


async def transact(producer: TransactionalProducer, number: int) -> None:
    """Write a value to both partitions, and commit its number as an offset; abort where the number is 9."""
    assert await producer.add("t", "u") == [NONE, NONE]
    assert [await producer.add_offsets(), await producer.commit_offset(number)] == [NONE, NONE]
    assert [await producer.send(b"%d" % number, topic) for topic in ("t", "u")] == [NONE, NONE]
    assert await producer.end(commits=number != 9) == NONE


async def test_a_power_cut_leaves_a_transaction_in_all_partitions_or_in_none(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = LogDirectory.open("/logs")
    small = {"segment.index.bytes": "1200"}
    directory.create_partitions([T, U], small)
    for internal in ("__transaction_state", "__consumer_offsets"):
        directory.create_partitions([TopicPartition(internal, 0)], {**small, "cleanup.policy": "compact"})
    producer = TransactionalProducer(Direct(directory))
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
        of_t, of_u, offset = await Direct(LogDirectory.open("/logs")).recovered()
        assert of_t == of_u == [b"%d" % each for each in range(1, offset + 1)], seed
        assert offset >= count, "a transaction that was answered is not there"
        ends.add(offset)
    assert ends == {1, 2} and len(cuts) > 10
