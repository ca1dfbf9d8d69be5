"""`offsetfs clean`: do the duties of a log directory once, without a mount."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.cli.served import in_use
from offsetfs.storage.errors import InvalidName, LogDirectoryLocked, StorageError
from offsetfs.storage.names import TopicPartition

if TYPE_CHECKING:
    from offsetfs.storage.directory.directory import LogDirectory
    from offsetfs.storage.duties.duties import Done

PROGRESS_S = 10.0
"""How often it says how far it is, where that is not rewritten in its place."""

_INSTEAD = (
    "its mount does this by itself, see -o log.retention.check.interval.ms and log.cleaner.backoff.ms; "
    "or unmount it first: offsetfs umount {mount}"
)


@click.command("clean", short_help="Remove and compact what is due.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("names", metavar="[TOPIC-PARTITION]...", nargs=-1)
@click.option("--now", is_flag=True, help="Do not wait for dirty ratios and rolls, see above.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing; also while mounted.")
def command(log_directory: str, names: tuple[str, ...], now: bool, dry_run: bool) -> int:
    """Do what a mount or a broker does in the background, once, for all partitions of LOGDIR or those named:
    remove segments by retention.ms, retention.bytes and log start, compact topics with cleanup.policy compact, unlink
    what was deleted.

    Without --now only what is due: topics are compacted when more of them than min.cleanable.dirty.ratio is dirty, or
    max.compaction.lag.ms is over, and never the active segment. With --now no ratio is waited for, and the active
    segments of compacted topics are rolled first, so that all but records younger than min.compaction.lag.ms is
    compacted; what was removed is unlinked without waiting for file.delete.delay.ms. Retention goes by age and size in
    either case.

    In a broker's directory only topics are touched whose settings are known here (offsetfs config).

    \b
    offsetfs clean ~/logs --dry-run
    offsetfs clean ~/logs
    offsetfs clean ~/logs --now users-0 users-1

    Exit codes: 1 wrong call or permissions, 2 system error, 32 in use, or some partition failed.
    """
    try:
        wanted = [TopicPartition.parse(name) for name in names]
    except InvalidName as error:
        raise Failure(str(error), WRONG_CALL) from error
    preflight.check_directory(log_directory, read_only=dry_run, may_be_empty=True)
    try:
        return _plan(log_directory, wanted, now) if dry_run else _clean(log_directory, wanted, now)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, _INSTEAD) from error
    except StorageError as error:
        raise Failure(str(error)) from error


def _chosen(directory: LogDirectory, wanted: list[TopicPartition]) -> list[TopicPartition]:
    for partition in wanted:
        if not directory.has(partition):
            raise Failure(f"{directory.path} has no partition {partition}", WRONG_CALL)
    return wanted or directory.partitions()


def _clean(log_directory: str, wanted: list[TopicPartition], now: bool) -> int:
    from offsetfs.cli.progress import Line, bytes_text, open_for_writing
    from offsetfs.storage.duties.duties import Duties

    done: list[Done] = []
    line = Line("offsetfs clean", every_seconds=PROGRESS_S)

    def tell(each: Done) -> None:
        done.append(each)
        line.clear()
        click.echo(str(each), err=each.error is not None)

    def show(partition: TopicPartition | None, part: int, total: int) -> None:
        if partition is None:
            line.show(f"retention, {part} of {total} partitions")
        else:
            line.show(f"compacting {partition}, {bytes_text(part)} of at most {bytes_text(total)}")

    directory = open_for_writing(log_directory)
    try:
        Duties(directory, tell).run_all(_chosen(directory, wanted), now=now, on_progress=show)
    finally:
        line.clear()
        directory.close()
    if not done:
        click.echo("nothing is due" if not now else "there is nothing to do")
    return FAILED if any(each.error is not None for each in done) else DONE


def _plan(log_directory: str, wanted: list[TopicPartition], now: bool) -> int:
    from offsetfs.storage.directory.directory import LogDirectory
    from offsetfs.storage.duties.duty_plan import plan

    directory = LogDirectory.open(log_directory, read_only=True)
    try:
        planned = list(plan(directory, _chosen(directory, wanted), now=now))
    finally:
        directory.close()
    for each in planned:
        why = f"{each.duty}: {', '.join(each.because)}" if each.because else each.duty
        verb = "would rewrite" if each.duty == "compaction" else "would remove"
        click.echo(f"{each.name}: {verb} {each.segments} segments, {each.bytes} bytes ({why})")
    if not planned:
        click.echo("nothing is due")
    return DONE
