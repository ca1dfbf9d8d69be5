"""`offsetfs restore`: copy topics of a log directory into a running cluster, or of an archive into a log directory."""

from __future__ import annotations

import errno
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.archives import exit_code, is_archive
from offsetfs.cli.arguments.clusters import (
    broker_addresses,
    bytes_per_second,
    client_properties,
    groups_option,
    name_patterns,
    topic_option,
)
from offsetfs.cli.arguments.named_partitions import no_topic, partitions_of
from offsetfs.cli.arguments.numbers import argument_time_ms
from offsetfs.cli.arguments.object_stores import check_whole, opened_store, partitions_in, store_options
from offsetfs.cli.arguments.topic_settings import parsed_settings, topic_settings_option
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.common.formatting import printable
from offsetfs.storage import files
from offsetfs.storage.errors import StorageError, counted, sentence

if TYPE_CHECKING:
    from offsetfs.archive.restore_to_directory import RestoreSelection
    from offsetfs.common.addresses import Address
    from offsetfs.kafka.client.properties import ClientProperties
    from offsetfs.kafka.restore.restore_to_cluster import (
        RestoredGroup,
        RestoredPartition,
        RestoreOptions,
        RestoreResult,
    )

_WAITING_S = 10.0
"""The interval of the lines about a cluster that does not answer."""

_ADDRESSES = re.compile(r"[^/,]+:[0-9]+(,[^/,]+:[0-9]+)*")
"""Addresses of brokers, where a directory is asked for."""


@click.command("restore", short_help="Copy topics into a running cluster, or out of an archive.")
@click.argument("source", metavar="LOGDIR|URL")
@click.argument("target", metavar="BROKERS|LOGDIR")
@topic_option
@click.option("--from", "start", metavar="TIME", help="Begin with the first record of this time or later.")
@click.option("--to", "end", metavar="TIME", help="End before the first record of this time or later.")
@click.option("--as-of", metavar="TIME", help="Of an archive: its state at this time; default the newest.")
@groups_option
@topic_settings_option("A setting of new topics; NAME=: without it.")
@click.option(
    "--replication-factor",
    metavar="N",
    type=click.IntRange(1, 32767),
    help="Of new topics; default that of the cluster.",
)
@click.option("--into-existing", is_flag=True, help="Append to topics that have records.")
@click.option("--strict-settings", is_flag=True, help="Refuse if the cluster refuses a setting; else it is left out.")
@click.option("--dry-run", is_flag=True, help="Check everything, also all records, and change nothing.")
@click.option("--rate", metavar="BYTES", help="At most so many bytes per second, such as 20M.")
@click.option("--config", metavar="FILE", type=click.Path(), help="client.properties, as Java's tools take it.")
@store_options
def command(
    source: str,
    target: str,
    names: tuple[str, ...],
    start: str | None,
    end: str | None,
    as_of: str | None,
    groups: tuple[str, ...],
    settings: tuple[str, ...],
    replication_factor: int | None,
    into_existing: bool,
    strict_settings: bool,
    dry_run: bool,
    rate: str | None,
    config: str | None,
    endpoint: str | None,
    timeout_s: float,
) -> int:
    """Copy topics of LOGDIR into a running Kafka cluster: topics with their partitions and settings, records in order,
    with --groups the offsets of consumer groups. LOGDIR is not changed; it may be that of a mirror or a broker.

    BROKERS are addresses of some brokers: HOST:PORT, separated by commas. Nothing is changed before all checks have
    passed: a topic that has records in the cluster is refused, one that has LogAppendTime there, and a group that has
    members or offsets there.

    Keys, values, headers, timestamps and codecs stay, whole batches as they are. Offsets, topic ids and leader epochs
    are new: the cluster assigns them, and no request can choose them. Records of aborted or open transactions are left
    out. Offsets of groups are translated, so that consumers go on exactly where they were. offsetfs hand-over keeps all
    offsets, transactions and epochs, and needs the directory of a stopped broker.

    From the URL of an archive, such as s3://BUCKET/PREFIX, into LOGDIR, which is created if it is not there: the same
    files, byte for byte, and the same offsets, topic ids and settings. Only --topic, --from, --to and --as-of apply.
    With --to the last batch ends before the first record of this time. With --as-of each partition is restored as the
    last run of offsetfs archive before this time has left it, by the clock of the machine where that ran. Started again
    with the same options after a crash, it continues. A partition that LOGDIR has is refused.

    TIME is in UTC (2026-11-21T13:05, @1795253676, -15m). A topic with LogAppendTime gets that setting at the end; the
    restored records keep their times, as those of CreateTime. A setting that the cluster does not know or refuses is
    left out, with a line. --dry-run reads all records, and names those that the cluster would refuse.

    \b
    offsetfs restore ~/mirror broker1:9092 --dry-run
    offsetfs restore ~/mirror broker1:9092,broker2:9092 --groups '.*'
    offsetfs restore /backup/kafka broker1:9092 --topic orders --to 2026-11-20T14:00
    offsetfs restore ~/mirror localhost:9092 --replication-factor 1 -o retention.ms=-1
    offsetfs restore s3://backup/kafka ~/restored --topic orders --as-of 2026-11-20T14:00

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused, or not everything was restored; the messages
    say how far each partition came.
    """
    if is_archive(source):
        if groups or settings or replication_factor or into_existing or strict_settings or dry_run or rate or config:
            raise Failure(f"{source}: from an archive only --topic, --from, --to and --as-of apply", WRONG_CALL)
        selection = _selection(names, start, end, as_of)
        return _restore_archive(source, target, selection, timeout_s, endpoint)
    if as_of is not None:
        raise Failure(f"--as-of: {source} is not an archive; write its URL, such as s3://BUCKET/PREFIX", WRONG_CALL)
    log_directory, addresses = source, broker_addresses(target)
    wanted = _options(names, start, end, groups, settings)
    wanted = replace(
        wanted,
        replication_factor=replication_factor,
        bytes_per_second=bytes_per_second("--rate", rate),
        into_existing=into_existing,
        strict_settings=strict_settings,
        dry_run=dry_run,
    )
    properties = client_properties(config)
    preflight.check_directory(log_directory, read_only=True, may_be_empty=False)
    present = partitions_of(log_directory)
    if names and not any(pattern.fullmatch(partition.topic) for pattern in wanted.topics for partition in present):
        raise no_topic(log_directory, present, names)
    result = _restore(log_directory, addresses, properties, wanted)
    return DONE if _report(result, dry_run=dry_run) else FAILED


