"""Checks of how the last writer ended: what a recovery reads and how long it takes; checkpoints; lost records."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator

from crc32c import crc32c

from offsetfs.answers.doctor.examination import Examination
from offsetfs.answers.doctor.survey import DirectorySurvey, PartitionSurvey
from offsetfs.answers.report import Diagnosis, Severity
from offsetfs.common.formatting import duration, size
from offsetfs.storage import METADATA_TOPIC, files
from offsetfs.storage.directory import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from offsetfs.storage.errors import counted

_SAMPLE_BYTES = 32 << 20
_SAMPLE_BLOCK = 1 << 20
_CONSEQUENCES = {
    RECOVERY_POINTS: "the next start after a crash verifies all records, which may take hours",
    LOG_STARTS: "records that were deleted may come back",
    HIGH_WATERMARKS: "the broker begins with high watermarks of 0, or takes the directory offline",
    CLEANER_OFFSETS: "the broker compacts everything again",
}


def unclean_shutdowns(examined: Examination) -> Iterator[Diagnosis]:
    """Yield directories that a recovery will read at the next start, with an estimate of its time."""
    for directory in examined.surveys:
        # A broker closes no directory that holds the metadata log alone: it recovers that log at each start.
        has_records = any(found.bytes for found in directory.partitions if found.partition.topic != METADATA_TOPIC)
        if directory.is_live or directory.is_clean or not has_records:
            continue
        unverified = {found.path: _unverified(found) for found in directory.partitions}
        total = sum(unverified.values())
        seconds = total / _rate(examined, directory, unverified)
        evidence = (
            f"there is no clean shutdown file; {size(total)} in "
            f"{counted(sum(map(bool, unverified.values())), 'partition')} are in segments beyond the recovery points"
        )
        consequence = (
            f"the next start verifies them, in about {duration(round(seconds, 1))} with one thread (an estimate)"
        )
        remedy = f"offsetfs repair {shlex.quote(directory.path)} shows what it will cut"
        yield Diagnosis(Severity.NOTICE, "not-closed", directory.path, evidence, consequence, remedy)


def _unverified(found: PartitionSurvey) -> int:
    """Return the bytes that a recovery verifies: the segment with the recovery point, and those after it."""
    if found.partition.topic == METADATA_TOPIC:
        return 0
    point = found.directory.checkpoints[RECOVERY_POINTS].get(found.partition, 0)
    return sum(segment.size for segment in found.segments if segment.next_base > point)


def _rate(examined: Examination, directory: DirectorySurvey, unverified: dict[str, int]) -> float:
    """Return the bytes a second that one thread reads and verifies, measured with the largest log."""
    largest = max(directory.partitions, key=lambda found: unverified[found.path])
    path = os.path.join(largest.path, f"{largest.segments[-1].base:020}.log") if largest.segments else ""
    if examined.machine.bytes_per_second is not None:
        return examined.machine.bytes_per_second(path)
    return measured_rate(path) if path else _RATE


_RATE = 200e6
"""Bytes a second if nothing can be measured."""


def measured_rate(path: str) -> float:
    """Return the bytes a second of reading a file and computing its CRC-32C, by its first 32 MiB."""
    begun, position = time.perf_counter(), 0
    with files.open_file(path) as log:
        while position < _SAMPLE_BYTES and (block := log.read(position, _SAMPLE_BLOCK)):
            crc32c(block)
            position += len(block)
    return position / max(time.perf_counter() - begun, 1e-9) if position >= _SAMPLE_BLOCK else _RATE


def checkpoints(examined: Examination) -> Iterator[Diagnosis]:
    """Yield checkpoints that cannot be read."""
    for directory in examined.surveys:
        for name, reason in directory.checkpoint_problems.items():
            path = os.path.join(directory.path, name)
            remedy = f"with the broker stopped: mv {shlex.quote(path)} {shlex.quote(path + '.damaged')}"
            yield Diagnosis(Severity.DAMAGE, "checkpoint", path, reason, _CONSEQUENCES[name], remedy)


def lost_ends(examined: Examination) -> Iterator[Diagnosis]:
    """Yield partitions that end below what their checkpoints say was there."""
    for found in examined.partitions():
        end = found.end if found.segments else 0
        if found.directory.is_live or end is None:  # a broker writes both at different times
            continue
        for name, was in _ends_said(found):
            if was > end:
                evidence = f"{name} says {was}, and the log ends at {end}"
                consequence = f"up to {counted(was - end, 'record')} were on disk and are gone"
                remedy = f"offsetfs verify {shlex.quote(found.directory.path)} {found.partition}"
                yield Diagnosis(Severity.DAMAGE, "lost-end", str(found.partition), evidence, consequence, remedy)
                break


def _ends_said(found: PartitionSurvey) -> Iterator[tuple[str, int]]:
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS):
        offset = found.directory.checkpoints[name].get(found.partition)
        if offset is not None:
            yield name, offset
    snapshots = found.snapshots
    if found.directory.is_clean and snapshots:
        yield f"{snapshots[-1]:020}.snapshot", snapshots[-1]
