"""Clients of a broker on a simulated disk, and power cuts under them.

They produce with acks=all and idempotence, in transactions of both versions, and commit offsets, while the disk is
full for some calls, a sync fails, or the clock is set. What each of them was answered is a `ClientHistory`; `known_at`
is what of it was known at a cut.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from unittest import mock

from client_history import NEVER, ClientHistory, Commit, Outcome, Partition, Write
from fixtures.broker.direct import DirectBroker
from fixtures.broker.produce_requests import batch
from fixtures.broker.transaction_requests import Sender, TransactionalProducer
from fixtures.simulation.fake_clock import FakeClock
from fixtures.simulation.simdisk import SimDisk
from fixtures.simulation.simsystem import System

from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.errors import StorageError

INTERNAL = ("__transaction_state", "__consumer_offsets")
SMALL = {"segment.index.bytes": "1200", "segment.bytes": "1500"}
IDEMPOTENT_ID = 4242
STEPS = 40
_JUMPS_MS = (-3 * 86_400_000, -3_600_000, -1000, 1000, 3_600_000, 3 * 86_400_000)
_REFUSED = (OSError, StorageError)


@dataclass(frozen=True, slots=True)
class ClientNames:
    """The names of what the clients use, so that several runs can share a broker. Offsets are committed of `place`."""

    topics: tuple[str, str] = ("t", "u")
    in_transactions: str = "g"
    """The group that commits in transactions."""
    without: str = "plain"
    """The group that commits without them."""
    transactional_id: str = "tx"

    @property
    def place(self) -> Partition:
        return Partition(self.topics[0], 0)

    @property
    def groups(self) -> tuple[str, str]:
        return self.in_transactions, self.without


@dataclass(frozen=True, slots=True)
class Cut:
    """A disk at a moment."""

    disk: SimDisk
    moment: int


@dataclass(frozen=True, slots=True)
class _End:
    """When a transaction was asked to end, and was answered."""

    outcome: Outcome
    began: int
    ended: int = NEVER


class CutClients:
    """The clients of one run, whose seed says what they do and which fault there is, and the cuts under them.

    `directory` is served for them; `timeout_ms` is that of the transactions.
    """

    def __init__(
        self, seed: int, system: System, clock: FakeClock, names: ClientNames | None = None, *, timeout_ms: int = 60_000
    ) -> None:
        self.chance = Random(seed)
        self.names = names or ClientNames()
        self.fault = ("none", "sync", "full", "clock")[seed % 4]
        self.cuts: list[Cut] = []
        self._clock = clock
        self._system = system
        self._history = ClientHistory()
        self._ends: dict[str, _End] = {}
        self._moment = 0
        self._number = 0
        self._sequence = 0
        self._is_ready = False
        self._timeout_ms = timeout_ms
        self._pending: Write | None = None
        """The batch of the idempotent producer that has no answer."""
        self._last_offset = 0
        self._bumps_epochs = self.chance.random() < 0.5

    def moment(self) -> int:
        self._moment += 1
        return self._moment

    async def live(self, directory: LogDirectory) -> None:
        """Let the clients work; `cuts` has the disks that power cuts then may have left, the last one at the end."""
        self._broker = DirectBroker(directory)
        self._producer = TransactionalProducer(self._broker, self.names.transactional_id, self._timeout_ms)
        sync = SimDisk._do_sync

        def cut_before(disk: SimDisk, inode: int) -> None:
            self._note_cut(disk, 0.3)
            sync(disk, inode)

        with mock.patch.object(SimDisk, "_do_sync", cut_before):
            for _ in range(STEPS):
                await self._step(directory)
                self._note_cut(self._system.disk, 0.3)
        self._system.fault = lambda _kind, _path: None
        self.cuts.append(Cut(self._system.disk.clone(), self.moment()))

    def _note_cut(self, disk: SimDisk, probability: float) -> None:
        if disk is self._system.disk and self.chance.random() < probability:
            self.cuts.append(Cut(disk.clone(), self.moment()))

    # --- clients -----------------------------------------------------------------------------------------------------

    async def _step(self, directory: LogDirectory) -> None:
        self._disturb()
        what = self.chance.choice((self._produce, self._produce, self._transact, self._transact, self._commit))
        await what()
        if self.chance.random() < 0.2:
            with contextlib.suppress(*_REFUSED):
                directory.log(TopicPartition(self.chance.choice((*self.names.topics, *INTERNAL)), 0)).roll()
        if self.chance.random() < 0.2:
            with contextlib.suppress(*_REFUSED):
                directory.checkpoint()

    def _disturb(self) -> None:
        """Let the disk be full for some calls, let one sync fail, or set the clock."""
        if self.fault == "clock" and self.chance.random() < 0.3:
            self._clock.jump_to(max(0, self._clock.ms + self.chance.choice(_JUMPS_MS)))
        elif self.fault in ("sync", "full") and self.chance.random() < 0.1:
            left = self.chance.randrange(1, 20)
            count = 1 if self.fault == "sync" else self.chance.randrange(1, 10)

            def fail(kind: str, path: str) -> None:
                nonlocal left
                if kind not in (("sync",) if self.fault == "sync" else ("write", "create")):
                    return
                left -= 1
                if -count <= left < 0:
                    raise OSError(errno.EIO if self.fault == "sync" else errno.ENOSPC, "injected", path)

            self._system.fault = fail

    async def _produce(self) -> None:
        """Send the next batch of the idempotent producer, or the one that has no answer again."""
        write = self._pending
        if write is None:
            self._sequence += 1
            write = Write("idempotent", self._sequence, self.names.place, b"i%d" % self._sequence, self.moment())
            self._history.writes.append(write)
        self._pending = write
        answered = await sent_once(self._broker, write)
        if answered is not None:
            done = replace(write, ended=self.moment(), outcome=Outcome.DONE, offset=answered)
            self._history.writes[self._history.writes.index(write)] = done
            self._pending = None

    async def _transact(self) -> None:
        """Write some records in a transaction, perhaps with an offset, and commit or abort."""
        try:
            if not self._is_ready:  # aborts what is open, or waits for an end that is not complete
                self._is_ready = await self._producer.init() == ErrorCode.NONE
            if self._is_ready:
                self._is_ready = False
                self._is_ready = await self._transaction(f"tx/{self._moment}")
        except _REFUSED:
            return

    async def _transaction(self, name: str) -> bool:
        self._history.transactions[name] = Outcome.NOT_DONE
        producer, version = self._producer, 12 if self._bumps_epochs else 9
        topics = [self.chance.choice(self.names.topics) for _ in range(self.chance.randrange(1, 5))]
        if not self._bumps_epochs and any(await producer.add(*sorted(set(topics)))):
            return False
        for topic in topics:
            self._number += 1
            write = Write(
                name, self._number, Partition(topic, 0), b"x%d" % self._number, self.moment(), transaction=name
            )
            self._history.writes.append(write)
            if await producer.send(write.value, topic, version=version):
                return False
            self._history.writes[-1] = replace(write, ended=self.moment(), outcome=Outcome.DONE)
        offset = None
        if self.chance.random() < 0.5:
            self._last_offset += 1
            offset = self._last_offset
            if not self._bumps_epochs and await producer.add_offsets(self.names.in_transactions):
                return False
            if await self._commit_offset(offset):
                return False
        commits = self.chance.random() < 0.7
        asked = self.moment()
        if commits:
            self._ends[name] = _End(Outcome.UNKNOWN, asked)
            self._history.transactions[name] = Outcome.UNKNOWN
        if await producer.end(commits=commits, version=5 if self._bumps_epochs else 3):
            return False
        if commits:
            self._ends[name] = _End(Outcome.DONE, asked, self.moment())
            self._history.transactions[name] = Outcome.DONE
            if offset is not None:
                self._add_commit(self.names.in_transactions, offset, asked)
        return True

    async def _commit_offset(self, offset: int) -> int:
        version = 5 if self._bumps_epochs else 3
        topic, group = self.names.topics[0], self.names.in_transactions
        return await self._producer.commit_offset(offset, group, topic=topic, version=version)

    async def _commit(self) -> None:
        """Commit an offset of a group without a transaction."""
        self._last_offset += 1
        partitions = [m.OffsetCommitRequestPartition(0, self._last_offset)]
        topic = m.OffsetCommitRequestTopic(self.names.topics[0], partitions=partitions)
        request = m.OffsetCommitRequest(self.names.without, -1, "", None, topics=[topic])
        began = self.moment()
        try:
            response = await self._broker.send(8, "OffsetCommit", 7, request)
        except _REFUSED:
            return
        if not response.topics[0].partitions[0].error_code:
            self._add_commit(self.names.without, self._last_offset, began)

    def _add_commit(self, group: str, offset: int, began: int) -> None:
        self._history.commits.append(Commit(group, self.names.place, offset, began, self.moment(), Outcome.DONE))

    def known_at(self, cut: Cut) -> ClientHistory:
        """Return what clients had asked for, and been answered, at a cut."""
        moment = cut.moment
        known = ClientHistory()
        for write in self._history.writes:
            if write.began <= moment:
                is_answered = write.ended <= moment
                known.writes.append(
                    write if is_answered else replace(write, ended=NEVER, outcome=Outcome.UNKNOWN, offset=-1)
                )
        for name in self._history.transactions:
            end = self._ends.get(name)
            if end is None or end.began > moment:
                known.transactions[name] = Outcome.NOT_DONE
            else:
                known.transactions[name] = end.outcome if end.ended <= moment else Outcome.UNKNOWN
        known.commits = [each for each in self._history.commits if each.ended <= moment]
        return known


async def sent_once(broker: Sender, write: Write) -> int | None:
    """Send a batch of the idempotent producer; return its offset, or None without an answer that it is there."""
    data = batch([(None, write.value)], producer_id=IDEMPOTENT_ID, sequence=write.number - 1)
    partitions = [m.PartitionProduceData(0, data)]
    request = m.ProduceRequest(
        acks=-1, topic_data=[m.TopicProduceData(write.partition.topic, partition_data=partitions)]
    )
    try:
        response = await broker.send(0, "Produce", 9, request)
    except _REFUSED:
        return None
    found = response.responses[0].partition_responses[0]
    return None if found.error_code else int(found.base_offset)


async def send_last_again(broker: Sender, known: ClientHistory, moment: Callable[[], int]) -> None:
    """Send the last batch of the idempotent producer again, which has to be stored once."""
    sent = [each for each in known.writes if each.producer == "idempotent"]
    if not sent:
        return
    write = sent[-1]
    offset = await sent_once(broker, write)
    assert offset is not None, "the last batch was not taken again"
    assert write.outcome is not Outcome.DONE or offset == write.offset, f"{write} was stored again at {offset}"
    known.writes[known.writes.index(write)] = replace(write, ended=moment(), outcome=Outcome.DONE, offset=offset)


class _Reports(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(record.getMessage())


@contextlib.contextmanager
def only_injected_faults() -> Iterator[None]:
    """Collect what the broker reports in the block; AssertionError at its end unless all is about injected faults."""
    found: list[str] = []
    handler = _Reports(found)
    logger = logging.getLogger("offsetfs.kafka.broker")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = True
        logger.removeHandler(handler)
    others = [each for each in found if not re.search("injected|an earlier sync of this directory failed", each)]
    assert not others, others[:20]
