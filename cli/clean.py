"""`offsetfs clean`: run the background tasks of a log directory once, without a mount."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.cli.named_partitions import named
from offsetfs.cli.served import in_use
from offsetfs.cli.settings_file import parsed_options, settings_options
from offsetfs.storage.counted import counted
from offsetfs.storage.errors import InvalidConfig, LogDirectoryLocked, StorageError
from offsetfs.storage.names import TopicPartition

if TYPE_CHECKING:
    from offsetfs.fs.options import MountOptions
    from offsetfs.storage.directory.directory import LogDirectory
    from offsetfs.storage.maintenance.background_tasks import TaskResult

TOPICS_SHOWN = 10
PROGRESS_S = 10.0
"""How often it says how far it is, where that is not rewritten in its place."""

_INSTEAD = (
    "its mount does this by itself, see -o log.retention.check.interval.ms and log.cleaner.backoff.ms; "
    "or unmount it first: offsetfs umount {mount}"
)


@click.command("clean", short_help="Run retention and compaction once.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("names", metavar="[TOPIC[-PARTITION]]...", nargs=-1)
@click.option("--now", is_flag=True, help="Ignore dirty ratios and roll active segments, see above.")
@settings_options
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing; also while mounted.")
def command(log_directory: str, names: tuple[str, ...], texts: tuple[str, ...], now: bool, dry_run: bool) -> int:
    """Do once what a mount or a broker does in the background: remove segments by retention.ms, retention.bytes and log
    start, compact topics with cleanup.policy compact, unlink deleted files. All partitions of LOGDIR are cleaned, or
    those named; TOPIC stands for all its partitions.

    Without --now a partition is compacted when its dirty ratio is above min.cleanable.dirty.ratio, or when
    max.compaction.lag.ms has passed; the active segment is not compacted. With --now the ratio does not matter, and the
    active segments of compacted topics are rolled first, so that all records older than min.compaction.lag.ms are
    compacted; removed files are unlinked without waiting for file.delete.delay.ms. Retention uses age and size in
    either case.

    The directory of a stopped KRaft broker is cleaned by the settings in its metadata log (`__cluster_metadata-0` in
    LOGDIR, or in -o metadata.log.dir=PATH) and in its server.properties (--config). Without --config only topics are
    touched that set retention.ms or cleanup.policy=compact themselves, there, with -o or with offsetfs config.

    \b
    offsetfs clean ~/logs --dry-run
    offsetfs clean ~/logs
    offsetfs clean ~/logs --now users-0 users-1
    offsetfs clean /var/lib/kafka/data --config /etc/kafka/server.properties

    Exit codes: 1 wrong call or permissions, 2 system error, 32 in use, or some partition failed.
    """
    preflight.check_directory(log_directory, read_only=dry_run, may_be_empty=True)
    wanted = named(log_directory, names)
    try:
        options = parsed_options(texts)
        return _plan(log_directory, wanted, options, now) if dry_run else _clean(log_directory, wanted, options, now)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, _INSTEAD) from error
    except InvalidConfig as error:
        raise Failure(str(error), WRONG_CALL) from error
    except StorageError as error:
        raise Failure(str(error)) from error


def _chosen(directory: LogDirectory, wanted: list[TopicPartition]) -> list[TopicPartition]:
    for partition in wanted:
        if not directory.has(partition):
            raise Failure(f"{directory.path} has no partition {partition}", WRONG_CALL)
    return wanted or directory.partitions()


def _tell_untouched(directory: LogDirectory, chosen: list[TopicPartition]) -> None:
    """Name the topics of a broker whose cleanup.policy is not known here, and which nothing was done to."""
    topics = sorted({partition.topic for partition in chosen if not directory.knows_policy(partition.topic)})
    topics = [topic for topic in topics if topic != "__cluster_metadata"]  # a controller's, and never cleaned here
    if not topics:
        return
    more = f" and {len(topics) - TOPICS_SHOWN} more" if len(topics) > TOPICS_SHOWN else ""
    shown = ", ".join(topics[:TOPICS_SHOWN]) + more
    example = f"offsetfs config {directory.path} {topics[0]} cleanup.policy=delete retention.ms=604800000"
    click.echo(
        f"left alone: {shown}: retention and cleanup.policy are unknown here, because the broker keeps "
        f"{'its' if len(topics) == 1 else 'their'} settings elsewhere; name its server.properties with --config, or "
        f"set them with: {example}",
        err=True,
    )


def _clean(log_directory: str, wanted: list[TopicPartition], options: MountOptions, now: bool) -> int:
    from offsetfs.cli.progress import Line, bytes_text, recovery_progress
    from offsetfs.storage.directory.directory import LogDirectory
    from offsetfs.storage.maintenance.background_tasks import BackgroundTasks

    done: list[TaskResult] = []
    line = Line("offsetfs clean", every_seconds=PROGRESS_S)

    def tell(each: TaskResult) -> None:
        done.append(each)
        line.clear()
        click.echo(str(each), err=each.error is not None)

    def show(partition: TopicPartition | None, part: int, total: int) -> None:
        if partition is None:
            line.show(f"retention, {part} of {counted(total, 'partition')}")
        else:
            line.show(f"compacting {partition}, {bytes_text(part)} of at most {bytes_text(total)}")

    with recovery_progress() as on_progress:
        directory = LogDirectory.open(log_directory, on_progress=on_progress, **options.of_directory())
    try:
        chosen = _chosen(directory, wanted)
        BackgroundTasks(directory, tell).run_all(chosen, now=now, on_progress=show)
        line.clear()
        _tell_untouched(directory, chosen)
    finally:
        line.clear()
        directory.close()
    if not done:
        click.echo("nothing is due" if not now else "there is nothing to do")
    return FAILED if any(each.error is not None for each in done) else DONE


def _plan(log_directory: str, wanted: list[TopicPartition], options: MountOptions, now: bool) -> int:
    from offsetfs.storage.directory.directory import LogDirectory
    from offsetfs.storage.maintenance.maintenance_plan import plan

    directory = LogDirectory.open(log_directory, read_only=True, **options.of_directory())
    try:
        chosen = _chosen(directory, wanted)
        planned = list(plan(directory, chosen, now=now))
        _tell_untouched(directory, chosen)
    finally:
        directory.close()
    for each in planned:
        why = f"{each.task}: {', '.join(each.because)}" if each.because else each.task
        verb = "would rewrite" if each.task == "compaction" else "would remove"
        click.echo(f"{each.name}: {verb} {counted(each.segments, 'segment')}, {counted(each.bytes, 'byte')} ({why})")
    if not planned:
        click.echo("nothing is due")
    return DONE
