"""`verify`: what `offsetfs verify` finds, in all cores; one large partition is the work of many as well.

    driver   what lies beside the partitions; plans
    tasks    small partitions, some a task; of large ones stretches of logs: checksums, what is inside of batches
    tasks    a large partition each (one alone: the driver): its batches in their order, by what is known of the
             stretches; indexes, snapshots

The checks are the engine's, the findings as well (`storage.verify.segment_inspection` says why they are the same). What
runs through all batches of a partition (offsets, sequences and transactions of producers, epochs, indexes) is told by
one task, from headers. Logs of formats before v2 are not cut.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from offsetfs.pipeline.jobs.workers import Answer, check_sight, spread
from offsetfs.storage import TopicPartition, files
from offsetfs.storage.names import parse_segment_name, segment_name
from offsetfs.storage.verify.finding import DAMAGE, Finding
from offsetfs.storage.verify.partition_context import VerificationCounts
from offsetfs.storage.verify.segment_inspection import InspectedChunk, SegmentInspection, chunk_starts, inspect_chunk
from offsetfs.storage.verify.verify import Verification

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_BYTES = 128 << 20
"""About how many bytes of logs a task looks into. A partition that has more is cut."""


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What was found, sorted by path and position, and what was looked at."""

    findings: tuple[Finding, ...]
    tally: VerificationCounts

    @property
    def damage(self) -> int:
        return sum(each.severity == DAMAGE for each in self.findings)


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
    path = os.path.abspath(source)
    wanted = [TopicPartition.parse(name) for name in partitions] or None
    findings: list[Finding] = []
    outside = Verification(path, wanted, report=findings.append)
    names = [str(each) for each in outside.partitions]
    outside.run(into_partitions=False)
    check_sight(spark, path)
    pieces = [piece for name in names for piece in _pieces(path, name)]
    answers = spread(spark, functools.partial(_look, path), _packed(pieces))
    large = _stretches(answer for answers_of_task in answers for answer in answers_of_task["stretches"])
    put_together = functools.partial(_verify_large, path)
    if len(large) == 1:  # milliseconds for some gigabytes, where a job of Spark's costs a tenth of a second
        answers += map(put_together, large.items())
    else:
        answers += spread(spark, put_together, list(large.items()))
    for answer in answers:
        findings += [Finding(**fields) for fields in answer["findings"]]
    once = dict.fromkeys(findings)  # each task reads the checkpoints, and tells of one that is damaged
    ordered = sorted(once, key=lambda each: (each.path, each.position or 0))
    return VerifyResult(
        tuple(ordered), sum((VerificationCounts(**answer["tally"]) for answer in answers), VerificationCounts())
    )


def _pieces(path: str, name: str) -> list[_Piece]:
    """Cut a partition that is large. What cannot be looked at here is for a task to say."""
    directory = os.path.join(path, name)
    try:
        logs = {
            each[0]: file for file in files.names(directory) if (each := parse_segment_name(file)) and each[1] == ".log"
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
    """Put small pieces together: a task costs as much as some megabytes do."""
    packed: list[list[_Piece]] = []
    gathered = 0
    for piece in pieces:
        if not packed or gathered + piece.bytes > TASK_BYTES:
            packed.append([])
            gathered = 0
        packed[-1].append(piece)
        gathered += piece.bytes
    return packed


def _stretches(answers: Iterator[Any]) -> dict[str, dict[int, list[Any]]]:
    """Return the stretches by partition and base offset, in their order."""
    found: dict[str, dict[int, list[Any]]] = {}
    for name, base, fields in answers:
        found.setdefault(name, {}).setdefault(base, []).append(fields)
    return found


# --- in a task -------------------------------------------------------------------------------------------------------


def _look(path: str, pieces: list[_Piece]) -> Answer:
    """Verify whole partitions; look into stretches of the others."""
    whole = [TopicPartition.parse(piece.partition) for piece in pieces if piece.base is None]
    answer = _verify(path, whole, {})
    stretches = []
    for piece in pieces:
        if piece.base is not None:
            log = os.path.join(path, piece.partition, segment_name(piece.base, ".log"))
            found = inspect_chunk(log, piece.start, piece.stop)
            stretches.append((piece.partition, piece.base, None if found is None else asdict(found)))
    return {**answer, "stretches": stretches}


def _verify_large(path: str, wanted: tuple[str, dict[int, list[Any]]]) -> Answer:
    name, by_base = wanted
    joined = {
        base: SegmentInspection.of([None if fields is None else InspectedChunk(**fields) for fields in stretches])
        for base, stretches in by_base.items()
    }
    partition = TopicPartition.parse(name)
    known = {base: inspected for base, inspected in joined.items() if inspected is not None}
    return _verify(path, [partition], {partition: known})


def _verify(
    path: str, partitions: list[TopicPartition], inspected: dict[TopicPartition, dict[int, SegmentInspection]]
) -> Answer:
    findings: list[Finding] = []
    tally = Verification(path, partitions, report=findings.append, inspected=inspected).run()
    return {"findings": [each.fields() for each in findings], "tally": tally.fields()}
