"""Row 19: a broker is killed again and again under producers, transactions and groups; what clients saw is consistent.

Groups of both protocols read and commit; topics are deleted and created again; every third round has a slow disk.

`client_lives` has the clients, `client_history` the check of what they did and saw.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

from broker_process import SECONDS_MAX, BrokerProcess
from client_history import ClientHistory, Outcome, anomalies
from client_lives import LASTING, MOVED, Client, Mover, Recorder, create, crew, read_everything
from confluent_kafka.admin import AdminClient
from fault_program import Row
from fixtures.logs.left_logs import damage_left
from tracing import injected

KILLS = 4
PROTOCOLS = ("classic", "consumer")
"""Of the consumer groups."""
OPTIONS = (
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "group.min.session.timeout.ms=500",
    "group.consumer.min.session.timeout.ms=500",
    "group.consumer.session.timeout.ms=4000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=300",
    "log.segment.bytes=60000",
    "log.index.size.max.bytes=4000",
    "log.initial.task.delay.ms=0",
    "log.flush.offset.checkpoint.interval.ms=50",
    "log.cleaner.backoff.ms=50",
    "log.cleaner.min.cleanable.ratio=0.1",
)
"""Few partitions, so that each has much to say; segments that roll, checkpoints and compaction as often as possible."""
SLOW = "delay_exit=30000"
"""What a sync of a slow disk takes longer, in microseconds; every third round has one."""
PROGRESS: tuple[tuple[Callable[[Recorder], int], float], ...] = (
    (lambda recorder: recorder.acknowledged, 100),
    (lambda recorder: recorder.committed, 3),
    (lambda recorder: len(recorder.history.commits), 10),
    (lambda recorder: len(recorder.history.full_reads), 1),
)
"""What a broker has to get done before it is killed, and how much of it: records, transactions, commits, topics."""


def play(seed: int, scratch: Path) -> int:
    return play_with(seed, scratch, KILLS)


def play_with(seed: int, scratch: Path, kills: int, mount: Path | None = None) -> int:
    """Kill one broker after the other on the same directory; return how many. `mount`: they are mounts as well."""
    chance = random.Random(seed)
    log = scratch / "log"
    log.mkdir()
    with closing(BrokerProcess(log, scratch / "output", OPTIONS, mount=mount)) as broker:
        recorder = Recorder(broker.address, seed)
        with at_work(crew(recorder, PROTOCOLS, mount), recorder, broker):
            for _ in range(kills):
                with injected(broker.pid, "fsync|fdatasync", SLOW) if seed % 3 == 1 else nullcontext():
                    end_somewhere(broker, recorder, chance)
                broker.start()
        check(recorder.history)
    assert damage_left(scratch) == []
    return kills


@contextmanager
def at_work(clients: Sequence[Client], recorder: Recorder, broker: BrokerProcess) -> Iterator[None]:
    """Start the broker and let clients work during the block; then read everything, and end the broker.

    The broker may be ended in the block; it has to run at its end.
    """
    broker.start()
    broker.wait_until_ready()
    assert create(AdminClient(recorder.settings()), LASTING | MOVED)
    try:
        for client in clients:
            client.start()
        yield
        broker.wait_until_ready()
        wait_until(lambda: is_long_enough(recorder), broker)
    finally:
        recorder.stop.set()
    for client in clients:
        client.finish()
    read_everything(recorder, [*(f"readers-{protocol}" for protocol in PROTOCOLS), Mover.GROUP])
    broker.terminate()
    assert "Traceback" not in broker.output(), broker.output()[-5000:]


def end_somewhere(broker: BrokerProcess, recorder: Recorder, chance: random.Random) -> None:
    """Kill the broker, or end it in order: a moment after it has answered writes again, or while it starts."""
    if chance.random() < 0.2:
        time.sleep(chance.uniform(0, 1.5))
        broker.kill()
        return
    progress, steps = chance.choice(PROGRESS)
    wanted = progress(recorder) + int(chance.expovariate(1 / steps)) + 1
    wait_until(lambda: progress(recorder) >= wanted, broker)
    time.sleep(chance.uniform(0, 0.3))
    if chance.random() < 0.2:
        # The progress may be answers of the broker before; this one is ended as by a kill until it serves.
        broker.wait_until_ready()
        broker.terminate()
    else:
        broker.kill()


def wait_until(is_reached: Callable[[], bool], broker: BrokerProcess) -> None:
    """Wait for something that the clients do; AssertionError if the broker ends meanwhile, or it takes too long."""
    deadline = time.monotonic() + SECONDS_MAX
    while not is_reached():
        assert broker.code is None, f"exit code {broker.code}: {broker.output()[-3000:]}"
        assert time.monotonic() < deadline, f"no progress: {broker.stacks()}"
        time.sleep(0.01)


def is_long_enough(recorder: Recorder) -> bool:
    """Return whether there is something of all that `check` asks for."""
    has_moved = any(each.group == Mover.GROUP for each in list(recorder.history.commits))
    return recorder.acknowledged > 500 and recorder.committed > 0 and recorder.aborted > 0 and has_moved


def check(history: ClientHistory) -> None:
    """Assert that a history has no anomaly, and is long enough to have one."""
    found = anomalies(history)
    counted = Counter(each.kind.value for each in found)
    assert not found, "\n".join([str(dict(counted)), *map(str, found[:40])])
    done = Counter(history.transactions.values())
    assert done[Outcome.DONE] and done[Outcome.NOT_DONE], f"transactions: {done}"
    assert history.commits and any(each.source for each in history.writes), "a group committed or moved nothing"
    assert sum(each.outcome is Outcome.DONE for each in history.writes) > 500, "next to nothing was written"


ROW = Row(
    19,
    "broker_history",
    "a broker is killed under producers, transactions and groups",
    play,
    seeds_in_ci=range(1),
    goal=200,
    unit="kills",
    needs=("root", "strace"),
)
