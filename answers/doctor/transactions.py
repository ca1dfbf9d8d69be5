"""Checks of transactions that never end, and of the state of producers that a broker keeps in memory.

A transaction is *open* while its coordinator knows it, and *hanging* if the coordinator does not: no timeout ends it
then. The last stable offset stays where the first of them began: consumers with `read_committed` get nothing behind it,
and compaction ends there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from offsetfs.answers.doctor.examination import Examination
from offsetfs.answers.doctor.survey import SNAPSHOT_ENTRY_BYTES, PartitionSurvey
from offsetfs.answers.report import Diagnosis, Measure, Severity
from offsetfs.answers.value_text import value_text
from offsetfs.common.formatting import duration, size
from offsetfs.storage import Log, files
from offsetfs.storage.coordinators import TRANSACTIONS_TOPIC, Transaction, TransactionsReplay, TransactionState
from offsetfs.storage.dump import SnapshotEntry, snapshot_entries
from offsetfs.storage.errors import InvalidSnapshot, StorageError, counted, sentence

SCANNED_BYTES_MAX = 256 << 20
"""The active segment of a partition is not searched for open transactions if it is larger, while a broker writes."""
SCANNED_MAX = 500
"""Partitions without a snapshot that are searched, about a millisecond each."""
COORDINATOR_BYTES_MAX = 64 << 20
TIMEOUT_MS_MAX = 900_000
"""`transaction.max.timeout.ms` of a broker by default: no transaction is older."""
GRACE_MS = 60_000
"""Between the timeout of a transaction and its markers in all partitions."""
PRODUCERS_NOTICED = 5_000
PRODUCERS_WARNED = 50_000

_NONE = -1


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The transactions that are open according to `__transaction_state`."""

    open: dict[int, tuple[str, Transaction]]
    """Transactional id and transaction, by producer id."""
    is_whole: bool
    """Whether all partitions of the topic were read, so that what is missing does not exist."""


def transactions(examined: Examination) -> Iterator[Diagnosis]:
    """Yield each partition with a transaction that hangs, or is open for longer than its timeout."""
    if examined.opened is None:
        return
    coordinator = _coordinator(examined)
    named = {partition for _, transaction in coordinator.open.values() for partition in transaction.partitions}
    wanted = [found for found in examined.partitions() if found.partition in named or _may_be_open(found)]
    unknown = [found for found in examined.partitions() if found.partition not in named and _is_unknown(found)]
    for found in [*wanted, *unknown[:SCANNED_MAX]]:
        try:
            yield from _in_partition(examined, found, coordinator)
        except (StorageError, OSError) as error:
            examined.unseen.append(f"transactions of {found.partition}: {sentence(error)}")
    if len(unknown) > SCANNED_MAX:
        left_out = counted(len(unknown) - SCANNED_MAX, "partition")
        examined.unseen.append(f"transactions of {left_out} without a producer snapshot")


def _coordinator(examined: Examination) -> Coordinator:
    assert examined.opened is not None
    states: dict[str, Transaction] = {}
    partitions = examined.opened.partitions_of(TRANSACTIONS_TOPIC)
    is_whole, left = bool(partitions), COORDINATOR_BYTES_MAX
    for partition in partitions:
        log = examined.opened.log(partition)
        left -= log.size_bytes
        if left < 0:
            examined.unseen.append(f"{partition} and later ones: {TRANSACTIONS_TOPIC} is larger than 64 MiB")
            is_whole = False
            break
        try:
            _replay(log, states)
        except (StorageError, OSError) as error:
            examined.unseen.append(f"transactions of {partition}: {sentence(error)}")
            is_whole = False
    if examined.cluster is not None:
        wanted = {
            partition.partition for partition in examined.cluster.replicas if partition.topic == TRANSACTIONS_TOPIC
        }
        is_whole = is_whole and wanted <= {partition.partition for partition in partitions}
    is_open = (TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.PREPARE_COMMIT)
    return Coordinator(
        {state.producer_id: (name, state) for name, state in states.items() if state.state in is_open}, is_whole
    )


def _replay(log: Log, states: dict[str, Transaction]) -> None:
    replay = TransactionsReplay(log)
    while not replay.is_complete:
        for name, transaction in replay.advance(1 << 20):
            if transaction is None:
                states.pop(name, None)
            else:
                states[name] = transaction


def _may_be_open(found: PartitionSurvey) -> bool:
    """Whether the newest snapshot has an open transaction, or had transactions that may go on behind it."""
    entries = newest_snapshot(found)
    if any(entry.current_txn_first_offset != _NONE for entry in entries):
        return True
    is_behind = found.end is None or found.end > (found.snapshots[-1] if found.snapshots else 0)
    had_transactions = any(entry.coordinator_epoch != _NONE for entry in entries)
    return is_behind and had_transactions and not found.directory.is_clean


def _is_unknown(found: PartitionSurvey) -> bool:
    """Whether the directory is in use or was not closed, and no snapshot names the producers of the partition."""
    return bool(found.bytes) and not found.directory.is_clean and not found.snapshots


def newest_snapshot(found: PartitionSurvey) -> list[SnapshotEntry]:
    """Return the producers of the newest snapshot; none if it is missing or damaged."""
    if not found.producers:
        return []
    try:
        return list(snapshot_entries(files.read_file(os.path.join(found.path, f"{found.snapshots[-1]:020}.snapshot"))))
    except (InvalidSnapshot, FileNotFoundError):  # `verify` reports a damaged one; brokers replace them
        return []


