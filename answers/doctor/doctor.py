"""Runs the checks of `offsetfs doctor` and returns one report."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from offsetfs.answers.doctor import (
    cleaning,
    commits,
    disks,
    identity,
    leftovers,
    segments,
    shutdown,
    topics,
    transactions,
)
from offsetfs.answers.doctor.cluster import cluster_of
from offsetfs.answers.doctor.examination import Check, Examination, MachineFigures
from offsetfs.answers.doctor.survey import DirectorySurvey, OnPartition, survey
from offsetfs.answers.report import Diagnosis, Fact, Measure, Report, Severity
from offsetfs.storage import LogDirectories, LogDirectory
from offsetfs.storage.directory import DirectoryAccess
from offsetfs.storage.errors import StorageError, sentence

CHECKS: Mapping[str, Check] = {
    "meta.properties": identity.meta_properties,
    "partitions in two directories": identity.duplicates,
    "unreadable partitions": identity.unreadable,
    "names of directories": identity.foreign_directories,
    "the metadata log": topics.metadata_log,
    "topic ids": topics.topic_ids,
    "strays": topics.strays,
    "missing partitions": topics.missing_partitions,
    "leader epochs": topics.leader_epochs,
    "deletions and moves": leftovers.set_aside_directories,
    "left-over files": leftovers.left_files,
    "the last shutdown": shutdown.unclean_shutdowns,
    "checkpoints": shutdown.checkpoints,
    "ends of logs": shutdown.lost_ends,
    "timestamps": segments.future_timestamps,
    "indexes": segments.indexes,
    "owners of files": segments.owners,
    "transactions": transactions.transactions,
    "producers": transactions.producers,
    "compaction": cleaning.uncleaned,
    "cleaner offsets": cleaning.cleaner_offsets,
    "commits of groups": commits.commits,
    "disks": disks.full_disks,
}
"""Every check, with the name under which it is reported if it fails itself."""

BLOCKS_START = frozenset({"meta-properties", "identity", "duplicate-partition", "foreign-directory", "owner"})
"""The kinds of damage with which no release of Kafka starts with all its directories."""

VERIFY = "offsetfs verify reads all bytes of the logs; this report reads headers, indexes and checkpoints"


def examine(
    paths: Sequence[str],
    now_ms: int,
    *,
    machine: MachineFigures | None = None,
    on_partition: OnPartition = lambda done, total: None,
) -> Report:
    """Return the findings of all checks over the log directories at `paths`. OSError if one cannot be listed."""
    surveys = [survey(path, on_partition) for path in paths]
    with contextlib.ExitStack() as stack:
        unseen: list[str] = []
        opened = _opened(paths, unseen)
        if opened is not None:
            stack.enter_context(contextlib.closing(opened))
        examined = Examination(surveys, opened, now_ms, cluster_of(opened), machine or MachineFigures(), unseen)
        findings = [finding for name, check in CHECKS.items() for finding in _found(name, check, examined)]
        return _report(examined, findings)


def _opened(paths: Sequence[str], unseen: list[str]) -> LogDirectories | None:
    access = DirectoryAccess(shows_log_end=True)
    try:
        return LogDirectories.open(paths, lambda path: LogDirectory.open(path, read_only=True, access=access))
    except (StorageError, OSError) as error:
        unseen.append(f"settings, groups, transactions and the metadata log: {sentence(error)}")
        return None


def _found(name: str, check: Check, examined: Examination) -> Iterator[Diagnosis]:
    """Yield the findings of a check. What it cannot read is unseen, and does not stop the others."""
    try:
        yield from check(examined)
    except (StorageError, OSError) as error:
        examined.unseen.append(f"{name}: {sentence(error)}")


def _report(examined: Examination, findings: Sequence[Diagnosis]) -> Report:
    worst = [finding for finding in findings if finding.severity is not Severity.NOTICE]
    notes = [] if worst else ["nothing is wrong with what was looked at"]
    return Report(
        "doctor",
        ", ".join(directory.path for directory in examined.surveys),
        facts=_facts(examined.surveys, findings),
        tables=[*disks.tables(examined), cleaning.table(examined)],
        findings=findings,
        unseen=examined.unseen,
        notes=[*notes, VERIFY, disks.NOTE],
    )


def _facts(surveys: Sequence[DirectorySurvey], findings: Sequence[Diagnosis]) -> list[Fact]:
    blocks = {finding.kind for finding in findings if finding.severity is Severity.DAMAGE} & BLOCKS_START
    writers = sorted({directory.writer for directory in surveys if directory.writer is not None})
    partitions = [found for directory in surveys for found in directory.partitions]
    return [
        Fact("directories", "log directories", len(surveys), Measure.COUNT),
        Fact("partitions", "partitions", len(partitions), Measure.COUNT),
        Fact("segments", "segments", sum(len(found.segments) for found in partitions), Measure.COUNT),
        Fact("log_bytes", "records", sum(directory.bytes for directory in surveys), Measure.BYTES),
        Fact("writer", "written by process", ", ".join(map(str, writers)) or "none"),
        Fact("closed_cleanly", "closed cleanly", None if writers else all(directory.is_clean for directory in surveys)),
        Fact("starts", "a broker starts", not blocks),
    ]
