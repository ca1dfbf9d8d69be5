"""`offsetfs serve` is killed amid transactions: each is in all partitions or in none, once, and none is lost."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

import pytest
import trio
from confluent_kafka.admin import AdminClient
from fixtures.broker.served import Served, served
from fixtures.broker.transaction_requests import Remote, TransactionalProducer, committed_offset, granted
from fixtures.kafka.confluent_clients import create

from offsetfs.storage import READ_COMMITTED, LogDirectory, LogReader, TopicPartition

pytestmark = pytest.mark.interop

LIVES = 8
TOPICS = ("t", "u")
FEW = ("-o", "transaction.state.log.num.partitions=2", "-o", "offsets.topic.num.partitions=2")


async def transact(producer: TransactionalProducer, number: int, *, is_new: bool) -> None:
    """Write a number into two partitions, and commit the next one as offset of a group, in one transaction.

    `is_new`: as a client with `transaction.version` 2.
    """
    if not is_new:
        assert await granted(lambda: _first_error(producer))
        assert await granted(producer.add_offsets)
    for topic in TOPICS:
        assert await granted(partial(producer.send, b"%d" % number, topic, version=12 if is_new else 9))
    assert await granted(partial(producer.commit_offset, number + 1, version=5 if is_new else 3))
    assert await granted(partial(producer.end, version=5 if is_new else 3))


async def _first_error(producer: TransactionalProducer) -> int:
    return next((each for each in await producer.add(*TOPICS) if each), 0)


async def live(broker: Served, seconds: float, *, is_new: bool, answered: int) -> int:
    """Go on where the group is, and kill the broker a time after the first transaction.

    Return how many transactions were answered in all lives.
    """
    producer = TransactionalProducer(Remote(broker.address))
    assert await granted(producer.init)
    count = max(await committed_offset(Remote(broker.address)), 0)
    assert count in (answered, answered + 1), "a transaction was answered and is lost, or was not sent and is stored"
    is_killed, is_one_done = False, trio.Event()

    async def kill() -> None:
        nonlocal is_killed
        await is_one_done.wait()
        await trio.sleep(seconds)
        is_killed = True
        broker.process.kill()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(kill)
        try:
            while True:
                await transact(producer, count, is_new=is_new)
                count += 1
                is_one_done.set()
        except Exception:  # of a connection that was closed, or of half a response
            if not is_killed:
                raise
    return count


def test_a_killed_broker_has_each_transaction_in_all_partitions_or_in_none(tmp_path: Path) -> None:
    random, answered = Random(890), 0
    for life in range(LIVES):
        with served(tmp_path, *FEW) as broker:
            if not life:
                for each in TOPICS:
                    create(AdminClient({"bootstrap.servers": broker.address}), each, 1)
            seconds = random.uniform(0, 0.1)
            answered = trio.run(partial(live, broker, seconds, is_new=life % 2 == 1, answered=answered))
    with served(tmp_path, *FEW) as broker:
        trio.run(granted, TransactionalProducer(Remote(broker.address)).init)
        count = trio.run(committed_offset, Remote(broker.address))
    assert answered >= LIVES
    assert count in (answered, answered + 1)
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    for each in TOPICS:
        found = LogReader(directory.log(TopicPartition(each, 0)), isolation=READ_COMMITTED).records()
        assert [record.value for record in found] == [b"%d" % number for number in range(count)]
    directory.close()
