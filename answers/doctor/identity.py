"""Checks of what a broker reads first: meta.properties, the names of directories, each partition in one place."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Iterator

from offsetfs.answers.doctor.examination import Examination
from offsetfs.answers.doctor.survey import DirectorySurvey, PartitionSurvey
from offsetfs.answers.report import Diagnosis, Severity
from offsetfs.common.formatting import size
from offsetfs.storage import TopicPartition
from offsetfs.storage.directory import META_PROPERTIES, check_meta_properties, read_properties
from offsetfs.storage.errors import InvalidCheckpoint

_SET_ASIDE = ("-delete", "-future", "-stray")
_KAFKAS_OWN = ("remote-log-index-cache",)
_NO_START = "the broker does not start"

_SHARED = {
    "cluster.id": "the directories are of different clusters",
    "node.id": "the directories are of different brokers",
    "broker.id": "the directories are of different brokers",
}


def meta_properties(examined: Examination) -> Iterator[Diagnosis]:
    """Yield files that a broker does not accept, and contradictions between directories."""
    properties: dict[str, dict[str, str]] = {}
    for directory in examined.surveys:
        path = os.path.join(directory.path, META_PROPERTIES)
        try:
            check_meta_properties(path)
            properties[directory.path] = read_properties(path) or {}
        except InvalidCheckpoint as error:
            remedy = (
                "restore the file from a backup; another log directory of this broker has the same cluster and node id"
            )
            yield Diagnosis(Severity.DAMAGE, "meta-properties", path, error.reason, _NO_START, remedy)
    yield from _unformatted(properties)
    yield from _contradictions(properties)


def _unformatted(properties: dict[str, dict[str, str]]) -> Iterator[Diagnosis]:
    """Yield directories without the file, beside those of a KRaft broker."""
    formatted = next((path for path, mine in properties.items() if mine.get("version") == "1"), None)
    for path, mine in properties.items():
        if formatted is not None and not mine:
            place = os.path.join(path, META_PROPERTIES)
            cluster = properties[formatted]["cluster.id"]
            evidence = f"there is no such file, and {formatted} has one of cluster {cluster}"
            remedy = (
                "if the disk is mounted: kafka-storage.sh format --ignore-formatted --cluster-id "
                f"{shlex.quote(cluster)} --config SERVER_PROPERTIES"
            )
            yield Diagnosis(Severity.DAMAGE, "meta-properties", place, evidence, _NO_START, remedy)


def _contradictions(properties: dict[str, dict[str, str]]) -> Iterator[Diagnosis]:
    for name, meaning in _SHARED.items():
        values = {path: mine[name] for path, mine in properties.items() if name in mine}
        if len(set(values.values())) > 1:
            evidence = ", ".join(f"{name}={value} in {path}" for path, value in values.items())
            remedy = "give only the directories of one broker, as its log.dirs has them"
            yield Diagnosis(Severity.DAMAGE, "identity", META_PROPERTIES, evidence, f"{meaning}: {_NO_START}", remedy)
    holders: dict[str, list[str]] = defaultdict(list)
    for path, mine in properties.items():
        if mine.get("directory.id"):
            holders[mine["directory.id"]].append(path)
    for directory_id, paths in holders.items():
        if len(paths) > 1:
            evidence = f"directory.id={directory_id} in {' and '.join(paths)}"
            consequence = f"one is a copy of the other: {_NO_START}"
            yield Diagnosis(Severity.DAMAGE, "identity", META_PROPERTIES, evidence, consequence, "remove the copy")


def duplicates(examined: Examination) -> Iterator[Diagnosis]:
    """Yield each partition that is in two directories."""
    first: dict[TopicPartition, PartitionSurvey] = {}
    for found in examined.partitions():
        other = first.setdefault(found.partition, found)
        if other is not found:
            evidence = f"{_held(other)}; {_held(found)}"
            shorter = min((other, found), key=lambda held: (held.end or 0, held.bytes))
            remedy = f"with the broker stopped, keep a copy of the shorter one and remove it: {_moved(shorter)}"
            yield Diagnosis(Severity.DAMAGE, "duplicate-partition", str(found.partition), evidence, _NO_START, remedy)


def _held(found: PartitionSurvey) -> str:
    end = "an unknown offset" if found.end is None else str(found.end)
    return f"{found.path} ends at {end}, {size(found.bytes)}"


def _moved(found: PartitionSurvey) -> str:
    return f"mv {shlex.quote(found.path)} DIRECTORY_ELSEWHERE"


def unreadable(examined: Examination) -> Iterator[Diagnosis]:
    """Yield partitions with files that cannot be read. The other checks leave them out."""
    for directory in examined.surveys:
        for partition, reason in directory.unreadable.items():
            consequence = (
                "a broker cannot read it either, and takes the directory offline; nothing else of it was checked"
            )
            remedy = f"ls -la {shlex.quote(os.path.join(directory.path, str(partition)))}; dmesg names errors of a disk"
            yield Diagnosis(Severity.DAMAGE, "cannot-read", str(partition), reason, consequence, remedy)


def foreign_directories(examined: Examination) -> Iterator[Diagnosis]:
    """Yield directories whose name is not that of a partition, over which a broker does not start."""
    for directory in examined.surveys:
        for name in directory.directories:
            if not name.endswith(_SET_ASIDE) and name not in _KAFKAS_OWN:
                yield _foreign(directory, name)


def _foreign(directory: DirectorySurvey, name: str) -> Diagnosis:
    is_brokers = META_PROPERTIES in directory.names
    path = os.path.join(directory.path, name)
    who = _NO_START if is_brokers else "a broker that gets this directory does not start"
    consequence = f"{who}, because the name is not TOPIC-PARTITION"
    remedy = f"mv {shlex.quote(path)} DIRECTORY_ELSEWHERE"
    if name == "lost+found":
        remedy = "use a subdirectory of the file system as log directory, or remove lost+found"
    severity = Severity.DAMAGE if is_brokers else Severity.NOTICE
    return Diagnosis(severity, "foreign-directory", path, "is a directory, and no partition", consequence, remedy)
