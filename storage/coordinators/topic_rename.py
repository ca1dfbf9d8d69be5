"""Renames a topic of a log directory: its partitions, checkpoints, settings and committed offsets.

    1. journal             `.offsetfs-rename.json` has both names
    2. copies              settings, checkpoint entries and commits of the old name, also under the new one
    3. directories         each partition is renamed; the topic id in it stays
    4. removal             commits, checkpoint entries and settings of the old name, then the journal

A crash leaves each partition complete under one of the names, with its settings and checkpoints; the next call with the
same names goes on. ACLs keep the old name, as do archives, mirrors and tables elsewhere.

The directories of Kafka brokers and mirrors are refused, because their clusters name the topic.
"""

from __future__ import annotations

import json
import os

from offsetfs.storage import files
from offsetfs.storage.coordinators.consumer_groups import ConsumerGroups
from offsetfs.storage.coordinators.offsets_topic import copy_commits, delete_commits
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import InvalidCheckpoint, PartitionExists, PolicyViolation, UnknownPartition
from offsetfs.storage.names import INTERNAL_TOPICS, METADATA_TOPIC, TopicPartition, check_topic

RENAME_JOURNAL = ".offsetfs-rename.json"
_VERSION = 0


def rename_topic(directory: LogDirectory, groups: ConsumerGroups, old: str, new: str) -> int:
    """Rename the topic `old`; durable on return. Return the number of its partitions.

    No log of the topic may be open. `groups` are those of the directory. Raises `InvalidName`, `UnknownPartition`,
    `PartitionExists`, `PolicyViolation` for topics that keep their names, `InvalidCheckpoint` for a damaged journal,
    OSError. After an error the next call with the same names goes on.
    """
    check_topic(new)
    if _begun(directory) != (old, new):
        _check(directory, old, new)
        # Entries of a deleted topic of the new name: they must not survive a crash behind the journal.
        directory.forget_topic([TopicPartition(new, partition.partition) for partition in directory.partitions_of(old)])
        journal = {"version": _VERSION, "from": old, "to": new}
        files.replace_file(_journal(directory), json.dumps(journal).encode() + b"\n")
    numbers = {partition.partition for topic in (old, new) for partition in directory.partitions_of(topic)}
    names = {TopicPartition(old, number): TopicPartition(new, number) for number in sorted(numbers)}
    settings = directory.settings_of(old)
    if settings:
        directory.configure(new, settings)
    directory.copy_checkpoints(names)
    copy_commits(directory, groups, names)
    directory.rename_partitions({before: after for before, after in names.items() if directory.has(before)})
    delete_commits(directory, groups, list(names))
    directory.forget_topic(names)
    files.remove_file(_journal(directory))
    files.sync_directory(directory.path)
    return len(names)


def _check(directory: LogDirectory, old: str, new: str) -> None:
    """Raise the error for a topic that cannot be renamed, before anything is changed."""
    begun = _begun(directory)
    if begun is not None:
        raise PolicyViolation(
            f"a rename of {begun[0]} to {begun[1]} was interrupted; finish it with `offsetfs rename` first"
        )
    for topic in (old, new):
        if topic in INTERNAL_TOPICS or topic == METADATA_TOPIC:
            raise PolicyViolation(f"{topic} is a topic of the broker itself, whose name is fixed")
    if directory.is_brokers:
        raise PolicyViolation("a Kafka broker used the directory, and its cluster knows the topic by its name")
    if directory.mirrors(old):
        raise PolicyViolation(f"{old} is mirrored, and continues under the name that it has at its source")
    partitions = directory.partitions_of(old)
    if not partitions:
        raise UnknownPartition(f"no topic {old}", path=directory.path)
    if directory.partitions_of(new) or directory.settings_of(new):
        raise PartitionExists(f"the topic {new} exists already", path=directory.path)
    for partition in partitions:
        with directory.borrowed(partition) as log:
            if next(iter(log.transactions.open()), None) is not None:
                raise PolicyViolation(f"{partition} has an open transaction, whose end names the topic")


def _journal(directory: LogDirectory) -> str:
    return os.path.join(directory.path, RENAME_JOURNAL)


def _begun(directory: LogDirectory) -> tuple[str, str] | None:
    """Return the names of an interrupted rename."""
    path = _journal(directory)
    try:
        content = json.loads(files.read_file(path))
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']}")
        return str(content["from"]), str(content["to"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        reason = f"unreadable ({error}); remove it, and rename the directories of the partitions that are left"
        raise InvalidCheckpoint(reason, path=path) from error
