"""What retention and compaction would do now: the plan of `offsetfs clean --dry-run`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from offsetfs.storage import LogDirectories, TopicPartition
from offsetfs.storage.errors import StorageError, sentence
from offsetfs.storage.maintenance import PlannedTask, plan_maintenance


@dataclass(slots=True)
class DueTasks:
    """The tasks that are due, and the topics of which that is not known."""

    tasks: list[PlannedTask] = field(default_factory=list)
    unknown_topics: set[str] = field(default_factory=set)
    """Topics of a broker whose settings are elsewhere."""
    failures: dict[TopicPartition, str] = field(default_factory=dict)


def due_tasks(directory: LogDirectories, partitions: Collection[TopicPartition]) -> DueTasks:
    """Return what is due for the partitions; nothing is changed."""
    due = DueTasks()
    for partition in partitions:
        try:
            holder = directory.directory_of(partition)
            if not holder.knows_policy(partition.topic):
                due.unknown_topics.add(partition.topic)
            due.tasks += plan_maintenance(holder, [partition])
        except (StorageError, OSError) as error:
            due.failures[partition] = sentence(error)
    return due
