"""Compares what directories keep beside records: settings of topics, committed offsets of groups, ACLs.

Each is compared where both sides have it: a directory without the metadata log of its cluster knows no settings, and
a broker has only the commits of the partitions that it holds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from offsetfs.answers.report import Diagnosis, Measure, Severity, Table, TableColumn, Value
from offsetfs.storage import LogDirectories, TopicPartition
from offsetfs.storage.coordinators import ConsumerGroups
from offsetfs.storage.errors import StorageError, counted, sentence

SETTINGS, GROUPS, ACLS = "settings", "groups", "acls"

_SIDES = TableColumn("a", "A"), TableColumn("b", "B")
_OFFSETS = TableColumn("a", "A", Measure.OFFSET), TableColumn("b", "B", Measure.OFFSET)
_TABLES = {
    SETTINGS: ("Settings that differ", (TableColumn("topic", "topic"), TableColumn("name", "setting"), *_SIDES)),
    GROUPS: ("Commits that differ", (TableColumn("group", "group"), TableColumn("partition", "partition"), *_OFFSETS)),
    ACLS: ("ACLs that only one side has", (TableColumn("acl", "ACL"), *_SIDES)),
}
_CONSEQUENCES = {
    SETTINGS: "retention, compaction or limits differ",
    GROUPS: "consumers of A and of B continue at other offsets",
    ACLS: "clients have other permissions",
}


def state_tables(
    a: LogDirectories,
    b: LogDirectories,
    kinds: Collection[str],
    partitions: Sequence[TopicPartition],
    unseen: list[str],
) -> list[Table]:
    """Return a table of differences for each of `kinds`, without rows where nothing differs.

    Settings and commits are those of the partitions. What cannot be read is added to `unseen`.
    """
    rows = {
        SETTINGS: lambda: _settings(a, b, sorted({partition.topic for partition in partitions})),
        GROUPS: lambda: _commits(a, b, set(partitions), unseen),
        ACLS: lambda: _acls(a, b),
    }
    tables = []
    for kind in (kind for kind in rows if kind in kinds):
        try:
            tables.append(Table(kind, *_TABLES[kind], list(rows[kind]())))
        except (StorageError, OSError) as error:
            unseen.append(f"{kind}: {sentence(error)}")
    return tables


def state_findings(tables: Sequence[Table]) -> list[Diagnosis]:
    """Return a finding for each table with rows."""
    return [
        Diagnosis(
            Severity.WARNING,
            f"{table.key}-differ",
            table.key,
            f"{counted(len(table.rows), 'difference')}, see the table",
            _CONSEQUENCES[table.key],
        )
        for table in tables
        if table.rows
    ]


def _settings(a: LogDirectories, b: LogDirectories, topics: Sequence[str]) -> Iterator[Sequence[Value]]:
    for topic in topics:
        one, other = _settings_of(a, topic), _settings_of(b, topic)
        for name in sorted(one.keys() | other.keys()) if one and other else ():
            if one.get(name) != other.get(name):
                yield topic, name, one.get(name), other.get(name)


def _settings_of(directory: LogDirectories, topic: str) -> Mapping[str, str]:
    """Return what is set for a topic; of a mirrored one, in its cluster: here it keeps its records."""
    for holder in directory.directories:
        if holder.mirror is not None and topic in holder.mirror.topics:
            return holder.mirror.topics[topic].settings
    return directory.explicit_settings_of(topic)


def _commits(
    a: LogDirectories, b: LogDirectories, partitions: Collection[TopicPartition], unseen: list[str]
) -> Iterator[Sequence[Value]]:
    one, other = (_committed(directory, partitions, unseen) for directory in (a, b))
    for group in sorted(one.keys() & other.keys()):
        for partition in sorted(one[group].keys() | other[group].keys()):
            offsets = one[group].get(partition), other[group].get(partition)
            if offsets[0] != offsets[1]:
                yield group.decode(errors="backslashreplace"), str(partition), *offsets


def _committed(
    directory: LogDirectories, partitions: Collection[TopicPartition], unseen: list[str]
) -> dict[bytes, dict[TopicPartition, int]]:
    groups = ConsumerGroups(directory, unseen.append)
    while not groups.refresh():
        pass
    return {
        group: {
            commit.partition: commit.offset for commit in groups.commits(group) or () if commit.partition in partitions
        }
        for group in groups.names()
    }


def _acls(a: LogDirectories, b: LogDirectories) -> Iterator[Sequence[Value]]:
    one, other = (set(_acl_texts(directory)) for directory in (a, b))
    for text in sorted(one ^ other) if one and other else ():
        yield text, text in one, text in other


def _acl_texts(directory: LogDirectories) -> Iterator[str]:
    for holder in directory.directories:
        for acl in holder.security.image.acls.values():
            yield " ".join(f"{name}={value}" for name, value in dataclasses.asdict(acl).items())
