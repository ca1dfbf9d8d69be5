"""Resolves names in arguments to partitions: TOPIC-PARTITION is one partition, TOPIC all partitions of a topic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from offsetfs.cli.arguments.archives import is_archive
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.storage import TopicPartition, files

SHOWN_MAX = 5  # names in a message
NAME_LENGTH_MAX = 255  # limits the time of difflib, which is quadratic


def resolve_names(log_directory: str, names: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions for `names`, each once, in the given order.

    `Failure` for a name that is neither a topic nor a partition of the directory, and for a name that is both.
    """
    return resolve_among(log_directory, partitions_of(log_directory), names)


def resolve_among(log_directory: str, present: Sequence[TopicPartition], names: Iterable[str]) -> list[TopicPartition]:
    """Return what `resolve_names` returns, for a source with the partitions `present`."""
    partitions: dict[TopicPartition, None] = {}
    for name in names:
        of_topic = [partition for partition in present if partition.topic == name]
        itself = [partition for partition in present if str(partition) == name]
        if of_topic and itself:
            raise Failure(
                f"{name} is a partition and also a topic: give partitions of the topic, such as {of_topic[0]}",
                WRONG_CALL,
            )
        if not of_topic and not itself:
            raise Failure(f"{name}: {no_such([log_directory], name, present)}", WRONG_CALL)
        partitions.update(dict.fromkeys([*of_topic, *itself]))
    return list(partitions)


def resolve_name(log_directory: str, name: str) -> TopicPartition:
    """Return the one partition for `name`; `Failure` for a topic with several partitions."""
    partitions = resolve_names(log_directory, [name])
    if len(partitions) > 1:
        names = shortened([str(partition) for partition in partitions])
        raise Failure(f"{name!r} is a topic with {len(partitions)} partitions: give one of {names}", WRONG_CALL)
    return partitions[0]


def shortened(names: Sequence[str]) -> str:
    """Return the first `SHOWN_MAX` names, separated by commas, for a message."""
    return ", ".join(names[:SHOWN_MAX]) + (", …" if len(names) > SHOWN_MAX else "")


def no_such(directories: Sequence[str], name: str, present: Iterable[TopicPartition], *, is_topic: bool = False) -> str:
    """Return the reason why `name` is not found in the directories, with the nearest name of those `present`.

    `is_topic`: whether the name can only be that of a topic.
    """
    import difflib

    numbers: dict[str, list[int]] = {}
    for known in present:
        numbers.setdefault(known.topic, []).append(known.partition)
    what = "topic" if is_topic else "topic or partition"
    reason = f"{','.join(directories)} has no such {what}"
    partition = None if is_topic else TopicPartition.parse_or_none(name)
    topic = name if partition is None else partition.topic
    if partition is not None and topic in numbers:
        return f"{reason}; {topic} has {_listed(topic, numbers[topic])}"
    near = difflib.get_close_matches(topic[:NAME_LENGTH_MAX], numbers, n=1)
    if not near and partition is not None:  # a topic whose name ends like that of a partition
        near = difflib.get_close_matches(name[:NAME_LENGTH_MAX], numbers, n=1)
        partition = None
    if not near:
        return reason
    is_there = partition is not None and partition.partition in numbers[near[0]]
    return f"{reason}; did you mean {f'{near[0]}-{partition.partition}' if partition and is_there else near[0]}?"


def _listed(topic: str, numbers: Sequence[int]) -> str:
    first, last = min(numbers), max(numbers)
    if len(numbers) == 1:
        return f"only {topic}-{first}"
    if last - first + 1 == len(numbers):
        return f"partitions {first} to {last}"
    return f"partitions {shortened([str(number) for number in sorted(numbers)])}"


def no_topic(path: str, present: Iterable[TopicPartition], names: Iterable[str]) -> Failure:
    """Return the failure of a command whose patterns match no topic, with the nearest name of those `present`.

    `path`: a log directory, or the URL of an archive.
    """
    import difflib
    import fnmatch

    topics = sorted({partition.topic for partition in present})
    near = [topic for name in names for topic in difflib.get_close_matches(name[:NAME_LENGTH_MAX], topics, n=1)]
    globs = [name for name in names if "*" in name and fnmatch.filter(topics, name)]
    reason = f"{path} has no topic of these names"
    if globs:
        pattern = re.sub(r"\.?\*", ".*", globs[0])
        return Failure(f"{reason}, which are regular expressions: write '{pattern}'", WRONG_CALL)
    lists = "archive --list" if is_archive(path) else "status"
    hint = f"did you mean {near[0]}?" if near else f"offsetfs {lists} {path} lists its topics"
    return Failure(f"{reason}; {hint}", WRONG_CALL)


def partitions_of(log_directory: str) -> Sequence[TopicPartition]:
    """Return the partitions of the directory, sorted, from the names of its entries; no log is opened."""
    return sorted(filter(None, map(TopicPartition.parse_or_none, files.names(log_directory))))
