"""Resets of a consumer group in a running cluster: a plan of its offsets, or the plan of a directory, checked there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from offsetfs.answers.group_reset import PlannedCommit, ResetPlan, no_place
from offsetfs.answers.report import Diagnosis
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.group_offsets import committed_offsets
from offsetfs.kafka.client.metadata import ClusterMetadata
from offsetfs.kafka.client.partition_offsets import EARLIEST, LATEST, partition_offsets
from offsetfs.storage import TopicPartition


class WrongCluster(ValueError):
    """A directory and the brokers are of different clusters; the argument names both."""


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """Where a group continues: at an offset, or at a time in milliseconds, `EARLIEST` or `LATEST`."""

    offset: int | None = None
    timestamp: int = LATEST


async def cluster_partitions(
    client: ClusterClient, group: str
) -> tuple[list[TopicPartition], dict[TopicPartition, int]]:
    """Return the partitions of a cluster, sorted, and those with commits of a group with their offsets; ClientError.

    Commits of partitions that the cluster does not have any more are left out.
    """
    present = _partitions(await client.metadata(refresh=True))
    committed = await committed_offsets(client, group)
    return sorted(present), {partition: offset for partition, offset in committed.items() if partition in present}


async def cluster_plan(
    client: ClusterClient,
    group: str,
    committed: Mapping[TopicPartition, int],
    partitions: Sequence[TopicPartition],
    place: ClusterPlace,
) -> ResetPlan:
    """Return where a group continues in `partitions`; ClientError. Places outside of a partition become its ends."""
    starts = await partition_offsets(client, partitions, EARLIEST)
    wanted = {} if place.offset is not None else await partition_offsets(client, partitions, place.timestamp)
    ends = await partition_offsets(client, partitions, LATEST)  # the last: a place is not behind it
    commits = []
    for partition in partitions:
        offset = wanted[partition] if place.offset is None else place.offset
        if offset < 0:  # no record has this time or a later one
            offset = ends[partition]
        offset = min(max(offset, starts[partition]), ends[partition])
        commits.append(PlannedCommit(partition, committed.get(partition), offset, ends[partition]))
    return ResetPlan(group, commits, [])


async def plan_for_cluster(client: ClusterClient, plan: ResetPlan, clusters: Collection[str]) -> ResetPlan:
    """Return the plan of a directory with what the cluster has; ClientError.

    `clusters`: the ids of the clusters that the directory is of, empty where that is not known; `WrongCluster` if that
    of the brokers is another one. Partitions that the cluster does not have, or that end before the place, are missing.
    """
    metadata = await client.metadata(refresh=True)
    if clusters and metadata.cluster_id is not None and metadata.cluster_id not in clusters:
        raise WrongCluster(f"cluster {', '.join(sorted(clusters))}, and the brokers of cluster {metadata.cluster_id}")
    present = _partitions(metadata)
    shared = [commit.partition for commit in plan.commits if commit.partition in present]
    ends = await partition_offsets(client, shared, LATEST)
    committed = await committed_offsets(client, plan.group, shared)
    commits: list[PlannedCommit] = []
    missing: list[Diagnosis] = []
    for commit in plan.commits:
        end = ends.get(commit.partition)
        if end is None:
            missing.append(no_place(commit.partition, "the cluster does not have this partition"))
        elif commit.offset > end:
            missing.append(no_place(commit.partition, f"the partition ends at {end} in the cluster"))
        else:
            commits.append(replace(commit, committed=committed.get(commit.partition), end=end))
    return replace(plan, commits=commits, missing=[*plan.missing, *missing])


def _partitions(metadata: ClusterMetadata) -> set[TopicPartition]:
    return {TopicPartition(topic.name, index) for topic in metadata.topics.values() for index in topic.partitions}
