"""Checks of segments by their headers and the ends of their indexes: timestamps, positions, owners."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from offsetfs.answers.doctor.examination import Examination
from offsetfs.answers.doctor.survey import PartitionSurvey, SegmentSurvey
from offsetfs.answers.report import Diagnosis, Measure, Severity
from offsetfs.answers.value_text import value_text
from offsetfs.common.formatting import duration
from offsetfs.storage import I64_MAX, files
from offsetfs.storage.directory import LOG_STARTS
from offsetfs.storage.errors import counted

AHEAD_MS_MAX = 3_600_000
"""Kafka's `message.timestamp.after.max.ms` since 4.0: clocks of clients differ by less."""
_DAY_S = 86_400
_UNITS = {"microseconds": 1_000, "nanoseconds": 1_000_000}


def future_timestamps(examined: Examination) -> Iterator[Diagnosis]:
    """Yield partitions with segments that retention by time does not remove: their timestamps are in the future."""
    for found in examined.partitions():
        ahead = [segment for segment in found.segments if _is_ahead(examined, found, segment)]
        if ahead and _has_retention(examined, found):
            yield _ahead(examined, found, ahead)


def _is_ahead(examined: Examination, found: PartitionSurvey, segment: SegmentSurvey) -> bool:
    """Whether a segment has a timestamp in the future, and records that were not deleted by a raised log start."""
    if segment.latest is None or segment.latest[0] <= examined.now_ms + AHEAD_MS_MAX:
        return False
    end = found.end if segment.next_base == I64_MAX else segment.next_base
    return end is None or end > found.directory.checkpoints[LOG_STARTS].get(found.partition, 0)


def _has_retention(examined: Examination, found: PartitionSurvey) -> bool:
    if examined.opened is None:
        return True
    config = examined.opened.config_of(found.partition.topic)
    return config.is_deleted and config.retention_ms >= 0


def _ahead(examined: Examination, found: PartitionSurvey, ahead: list[SegmentSurvey]) -> Diagnosis:
    first = ahead[0]
    assert first.latest is not None
    timestamp, relative = first.latest
    seconds = (timestamp - examined.now_ms) / 1000
    unit = next((unit for unit, factor in _UNITS.items() if _is_near(timestamp // factor, examined.now_ms)), "")
    looks = f"; it looks like {unit}" if unit else f", {duration(seconds)} ahead"
    evidence = (
        f"segment {first.base} has timestamp {value_text(timestamp, Measure.TIME)} at offset {first.base + relative}"
        f"{looks} ({counted(len(ahead), 'such segment')} of {len(found.segments)})"
    )
    consequence = "retention by time does not remove this segment nor any after it before that time"
    topic = found.partition.topic
    remedy = (
        f"kafka-configs.sh --bootstrap-server HOST:9092 --alter --topic {topic} --add-config "
        "message.timestamp.after.max.ms=3600000; for what is there: "
        f"offsetfs delete-records {shlex.quote(found.directory.path)} {found.partition}=OFFSET"
    )
    return Diagnosis(Severity.WARNING, "future-timestamp", str(found.partition), evidence, consequence, remedy)


def _is_near(timestamp_ms: int, now_ms: int) -> bool:
    return abs(timestamp_ms - now_ms) < 10 * 365 * _DAY_S * 1000


def indexes(examined: Examination) -> Iterator[Diagnosis]:
    """Yield indexes whose last entry contradicts the log; offset indexes of the newest two segments only."""
    for found in examined.partitions():
        for segment in found.segments:
            reason = _contradiction(found, segment)
            if reason:
                name = os.path.join(found.path, f"{segment.base:020}")
                consequence = "look-ups by offset or time are slow or miss records until the index is rebuilt"
                remedy = f"with the broker stopped: offsetfs repair {shlex.quote(found.directory.path)} --yes"
                yield Diagnosis(Severity.DAMAGE, "index", f"{name}{reason[0]}", reason[1], consequence, remedy)


def _contradiction(found: PartitionSurvey, segment: SegmentSurvey) -> tuple[str, str] | None:
    """Return the ending of the index and what is wrong with it."""
    if not segment.size:
        return None
    last_relative = segment.next_base - segment.base - 1
    if segment.latest is not None and not 0 <= segment.latest[1] <= last_relative:
        return ".timeindex", f"its last entry is for offset {segment.base + segment.latest[1]}, outside of the segment"
    if segment.indexed is None:
        return None
    relative, position = segment.indexed
    if not 0 <= position < _size_now(found, segment):
        return ".index", f"its last entry is for position {position}, and the log has {segment.size} bytes"
    if not 0 <= relative <= last_relative:
        return ".index", f"its last entry is for offset {segment.base + relative}, outside of the segment"
    return None


def _size_now(found: PartitionSurvey, segment: SegmentSurvey) -> int:
    """Return the size of a log that a broker may have appended to since the survey."""
    if not found.directory.is_live:
        return segment.size
    try:
        return files.status(os.path.join(found.path, f"{segment.base:020}.log")).st_size
    except FileNotFoundError:
        return 1 << 62


def owners(examined: Examination) -> Iterator[Diagnosis]:
    """Yield directories with logs of another user than the directory itself, in which a broker cannot write."""
    for directory in examined.surveys:
        owner = files.status(directory.path).st_uid
        other = [
            found for found in directory.partitions if any(segment.owner not in (owner,) for segment in found.segments)
        ]
        if other and owner != 0:
            evidence = f"logs of {counted(len(other), 'partition')} belong to another user, first {other[0].path}"
            consequence = "the broker cannot open them for writing, and takes the directory offline"
            remedy = f"chown -R --reference={shlex.quote(directory.path)} {shlex.quote(directory.path)}"
            yield Diagnosis(Severity.DAMAGE, "owner", directory.path, evidence, consequence, remedy)
