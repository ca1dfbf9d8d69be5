"""Checks of what deletions, moves between disks, compactions and crashes left behind."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterator

from offsetfs.answers.doctor.examination import Examination
from offsetfs.answers.doctor.survey import DirectorySurvey, PartitionSurvey
from offsetfs.answers.report import Diagnosis, Severity
from offsetfs.common.formatting import duration, size
from offsetfs.storage import TopicPartition, files
from offsetfs.storage.errors import counted

_DELETION_MS_MAX = 3_600_000
"""A broker removes a deleted partition after `file.delete.delay.ms`, one minute by default."""
_ENDINGS = (".deleted", ".cleaned", ".swap", ".tmp")


def set_aside_directories(examined: Examination) -> Iterator[Diagnosis]:
    """Yield the directories of deletions, moves and strays."""
    for directory in examined.surveys:
        for name in directory.directories:
            path = os.path.join(directory.path, name)
            try:
                # The status change time: renaming a directory leaves its modification time as it was.
                log_bytes, age_ms = _log_bytes(path), examined.now_ms - files.status(path).st_ctime_ns // 1_000_000
            except FileNotFoundError:
                continue  # removed meanwhile
            evidence = f"{size(log_bytes)} of records, last changed {duration(max(age_ms, 0) / 1000)} ago"
            if name.endswith("-stray"):
                yield _stray(path, evidence)
            elif name.endswith("-future"):
                yield _future(directory, path, name, evidence)
            elif name.endswith("-delete") and not (directory.is_live and age_ms < _DELETION_MS_MAX):
                yield _deleted(directory, path, evidence)


def _log_bytes(path: str) -> int:
    return sum(files.status(os.path.join(path, name)).st_size for name in files.names(path) if name.endswith(".log"))


def _stray(path: str, evidence: str) -> Diagnosis:
    consequence = "a broker set it aside, because its metadata log did not have this topic or id; nothing reads it"
    remedy = f"if the records are not needed: rm -r {shlex.quote(path)}"
    return Diagnosis(Severity.WARNING, "set-aside", path, evidence, consequence, remedy)


def _future(directory: DirectorySurvey, path: str, name: str, evidence: str) -> Diagnosis:
    state = "a move between log directories goes on" if directory.is_live else "a move between log directories stopped"
    consequence = f"{state}; the broker continues it, and the copy takes this space meanwhile"
    partition = TopicPartition.parse_or_none(name.rpartition(".")[0])
    remedy = (
        f"kafka-log-dirs.sh --bootstrap-server HOST:9092 --describe --topic-list {partition.topic}"
        if partition is not None
        else ""
    )
    return Diagnosis(Severity.NOTICE, "future", path, evidence, consequence, remedy)


def _deleted(directory: DirectorySurvey, path: str, evidence: str) -> Diagnosis:
    if directory.is_live:
        consequence = "the broker should have removed it after a minute; the space is not freed"
        return Diagnosis(Severity.WARNING, "deletion", path, evidence, consequence, f"rm -r {shlex.quote(path)}")
    consequence = "the next start removes it; until then the records are there"
    return Diagnosis(Severity.NOTICE, "deletion", path, evidence, consequence)


def left_files(examined: Examination) -> Iterator[Diagnosis]:
    """Yield partitions with files of an interrupted compaction, deletion or write. A broker has such files, too.

    A broker that stops in order leaves `.deleted` segments whose `file.delete.delay.ms` has not passed.
    """
    for found in examined.partitions():
        endings = Counter(ending for name in found.names for ending in _ENDINGS if name.endswith(ending))
        if found.directory.is_clean:
            del endings[".deleted"]
        if endings and not found.directory.is_live:
            yield _left(found, endings)


def _left(found: PartitionSurvey, endings: Counter[str]) -> Diagnosis:
    evidence = ", ".join(f"{counted(count, f'{ending} file')}" for ending, count in sorted(endings.items()))
    consequence = "the next start removes them, or finishes what was interrupted"
    remedy = f"offsetfs repair {shlex.quote(found.directory.path)} shows what it removes"
    return Diagnosis(Severity.NOTICE, "left-over", str(found.partition), evidence, consequence, remedy)
