"""Row 20: power loss below a broker, whose disk may be full or fail and whose clock may jump (simulated disk).

Clients produce with acks=all and idempotence, in transactions of both versions, and commit offsets. Before each sync,
and between requests, power may be lost, or the process be killed. A broker on what is left completes or aborts the
transactions, and takes the last batch again; `client_history` checks what the clients were answered.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from unittest import mock

import trio
from client_history import (
    NEVER,
    ClientHistory,
    Commit,
    FullRead,
    LookUp,
    Outcome,
    Partition,
    Read,
    Write,
    anomalies,
)
from direct_broker import DirectBroker, one_thread
from fake_clock import FakeClock
from fault_program import Row
from produce_requests import batch
from simdisk import ROOT, SimDisk
from simsystem import System, simulated
from transaction_requests import TransactionalProducer, committed_offset

from offsetfs.protocol import messages as m
from offsetfs.protocol.error_codes import ErrorCode
from offsetfs.storage import READ_COMMITTED, READ_UNCOMMITTED, LogDirectory, LogReader, TopicPartition
from offsetfs.storage.errors import StorageError
from offsetfs.storage.verify.finding import DAMAGE, Finding
from offsetfs.storage.verify.verify import Verification

TOPICS = ("t", "u")
INTERNAL = ("__transaction_state", "__consumer_offsets")
SMALL = {"segment.index.bytes": "1200", "segment.bytes": "1500"}
IDEMPOTENT_ID = 4242
STEPS = 40
CUTS_MAX = 40
_JUMPS_MS = (-3 * 86_400_000, -3_600_000, -1000, 1000, 3_600_000, 3 * 86_400_000)
_PLACE = Partition("t", 0)
_REFUSED = (OSError, StorageError)


def play(seed: int, scratch: Path) -> int:
    """Let clients work, and check what a number of power cuts leave; return how many."""
    disk = SimDisk()
    disk.do("create", ROOT, "logs", True)
    disk.do("sync", ROOT)
    with _reports() as reports, one_thread(), simulated(disk) as system:
        cuts = trio.run(_Run(seed, system).play)
    others = [each for each in reports if "injected" not in each]
    assert not others, others[:20]
    return cuts


class _Reports(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(record.getMessage())


@contextlib.contextmanager
def _reports() -> Iterator[list[str]]:
    """Collect what the broker reports, which is about the injected faults."""
    found: list[str] = []
    handler = _Reports(found)
    logger = logging.getLogger("offsetfs.broker")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield found
    finally:
        logger.propagate = True
        logger.removeHandler(handler)


@dataclass(frozen=True, slots=True)
class _Cut:
    """A disk at a moment."""

    disk: SimDisk
    moment: int


@dataclass(frozen=True, slots=True)
class _End:
    """When a transaction was asked to end, and was answered."""

    outcome: Outcome
    began: int
    ended: int = NEVER


class _Run:
    """The clients of one round, and the cuts under them."""

    def __init__(self, seed: int, system: System) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.system = system
        self.clock = FakeClock()
        self.history = ClientHistory()
        self._ends: dict[str, _End] = {}
        self._moment = 0
        self._cuts: list[_Cut] = []
        self._number = 0
        self._sequence = 0
        self._is_ready = False
        self._pending: Write | None = None
        """The batch of the idempotent producer that has no answer."""
        self._last_offset = 0
        self._fault = ("none", "sync", "full", "clock")[seed % 4]
        self._bumps_epochs = self.chance.random() < 0.5

    def moment(self) -> int:
        self._moment += 1
        return self._moment

    async def play(self) -> int:
        directory = self._opened()
        directory.create_partitions([TopicPartition(each, 0) for each in TOPICS], SMALL)
        directory.create_partitions(
            [TopicPartition(each, 0) for each in INTERNAL], {**SMALL, "cleanup.policy": "compact"}
        )
        self._broker = DirectBroker(directory)
        self._producer = TransactionalProducer(self._broker)
        sync = SimDisk._do_sync

        def cut_before(disk: SimDisk, inode: int) -> None:
            self._note_cut(disk, 0.3)
            sync(disk, inode)

        with mock.patch.object(SimDisk, "_do_sync", cut_before):
            for _ in range(STEPS):
                await self._step(directory)
                self._note_cut(self.system.disk, 0.3)
        self.system.fault = lambda _kind, _path: None
        self._cuts.append(_Cut(self.system.disk.clone(), self.moment()))
        chosen = self.chance.sample(self._cuts, min(CUTS_MAX, len(self._cuts)))
        for number, cut in enumerate(chosen):
            await self._check(number, cut)
        return len(chosen)

    def _opened(self) -> LogDirectory:
        return LogDirectory.open("/logs", clock=self.clock)

    def _note_cut(self, disk: SimDisk, probability: float) -> None:
        if disk is self.system.disk and self.chance.random() < probability:
            self._cuts.append(_Cut(disk.clone(), self.moment()))

    # --- clients -----------------------------------------------------------------------------------------------------

    async def _step(self, directory: LogDirectory) -> None:
        self._disturb()
        what = self.chance.choice((self._produce, self._produce, self._transact, self._transact, self._commit))
        await what()
        if self.chance.random() < 0.2:
            with contextlib.suppress(*_REFUSED):
                directory.log(TopicPartition(self.chance.choice((*TOPICS, *INTERNAL)), 0)).roll()
        if self.chance.random() < 0.2:
            with contextlib.suppress(*_REFUSED):
                directory.checkpoint()

    def _disturb(self) -> None:
        """Let the disk be full for some calls, let one sync fail, or set the clock."""
        if self._fault == "clock" and self.chance.random() < 0.3:
            self.clock.jump_to(max(0, self.clock.ms + self.chance.choice(_JUMPS_MS)))
        elif self._fault in ("sync", "full") and self.chance.random() < 0.1:
            left = self.chance.randrange(1, 20)
            count = 1 if self._fault == "sync" else self.chance.randrange(1, 10)

            def fail(kind: str, path: str) -> None:
                nonlocal left
                if kind not in (("sync",) if self._fault == "sync" else ("write", "create")):
                    return
                left -= 1
                if -count <= left < 0:
                    raise OSError(errno.EIO if self._fault == "sync" else errno.ENOSPC, "injected", path)

            self.system.fault = fail

    async def _produce(self) -> None:
        """Send the next batch of the idempotent producer, or the one that has no answer again."""
        write = self._pending
        if write is None:
            self._sequence += 1
            write = Write("idempotent", self._sequence, _PLACE, b"i%d" % self._sequence, self.moment())
            self.history.writes.append(write)
        self._pending = write
        answered = await self._sent(self._broker, write)
        if answered is not None:
            done = replace(write, ended=self.moment(), outcome=Outcome.DONE, offset=answered)
            self.history.writes[self.history.writes.index(write)] = done
            self._pending = None

    async def _sent(self, broker: DirectBroker, write: Write) -> int | None:
        """Produce a batch; return its offset, or None without an answer that it is there."""
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
        self.history.transactions[name] = Outcome.NOT_DONE
        producer, version = self._producer, 12 if self._bumps_epochs else 9
        topics = [self.chance.choice(TOPICS) for _ in range(self.chance.randrange(1, 5))]
        if not self._bumps_epochs and any(await producer.add(*sorted(set(topics)))):
            return False
        for topic in topics:
            self._number += 1
            write = Write(
                name, self._number, Partition(topic, 0), b"x%d" % self._number, self.moment(), transaction=name
            )
            self.history.writes.append(write)
            if await producer.send(write.value, topic, version=version):
                return False
            self.history.writes[-1] = replace(write, ended=self.moment(), outcome=Outcome.DONE)
        offset = None
        if self.chance.random() < 0.5:
            self._last_offset += 1
            offset = self._last_offset
            if not self._bumps_epochs and await producer.add_offsets():
                return False
            if await producer.commit_offset(offset, version=5 if self._bumps_epochs else 3):
                return False
        commits = self.chance.random() < 0.7
        asked = self.moment()
        if commits:
            self._ends[name] = _End(Outcome.UNKNOWN, asked)
            self.history.transactions[name] = Outcome.UNKNOWN
        if await producer.end(commits=commits, version=5 if self._bumps_epochs else 3):
            return False
        if commits:
            self._ends[name] = _End(Outcome.DONE, asked, self.moment())
            self.history.transactions[name] = Outcome.DONE
            if offset is not None:
                self.history.commits.append(Commit("g", _PLACE, offset, asked, self.moment(), Outcome.DONE))
        return True

    async def _commit(self) -> None:
        """Commit an offset of a group without a transaction."""
        self._last_offset += 1
        topic = m.OffsetCommitRequestTopic(name="t", partitions=[m.OffsetCommitRequestPartition(0, self._last_offset)])
        request = m.OffsetCommitRequest("plain", -1, "", None, topics=[topic])
        began = self.moment()
        try:
            response = await self._broker.send(8, "OffsetCommit", 7, request)
        except _REFUSED:
            return
        if not response.topics[0].partitions[0].error_code:
            self.history.commits.append(Commit("plain", _PLACE, self._last_offset, began, self.moment(), Outcome.DONE))

    # --- after a cut -------------------------------------------------------------------------------------------------

    async def _check(self, number: int, cut: _Cut) -> None:
        """Open what a cut left, end what is open there, send again, read all, and check."""
        kind = (None, "none", "each", "until", "all")[number % 5]
        self.system.disk = cut.disk.crash(Random(self.seed * 1000 + number), kind)
        known = self._known_at(cut.moment)
        if kind != "all":  # a commit without a transaction is in the segment file when it is answered, as in Kafka
            known.commits = [each for each in known.commits if each.group != "plain"]
        directory = self._opened()
        broker = DirectBroker(directory)
        await broker.complete()
        producer = TransactionalProducer(broker)
        if await producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS:  # aborts an open one
            assert await producer.init() == ErrorCode.NONE
        await self._send_last_again(broker, known)
        for topic in TOPICS:
            self._read(directory, topic, known)
        for group in ("g", "plain"):
            began = self.moment()
            offset = await committed_offset(broker, group, is_stable_only=True)
            known.look_ups.append(LookUp(group, _PLACE, offset, began, self.moment()))
        directory.close()
        found = [*map(str, anomalies(known)), *_damage(was_full=self._fault == "full")]
        assert not found, "\n".join([f"cut {number} ({kind}), {self._fault}", *found[:20]])

    async def _send_last_again(self, broker: DirectBroker, known: ClientHistory) -> None:
        sent = [each for each in known.writes if each.producer == "idempotent"]
        if not sent:
            return
        write = sent[-1]
        offset = await self._sent(broker, write)
        assert offset is not None, "the last batch was not taken again"
        assert write.outcome is not Outcome.DONE or offset == write.offset
        known.writes[known.writes.index(write)] = replace(
            write, ended=self.moment(), outcome=Outcome.DONE, offset=offset
        )

    def _read(self, directory: LogDirectory, topic: str, known: ClientHistory) -> None:
        log = directory.log(TopicPartition(topic, 0))
        assert log.last_stable_offset() == log.next_offset, f"a transaction of {topic} is open"
        partition = Partition(topic, 0)
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            began, is_committed = self.moment(), isolation is READ_COMMITTED
            session = f"{topic}, {began}"
            known.reads += [
                Read(session, partition, each.offset, each.value or b"", is_committed)
                for each in LogReader(log, isolation=isolation).records()
            ]
            known.full_reads.append(FullRead(session, partition, log.next_offset, began, is_committed))

    def _known_at(self, moment: int) -> ClientHistory:
        """Return what clients had asked for, and been answered, at a moment."""
        known = ClientHistory()
        for write in self.history.writes:
            if write.began <= moment:
                is_answered = write.ended <= moment
                known.writes.append(
                    write if is_answered else replace(write, ended=NEVER, outcome=Outcome.UNKNOWN, offset=-1)
                )
        for name in self.history.transactions:
            end = self._ends.get(name)
            if end is None or end.began > moment:
                known.transactions[name] = Outcome.NOT_DONE
            else:
                known.transactions[name] = end.outcome if end.ended <= moment else Outcome.UNKNOWN
        known.commits = [each for each in self.history.commits if each.ended <= moment]
        return known


def _damage(*, was_full: bool) -> list[str]:
    """Return what `verify` finds damaged; a full disk costs the last time entry of a segment."""
    found: list[Finding] = []
    Verification("/logs", report=found.append).run()
    return [str(each) for each in found if each.severity == DAMAGE and not (was_full and each.kind == "time-index-end")]


ROW = Row(
    20,
    "broker_power_cut",
    "power loss below a broker, amid transactions and commits, on a full or failing disk (simulated disk)",
    play,
    seeds_in_ci=range(4),
    goal=10_000,
    unit="cuts",
)
