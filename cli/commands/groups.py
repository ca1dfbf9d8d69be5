"""`offsetfs groups`: how far consumer groups are behind, in records and in time, and where they shall continue."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.log_directories import log_directories
from offsetfs.cli.arguments.named_partitions import resolve_among
from offsetfs.cli.arguments.sources import opened_source
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.mounts.serving_daemon import in_use
from offsetfs.cli.terminal.progress import bytes_progress, open_for_writing
from offsetfs.cli.terminal.reports import ReportForm, report_options
from offsetfs.common.formatting import printable
from offsetfs.common.quantities import EXAMPLE_TIMES, time_ms
from offsetfs.fs.naming.grammar import parse_offset
from offsetfs.storage import LogDirectories, TopicPartition
from offsetfs.storage.errors import LogDirectoryLocked, StorageError, counted, sentence

if TYPE_CHECKING:
    from offsetfs.answers.group_reset import Place, ResetPlan

_NAMED_MAX = 10
_REMEDY_WHILE_MOUNTED = "write the offsets into {mount}/groups/GROUP/TOPIC-PARTITION, or unmount it first"


@click.command("groups", short_help="Show how far consumer groups are behind; reset them.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("group", metavar="[GROUP]", required=False)
@click.argument("names", metavar="[TOPIC[-PARTITION]]...", nargs=-1)
@report_options
@click.option("--reset-to", "where", metavar="WHERE", help="Plan commits there: earliest, latest, an offset or a time.")
@click.option("--reset-like", "other", metavar="DIR", help="Plan commits where the group is in DIR, by content.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the plan for kafka-consumer-groups.sh --from-file.")
@click.option("--yes", is_flag=True, help="Commit the offsets of the plan.")
def command(
    log_directory: str,
    group: str | None,
    names: tuple[str, ...],
    as_json: bool,
    html: str | None,
    shows_all: bool,
    where: str | None,
    other: str | None,
    as_csv: bool,
    yes: bool,
) -> int:
    """Show how far consumer groups are behind: in records, in seconds, and when they will have caught up.

    With GROUP its partitions, and the history of its commits as far as compaction has left it in __consumer_offsets. A
    commit beyond the end of its partition, or below its start, is a finding; it says what auto.offset.reset does then.
    The command works beside a running broker.

    --reset-to and --reset-like print where the group would continue, in the named partitions or in those that it has
    committed. Nothing is changed without --yes, which needs a directory that no broker uses. In the directory of a
    Kafka broker, the plan goes through --csv to kafka-consumer-groups.sh. --reset-like finds the record that the group
    reads next in DIR by its time and content, so that the copy may have other offsets.

    \b
    offsetfs groups /var/lib/kafka/data
    offsetfs groups /var/lib/kafka/data billing
    offsetfs groups /var/lib/kafka/data billing --json | jq '.tables.history'
    offsetfs groups ~/logs billing --reset-to -2h
    offsetfs groups ~/logs billing orders-3 --reset-to earliest --yes
    offsetfs groups /copy/data billing --reset-like /var/lib/kafka/data --csv > plan.csv

    Exit codes: 0 nothing found but notices, 1 findings (or a wrong call), 2 system error, 32 LOGDIR could not be read
    or is in use.
    """
    from offsetfs.answers.groups import UnknownGroup, groups_report

    form = ReportForm(as_json=as_json, html=html, shows_all=shows_all)
    if where is not None or other is not None:
        if group is None or (where is not None and other is not None):
            raise Failure("give GROUP, and either --reset-to or --reset-like", WRONG_CALL)
        return _reset(log_directory, group, names, _Reset(where, other, as_csv, yes), form)
    if names or as_csv or yes:
        raise Failure("TOPIC, --csv and --yes go with --reset-to or --reset-like", WRONG_CALL)
    with opened_source(log_directory) as opened, bytes_progress("Reading commits") as show:
        try:
            report = groups_report(opened, group, on_bytes=show)
        except UnknownGroup as error:
            raise Failure(_no_group(str(group), error.args[0]), WRONG_CALL) from error
    return form.show(report)


def _no_group(group: str, names: list[str]) -> str:
    known = ", ".join(map(printable, names[:_NAMED_MAX])) + ", …" * (len(names) > _NAMED_MAX)
    return f"there is no group {printable(group)}; " + (f"there are {known}" if names else "there are no groups here")


# --- where a group shall continue ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reset:
    where: str | None
    other: str | None
    as_csv: bool
    is_applied: bool


def _reset(log_directory: str, group: str, names: Sequence[str], reset: _Reset, form: ReportForm) -> int:
    from offsetfs.answers.group_reset import reset_plan

    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(_opened(log_directory, is_for_writing=reset.is_applied))
        if reset.is_applied and opened.is_brokers:
            raise Failure(
                f"{log_directory} is the directory of a Kafka broker, whose other brokers would not get the commits: "
                "write the plan with --csv, and run kafka-consumer-groups.sh --reset-offsets --from-file --execute",
                WRONG_CALL,
            )
        place = _place(reset, group, stack)
        plan = reset_plan(opened, group, _partitions(opened, log_directory, group, names), place)
        note = "nothing was changed; --yes commits these offsets"
        if reset.is_applied:
            note = _commit(opened, plan)
    if reset.as_csv:
        for line in plan.lines():
            click.echo(line)
        for finding in plan.missing:
            click.echo(f"offsetfs groups: {printable(finding.place)}: {printable(finding.evidence)}", err=True)
        return WRONG_CALL if plan.missing else DONE
    return form.show(plan.report(f"{log_directory}, {group}", note))


@contextlib.contextmanager
def _opened(log_directory: str, *, is_for_writing: bool) -> Iterator[LogDirectories]:
    if not is_for_writing:
        with opened_source(log_directory) as opened:
            yield opened
        return
    paths = log_directories(log_directory)
    for path in paths:
        preflight.check_directory(path, read_only=False, may_be_empty=False)
    try:
        with contextlib.closing(LogDirectories.open(paths, open_for_writing)) as writable:
            yield writable
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, _REMEDY_WHILE_MOUNTED) from error
    except StorageError as error:
        raise Failure(sentence(error)) from error


def _place(reset: _Reset, group: str, stack: contextlib.ExitStack) -> Place:
    from offsetfs.answers import group_reset

    if reset.other is not None:
        other = stack.enter_context(opened_source(reset.other))
        if not group_reset.committed_offsets(other, group):
            raise Failure(f"{printable(group)} has no commits in {reset.other}", WRONG_CALL)
        return group_reset.by_content(other, group)
    words = {"earliest": group_reset.at_start, "latest": group_reset.at_end}
    where = str(reset.where)
    if where in words:
        return words[where]
    offset = parse_offset(where.encode("utf-8", "replace"))
    if offset is not None:
        return group_reset.at_offset(offset)
    when = time_ms(where)
    if when is None:
        raise Failure(
            f"--reset-to {where!r}: write earliest, latest, an offset, or a time: {EXAMPLE_TIMES}", WRONG_CALL
        )
    return group_reset.at_time(when)


def _partitions(
    opened: LogDirectories, log_directory: str, group: str, names: Sequence[str]
) -> Sequence[TopicPartition]:
    """Return the named partitions, else those that the group has committed and that are here; `Failure` without any."""
    from offsetfs.answers.group_reset import committed_offsets

    if names:
        return resolve_among(log_directory, list(opened.partitions()), names)
    known = sorted(partition for partition in committed_offsets(opened, group) if opened.has(partition))
    if not known:
        raise Failure(f"{printable(group)} has no commits in {log_directory}: name the topics", WRONG_CALL)
    return known


def _commit(opened: LogDirectories, plan: ResetPlan) -> str:
    from offsetfs.storage.coordinators import commit_offsets

    offsets = {commit.partition: commit.offset for commit in plan.commits}
    if offsets:
        commit_offsets(opened, plan.group, offsets)
    return f"committed {counted(len(offsets), 'offset')}"
