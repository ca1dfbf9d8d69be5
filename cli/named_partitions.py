"""The partitions that the arguments of a command name: TOPIC-PARTITION for one, TOPIC for all of a topic."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.storage.errors import InvalidName
from offsetfs.storage.names import TopicPartition, check_topic

SHOWN_MAX = 5  # names in a message


def named(log_directory: str, names: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions that `names` stand for, each once, in the order given.

    `Failure` for a name that is neither a topic nor a partition of the directory, and for one that is both.
    """
    present = partitions_of(log_directory)
    found: dict[TopicPartition, None] = {}
    for name in names:
        of_topic = [partition for partition in present if partition.topic == name]
        itself = [partition for partition in present if str(partition) == name]
        if of_topic and itself:
            raise Failure(
                f"{name} is a partition and also a topic: name the topic's partitions, such as {of_topic[0]}",
                WRONG_CALL,
            )
        if not of_topic and not itself:
            raise Failure(f"{name}: {log_directory} has no such topic or partition", WRONG_CALL)
        found.update(dict.fromkeys([*of_topic, *itself]))
    return list(found)


def single(log_directory: str, name: str) -> TopicPartition:
    """Return the one partition that `name` stands for; `Failure` for a topic that has more of them."""
    found = named(log_directory, [name])
    if len(found) > 1:
        names = some([str(each) for each in found])
        raise Failure(f"{name!r} is a topic with {len(found)} partitions: name one of {names}", WRONG_CALL)
    return found[0]


def some(names: Sequence[str]) -> str:
    """Return the first of `names`, for a message."""
    return ", ".join(names[:SHOWN_MAX]) + (", …" if len(names) > SHOWN_MAX else "")


def partitions_of(log_directory: str) -> Sequence[TopicPartition]:
    """Return the partitions that the directory has by its names, sorted."""
    return sorted(filter(None, map(parsed, os.listdir(log_directory))))


def parsed(name: str) -> TopicPartition | None:
    """Return the partition that a directory of this name would be; None when it is no such name."""
    try:
        partition = TopicPartition.parse(name)
        check_topic(partition.topic)
    except InvalidName:
        return None
    return partition
