"""Resolves names in arguments to partitions: TOPIC-PARTITION is one partition, TOPIC all partitions of a topic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from offsetfs.cli.exit_codes import FAILED, WRONG_CALL, Failure
from offsetfs.storage import AnyLogDirectory, TopicPartition, files

SHOWN_MAX = 5  # names in a message


def resolve_names(log_directory: str, names: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions for `names`, each once, in the given order.

    `Failure` for a name that is neither a topic nor a partition of the directory, and for a name that is both.
    """
    present = partitions_of(log_directory)
    found: dict[TopicPartition, None] = {}
    for name in names:
        of_topic = [partition for partition in present if partition.topic == name]
        itself = [partition for partition in present if str(partition) == name]
        if of_topic and itself:
            raise Failure(
                f"{name} is a partition and also a topic: give partitions of the topic, such as {of_topic[0]}",
                WRONG_CALL,
            )
        if not of_topic and not itself:
            raise Failure(f"{name}: {log_directory} has no such topic or partition", WRONG_CALL)
        found.update(dict.fromkeys([*of_topic, *itself]))
    return list(found)


def resolve_name(log_directory: str, name: str) -> TopicPartition:
    """Return the one partition for `name`; `Failure` for a topic with several partitions."""
    found = resolve_names(log_directory, [name])
    if len(found) > 1:
        names = shortened([str(each) for each in found])
        raise Failure(f"{name!r} is a topic with {len(found)} partitions: give one of {names}", WRONG_CALL)
    return found[0]


def shortened(names: Sequence[str]) -> str:
    """Return the first `SHOWN_MAX` names, separated by commas, for a message."""
    return ", ".join(names[:SHOWN_MAX]) + (", …" if len(names) > SHOWN_MAX else "")


def no_topic(directory: AnyLogDirectory, names: Iterable[str]) -> Failure:
    """Return the failure of a command whose patterns match no topic of a directory, with the nearest name."""
    import difflib
    import fnmatch

    topics = sorted({each.topic for each in directory.partitions()})
    near = [each for name in names for each in difflib.get_close_matches(name, topics, n=1)]
    globs = [name for name in names if "*" in name and fnmatch.filter(topics, name)]
    path = ",".join(each.path for each in directory.directories)
    if globs:
        pattern = re.sub(r"\.?\*", ".*", globs[0])
        return Failure(f"{path} has no topic of these names, which are regular expressions: write '{pattern}'", FAILED)
    hint = f"did you mean {near[0]}?" if near else f"offsetfs status {path} lists its topics"
    return Failure(f"{path} has no topic of these names; {hint}", FAILED)


def partitions_of(log_directory: str) -> Sequence[TopicPartition]:
    """Return the partitions of the directory, sorted, from the names of its entries; no log is opened."""
    return sorted(filter(None, map(TopicPartition.parse_or_none, files.names(log_directory))))
