"""The restore of a log directory into a cluster: checks, topics, records, groups.

Nothing is changed before all checks have passed. A partition that fails does not stop the others; the result says how
far each one came. Offsets of groups are committed for partitions that are complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from offsetfs.common.name_patterns import NamePattern
from offsetfs.common.rate_limit import RateLimit
from offsetfs.kafka.client.cluster import ClusterClient, repeated
from offsetfs.kafka.client.errors import ClientError, check_code
from offsetfs.kafka.client.partition_offsets import LATEST, partition_offsets
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.restore.group_plan import GroupPlan, check_groups, commit, groups_of
from offsetfs.kafka.restore.limits import LimitCheck, limits_of
from offsetfs.kafka.restore.partition_target import OffsetTranslation, PartitionTarget
from offsetfs.kafka.restore.producing import PartitionProducing, PartitionSource
from offsetfs.kafka.restore.topic_plan import (
    RestoreRefused,
    TopicPlan,
    compare,
    complete,
    create,
    delete,
    topics_of,
    without_refused_settings,
)
from offsetfs.storage import Log, LogDirectory, LogView, TopicPartition
from offsetfs.storage.errors import StorageError, sentence
from offsetfs.storage.records import BatchProducer

OnProgress = Callable[[int, int], None]
"""Called with the bytes that are restored, and all of them."""

_STRICT = "nothing was changed; leave these settings out (-o NAME=), or all that are refused, without --strict-settings"


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The options of a restore."""

    topics: Sequence[NamePattern] = ()
    """Names match as a whole; without patterns all topics but Kafka's own."""
    groups: Sequence[NamePattern] = ()
    from_timestamp: int | None = None
    """Begin with the first record of this time or later, in milliseconds."""
    to_timestamp: int | None = None
    """End before the first record of this time or later."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Topic settings over those of the directory; an empty value removes one."""
    replication_factor: int | None = None
    into_existing: bool = False
    bytes_per_second: int = 0
    """At most; 0: no limit."""
    strict_settings: bool = False
    """Whether a setting that the cluster does not know or refuses ends the restore, and is not left out."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """The progress of a partition."""

    partition: TopicPartition
    records: int
    bytes: int
    last_offset: int | None
    """The source offset of the last restored record."""
    end_offset: int
    """The end of the partition in the cluster."""
    error: Exception | None


@dataclass(frozen=True, slots=True)
class RestoredGroup:
    """A group, and how many of its offsets were committed."""

    name: str
    offsets: int
    error: Exception | None


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore; with `dry_run`, of the restore that would follow."""

    topics: Sequence[TopicPlan]
    partitions: Sequence[RestoredPartition]
    groups: Sequence[RestoredGroup]
    bytes_total: int
    problems: Sequence[str] = ()
    """A sentence for each step that was left out, or with `dry_run` would be."""


async def restore(
    client: ClusterClient,
    directory: LogDirectory,
    options: RestoreOptions,
    *,
    on_progress: OnProgress,
    on_omission: Callable[[str], None],
) -> RestoreResult:
    """Restore a log directory; RestoreRefused, ClientError, StorageError, OSError before anything has changed.

    `on_omission`: called with a sentence for records of groups that cannot be read, records that are only in remote
    storage, and settings that are left out.
    """
    plans = topics_of(directory, options.topics, options.settings)
    if not plans:
        raise RestoreRefused(f"{directory.path} has no topic of these names; offsetfs status lists its topics")
    partitions = [TopicPartition(plan.name, index) for plan in plans for index in plan.partitions]
    groups = await trio.to_thread.run_sync(groups_of, directory, options.groups, frozenset(partitions), on_omission)
    plans = await compare(client, plans, into_existing=options.into_existing)
    await check_groups(client, groups)
    sources = await trio.to_thread.run_sync(_sources, directory, partitions, options, on_omission)
    total = await trio.to_thread.run_sync(lambda: sum(source.reader.size_bytes() for source in sources.values()))
    plans, left_out = await without_refused_settings(client, plans, options.replication_factor)
    if left_out and options.strict_settings:
        raise RestoreRefused("\n".join([*left_out, _STRICT]))
    for omission in left_out:
        on_omission(omission)
    if options.dry_run:
        wanted = [RestoredGroup(group.name, len(group.commits), None) for group in groups]
        return RestoreResult(plans, (), wanted, total, await _problems(client, plans, sources))
    await create(client, plans, options.replication_factor)
    ends = await partition_offsets(client, partitions, LATEST)
    targets = [_target(client, partition, groups, ends[partition]) for partition in partitions]
    progress = _Progress(on_progress, total)
    producing = PartitionProducing(
        client, await _producer(client), on_bytes=progress.add, rate=RateLimit(options.bytes_per_second)
    )
    await producing.produce((target, sources[target.partition]) for target in targets)
    translated = {
        target.partition: target.translation.finish(target.end_offset) for target in targets if target.error is None
    }
    problems = await _complete(client, plans, targets)
    restored_groups = [await _restored_group(client, group, translated) for group in groups]
    return RestoreResult(plans, [_restored(target) for target in targets], restored_groups, total, problems)


