"""`verify`: the findings of `offsetfs verify`, on all cores; several tasks share one large partition.

    driver   files beside the partitions; the plan
    tasks    small partitions, several per task; of large ones ranges of logs: checksums and the content of batches
    tasks    a large partition each (a single one: the driver): its batches in order, with the results of its ranges;
             indexes, snapshots

Checks and findings are the engine's (`storage.verify.segment_inspection` explains why they are the same). Checks that
need all batches of a partition (offsets, sequences and transactions of producers, epochs, indexes) run in one task,
from headers. Logs of formats v0 and v1 are not cut.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from offsetfs.pipeline.jobs.workers import Answer, check_visible, spread
from offsetfs.pipeline.log_directories import make_readable
from offsetfs.pipeline.read_options import location
from offsetfs.storage import TopicPartition, files
from offsetfs.storage.segments import parse_segment_name, segment_name
from offsetfs.storage.verify import (
    DAMAGE,
    Finding,
    InspectedChunk,
    SegmentInspection,
    Verification,
    VerificationCounts,
    chunk_starts,
    inspect_chunk,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_BYTES = 128 << 20
"""About how many bytes of logs a task looks into. A partition that has more is cut."""


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The findings, sorted by path and position, and the counts."""

    findings: tuple[Finding, ...]
    tally: VerificationCounts

    @property
    def damage(self) -> int:
        return sum(finding.severity == DAMAGE for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A whole partition, or the batches of one of its logs that begin in `[start, stop)`; without `stop` to the end."""

    partition: str
    bytes: int
    base: int | None = None
    start: int = 0
    stop: int | None = None


def verify(spark: SparkSession, source: str, partitions: Sequence[str] = ()) -> VerifyResult:
    """Check a log directory, or the partitions named. Raises `NotALogDirectory`, `UnknownPartition`, `JobFailed`."""
    path = location(source)
    make_readable(path)
    wanted = [TopicPartition.parse(name) for name in partitions] or None
    findings: list[Finding] = []
    outside = Verification(path, wanted, report=findings.append)
    names = [str(partition) for partition in outside.partitions]
    outside.run(into_partitions=False)
    check_visible(spark, path)
    pieces = [piece for name in names for piece in _pieces(path, name)]
    answers = spread(spark, functools.partial(_look, path), _packed(pieces))
    large = _ranges_by_log(answer for answers_of_task in answers for answer in answers_of_task["ranges"])
    put_together = functools.partial(_verify_large, path)
    if len(large) == 1:  # milliseconds for some gigabytes, where a job of Spark's costs a tenth of a second
        answers += map(put_together, large.items())
    else:
        answers += spread(spark, put_together, list(large.items()))
    for answer in answers:
        findings += [Finding(**fields) for fields in answer["findings"]]
    once = dict.fromkeys(findings)  # each task reads the checkpoints, and reports a damaged one
    ordered = sorted(once, key=lambda finding: (finding.path, finding.position or 0))
    return VerifyResult(
        tuple(ordered), sum((VerificationCounts(**answer["tally"]) for answer in answers), VerificationCounts())
    )


def _pieces(path: str, name: str) -> list[_Piece]:
    """Cut a large partition. If it cannot be read here, the task reports the error."""
    directory = os.path.join(path, name)
    try:
        logs = {
            parsed[0]: file
            for file in files.names(directory)
            if (parsed := parse_segment_name(file)) and parsed[1] == ".log"
        }
        sizes = {base: files.status(os.path.join(directory, file)).st_size for base, file in sorted(logs.items())}
    except OSError:
        return [_Piece(name, 0)]
    if sum(sizes.values()) <= TASK_BYTES:
        return [_Piece(name, sum(sizes.values()))]
    pieces = []
    for base, size in sizes.items():
        starts = chunk_starts(directory, base, size, TASK_BYTES)
        for start, stop in zip(starts, [*starts[1:], None], strict=True):
            pieces.append(_Piece(name, (size if stop is None else stop) - start, base, start, stop))
    return pieces


def _packed(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Combine small pieces, because a task costs as much as some megabytes."""
    packed: list[list[_Piece]] = []
    gathered = 0
    for piece in pieces:
        if not packed or gathered + piece.bytes > TASK_BYTES:
            packed.append([])
            gathered = 0
        packed[-1].append(piece)
        gathered += piece.bytes
    return packed


def _ranges_by_log(answers: Iterator[Any]) -> dict[str, dict[int, list[Any]]]:
    """Return the ranges by partition and base offset, in order."""
    by_log: dict[str, dict[int, list[Any]]] = {}
    for name, base, fields in answers:
        by_log.setdefault(name, {}).setdefault(base, []).append(fields)
    return by_log


# --- in a task -------------------------------------------------------------------------------------------------------


def _look(path: str, pieces: list[_Piece]) -> Answer:
    """Verify whole partitions, and inspect ranges of the others."""
    whole = [TopicPartition.parse(piece.partition) for piece in pieces if piece.base is None]
    answer = _verify(path, whole, {})
    ranges = []
    for piece in pieces:
        if piece.base is not None:
            log = os.path.join(path, piece.partition, segment_name(piece.base, ".log"))
            inspected = inspect_chunk(log, piece.start, piece.stop)
            ranges.append((piece.partition, piece.base, None if inspected is None else asdict(inspected)))
    return {**answer, "ranges": ranges}


def _verify_large(path: str, wanted: tuple[str, dict[int, list[Any]]]) -> Answer:
    name, by_base = wanted
    joined = {
        base: SegmentInspection.of([None if fields is None else InspectedChunk(**fields) for fields in ranges])
        for base, ranges in by_base.items()
    }
    partition = TopicPartition.parse(name)
    known = {base: inspected for base, inspected in joined.items() if inspected is not None}
    return _verify(path, [partition], {partition: known})


def _verify(
    path: str, partitions: list[TopicPartition], inspected: dict[TopicPartition, dict[int, SegmentInspection]]
) -> Answer:
    make_readable(path, ends={})
    findings: list[Finding] = []
    tally = Verification(path, partitions, report=findings.append, inspected=inspected).run()
    return {"findings": [asdict(finding) for finding in findings], "tally": asdict(tally)}
