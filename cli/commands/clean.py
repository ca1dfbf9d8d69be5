"""`offsetfs clean`: run the background tasks of a log directory once, without a mount."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.named_partitions import resolve_names
from offsetfs.cli.arguments.settings_file import parsed_options, settings_options
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.cli.mounts.serving_daemon import in_use
from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import InvalidConfig, LogDirectoryLocked, StorageError, counted

if TYPE_CHECKING:
    from offsetfs.fs.options import MountOptions
    from offsetfs.storage import LogDirectory
    from offsetfs.storage.maintenance import TaskResult

TOPICS_SHOWN = 10
PROGRESS_S = 10.0
"""The interval of progress reports without a terminal."""

_REMEDY_WHILE_MOUNTED = (
    "the mount cleans it periodically (-o log.retention.check.interval.ms and log.cleaner.backoff.ms); "
    "to clean it now, unmount it first: offsetfs umount {mount}"
)


@click.command("clean", short_help="Run retention and compaction once.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("names", metavar="[TOPIC[-PARTITION]]...", nargs=-1)
@click.option("--now", is_flag=True, help="Ignore dirty ratios and roll active segments, see above.")
@settings_options
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing; also while mounted.")
def command(log_directory: str, names: tuple[str, ...], texts: tuple[str, ...], now: bool, dry_run: bool) -> int:
    """Run once what a mount or a broker does in the background: remove segments by retention.ms, retention.bytes and
    log start, compact topics with cleanup.policy=compact, unlink deleted files. Without names, all partitions of LOGDIR
    are cleaned; TOPIC stands for all its partitions.

    Without --now, a partition is compacted if its dirty ratio is above min.cleanable.dirty.ratio, or if
    max.compaction.lag.ms has passed; the active segment is not compacted. With --now, the dirty ratio is ignored, and
    the active segments of compacted topics are rolled first, so that all records older than min.compaction.lag.ms are
    compacted; removed files are unlinked without waiting for file.delete.delay.ms. Retention uses age and size in both
    cases.

    In the directory of a stopped KRaft broker, the settings come from its metadata log (`__cluster_metadata-0` in
    LOGDIR, or in -o metadata.log.dir=PATH) and from its server.properties (--config). Without --config, only topics
    with retention.ms or cleanup.policy=compact of their own are cleaned: set in the metadata log, with -o, or with
    offsetfs config.

    \b
    offsetfs clean ~/logs --dry-run
    offsetfs clean ~/logs
    offsetfs clean ~/logs --now users-0 users-1
    offsetfs clean /var/lib/kafka/data --config /etc/kafka/server.properties

    Exit codes: 1 wrong call or permissions, 2 system error, 32 in use, or a partition failed.
    """
    preflight.check_directory(log_directory, read_only=dry_run, may_be_empty=True)
    wanted = resolve_names(log_directory, names)
    try:
        options = parsed_options(texts)
        return _plan(log_directory, wanted, options, now) if dry_run else _clean(log_directory, wanted, options, now)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, _REMEDY_WHILE_MOUNTED) from error
    except InvalidConfig as error:
        raise Failure(str(error), WRONG_CALL) from error
    except StorageError as error:
        raise Failure(str(error)) from error


def _chosen(directory: LogDirectory, wanted: list[TopicPartition]) -> list[TopicPartition]:
    for partition in wanted:
        if not directory.has(partition):
            raise Failure(f"{directory.path} has no partition {partition}", WRONG_CALL)
    return wanted or list(directory.partitions())


def _report_untouched(directory: LogDirectory, chosen: list[TopicPartition]) -> None:
    """Print the topics of a broker that were not cleaned because their cleanup.policy is unknown."""
    topics = sorted({partition.topic for partition in chosen if not directory.knows_policy(partition.topic)})
    topics = [topic for topic in topics if topic != "__cluster_metadata"]  # cleaned only by controllers
    if not topics:
        return
    more = f" and {len(topics) - TOPICS_SHOWN} more" if len(topics) > TOPICS_SHOWN else ""
    shown = ", ".join(topics[:TOPICS_SHOWN]) + more
    example = f"offsetfs config {directory.path} {topics[0]} cleanup.policy=delete retention.ms=604800000"
    click.echo(
        f"not cleaned: {shown}: retention and cleanup.policy are unknown, because the broker keeps "
        f"{'its' if len(topics) == 1 else 'their'} settings elsewhere; give its server.properties with --config, or "
        f"set them with: {example}",
        err=True,
    )


def _report_remote(directory: LogDirectory, chosen: list[TopicPartition]) -> None:
    """Print the partitions whose records are removed by their broker alone, because it has some in remote storage."""
    for partition in chosen:
        with contextlib.suppress(OSError):  # it was deleted
            note = directory.remote_note(partition)
            if note is not None:
                click.echo(f"{partition}: {note}; its broker removes its segments", err=True)


def _clean(log_directory: str, wanted: list[TopicPartition], options: MountOptions, now: bool) -> int:
    from offsetfs.cli.terminal.progress import Line, recovery_progress
    from offsetfs.common.formatting import size
    from offsetfs.storage import LogDirectory
    from offsetfs.storage.maintenance import BackgroundTasks

    done: list[TaskResult] = []
    line = Line("offsetfs clean", every_seconds=PROGRESS_S)

    def report(result: TaskResult) -> None:
        done.append(result)
        line.clear()
        click.echo(str(result), err=result.error is not None)

    def show(partition: TopicPartition | None, part: int, total: int) -> None:
        if partition is None:
            line.show(f"retention, {part} of {counted(total, 'partition')}")
        else:
            line.show(f"compacting {partition}, {size(part)} of at most {size(total)}")

    with recovery_progress() as on_progress:
        directory = LogDirectory.open(log_directory, on_progress=on_progress, **options.of_directory())
    try:
        chosen = _chosen(directory, wanted)
        BackgroundTasks(directory, report).run_all(chosen, now=now, on_progress=show)
        line.clear()
        _report_untouched(directory, chosen)
        _report_remote(directory, chosen)
    finally:
        line.clear()
        directory.close()
    if not done:
        click.echo("nothing is due" if not now else "nothing to do")
    return FAILED if any(result.error is not None for result in done) else DONE


def _plan(log_directory: str, wanted: list[TopicPartition], options: MountOptions, now: bool) -> int:
    from offsetfs.storage import LogDirectory
    from offsetfs.storage.maintenance import plan_maintenance

    directory = LogDirectory.open(log_directory, read_only=True, **options.of_directory())
    try:
        chosen = _chosen(directory, wanted)
        planned = list(plan_maintenance(directory, chosen, now=now))
        _report_untouched(directory, chosen)
        _report_remote(directory, chosen)
    finally:
        directory.close()
    for plan in planned:
        why = f"{plan.task}: {', '.join(plan.because)}" if plan.because else plan.task
        verb = "would rewrite" if plan.task == "compaction" else "would remove"
        click.echo(f"{plan.name}: {verb} {counted(plan.segments, 'segment')}, {counted(plan.bytes, 'byte')} ({why})")
    if not planned:
        click.echo("nothing is due")
    return DONE