async def _complete(client: ClusterClient, plans: Sequence[TopicPlan], targets: Sequence[PartitionTarget]) -> list[str]:
    """Delete new topics of which nothing could be restored, and finish the others; return what was not done."""
    failed = {target.partition.topic for target in targets if target.error is not None}
    failed -= {target.partition.topic for target in targets if target.end_offset > 0}
    deleted = await delete(client, [plan.name for plan in plans if not plan.exists and plan.name in failed])
    problems = [f"{topic}: the topic is deleted again, because nothing could be restored" for topic in deleted]
    try:
        await complete(client, [plan for plan in plans if plan.name not in deleted])
    except ClientError as error:
        problems.append(str(error))
    return problems


async def _problems(
    client: ClusterClient, plans: Sequence[TopicPlan], sources: Mapping[TopicPartition, PartitionSource]
) -> list[str]:
    """Return a sentence for each limit that records exceed, with the remedy; read all records."""
    limits, exist = await limits_of(client, plans), {plan.name for plan in plans if plan.exists}
    now_ms, problems = int(time.time() * 1000), list[str]()
    for partition, source in sources.items():
        check = LimitCheck(partition, limits[partition.topic], now_ms)
        try:
            await trio.to_thread.run_sync(source.check, check)
        except (StorageError, OSError) as error:
            problems.append(f"{partition}: {sentence(error)}")
        problems += check.problems(exists=partition.topic in exist)
    return problems


def _sources(
    directory: LogDirectory,
    partitions: Sequence[TopicPartition],
    options: RestoreOptions,
    on_omission: Callable[[str], None],
) -> dict[TopicPartition, PartitionSource]:
    return {partition: _source(directory.log(partition), options, on_omission) for partition in partitions}


def _source(log: Log, options: RestoreOptions, on_omission: Callable[[str], None]) -> PartitionSource:
    start = _first_at(log, options.from_timestamp)
    if log.remote_note is not None and (start is None or start <= log.log_start_offset):
        on_omission(f"{log.partition}: {log.remote_note}; restored from offset {log.log_start_offset} on")
    return PartitionSource(log, start, _first_at(log, options.to_timestamp))


def _first_at(log: Log, timestamp: int | None) -> int | None:
    """Return the offset of the first record of a time or later; the end of the log if there is none."""
    if timestamp is None:
        return None
    place = LogView(log, is_committed_only=True).find_timestamp(timestamp)
    return log.next_offset if place is None else place[0]


def _target(
    client: ClusterClient, partition: TopicPartition, groups: Sequence[GroupPlan], end_offset: int
) -> PartitionTarget:
    wanted = [group.commits[partition] for group in groups if partition in group.commits]
    return PartitionTarget(partition, OffsetTranslation(wanted), end_offset, client.properties.retry_backoff_ms / 1000)


async def _producer(client: ClusterClient) -> BatchProducer:
    """Return a new idempotent producer; KafkaError, ClientError. A broker that has just started has no ids yet."""

    async def request() -> BatchProducer:
        response = await client.request(m.InitProducerIdRequest(None))
        check_code(response.error_code, "InitProducerId: the user of --config needs WRITE of the topics")
        return BatchProducer(response.producer_id, response.producer_epoch)

    return await repeated(request, client.properties)


async def _restored_group(
    client: ClusterClient, plan: GroupPlan, translated: Mapping[TopicPartition, Mapping[int, int]]
) -> RestoredGroup:
    try:
        return RestoredGroup(plan.name, await commit(client, plan, translated), None)
    except ClientError as error:
        return RestoredGroup(plan.name, 0, error)


def _restored(target: PartitionTarget) -> RestoredPartition:
    return RestoredPartition(
        target.partition, target.records, target.bytes, target.last_offset, target.end_offset, target.error
    )


class _Progress:
    def __init__(self, on_progress: OnProgress, total: int) -> None:
        self._on_progress = on_progress
        self._total = total
        self._done = 0

    def add(self, size: int) -> None:
        self._done += size
        self._on_progress(self._done, self._total)
