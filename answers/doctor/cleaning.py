"""Checks of compaction: which partitions the cleaner does not clean, and why."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from offsetfs.answers.doctor.examination import Examination
from offsetfs.answers.doctor.survey import PartitionSurvey
from offsetfs.answers.report import Diagnosis, Measure, Severity, Table, TableColumn
from offsetfs.common.formatting import duration, size
from offsetfs.storage import INTERNAL_TOPICS, Log, LogDirectories
from offsetfs.storage.directory import CLEANER_OFFSETS
from offsetfs.storage.errors import StorageError, counted, sentence
from offsetfs.storage.maintenance import dirty_range

STOPPED_MS = 3_600_000
"""The cleaner looks every 15 seconds; what waits for an hour, while the broker runs, is not cleaned."""

COLUMNS = (
    TableColumn("partition", "PARTITION"),
    TableColumn("dirty_bytes", "DIRTY", Measure.BYTES),
    TableColumn("dirty_share", "SHARE", Measure.SHARE),
    TableColumn("first_dirty_offset", "FROM", Measure.OFFSET),
    TableColumn("reason", "NOT CLEANED BECAUSE"),
)


@dataclass(frozen=True, slots=True)
class Dirty:
    """What compaction has not processed of a partition: all of its sealed segments from `first_dirty` on."""

    found: PartitionSurvey
    first_dirty: int
    bytes: int
    share: float
    reason: str


def uncleaned(examined: Examination) -> Iterator[Diagnosis]:
    """Yield compacted partitions that the cleaner will not clean, or whose records compaction drops."""
    for dirty, log in _dirty_logs(examined):
        found = dirty.found
        evidence = (
            f"{size(dirty.bytes)} are dirty from offset {dirty.first_dirty} on ({dirty.share:.0%}): {dirty.reason}"
        )
        if dirty.reason.startswith("a transaction"):
            consequence = "the partition grows, until the transaction ends"
            remedy = "see the finding on its transaction"
            yield Diagnosis(Severity.WARNING, "cleaning-held-back", str(found.partition), evidence, consequence, remedy)
        elif dirty.reason.startswith("the cleaner"):
            consequence = "the partition grows; the broker has marked it uncleanable, or its cleaner thread has ended"
            remedy = (
                f"offsetfs verify {shlex.quote(found.directory.path)} {found.partition} names damage; with the broker "
                "stopped, restore what is damaged from a replica or a backup; a start tries the partition again"
            )
            yield Diagnosis(Severity.WARNING, "cleaning-stopped", str(found.partition), evidence, consequence, remedy)
        yield from _keyless(found, log, dirty)


def table(examined: Examination) -> Table:
    """Return the partitions with sealed segments that are not compacted, the largest first."""
    rows = [
        (str(dirty.found.partition), dirty.bytes, dirty.share, dirty.first_dirty, dirty.reason)
        for dirty, _ in _dirty_logs(examined)
    ]
    rows.sort(key=lambda row: -row[1])
    return Table("uncleaned", "Compacted partitions with dirty segments", COLUMNS, rows)


def _dirty_logs(examined: Examination) -> Iterator[tuple[Dirty, Log]]:
    for found in examined.partitions():
        if examined.opened is None or len(found.segments) < 2 or not _is_compacted(examined.opened, found):
            continue
        try:
            log = examined.opened.log(found.partition)
            dirty = _dirty(examined, examined.opened, found, log)
        except (StorageError, OSError) as error:
            _leave_out(examined, f"compaction of {found.partition}: {sentence(error)}")
            continue
        if dirty is not None:
            yield dirty, log


def _leave_out(examined: Examination, reason: str) -> None:
    if reason not in examined.unseen:
        examined.unseen.append(reason)


def _is_compacted(opened: LogDirectories, found: PartitionSurvey) -> bool:
    topic = found.partition.topic
    directory = opened.directory_of(found.partition)
    return directory.config_of(topic).is_compacted and directory.knows_policy(topic)


def _dirty(examined: Examination, opened: LogDirectories, found: PartitionSurvey, log: Log) -> Dirty | None:
    cleanable = dirty_range(opened.directory_of(found.partition), log)
    if cleanable is None:
        return None
    first = cleanable.first_dirty
    sealed = [segment for segment in found.segments[:-1] if segment.next_base > first]
    waiting = sum(segment.size for segment in sealed)
    if not waiting:
        return None
    share = waiting / max(cleanable.clean_bytes + waiting, 1)
    reason = _reason(examined, found, log, cleanable.is_due, cleanable.first_uncleanable, share)
    return Dirty(found, first, waiting, share, reason)


def _reason(
    examined: Examination, found: PartitionSurvey, log: Log, is_due: bool, first_uncleanable: int, share: float
) -> str:
    config = log.config
    stable, active = log.last_stable_offset(), found.segments[-1].base
    if stable < active and first_uncleanable <= stable:
        return f"a transaction is open from offset {stable}"
    if is_due and found.directory.is_live:
        waited_ms = examined.now_ms - max(segment.modified_ms for segment in found.segments[:-1])
        if waited_ms > STOPPED_MS:
            return f"the cleaner should have, for {duration(waited_ms / 1000)}"
    if is_due:
        return "it is due"
    if config.min_compaction_lag_ms > 0 and first_uncleanable < active:
        return f"min.compaction.lag.ms is {config.min_compaction_lag_ms}"
    return f"{share:.0%} is not above min.cleanable.dirty.ratio, {config.min_cleanable_dirty_ratio:.0%}"


def _keyless(found: PartitionSurvey, log: Log, dirty: Dirty) -> Iterator[Diagnosis]:
    """Yield a partition whose first dirty batch has records without keys."""
    if found.partition.topic in INTERNAL_TOPICS:
        return
    batch = log.batch_at(dirty.first_dirty)
    if batch is None or batch.header.is_control:
        return
    records = batch.records()
    without = [record.offset for record in records if record.key is None]
    if without:
        evidence = f"{len(without)} of {counted(len(records), 'record')} of the batch at {without[0]} have no key"
        consequence = "compaction drops records without keys; a producer to a compacted topic must set keys"
        remedy = (
            "set keys in the producer; if the topic shall be a log: kafka-configs.sh --bootstrap-server HOST:9092 "
            f"--alter --topic {found.partition.topic} --add-config cleanup.policy=delete, and then retention.ms "
            "removes old records"
        )
        yield Diagnosis(Severity.WARNING, "no-keys", str(found.partition), evidence, consequence, remedy)


def cleaner_offsets(examined: Examination) -> Iterator[Diagnosis]:
    """Yield partitions whose cleaner checkpoint is beyond their end: all of them is compacted again."""
    for found in examined.partitions():
        offset = found.directory.checkpoints[CLEANER_OFFSETS].get(found.partition)
        if offset is not None and found.end is not None and offset > found.end and not found.directory.is_live:
            evidence = f"{CLEANER_OFFSETS} says {offset}, and the log ends at {found.end}"
            consequence = "the cleaner compacts the whole partition again"
            yield Diagnosis(Severity.NOTICE, "cleaner-offset", str(found.partition), evidence, consequence)
