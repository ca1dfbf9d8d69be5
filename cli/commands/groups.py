"""`offsetfs groups`: how far consumer groups are behind, in records and in time."""

from __future__ import annotations

import click

from offsetfs.cli.arguments.sources import opened_source
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.cli.terminal.progress import bytes_progress
from offsetfs.cli.terminal.reports import ReportForm, report_options
from offsetfs.common.formatting import printable

_NAMED_MAX = 10


@click.command("groups", short_help="Show how far consumer groups are behind.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("group", metavar="[GROUP]", required=False)
@report_options
def command(log_directory: str, group: str | None, as_json: bool, html: str | None, shows_all: bool) -> int:
    """Show how far consumer groups are behind: in records, in seconds, and when they will have caught up.

    With GROUP its partitions, and the history of its commits as far as compaction has left it in __consumer_offsets. A
    commit beyond the end of its partition, or below its start, is a finding; it says what auto.offset.reset does then.
    Nothing is changed. The command works beside a running broker.

    \b
    offsetfs groups /var/lib/kafka/data
    offsetfs groups /var/lib/kafka/data billing
    offsetfs groups /var/lib/kafka/data billing --json | jq '.tables.history'

    Exit codes: 0 nothing found but notices, 1 findings (or a wrong call), 32 LOGDIR could not be read.
    """
    from offsetfs.answers.groups import UnknownGroup, groups_report

    form = ReportForm(as_json=as_json, html=html, shows_all=shows_all)
    with opened_source(log_directory) as opened, bytes_progress("Reading commits") as show:
        try:
            report = groups_report(opened, group, on_bytes=show)
        except UnknownGroup as error:
            raise Failure(_no_group(str(group), error.args[0]), WRONG_CALL) from error
    return form.show(report)


def _no_group(group: str, names: list[str]) -> str:
    known = ", ".join(map(printable, names[:_NAMED_MAX])) + ", …" * (len(names) > _NAMED_MAX)
    return f"there is no group {printable(group)}; " + (f"there are {known}" if names else "there are no groups here")
