"""The partitions in which a key can be: one of each topic, if the partitioner of its producer is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from offsetfs.answers.partitioners import Partitioner
from offsetfs.storage import TopicPartition


@dataclass(frozen=True, slots=True)
class KeyPartitions:
    """The partitions to search for a key, and sentences on how they were chosen."""

    partitions: Sequence[TopicPartition]
    notes: Sequence[str]
    is_narrowed: bool
    """Whether partitions of a topic are left out: the key is there if its producer hashed it otherwise."""


def partitions_of_key(
    present: Iterable[TopicPartition], topics: Iterable[str], key: bytes, partitioner: Partitioner, count: int | None
) -> KeyPartitions:
    """Return where a key is in some topics, of which the partitions `present` are there.

    `count`: the number of partitions of a topic; None: those present, if they are numbered without gaps. Otherwise
    partitions are elsewhere, the number is not known, and all that are present are returned.
    """
    numbers: dict[str, list[int]] = {topic: [] for topic in topics}
    for partition in present:
        if partition.topic in numbers:
            numbers[partition.topic].append(partition.partition)
    chosen, notes, is_narrowed = list[TopicPartition](), list[str](), False
    for topic, there in numbers.items():
        there.sort()
        total = count or (len(there) if there == list(range(len(there))) else None)
        number = None if total is None else partitioner.partition_of(key, total)
        if total is None and partitioner != Partitioner.ANY:
            notes.append(
                f"{topic} has partitions elsewhere, so that their number is not known: all that are here are searched;"
                " --partitions N names it"
            )
        if number is None:
            chosen += [TopicPartition(topic, number) for number in there]
            continue
        is_narrowed = True
        name = TopicPartition(topic, number)
        where = f"the key is in {name}, by {partitioner} of {total} partitions"
        if number in there:
            chosen.append(name)
            notes.append(where)
        else:
            notes.append(f"{where}, which is not here: another broker has it")
    return KeyPartitions(chosen, notes, is_narrowed)
