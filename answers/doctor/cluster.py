"""The metadata log of the cluster, as the checks of `doctor` use it."""

from __future__ import annotations

from dataclasses import dataclass

from offsetfs.storage import LogDirectories, TopicPartition


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What the metadata log says: topic ids by name, and replicas, directories and leader epoch of each partition."""

    topic_ids: dict[str, bytes]
    replicas: dict[TopicPartition, tuple[int, ...]]
    leader_epochs: dict[TopicPartition, int]
    directory_ids: dict[TopicPartition, tuple[bytes, ...]]


def cluster_of(opened: LogDirectories | None) -> ClusterFacts | None:
    """Return what the metadata log beside the data says; None without one, or if it cannot be read to its end."""
    for directory in opened.directories if opened is not None else ():
        if directory.metadata is None:
            continue
        image = directory.metadata.refresh()
        if directory.metadata.problem is not None:
            return None
        placed = dict(image.partitions())
        return ClusterFacts(
            dict(image.topic_ids),
            {partition: place.replicas for partition, place in placed.items()},
            {partition: place.leader_epoch for partition, place in placed.items()},
            {partition: place.directories for partition, place in placed.items()},
        )
    return None
