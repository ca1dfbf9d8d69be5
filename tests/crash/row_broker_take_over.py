"""Row 22: a Kafka broker takes over the log directories that power cuts below `serve` left.

Kafka creates the topics. `serve` then has its directory on a simulated disk, with the clients, faults and cuts of row
20, once for each cut. What the cuts left becomes one directory again: each has topics of its own, and a partition of
its own of `__consumer_offsets` and of `__transaction_state`. Kafka opens it as after a crash. Open transactions have to
be aborted, by their timeout or by InitProducerId; then librdkafka reads everything, and `client_history` checks it.
"""

from __future__ import annotations

import itertools
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import trio
from client_history import ClientHistory, Outcome, Partition, Write, anomalies
from client_lives import Recorder, full_read, look_up
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from cut_clients import INTERNAL, SMALL, ClientNames, Cut, CutClients, only_injected_faults, send_last_again
from fault_program import Row
from fixtures.broker.direct import one_thread
from fixtures.broker.transaction_requests import Remote, TransactionalProducer, fetched, granted
from fixtures.kafka.broker import NOT_A_COMPLAINT, KafkaBroker
from fixtures.logs.left_logs import damage_left
from fixtures.simulation.fake_clock import FakeClock
from fixtures.simulation.simdisk import ROOT, SimDirectory, SimDisk, SimFile
from fixtures.simulation.simsystem import simulated

from offsetfs.storage import LogDirectory
from offsetfs.storage.coordinators import partition_of

