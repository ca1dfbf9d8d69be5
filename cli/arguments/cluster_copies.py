"""LOGDIR as the address of a cluster, `kafka://HOST:PORT,HOST:PORT/`: its topics are copied to a cache and read there.

    ask the cluster ──► what the cache lacks, and whether its disk can hold that ──► mirror up to the ends of now

A copy is that of `offsetfs mirror --once`: a further command fetches what is new. Whole topics are in the cache that
`mount kafka://` uses; beside a mount that keeps it in step, the cache is only read. A cache of parts (`mirror_caches`)
is no one else's: a partition that begins too late there is copied again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.cluster_options import ClusterQuestion, given_cache, given_config
from offsetfs.cli.arguments.clusters import broker_addresses, client_properties
from offsetfs.cli.arguments.kafka_mounts import brokers_of
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.cli.mounts import daemon_registry
from offsetfs.cli.mounts.mirror_caches import user_cache
from offsetfs.cli.mounts.mirroring_process import mirroring_process
from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, in_use
from offsetfs.cli.terminal.progress import Line, bytes_progress, open_for_writing
from offsetfs.common.formatting import printable, size
from offsetfs.storage import INTERNAL_TOPICS, LogDirectory, TopicPartition
from offsetfs.storage.coordinators import OFFSETS_TOPIC
from offsetfs.storage.directory import MirrorFile
from offsetfs.storage.errors import LogDirectoryLocked, StorageError, counted, sentence

if TYPE_CHECKING:
    from offsetfs.kafka.mirror.options import MirrorOptions
    from offsetfs.kafka.mirror.process import MirrorSource
    from offsetfs.kafka.mirror.status import MirrorStatus
    from offsetfs.kafka.mirror.survey import ClusterSurvey

MOUNT_LAG_S = 30.0
"""The time that a mount, or a mirror, which keeps the cache in step has to copy what the cluster has now."""

_PAUSE_S = 0.1
_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """The cache that has what was asked for."""

    path: str
    topics: frozenset[str]
    """The topics that were asked for; the cache may have others, of earlier."""


def _say(text: str) -> None:
    context = click.get_current_context(silent=True)
    prefix = "offsetfs" if context is None else context.command_path
    click.echo(f"{prefix}: {printable(text)}", err=True)


def copied(url: str, question: ClusterQuestion, config: str | None = None) -> ClusterCopy:
    """Copy what the cache lacks of what a command reads; `Failure`. `config`: client.properties, before --config."""
    import trio

    from offsetfs.kafka.client.errors import ClientError
    from offsetfs.kafka.mirror.options import MirrorOptions
    from offsetfs.kafka.mirror.process import MirrorSource, surveyed

    brokers = brokers_of(url, "behind it, as further arguments", "--config FILE")
    properties = client_properties(config or given_config())
    source = MirrorSource(broker_addresses(brokers), properties, MirrorOptions())
    try:
        survey = trio.run(surveyed, source, partial(question.chosen, url))
    except ClientError as error:
        raise Failure(printable(sentence(error))) from error
    if survey is None:
        raise KeyboardInterrupt
    if not survey.extents and not question.may_lack:
        raise Failure(f"{printable(url)}: the cluster has no topic that this user may describe", WRONG_CALL)
    _check_unnamed(url, question, survey)
    path, is_of_parts = _cache(survey, source.text)
    try:
        _Copy(path, source, survey, question.groups, is_of_parts).run()
    except (StorageError, OSError) as error:
        raise Failure(printable(sentence(error))) from error
    return ClusterCopy(path, frozenset(survey.topic_ids) | ({OFFSETS_TOPIC} if question.groups else set()))


def _check_unnamed(url: str, question: ClusterQuestion, survey: ClusterSurvey) -> None:
    """`Failure` if topics should be named, because all have many bytes."""
    if question.names or question.unnamed_bytes_max is None:
        return
    sizes: dict[str, int | None] = {}
    for name, extent in survey.extents.items():
        known, more = sizes.get(name.topic, 0), extent.bytes_from(extent.begin)
        sizes[name.topic] = None if known is None or more is None else known + more
    total = sum(each for each in sizes.values() if each is not None)
    if None not in sizes.values() and total <= question.unnamed_bytes_max:
        return
    largest = sorted(sizes.items(), key=lambda sized: (sized[1] is not None, -(sized[1] or 0)))
    shown = [f"{topic} ({'size unknown' if of is None else size(of)})" for topic, of in largest[:_SHOWN_MAX]]
    others = f" and {len(sizes) - _SHOWN_MAX} others" if len(sizes) > _SHOWN_MAX else ""
    cause = f"{counted(len(sizes), 'topic')} would be copied: {', '.join(shown)}{others}"
    raise Failure(f"{printable(url)}: {printable(cause)}; name those that are wanted after the address", WRONG_CALL)


def _cache(survey: ClusterSurvey, brokers: str) -> tuple[str, bool]:
    """Return the path of the cache, and whether it is one of parts: also beside a mount of other topics."""
    given = given_cache()
    if given is not None:
        return os.path.realpath(given), False
    whole = os.path.realpath(user_cache(survey.cluster_id or brokers, "--cache DIR"))
    writer = mirroring_process(whole) if os.path.isdir(whole) else None
    is_held = writer is not None and not {str(name) for name in survey.extents} <= writer["partitions"].keys()
    is_for_mounts = survey.is_whole and not INTERNAL_TOPICS & survey.topic_ids.keys()
    if not is_held and (is_for_mounts or _has_beginnings(_held(whole, survey), survey)):
        return whole, False
    return f"{whole}-parts", True


def _held(path: str, survey: ClusterSurvey) -> dict[TopicPartition, range]:
    """Return the offsets that a cache has of the partitions that are asked for. StorageError, OSError."""
    known = MirrorFile.read(path) if os.path.isdir(path) else None
    if known is None or known.cluster_id != survey.cluster_id:
        return {}
    held = dict[TopicPartition, range]()
    with contextlib.closing(LogDirectory.open(path, read_only=True)) as directory:
        for name in survey.extents:
            topic = known.topics.get(name.topic)
            if topic is not None and topic.topic_id == survey.topic_ids[name.topic] and directory.has(name):
                log = directory.log(name)
                held[name] = range(log.log_start_offset, log.next_offset)
    return held


def _has_beginnings(held: Mapping[TopicPartition, range], survey: ClusterSurvey) -> bool:
    """Whether a cache has all partitions from the first wanted offset on, or can go on there without a gap."""
    return all(
        name in held and held[name].start <= extent.begin <= held[name].stop for name, extent in survey.extents.items()
    )


class _Copy:
    """A copy into the cache at `path`; `run` it once."""

    def __init__(
        self, path: str, source: MirrorSource, survey: ClusterSurvey, has_groups: bool, is_of_parts: bool
    ) -> None:
        self._path = path
        self._source = source
        self._survey = survey
        self._has_groups = has_groups
        self._is_of_parts = is_of_parts
        self._statuses: list[MirrorStatus] = []  # the last one

    def run(self) -> None:
        """Copy what the cache lacks; `Failure`, StorageError, OSError."""
        os.makedirs(self._path, mode=0o700, exist_ok=True)
        with _alone(self._path):
            preflight.check_mirror(self._path)  # another command may just have created the first partition
            held = _held(self._path, self._survey)
            if self._is_done(held):
                return
            late = [name for name, has in held.items() if has.start > self._survey.extents[name].begin]
            if late and not self._is_of_parts:
                raise self._begins_late(late[0], held[late[0]].start)
            if self._is_of_parts and not _has_beginnings(held, self._survey):
                held = {
                    name: has for name, has in held.items() if has.start <= self._survey.extents[name].begin <= has.stop
                }
            missing = self._check_space(held)
            try:
                directory = open_for_writing(self._path)
            except LogDirectoryLocked as error:
                self._wait_for(error)
                return
            self._mirror(directory, held, missing)

    def _is_done(self, held: Mapping[TopicPartition, range]) -> bool:
        """Whether the cache has what the cluster has, and no records that the cluster has deleted."""
        return not self._has_groups and all(
            name in held and extent.start <= held[name].start <= extent.begin and held[name].stop >= extent.end
            for name, extent in self._survey.extents.items()
        )

    def _begins_late(self, name: TopicPartition, start: int) -> Failure:
        cause = f"{self._path} has {name} from offset {start} on, and {self._survey.extents[name].begin} is asked for"
        return Failure(f"{cause}; name another --cache DIR, or remove it: offsetfs delete {self._path} {name.topic}")

    def _check_space(self, held: Mapping[TopicPartition, range]) -> int | None:
        """Return about how many bytes are copied; None: unknown. `Failure` if the disk cannot hold them."""
        amounts = [
            extent.bytes_from(held[name].stop if name in held else extent.begin)
            for name, extent in self._survey.extents.items()
        ]
        known = sum(amount for amount in amounts if amount is not None)
        free = shutil.disk_usage(self._path).free
        if known > free:
            cause = f"about {size(known)} are to be copied to {self._path}, and its disk has {size(free)} free"
            raise Failure(f"{cause}; name fewer topics, or a directory on a larger disk with --cache DIR")
        return None if None in amounts else known

    def _wait_for(self, error: LogDirectoryLocked) -> None:
        """Wait until the mirror that has locked the cache has copied the same; `Failure`."""
        until = time.monotonic() + MOUNT_LAG_S
        names = {str(name) for name in self._survey.extents}
        while True:
            held = _held(self._path, self._survey)
            if all(name in held and held[name].stop >= extent.end for name, extent in self._survey.extents.items()):
                return
            writer = mirroring_process(self._path)
            if writer is None or not names <= writer["partitions"].keys() or time.monotonic() > until:
                raise Failure(in_use(error, self._path, f"{UNMOUNT_FIRST}, or name another --cache DIR").message)
            time.sleep(_PAUSE_S)

    def _mirror(self, directory: LogDirectory, held: Mapping[TopicPartition, range], missing: int | None) -> None:
        import trio

        from offsetfs.kafka.client.errors import ClientError
        from offsetfs.kafka.mirror.options import MirrorError
        from offsetfs.kafka.mirror.process import mirror

        def show(status: MirrorStatus) -> None:
            self._statuses[:] = [status]
            on_bytes(status.appended_bytes, max(missing or 0, status.appended_bytes))

        if missing != 0:
            amount = "an unknown number of bytes" if missing is None else f"about {size(missing)}"
            _say(f"copying {amount} of {counted(len(self._survey.topic_ids), 'topic')} to {self._path}")
        source = replace(self._source, options=self._options(directory.mirror))
        try:
            preflight.check_descriptors()
            if self._is_of_parts:
                self._remove_others(directory, held)
        except BaseException:
            directory.close()
            raise
        with bytes_progress("Copying") as on_bytes:
            try:
                is_whole = trio.run(mirror, directory, source, _say, show)
            except (ClientError, MirrorError) as error:
                raise Failure(printable(sentence(error))) from error
        status = self._statuses[0]
        if not status.is_complete:  # SIGTERM or Ctrl-C
            raise KeyboardInterrupt
        failures = {str(name): copied.failure for name, copied in status.partitions.items() if copied.failure}
        failures = {**status.failures, **failures}
        if failures and not is_whole:
            cause = printable(next(iter(failures.values())))
            raise Failure(f"{', '.join([*failures][:_SHOWN_MAX])} could not be copied: {cause}; or name other topics")

    def _remove_others(self, directory: LogDirectory, held: Mapping[TopicPartition, range]) -> None:
        """Remove partitions that do not have the first wanted offset, or are of a topic that was deleted."""
        for name in list(directory.partitions()):
            if name in self._survey.extents and name not in held:
                directory.delete_partition(name)
        directory.deletions.run_all()

    def _options(self, known: MirrorFile | None) -> MirrorOptions:
        from offsetfs.common.name_patterns import NamePattern
        from offsetfs.kafka.mirror.options import MirrorOptions, OnGap

        return MirrorOptions(
            topics=[NamePattern(topic.replace(".", r"\.")) for topic in self._survey.topic_ids],
            starts={name: extent.begin for name, extent in self._survey.extents.items() if extent.begin > extent.start},
            groups=[NamePattern(".*")] if self._has_groups else (),
            once=True,
            keep=known is not None and known.keep,
            on_gap=OnGap.SKIP,
        )


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """Wait until no other command of this user copies into a cache."""
    registry = daemon_registry.own_directory()
    daemon_registry.create_own(registry)
    name = f"copy-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.lock"
    number = os.open(os.path.join(registry, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    line = Line("waiting", every_seconds=10)
    try:
        while True:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                line.show(f"another command copies to {path}")
                time.sleep(_PAUSE_S)
        line.clear()
        yield
    finally:
        os.close(number)
