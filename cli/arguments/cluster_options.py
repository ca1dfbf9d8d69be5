"""LOGDIR as the address of a cluster, `kafka://HOST:PORT,HOST:PORT/`: its options, and what a command reads of it.

`cluster_copies` copies that. It is imported only if a cluster is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from offsetfs.cli.arguments.named_partitions import no_such
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.common.formatting import printable
from offsetfs.storage import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from offsetfs.kafka.client.metadata import ClusterMetadata
    from offsetfs.kafka.mirror.survey import Beginning

Command = TypeVar("Command", bound=Callable[..., object])

SCHEME = "kafka://"
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
    narrowed: Callable[[Collection[TopicPartition]], Collection[TopicPartition]] | None = None
    """Returns the partitions that are read, of those that are named."""
    may_lack: bool = False
    """Whether the cluster may lack names: another source has them."""
    groups: bool = False
    """Whether commits of consumer groups are read."""
    unnamed_bytes_max: int | None = None
    """Without names, the bytes up to which all topics are read; None: any number."""

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
        if self.narrowed is not None:
            named = {*self.narrowed(named)}
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


def given_config() -> str | None:
    """Return the path of --config; None without it."""
    return _option(_CONFIG)


def given_cache() -> str | None:
    """Return the path of --cache; None without it."""
    return _option(_CACHE)


def _option(key: str) -> str | None:
    context = click.get_current_context(silent=True)
    found: str | None = None if context is None else context.meta.get(key)
    return found