def _selection(names: tuple[str, ...], start: str | None, end: str | None, as_of: str | None) -> RestoreSelection:
    from offsetfs.archive.restore_to_directory import RestoreSelection

    patterns = name_patterns("--topic", names or (".*",))
    return RestoreSelection(
        lambda topic: any(pattern.fullmatch(topic) for pattern in patterns),
        names,
        _time("--as-of", as_of),
        _time("--from", start),
        _time("--to", end),
    )


def _offsets(start: int, end: int) -> str:
    return f"offsets {start} to {end - 1}" if end > start else f"no records; the next offset is {end}"


def _restore_archive(url: str, path: str, selection: RestoreSelection, timeout_s: float, endpoint: str | None) -> int:
    from offsetfs.archive.object_store import StoreSettings
    from offsetfs.archive.restore_to_directory import ArchiveRestore
    from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, in_use
    from offsetfs.cli.terminal.progress import bytes_progress, open_for_writing
    from offsetfs.storage.errors import LogDirectoryLocked

    if _ADDRESSES.fullmatch(path) and not files.exists(path):
        advice = "give a directory, and restore that one into the cluster"
        raise Failure(f"{path}: an archive is restored into a log directory, not into a cluster: {advice}", WRONG_CALL)
    settings = StoreSettings(timeout_s, endpoint)
    if not files.exists(path):
        preflight.check_parent(path)
    with bytes_progress("Restoring") as show:
        try:
            restored = ArchiveRestore(
                opened_store(url, settings),
                path,
                selection,
                on_progress=show,
                on_warning=_warn,
            ).run(open_for_writing)
        except LogDirectoryLocked as error:
            raise in_use(error, path, UNMOUNT_FIRST) from error
        except StorageError as error:
            raise Failure(printable(sentence(error)), FAILED) from error
        except OSError as error:
            if error.errno == errno.ENOENT:
                check_whole(url, settings)
                present = partitions_in(opened_store(url, settings))
                if selection.names and not any(selection.takes(partition.topic) for partition in present):
                    raise no_topic(url, present, selection.names) from error
            raise Failure(printable(sentence(error)), exit_code(error, url)) from error
    for partition, (start, end) in sorted(restored.partitions.items(), key=lambda item: str(item[0])):
        click.echo(f"{partition}: {_offsets(start, end)}")
    return DONE