CUTS = 8
SECONDS_MAX = 60
LOGS = "logs"
CLEAN = ".kafka_cleanshutdown"
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint")
SETTINGS = {
    "offsets.topic.num.partitions": str(CUTS),
    "transaction.state.log.num.partitions": str(CUTS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.message.timestamp.after.max.ms": str(2**63 - 1),  # the time of the records
    "log.retention.ms": "-1",
    "log.cleaner.enable": "false",
}
TIMEOUT_MS = 1000
"""Of the transactions; the clock of `serve` stands still, so that it lets none of them time out."""
_KINDS = ("none", "each", "until", "all", None)


@dataclass(frozen=True, slots=True)
class _Left:
    """What a cut left on a disk, and what the clients knew."""

    names: ClientNames
    index: int
    disk: SimDisk
    known: ClientHistory
    fault: str
    kind: str | None
    moment: Callable[[], int]

    @property
    def partitions(self) -> list[str]:
        """The directories of the partitions that only this run used."""
        return [*(f"{each}-0" for each in self.names.topics), *(f"{each}-{self.index}" for each in INTERNAL)]

    @property
    def waits(self) -> bool:
        """Whether open transactions are left to their timeout, which a clock that was set may have put far away."""
        return self.index % 2 == 1 and self.fault != "clock"


def play(seed: int, scratch: Path) -> int:
    """Let Kafka take over after CUTS cuts; return how many."""
    with KafkaBroker(scratch / "kafka", settings=SETTINGS) as kafka:
        names = [_names(index) for index in range(CUTS)]
        _create(kafka, names)
        kafka.stop()
        left = [_cut(seed * CUTS + index, index, each, kafka.log_dir) for index, each in enumerate(names)]
        _merge(kafka.log_dir, left)
        kafka.start()
        for each in left:
            trio.run(_go_on, each, kafka.address)
        found = [f"cut {each.index} ({each.kind}), {each.fault}: {one}" for each in left for one in _wrong(each, kafka)]
        found += _errors(kafka)
        assert not found, "\n".join(found[:40])
        kafka.stop()
        assert damage_left(scratch) == []
    return CUTS


def _names(index: int) -> ClientNames:
    """Return names that belong to the partition `index` of both internal topics."""

    def find(prefix: str) -> str:
        candidates = (f"{prefix}{index}.{number}" for number in itertools.count())
        return next(each for each in candidates if partition_of(each, CUTS) == index)

    return ClientNames((f"t{index}", f"u{index}"), find("g"), find("plain"), find("tx"))


def _create(kafka: KafkaBroker, names: Sequence[ClientNames]) -> None:
    """Create all topics; return when Kafka has their directories."""
    topics = {topic: 1 for each in names for topic in each.topics} | dict.fromkeys(INTERNAL, CUTS)
    compacted = {"cleanup.policy": "compact"}
    client = AdminClient({"bootstrap.servers": kafka.address})
    asked = [NewTopic(each, count, config=compacted if each in INTERNAL else {}) for each, count in topics.items()]
    for future in client.create_topics(asked).values():
        future.result(SECONDS_MAX)
    folders = [kafka.log_dir / f"{topic}-{index}" for topic, count in topics.items() for index in range(count)]
    deadline = time.monotonic() + SECONDS_MAX
    while not all((each / "partition.metadata").exists() for each in folders):
        assert time.monotonic() < deadline, "Kafka has not created the topics"
        time.sleep(0.02)


# --- serve, on a simulated disk --------------------------------------------------------------------------------------


def _cut(seed: int, index: int, names: ClientNames, log_dir: Path) -> _Left:
    """Let clients of `serve` work on a copy of a directory of Kafka's, and cut the power."""
    chance, disk = Random(seed), SimDisk()
    disk.do("create", ROOT, LOGS, True)
    own = tuple(f"{each}-0" for each in names.topics)
    _load(disk, _inode(disk, ROOT, LOGS), log_dir, lambda name: name.startswith((*own, *INTERNAL)))
    disk.do("sync", ROOT)
    with only_injected_faults(), one_thread(), simulated(disk) as system:
        clock = FakeClock(int(time.time() * 1000))
        clients = CutClients(seed, system, clock, names, timeout_ms=TIMEOUT_MS)
        trio.run(clients.live, LogDirectory.open(f"/{LOGS}", clock=clock, defaults=SMALL))
    cut: Cut = chance.choice(clients.cuts)
    kind = _KINDS[seed % len(_KINDS)]
    known = clients.known_at(cut)
    if kind != "all":  # a commit without a transaction is in the segment file when it is answered, as in Kafka
        known.commits = [each for each in known.commits if each.group != names.without]
    return _Left(names, index, cut.disk.crash(chance, kind), known, clients.fault, kind, clients.moment)


def _load(disk: SimDisk, parent: int, path: Path, is_used: Callable[[str], bool]) -> None:
    """Copy a directory to a simulated disk: files, and directories that are used."""
    for each in sorted(path.iterdir()):
        if each.is_dir() and not is_used(each.name):
            continue
        disk.do("create", parent, each.name, each.is_dir())
        inode = _inode(disk, parent, each.name)
        if each.is_dir():
            _load(disk, inode, each, is_used)
        else:
            disk.do("write", inode, 0, each.read_bytes())
            disk.do("sync", inode)
    disk.do("sync", parent)


def _inode(disk: SimDisk, parent: int, name: str) -> int:
    return disk.directory(parent).names[name]


# --- a directory of all that is left ---------------------------------------------------------------------------------


def _merge(log_dir: Path, left: Sequence[_Left]) -> None:
    """Put what the cuts left in place of what Kafka had."""
    (log_dir / CLEAN).unlink()
    offsets: dict[str, list[str]] = {each: [] for each in CHECKPOINTS}
    for each in left:
        root = _inode(each.disk, ROOT, LOGS)
        names = each.disk.directory(root).names
        assert CLEAN not in names, f"cut {each.index}: Kafka would take the directory for one that was closed in order"
        for name in each.partitions:
            shutil.rmtree(log_dir / name)
            _store(each.disk, names[name], log_dir / name)
        for name in CHECKPOINTS:
            if name in names:
                offsets[name] += _entries(each, _content(each.disk, names[name]))
    for name, entries in offsets.items():
        (log_dir / name).write_text("\n".join(["0", str(len(entries)), *entries, ""]))


def _entries(left: _Left, content: bytes) -> list[str]:
    """Return the lines of a checkpoint that are about the partitions of a run."""
    version, count, *entries = content.decode().splitlines()
    assert version == "0" and int(count) == len(entries), content
    return [each for each in entries if "-".join(each.split()[:2]) in left.partitions]


def _store(disk: SimDisk, inode: int, path: Path) -> None:
    path.mkdir()
    for name, each in disk.directory(inode).names.items():
        if isinstance(disk.inodes[each], SimDirectory):
            _store(disk, each, path / name)
        else:
            (path / name).write_bytes(_content(disk, each))


def _content(disk: SimDisk, inode: int) -> bytes:
    found = disk.inodes[inode]
    assert isinstance(found, SimFile)
    return bytes(found.content)


# --- Kafka -----------------------------------------------------------------------------------------------------------


async def _go_on(left: _Left, address: str) -> None:
    """Let Kafka end what is open; then send the last batch again, and commit another transaction."""
    remote = Remote(address)
    producer = TransactionalProducer(remote, left.names.transactional_id)
    if not left.waits:
        assert await granted(producer.init), f"cut {left.index}: no producer id"
    for topic in left.names.topics:
        await _wait_until_stable(remote, topic, f"cut {left.index} ({left.kind}), {left.fault}")
    if left.waits:
        assert await granted(producer.init), f"cut {left.index}: no producer id"
    await send_last_again(remote, left.known, left.moment)
    transaction = "Kafka's"
    left.known.transactions[transaction] = Outcome.DONE
    for number, topic in enumerate(left.names.topics):
        began, value = left.moment(), b"k%d" % number
        assert await granted(partial(producer.send, value, topic, version=12))
        left.known.writes.append(
            Write(
                *("Kafka's", number, Partition(topic, 0), value, began),
                ended=left.moment(),
                outcome=Outcome.DONE,
                transaction=transaction,
            )
        )
    assert await granted(partial(producer.end, version=5))


async def _wait_until_stable(remote: Remote, topic: str, cut: str) -> None:
    """Return when no transaction is open."""
    deadline = trio.current_time() + SECONDS_MAX
    while True:
        found = await fetched(remote, topic)
        if not found.error_code and found.last_stable_offset == found.high_watermark:
            return
        assert trio.current_time() < deadline, f"{cut}: a transaction in {topic} stays open: {found}"
        await trio.sleep(0.05)


def _wrong(left: _Left, kafka: KafkaBroker) -> list[str]:
    """Read everything, and return what is wrong."""
    recorder = Recorder(kafka.address, 0, left.known, left.moment)
    for topic in left.names.topics:
        for is_committed in (False, True):
            full_read(recorder, Partition(topic, 0), is_committed=is_committed)
    place = left.names.place
    for group in left.names.groups:
        with closing(Consumer(recorder.settings(group_id=group))) as client:
            assert look_up(recorder, client, group, [TopicPartition(place.topic, place.index)]) is not None, group
    return [*map(str, anomalies(left.known))]


def _errors(kafka: KafkaBroker) -> list[str]:
    """Return the errors that Kafka logged, and the partitions that it did not take for its own."""
    lines = kafka.log_text().splitlines()
    return [
        each
        for each in lines
        if re.search(r"^\S+ (?:ERROR|FATAL) |[Ss]tray", each) and not NOT_A_COMPLAINT.search(each)
    ]


ROW = Row(
    22,
    "broker_take_over",
    "a Kafka broker takes over after power loss below `serve` (simulated disk)",
    play,
    seeds_in_ci=range(1),
    goal=200,
    unit="cuts",
    needs=("java",),
)
