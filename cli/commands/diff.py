"""`offsetfs diff`: compare two log directories, archives or copies, and show where they part."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import click

from offsetfs.cli.arguments.cluster_options import ClusterQuestion, cluster_options, is_cluster
from offsetfs.cli.arguments.named_partitions import no_such
from offsetfs.cli.arguments.sources import opened_source
from offsetfs.cli.exit_codes import FAILED, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.terminal.progress import bytes_progress
from offsetfs.cli.terminal.reports import ReportForm, report_options
from offsetfs.storage import INTERNAL_TOPICS, LogDirectories, TopicPartition, check_topic
from offsetfs.storage.errors import InvalidName


@click.command("diff", short_help="Compare two log directories or archives.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.argument("names", nargs=-1, metavar="[TOPIC[-PARTITION]]...")
@click.option("--quick", "is_quick", is_flag=True, help="Compare headers and stored checksums, not every byte.")
@click.option(
    "--by",
    type=click.Choice(("offset", "key", "content")),
    default="offset",
    show_default=True,
    help="Compare records at the same offset, the latest value of each key, or records in their order.",
)
@click.option("--ignore-times", is_flag=True, help="With --by content: timestamps may differ.")
@click.option("--topic-in-b", metavar="NAME", help="The name that the given topic has in B, such as source.orders.")
@click.option(
    "--only",
    type=click.Choice(("records", "settings", "groups", "acls")),
    multiple=True,
    help="Compare only these; also several times.",
)
@click.option("--common", "common_only", is_flag=True, help="Exit with 0 if what both have is equal.")
@cluster_options
@click.option("--config-b", metavar="FILE", type=click.Path(), help="client.properties of B, if it is another cluster.")
@report_options
def command(
    a: str,
    b: str,
    names: tuple[str, ...],
    is_quick: bool,
    by: str,
    ignore_times: bool,
    topic_in_b: str | None,
    only: tuple[str, ...],
    common_only: bool,
    config_b: str | None,
    as_json: bool,
    html: str | None,
    shows_all: bool,
) -> int:
    """Compare the records of A and B: log directories, several as DIR,DIR, a server.properties, an archive's URL, or a
    cluster, kafka://HOST:PORT/, whose topics are copied first.

    Nothing is changed, and brokers may be running. Batches are compared byte by byte, but for the leader epoch. Where
    they differ, records are compared by offset: time, key, value, headers. So another codec, or other batches, are no
    difference. The report shows where two logs part, with both records, and says whether compaction explains what is
    missing.

    Settings of topics, committed offsets and ACLs are compared where both sides have them. Copies at other offsets, as
    of MirrorMaker 2, are compared with --by content, or --by key.

    \b
    offsetfs diff /disk1/kafka /disk2/kafka
    offsetfs diff /var/lib/kafka/data s3://backup/kafka orders
    offsetfs diff broker1/data broker2/data orders-0 --json
    offsetfs diff /var/lib/kafka/data /backup/kafka --common --quick
    offsetfs diff dc1/data dc2/data orders --topic-in-b dc1.orders --by content
    offsetfs diff kafka://broker1:9092/ /backup/kafka orders

    Exit codes: 0 equal, 1 different (or a wrong call), 2 system error, 8 interrupted, 32 a log could not be read.
    """
    from offsetfs.answers.diff.directories import DiffOptions, DirectoriesComparison, compared_partitions
    from offsetfs.answers.diff.report import diff_report
    from offsetfs.answers.diff.states import ACLS, GROUPS, SETTINGS, state_tables

    _check_options(names, by, is_quick=is_quick, ignore_times=ignore_times, topic_in_b=topic_in_b)
    options = DiffOptions(by, is_quick, not ignore_times, topic_in_b)
    if config_b is not None and not is_cluster(b):
        raise Failure("--config-b goes with a cluster as B", WRONG_CALL)
    has_groups = (not only or GROUPS in only) and topic_in_b is None
    in_a = ClusterQuestion(names, may_lack=True, groups=has_groups)
    in_b = ClusterQuestion([_name_in_b(name, topic_in_b) for name in names], may_lack=True, groups=has_groups)
    with _opened(a, in_a) as first, _opened(b, in_b, config_b) as second:
        present = compared_partitions(first, second)
        if not names and (is_cluster(a) or is_cluster(b)):  # of a cluster they are not copied
            present = [partition for partition in present if partition.topic not in INTERNAL_TOPICS]
        partitions = _chosen(names, present, [a, b])
        with bytes_progress("Comparing") as on_bytes:
            comparison = DirectoriesComparison(first, second, partitions, options, on_bytes)
            pairs = comparison.run() if not only or "records" in only else []
        unseen = [*_invisible(a, in_a, first), *_invisible(b, in_b, second)]
        kinds = only or (SETTINGS, GROUPS) if names else only or (SETTINGS, GROUPS, ACLS)
        states = [] if topic_in_b else state_tables(first, second, kinds, partitions, unseen)
    subject = " ".join([a, b, *names])
    report = diff_report(
        pairs,
        subject,
        options,
        bytes_done=comparison.bytes_done,
        common_only=common_only,
        states=states,
        unseen=unseen,
    )
    code = ReportForm(as_json, html, shows_all).show(report)
    return FAILED if any(pair.error for pair in pairs) else code


def _check_options(
    names: Sequence[str], by: str, *, is_quick: bool, ignore_times: bool, topic_in_b: str | None
) -> None:
    if is_quick and by != "offset":
        raise Failure("--quick reads no records; leave out --by", WRONG_CALL)
    if ignore_times and by != "content":
        raise Failure("--ignore-times goes with --by content", WRONG_CALL)
    topics = {partition.topic if (partition := TopicPartition.parse_or_none(name)) else name for name in names}
    if topic_in_b is not None and len(topics) != 1:
        raise Failure("--topic-in-b goes with one topic; give its name in A after B", WRONG_CALL)
    try:
        check_topic(topic_in_b or "topic")
    except InvalidName as error:
        raise Failure(f"--topic-in-b: {error.reason}", WRONG_CALL) from error


@contextlib.contextmanager
def _opened(text: str, question: ClusterQuestion, config: str | None = None) -> Iterator[LogDirectories]:
    """Open a source with its log ends. The code for differences is 1, so a source that is missing has another one."""
    with contextlib.ExitStack() as opened:
        try:
            directory = opened.enter_context(opened_source(text, question=question, config=config, shows_log_end=True))
        except Failure as failure:
            raise Failure(failure.message, SYSTEM if failure.code == WRONG_CALL else failure.code) from failure
        yield directory


def _invisible(text: str, question: ClusterQuestion, opened: LogDirectories) -> Iterator[str]:
    """Yield what a cluster does not show: a user without a permission sees as little as where nothing is."""
    present = opened.partitions() if is_cluster(text) else ()
    for name in question.names if is_cluster(text) else ():
        if not any(name in (partition.topic, str(partition)) for partition in present):
            yield f"{name} of {text}: it is not there, or the user of --config may not DESCRIBE the topic"


def _name_in_b(name: str, topic_in_b: str | None) -> str:
    """Return the name in B of a topic or a partition of A."""
    partition = TopicPartition.parse_or_none(name)
    if topic_in_b is None or partition is None:
        return topic_in_b or name
    return str(TopicPartition(topic_in_b, partition.partition))


def _chosen(names: Sequence[str], present: Sequence[TopicPartition], sources: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions that the names select, all without names. `Failure` for a name that is in neither."""
    for name in names:
        if not any(name in (partition.topic, str(partition)) for partition in present):
            raise Failure(f"{name}: {no_such(sources, name, present)}", WRONG_CALL)
    wanted = set(names)
    return [partition for partition in present if not wanted or wanted & {partition.topic, str(partition)}]