def _in_partition(examined: Examination, found: PartitionSurvey, coordinator: Coordinator) -> Iterator[Diagnosis]:
    assert examined.opened is not None
    if not found.directory.is_clean and found.segments and found.segments[-1].size > SCANNED_BYTES_MAX:
        examined.unseen.append(f"open transactions of {found.partition}: its active segment is larger than 256 MiB")
        return
    log = examined.opened.log(found.partition)
    still_open = log.transactions.open()
    if not still_open:
        return
    producer_id, first = still_open[0]
    since_ms = _time_at(log, first)
    name, transaction = coordinator.open.get(producer_id, ("", None))
    if transaction is not None and found.partition in transaction.partitions:
        yield from _known(
            examined,
            found,
            log,
            Unfinished(producer_id, first, since_ms, len(still_open)),
            name,
            transaction,
        )
    else:
        yield from _unknown(
            examined, found, log, Unfinished(producer_id, first, since_ms, len(still_open)), coordinator
        )


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The first transaction of a partition that is not decided, and how many there are."""

    producer_id: int
    first_offset: int
    since_ms: int | None
    count: int


def _time_at(log: Log, offset: int) -> int | None:
    batch = log.batch_at(offset)
    return None if batch is None or batch.header.max_timestamp < 0 else batch.header.max_timestamp


def _known(
    examined: Examination,
    found: PartitionSurvey,
    log: Log,
    opened: Unfinished,
    name: str,
    transaction: Transaction,
) -> Iterator[Diagnosis]:
    """Yield a transaction of which the coordinator knows, if it should have ended."""
    since_ms = transaction.started_ms if transaction.started_ms > 0 else opened.since_ms
    age_ms = 0 if since_ms is None else examined.now_ms - since_ms
    who = f"producer {opened.producer_id}, transactional id {name!r}, state {transaction.state.shown}"
    if not found.directory.is_live:
        consequence = "the coordinator ends it after the next start of its broker"
        yield _diagnosis(Severity.NOTICE, "open-transaction", found, log, opened, who, consequence, "")
    elif age_ms > transaction.timeout_ms + GRACE_MS:
        consequence = f"its timeout of {duration(transaction.timeout_ms / 1000)} is over; {_held_back(log)}"
        remedy = "look for errors of the TransactionCoordinator in the broker's log"
        yield _diagnosis(Severity.WARNING, "open-transaction", found, log, opened, who, consequence, remedy)


def _unknown(
    examined: Examination, found: PartitionSurvey, log: Log, opened: Unfinished, coordinator: Coordinator
) -> Iterator[Diagnosis]:
    """Yield a transaction of which no coordinator here knows: if all of it is here, or it is too old, it hangs."""
    until_ms = examined.now_ms if found.directory.is_live else _latest_ms(examined)
    age_ms = TIMEOUT_MS_MAX + 1 if opened.since_ms is None else until_ms - opened.since_ms
    is_lost = coordinator.is_whole and (age_ms > GRACE_MS or not found.directory.is_live)
    who = f"producer {opened.producer_id}"
    if is_lost or age_ms > TIMEOUT_MS_MAX + GRACE_MS:
        who += (
            ", of which no coordinator knows" if is_lost else f", whose coordinator is not in {TRANSACTIONS_TOPIC} here"
        )
        remedy = (
            f"kafka-transactions.sh --bootstrap-server HOST:9092 abort --topic {found.partition.topic} "
            f"--partition {found.partition.partition} --start-offset {opened.first_offset}"
        )
        yield _diagnosis(Severity.WARNING, "hanging-transaction", found, log, opened, who, _held_back(log), remedy)


def _latest_ms(examined: Examination) -> int:
    """Return the time of the newest record of the directories, but not one in the future."""
    latest = (segment.latest[0] for found in examined.partitions() for segment in found.segments if segment.latest)
    return min(max(latest, default=0), examined.now_ms)


def _held_back(log: Log) -> str:
    cleaning = "; compaction ends there, too" if log.config.is_compacted else ""
    return f"consumers with read_committed get nothing from its first offset on{cleaning}"


def _diagnosis(
    severity: Severity,
    kind: str,
    found: PartitionSurvey,
    log: Log,
    opened: Unfinished,
    who: str,
    consequence: str,
    remedy: str,
) -> Diagnosis:
    held = log.next_offset - log.last_stable_offset()
    since = "" if opened.since_ms is None else f" since {value_text(opened.since_ms, Measure.TIME)}"
    more = f", and {counted(opened.count - 1, 'more transaction')}" if opened.count > 1 else ""
    evidence = (
        f"{who}: open from offset {opened.first_offset}{since}{more}; the last stable offset is "
        f"{log.last_stable_offset()}, {counted(held, 'offset')} before the end"
    )
    return Diagnosis(severity, kind, str(found.partition), evidence, consequence, remedy)


def producers(examined: Examination) -> Iterator[Diagnosis]:
    """Yield partitions with so many producers that their state costs memory and time at the start."""
    for found in examined.partitions():
        count = found.producers
        if count >= PRODUCERS_NOTICED:
            snapshot = f"{found.snapshots[-1]:020}.snapshot"
            evidence = f"{counted(count, 'producer')} in {snapshot}, {size(count * SNAPSHOT_ENTRY_BYTES)}"
            consequence = "each costs memory of the broker, and is read and written at each roll and start"
            remedy = "find clients that make a producer for each message; lower producer.id.expiration.ms"
            severity = Severity.WARNING if count >= PRODUCERS_WARNED else Severity.NOTICE
            yield Diagnosis(severity, "producers", str(found.partition), evidence, consequence, remedy)