def _options(
    names: tuple[str, ...], start: str | None, end: str | None, groups: tuple[str, ...], settings: tuple[str, ...]
) -> RestoreOptions:
    from offsetfs.kafka.restore.restore_to_cluster import RestoreOptions

    return RestoreOptions(
        name_patterns("--topic", names),
        name_patterns("--groups", groups),
        _time("--from", start),
        _time("--to", end),
        parsed_settings(settings),
    )


def _time(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    instant_ms = argument_time_ms(option, text)
    if instant_ms is None:
        raise Failure(f"{option}: {text!r} is not a time; write 2026-11-20T18:40:01 or -1h30m", WRONG_CALL)
    return instant_ms


def _restore(
    log_directory: str, brokers: list[Address], properties: ClientProperties, options: RestoreOptions
) -> RestoreResult:
    """Restore; `Failure` where it cannot begin."""
    import trio

    from offsetfs.cli.terminal.progress import Line, bytes_progress
    from offsetfs.kafka.client.cluster import ClusterClient, wait_for_cluster
    from offsetfs.kafka.client.errors import ClientError
    from offsetfs.kafka.restore.group_plan import GroupNotFound
    from offsetfs.kafka.restore.restore_to_cluster import restore
    from offsetfs.kafka.restore.topic_plan import RestoreRefused
    from offsetfs.storage import LogDirectory

    line = Line("offsetfs restore", every_seconds=_WAITING_S)
    with bytes_progress("Restoring") as show:

        async def run() -> RestoreResult:
            async with ClusterClient(brokers, properties) as client:
                try:
                    await wait_for_cluster(client, lambda text: line.show(printable(text)))
                finally:
                    line.clear()
                return await restore(client, directory, options, on_progress=show, on_omission=_warn)

        try:
            directory = LogDirectory.open(log_directory, read_only=True)
            return trio.run(run)
        except GroupNotFound as error:
            raise Failure(str(error), WRONG_CALL) from error
        except (ClientError, RestoreRefused, StorageError) as error:
            raise Failure(str(error)) from error


def _report(result: RestoreResult, *, dry_run: bool) -> bool:
    """Print what was restored; return whether it was everything."""
    from offsetfs.common.formatting import size

    if dry_run:
        for plan in result.topics:
            state = "is there already" if plan.exists else f"would be created with {counted(plan.count, 'partition')}"
            click.echo(f"{plan.name}: {state}")
        click.echo(f"about {size(result.bytes_total)} would be restored")
    for topic in result.topics:
        parts = [part for part in result.partitions if part.partition.topic == topic.name]
        if parts:
            records, total = sum(part.records for part in parts), sum(part.bytes for part in parts)
            content = f"{counted(len(parts), 'partition')}, {counted(records, 'record')}, {size(total)}"
            click.echo(f"{topic.name}: {content}")
    for group in result.groups:
        click.echo(_group_text(group), err=group.error is not None)
    failed = [part for part in result.partitions if part.error is not None]
    for part in failed:
        _warn(_failed_text(part))
    for text in result.problems:
        _warn(text)
    return not failed and not result.problems and all(group.error is None for group in result.groups)


def _group_text(group: RestoredGroup) -> str:
    if group.error is not None:
        return (
            f"offsetfs restore: group {printable(group.name)}: no offset was committed: {printable(str(group.error))}"
        )
    return f"group {printable(group.name)}: {counted(group.offsets, 'offset')}"


def _failed_text(part: RestoredPartition) -> str:
    assert part.error is not None
    if part.last_offset is None:
        return f"{part.partition}: nothing was restored: {sentence(part.error)}"
    came = f"restored up to offset {part.last_offset}, which is {part.end_offset - 1} in the cluster"
    return f"{part.partition}: {came}; then: {sentence(part.error)}"


def _warn(text: str) -> None:
    click.echo(f"offsetfs restore: {printable(text)}", err=True)
