"""The states of an archive: for each partition, the times at which a run of `offsetfs archive` has changed it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from offsetfs.archive.manifest import PartitionManifest
from offsetfs.archive.numbered_documents import NumberedDocuments
from offsetfs.archive.object_store import ObjectStore
from offsetfs.storage import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionStates:
    """The states of one partition: how many there are, and the times of the oldest and of the newest ones, in ms."""

    partition: TopicPartition
    count: int
    oldest_ms: int | None
    newest_ms: tuple[int, ...]
    """Rising, without the oldest state."""


def states_of(store: ObjectStore, takes: Callable[[str], bool], newest_max: int) -> Iterator[PartitionStates]:
    """Yield the states of the partitions of the topics that `takes` takes, sorted. One request for each state shown.

    OSError of the store. A state that an expiry deletes meanwhile is left out.
    """
    named = (TopicPartition.parse_or_none(name) for name in store.children())
    for partition in sorted(partition for partition in named if partition is not None and takes(partition.topic)):
        documents = NumberedDocuments(store, str(partition))
        numbers = documents.numbers()
        times = [_time_ms(documents, partition, number) for number in numbers[1:][-newest_max:]]
        oldest_ms = _time_ms(documents, partition, numbers[0]) if numbers else None
        yield PartitionStates(
            partition, len(numbers), oldest_ms, tuple(time_ms for time_ms in times if time_ms is not None)
        )


def _time_ms(documents: NumberedDocuments, partition: TopicPartition, number: int) -> int | None:
    document = documents.at(number)
    if document is None:
        return None
    return PartitionManifest.decoded(document.content, f"{documents.store.url}/{partition}", partition).time_ms
