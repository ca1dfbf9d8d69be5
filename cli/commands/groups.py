"""`offsetfs groups`: how far consumer groups are behind, in records and in time, and where they shall continue."""

from __future__ import annotations

import click

from offsetfs.cli.arguments.cluster_options import cache_option, is_cluster
from offsetfs.cli.arguments.sources import opened_with_commits
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.cli.group_resets import GroupReset, reset_group
from offsetfs.cli.terminal.progress import bytes_progress
from offsetfs.cli.terminal.reports import ReportForm, report_options
from offsetfs.common.formatting import printable

_NAMED_MAX = 10


@click.command("groups", short_help="Show how far consumer groups are behind; reset them.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("group", metavar="[GROUP]", required=False)
@click.argument("names", metavar="[TOPIC[-PARTITION]]...", nargs=-1)
@report_options
@click.option("--reset-to", "where", metavar="WHERE", help="Plan commits there: earliest, latest, an offset or a time.")
@click.option("--reset-like", "other", metavar="DIR", help="Plan commits where the group is in DIR, by content.")
@click.option(
    "--like-config", metavar="FILE", type=click.Path(), help="client.properties of DIR, if it is another cluster."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print the plan for kafka-consumer-groups.sh --from-file.")
@click.option("--yes", is_flag=True, help="Commit the offsets of the plan.")
@click.option("--bootstrap-server", "broker", metavar="HOST:PORT", help="Commit the plan of LOGDIR through a broker.")
@click.option("--config", metavar="FILE", type=click.Path(), help="client.properties, as Java's tools take it.")
@cache_option
def command(
    log_directory: str,
    group: str | None,
    names: tuple[str, ...],
    as_json: bool,
    html: str | None,
    shows_all: bool,
    where: str | None,
    other: str | None,
    like_config: str | None,
    as_csv: bool,
    yes: bool,
    broker: str | None,
    config: str | None,
) -> int:
    """Show how far consumer groups are behind: in records, in seconds, and when they will have caught up.

    With GROUP its partitions, its members as the coordinator has last written them, and the history of its commits as
    far as compaction has left it in __consumer_offsets. A commit beyond the end of its partition, below its start, or
    of an earlier topic of this name is a finding; it says what auto.offset.reset does then. The command works beside a
    running broker. Of a cluster, kafka://HOST:PORT/, it copies __consumer_offsets first, and records from the commits
    on.

    --reset-to and --reset-like print where the group would continue, in the named partitions or in those that it has
    committed. Nothing is changed without --yes. A directory that no broker uses gets the commits itself; for that of a
    broker, --bootstrap-server sends them to the running cluster. With kafka://HOST:PORT/ as LOGDIR the plan is that of
    the cluster as well. A group that has members there is refused: stop its consumers. --reset-like finds the record
    that the group reads next in DIR by its time and content, so that the copy may have other offsets; LOGDIR and DIR
    may be clusters, of which the records from that time on are copied. --csv prints the plan for
    kafka-consumer-groups.sh.

    \b
    offsetfs groups /var/lib/kafka/data
    offsetfs groups /var/lib/kafka/data billing
    offsetfs groups /var/lib/kafka/data billing --json | jq '.tables.history'
    offsetfs groups ~/logs billing --reset-to -2h
    offsetfs groups ~/logs billing orders-3 --reset-to earliest --yes
    offsetfs groups kafka://broker1:9092/ billing
    offsetfs groups kafka://broker1:9092/ billing --reset-to -2h --yes
    offsetfs groups /var/lib/kafka/data billing orders --reset-to earliest --bootstrap-server broker1:9092 --yes
    offsetfs groups /copy/data billing --reset-like /var/lib/kafka/data --csv > plan.csv
    offsetfs groups kafka://new:9092/ billing --reset-like kafka://old:9092/ --like-config old.properties

    Exit codes: 0 nothing found but notices, 1 findings (or a wrong call), 2 system error, 32 LOGDIR could not be read
    or is in use.
    """
    from offsetfs.answers.groups import UnknownGroup, groups_report

    form = ReportForm(as_json=as_json, html=html, shows_all=shows_all)
    if where is not None or other is not None:
        if group is None or (where is not None and other is not None):
            raise Failure("give GROUP, and either --reset-to or --reset-like", WRONG_CALL)
        if like_config is not None and not is_cluster(other or ""):
            raise Failure("--like-config goes with a cluster as DIR of --reset-like", WRONG_CALL)
        reset = GroupReset(log_directory, group, names, where, other, like_config, as_csv, yes, broker, config)
        return reset_group(reset, form)
    if names or as_csv or yes or broker is not None or like_config is not None:
        raise Failure(
            "TOPIC, --csv, --yes, --like-config and --bootstrap-server go with --reset-to or --reset-like", WRONG_CALL
        )
    with opened_with_commits(log_directory, group, config) as opened, bytes_progress("Reading commits") as show:
        try:
            report = groups_report(opened, group, on_bytes=show)
        except UnknownGroup as error:
            raise Failure(_no_group(str(group), error.args[0]), WRONG_CALL) from error
    return form.show(report)


def _no_group(group: str, names: list[str]) -> str:
    known = ", ".join(map(printable, names[:_NAMED_MAX])) + ", …" * (len(names) > _NAMED_MAX)
    return f"there is no group {printable(group)}; " + (f"there are {known}" if names else "there are no groups here")
