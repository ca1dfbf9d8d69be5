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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.clusters import broker_addresses, client_properties
from offsetfs.cli.arguments.kafka_mounts import SCHEME, brokers_of
from offsetfs.cli.arguments.named_partitions import no_such
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
    from offsetfs.kafka.client.metadata import ClusterMetadata
    from offsetfs.kafka.mirror.options import MirrorOptions
    from offsetfs.kafka.mirror.process import MirrorSource
    from offsetfs.kafka.mirror.status import MirrorStatus
    from offsetfs.kafka.mirror.survey import Beginning, ClusterSurvey

Command = TypeVar("Command", bound=Callable[..., object])

MOUNT_LAG_S = 30.0
"""The time that a mount, or a mirror, which keeps the cache in step has to copy what the cluster has now."""

_PAUSE_S = 0.1
_SHOWN_MAX = 5
_CONFIG, _CACHE = "offsetfs.cluster.config", "offsetfs.cluster.cache"


@dataclass(frozen=True, slots=True)
class ClusterQuestion:
    """What a command reads of a cluster."""

    names: Sequence[str] = ()
    """TOPIC or TOPIC-PARTITION; none: all topics but those of Kafka itself."""
    others: Sequence[str] = ()
    """Topics that are read as well, whole, if the cluster has them."""
    start_ms: int | None = None
    """Only records from this time on are read."""
    start: int | None = None
    """Only records from this offset of the only named partition on are read."""
    newest: int | None = None
    """Only so many offsets before the end of each partition are read."""
    begins: Mapping[TopicPartition, Beginning] | None = None
    """The only partitions that are read beside `others`, and where each begins."""
    may_lack: bool = False
    """Whether the cluster may lack names: another source has them."""
    groups: bool = False
    """Whether commits of consumer groups are read."""

    def chosen(self, url: str, metadata: ClusterMetadata) -> Mapping[TopicPartition, Beginning]:
        """Return where each partition of the topics begins that are read; `Failure` for a name that is not there.

        All partitions of a topic are in the cache, because its number of partitions counts; those that are not read
        begin at their end.
        """
        from offsetfs.kafka.mirror.survey import Beginning

        present = sorted(
            TopicPartition(topic.name, number) for topic in metadata.topics.values() for number in topic.partitions
        )
        topics = {partition.topic for partition in present}
        named = {partition for partition in present if {partition.topic, str(partition)} & {*self.names}}
        if not self.names:
            own = {topic.name for topic in metadata.topics.values() if topic.is_internal} | INTERNAL_TOPICS
            named = {partition for partition in present if partition.topic not in own}
        for name in self.names if not self.may_lack else ():
            if not any(name in (partition.topic, str(partition)) for partition in named):
                reason = no_such([url], name, present)
                raise Failure(
                    f"{name}: {reason}{'' if '?' in reason else ', or this user may not describe it'}", WRONG_CALL
                )
        if self.begins is not None:
            named = {partition for partition in present if partition in self.begins}
        read = Beginning(self.start_ms, self.start, self.newest)
        wanted = {partition.topic for partition in named}
        begins = {
            partition: read if partition in named else Beginning(newest=0)
            for partition in present
            if partition.topic in wanted
        }
        begins |= {partition: self.begins[partition] for partition in named} if self.begins is not None else {}
        others = {*self.others} & topics - {*self.names}
        return {**begins, **{partition: Beginning() for partition in present if partition.topic in others}}


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """The cache that has what was asked for."""

    path: str
    topics: frozenset[str]
    """The topics that were asked for; the cache may have others, of earlier."""


def _kept(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
        context.meta[key] = path

    return keep


cache_option = click.option(
    "--cache",
    metavar="DIR",
    type=click.Path(),
    expose_value=False,
    callback=_kept(_CACHE),
    help="With kafka://: the directory for copied topics; default: in the user cache.",
)


def cluster_options(command: Command) -> Command:
    """Add the options for LOGDIR as a cluster to a command."""
    config = click.option(
        "--config",
        metavar="FILE",
        type=click.Path(),
        expose_value=False,
        callback=_kept(_CONFIG),
        help="With kafka://: client.properties, as Java's tools take it.",
    )
    return config(cache_option(command))


def is_cluster(text: str) -> bool:
    """Whether LOGDIR is the address of a cluster."""
    return text.startswith(SCHEME)


def refuse_cluster(text: str, remedy: str) -> None:
    """`Failure` if LOGDIR is the address of a cluster. `remedy`: what to do instead."""
    if is_cluster(text):
        raise Failure(f"{printable(text)}: is a cluster; {remedy}", WRONG_CALL)


def check_cluster_options() -> None:
    """`Failure` for an option of `cluster_options` where no argument is a cluster."""
    context = click.get_current_context(silent=True)
    if context is None or any(
        is_cluster(argument) for argument in context.params.values() if isinstance(argument, str)
    ):
        return
    for key, option in ((_CONFIG, "--config"), (_CACHE, "--cache")):
        if context.meta.get(key) is not None:
            raise Failure(f"{option} goes with a cluster, such as {SCHEME}broker1:9092/", WRONG_CALL)


def _option(key: str) -> str | None:
    context = click.get_current_context(silent=True)
    found: str | None = None if context is None else context.meta.get(key)
    return found


def _say(text: str) -> None:
    context = click.get_current_context(silent=True)
    prefix = "offsetfs" if context is None else context.command_path
    click.echo(f"{prefix}: {printable(text)}", err=True)


# --- the copy --------------------------------------------------------------------------------------------------------


def copied(url: str, question: ClusterQuestion, config: str | None = None) -> ClusterCopy:
    """Copy what the cache lacks of what a command reads; `Failure`. `config`: client.properties, before --config."""
    import trio

    from offsetfs.kafka.client.errors import ClientError
    from offsetfs.kafka.mirror.options import MirrorOptions
    from offsetfs.kafka.mirror.process import MirrorSource, surveyed

    brokers = brokers_of(url, "behind it, as further arguments", "--config FILE")
    properties = client_properties(config or _option(_CONFIG))
    source = MirrorSource(broker_addresses(brokers), properties, MirrorOptions())
    try:
        survey = trio.run(surveyed, source, partial(question.chosen, url))
    except ClientError as error:
        raise Failure(printable(sentence(error))) from error
    if survey is None:
        raise KeyboardInterrupt
    if not survey.extents and not question.may_lack:
        raise Failure(f"{printable(url)}: the cluster has no topic that this user may describe", WRONG_CALL)
    path, is_of_parts = _cache(survey, source.text)
    try:
        _Copy(path, source, survey, question.groups, is_of_parts).run()
    except (StorageError, OSError) as error:
        raise Failure(printable(sentence(error))) from error
    return ClusterCopy(path, frozenset(survey.topic_ids) | ({OFFSETS_TOPIC} if question.groups else set()))


def _cache(survey: ClusterSurvey, brokers: str) -> tuple[str, bool]:
    """Return the path of the cache, and whether it is one of parts: also beside a mount of other topics."""
    given = _option(_CACHE)
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
        failures = [*status.failures] + [str(name) for name, copied in status.partitions.items() if copied.failure]
        if failures and not is_whole:
            raise Failure(f"{', '.join(failures[:_SHOWN_MAX])} could not be copied; name the other topics")

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
