"""Check of disks: what was written during the last day, what retention removes during the next, and when it is full.

The estimate takes each segment as written evenly between the last change of the segment before it and its own.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from offsetfs.answers.doctor.examination import Examination
from offsetfs.answers.doctor.survey import PartitionSurvey, SegmentSurvey
from offsetfs.answers.report import Diagnosis, Measure, Severity, Table, TableColumn
from offsetfs.common.formatting import duration, size

DAY_MS = 86_400_000
FULL_BYTES = 64 << 20
"""Less free space than this is full: a new segment with its indexes may not fit."""
WARNED_S = 3 * 86_400

NOTE = "written and removed in a day are estimates, by the modification times of segments"

COLUMNS = (
    TableColumn("directory", "DIRECTORY"),
    TableColumn("total_bytes", "DISK", Measure.BYTES),
    TableColumn("free_bytes", "FREE", Measure.BYTES),
    TableColumn("log_bytes", "RECORDS", Measure.BYTES),
    TableColumn("written_bytes", "LAST DAY", Measure.BYTES),
    TableColumn("removed_bytes", "RETENTION, NEXT DAY", Measure.BYTES),
    TableColumn("full_in_seconds", "FULL IN", Measure.SECONDS),
)
GROWTH_COLUMNS = (
    TableColumn("topic", "TOPIC"),
    TableColumn("log_bytes", "RECORDS", Measure.BYTES),
    TableColumn("written_bytes", "LAST DAY", Measure.BYTES),
    TableColumn("removed_bytes", "RETENTION, NEXT DAY", Measure.BYTES),
)


@dataclass(slots=True)
class Growth:
    """Bytes of log: all, those of the last day, and those that retention removes within the next."""

    bytes: int = 0
    written: float = 0.0
    removed: float = 0.0

    def add(self, other: Growth) -> None:
        self.bytes += other.bytes
        self.written += other.written
        self.removed += other.removed


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system of a log directory, and its growth."""

    path: str
    total: int
    free: int
    growth: Growth

    @property
    def full_in_s(self) -> float | None:
        """The seconds until it is full; None if it does not grow."""
        a_day = self.growth.written - self.growth.removed
        return None if a_day <= 0 else self.free / a_day * DAY_MS / 1000


def _disks(examined: Examination) -> tuple[list[Disk], dict[str, Growth]]:
    """Return the disk of each directory, and the growth of each topic."""
    topics: dict[str, Growth] = defaultdict(Growth)
    found = []
    for directory in examined.surveys:
        if "://" in directory.path:
            continue  # an archive has no disk
        total = Growth()
        for partition in directory.partitions:
            growth = _growth(examined, partition)
            total.add(growth)
            topics[partition.partition.topic].add(growth)
        found.append(Disk(directory.path, *examined.machine.space(directory.path), total))
    return found, topics


def _growth(examined: Examination, found: PartitionSurvey) -> Growth:
    begins = [None, *(segment.modified_ms for segment in found.segments)]
    written = sum(
        _share_of_day(segment, begin, found, examined.now_ms) * segment.size
        for segment, begin in zip(found.segments, begins, strict=False)
    )
    return Growth(found.bytes, written, _removed(examined, found))


def _share_of_day(segment: SegmentSurvey, begin_ms: int | None, found: PartitionSurvey, now_ms: int) -> float:
    """Return the part of a segment that was written during the last day."""
    since = now_ms - DAY_MS
    if segment.modified_ms <= since or not segment.size:
        return 0.0
    begin = found.created_ms if begin_ms is None else begin_ms
    if begin is None or begin >= since:
        return 1.0
    return (segment.modified_ms - since) / max(segment.modified_ms - begin, 1)


def _removed(examined: Examination, found: PartitionSurvey) -> float:
    """Return the bytes that retention removes within a day."""
    if examined.opened is None or len(found.segments) < 2:
        return 0.0
    directory = examined.opened.directory_of(found.partition)
    config = directory.config_of(found.partition.topic)
    if not config.is_deleted or not directory.knows_policy(found.partition.topic):
        return 0.0
    removed, left = 0, found.bytes
    for segment in found.segments[:-1]:
        latest = segment.latest[0] if segment.latest is not None else segment.modified_ms
        is_old = 0 <= config.retention_ms < examined.now_ms + DAY_MS - latest
        is_beyond = 0 <= config.retention_bytes <= left - segment.size
        if not (is_old or is_beyond):
            break
        removed, left = removed + segment.size, left - segment.size
    return float(removed)


def full_disks(examined: Examination) -> Iterator[Diagnosis]:
    """Yield disks that are full, or will be within three days."""
    disks, topics = _disks(examined)
    largest = sorted(topics.items(), key=lambda item: -item[1].written)[:3]
    what = ", ".join(f"{topic} {size(growth.written)}" for topic, growth in largest if growth.written >= 1)
    for disk in disks:
        evidence = f"{size(disk.free)} of {size(disk.total)} are free; {size(disk.growth.written)} written in a day"
        evidence += f" ({what})" * bool(what) + f", {size(disk.growth.removed)} removed by retention in the next"
        remedy = (
            f"offsetfs clean --dry-run {shlex.quote(disk.path)} shows what retention frees; kafka-configs.sh "
            f"--bootstrap-server HOST:9092 --alter --topic {largest[0][0] if largest else 'TOPIC'} --add-config "
            "retention.ms=…"
        )
        if disk.free < FULL_BYTES:
            consequence = "appends fail, and the broker takes the directory offline, or ends if it has no other"
            remedy = f"remove some megabytes of other files, which a recovery needs; {remedy}"
            yield Diagnosis(Severity.DAMAGE, "disk-full", disk.path, evidence, consequence, remedy)
        elif disk.full_in_s is not None and disk.full_in_s < WARNED_S:
            consequence = f"it is full in {duration(disk.full_in_s)} at this rate; then appends fail"
            yield Diagnosis(Severity.WARNING, "disk-fills", disk.path, evidence, consequence, remedy)


def tables(examined: Examination) -> Iterator[Table]:
    """Yield the disks, and the topics that grow most."""
    disks, topics = _disks(examined)
    rows = [
        (
            disk.path,
            disk.total,
            disk.free,
            disk.growth.bytes,
            round(disk.growth.written),
            round(disk.growth.removed),
            disk.full_in_s,
        )
        for disk in disks
    ]
    yield Table("disks", "Disks", COLUMNS, rows)
    growing = sorted(
        (
            (topic, growth.bytes, round(growth.written), round(growth.removed))
            for topic, growth in topics.items()
            if growth.written
        ),
        key=lambda row: (-row[2], -row[1], row[0]),
    )
    yield Table("topics", "Topics that grow", GROWTH_COLUMNS, growing, shown_max=5)
