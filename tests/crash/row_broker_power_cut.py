"""Row 20: power loss below a broker, whose disk may be full or fail and whose clock may jump (simulated disk).

Before each sync of what `cut_clients` do, and between requests, power may be lost, or the process be killed. A broker
on what is left completes or aborts the transactions, and takes the last batch again; `client_history` checks what the
clients were answered.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import trio
from client_history import ClientHistory, FullRead, LookUp, Partition, Read, anomalies
from cut_clients import INTERNAL, SMALL, Cut, CutClients, only_injected_faults, send_last_again
from fault_program import Row
from fixtures.broker.direct import DirectBroker, one_thread
from fixtures.broker.transaction_requests import TransactionalProducer, committed_offset
from fixtures.simulation.fake_clock import FakeClock
from fixtures.simulation.simdisk import ROOT, SimDisk
from fixtures.simulation.simsystem import System, simulated

from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import READ_COMMITTED, READ_UNCOMMITTED, LogDirectory, LogReader, TopicPartition
from offsetfs.storage.verify.finding import DAMAGE, Finding
from offsetfs.storage.verify.verify import Verification

CUTS_MAX = 40
_KINDS = (None, "none", "each", "until", "all")


def play(seed: int, scratch: Path) -> int:
    """Let clients work, and check what a number of power cuts leave; return how many."""
    disk = SimDisk()
    disk.do("create", ROOT, "logs", True)
    disk.do("sync", ROOT)
    with only_injected_faults(), one_thread(), simulated(disk) as system:
        return trio.run(_play, seed, system)


async def _play(seed: int, system: System) -> int:
    clock = FakeClock()
    clients = CutClients(seed, system, clock)
    directory = LogDirectory.open("/logs", clock=clock)
    directory.create_partitions([TopicPartition(each, 0) for each in clients.names.topics], SMALL)
    directory.create_partitions([TopicPartition(each, 0) for each in INTERNAL], {**SMALL, "cleanup.policy": "compact"})
    await clients.live(directory)
    chosen = clients.chance.sample(clients.cuts, min(CUTS_MAX, len(clients.cuts)))
    for number, cut in enumerate(chosen):
        kind = _KINDS[number % len(_KINDS)]
        system.disk = cut.disk.crash(Random(seed * 1000 + number), kind)
        found = await _anomalies(clients, cut, kind, LogDirectory.open("/logs", clock=clock))
        found += _damage(was_full=clients.fault == "full")
        assert not found, "\n".join([f"cut {number} ({kind}), {clients.fault}", *found[:20]])
    return len(chosen)


async def _anomalies(clients: CutClients, cut: Cut, kind: str | None, directory: LogDirectory) -> list[str]:
    """End what is open in the directory that a cut left, send again, read all, and check."""
    known = clients.known_at(cut)
    if kind != "all":  # a commit without a transaction is in the segment file when it is answered, as in Kafka
        known.commits = [each for each in known.commits if each.group != clients.names.without]
    broker = DirectBroker(directory)
    await broker.complete()
    producer = TransactionalProducer(broker)
    if await producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS:  # aborts an open one
        assert await producer.init() == ErrorCode.NONE
    await send_last_again(broker, known, clients.moment)
    for topic in clients.names.topics:
        _read(directory, topic, known, clients)
    for group in clients.names.groups:
        began = clients.moment()
        offset = await committed_offset(broker, group, is_stable_only=True)
        known.look_ups.append(LookUp(group, clients.names.place, offset, began, clients.moment()))
    directory.close()
    return [*map(str, anomalies(known))]


def _read(directory: LogDirectory, topic: str, known: ClientHistory, clients: CutClients) -> None:
    log = directory.log(TopicPartition(topic, 0))
    assert log.last_stable_offset() == log.next_offset, f"a transaction of {topic} is open"
    partition = Partition(topic, 0)
    for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
        began, is_committed = clients.moment(), isolation is READ_COMMITTED
        session = f"{topic}, {began}"
        known.reads += [
            Read(session, partition, each.offset, each.value or b"", is_committed)
            for each in LogReader(log, isolation=isolation).records()
        ]
        known.full_reads.append(FullRead(session, partition, log.next_offset, began, is_committed))


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
