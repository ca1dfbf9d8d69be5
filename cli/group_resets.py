"""`offsetfs groups --reset-to` and `--reset-like`: the plan, and commits in a directory or through a broker."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.archives import is_archive
from offsetfs.cli.arguments.cluster_options import ClusterQuestion, is_cluster
from offsetfs.cli.arguments.clusters import broker_addresses, client_properties
from offsetfs.cli.arguments.kafka_mounts import brokers_of
from offsetfs.cli.arguments.log_directories import log_directories
from offsetfs.cli.arguments.named_partitions import resolve_among
from offsetfs.cli.arguments.numbers import argument_time_ms
from offsetfs.cli.arguments.sources import opened_source, opened_with_commits
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.mounts.serving_daemon import in_use
from offsetfs.cli.mounts.serving_process import serving_process
from offsetfs.cli.terminal.progress import Line, open_for_writing
from offsetfs.cli.terminal.reports import ReportForm
from offsetfs.common.formatting import printable
from offsetfs.common.quantities import EXAMPLE_TIMES
from offsetfs.fs.naming.grammar import parse_offset
from offsetfs.storage import LogDirectories, TopicPartition
from offsetfs.storage.errors import LogDirectoryLocked, StorageError, counted, sentence

if TYPE_CHECKING:
    from offsetfs.answers.cluster_group_reset import ClusterPlace
    from offsetfs.answers.group_reset import Place, ResetPlan
    from offsetfs.kafka.client.cluster import ClusterClient

_WAITING_S = 5
_REMEDY_WHILE_MOUNTED = "write the offsets into {mount}/groups/GROUP/TOPIC-PARTITION, or unmount it first"
_UNCHANGED = "nothing was changed; --yes commits these offsets"


@dataclass(frozen=True, slots=True)
class GroupReset:
    """The arguments of a reset."""

    source: str
    """LOGDIR, or kafka://HOST:PORT/."""
    group: str
    names: Sequence[str]
    where: str | None
    other: str | None
    """The directory or cluster of --reset-like, with its client.properties."""
    other_config: str | None
    as_csv: bool
    is_applied: bool
    broker: str | None
    """Some brokers of the cluster through which the plan of a directory is committed."""
    config: str | None


def reset_group(reset: GroupReset, form: ReportForm) -> int:
    """Print the plan, with `is_applied` commit it; return the exit code. `Failure`."""
    if is_cluster(reset.source) and reset.broker is not None:
        raise Failure(f"{reset.source} names the brokers: leave out --bootstrap-server", WRONG_CALL)
    if is_cluster(reset.source) and reset.other is not None:
        plan, note = _plan_by_content_in_cluster(reset)
    elif is_cluster(reset.source):
        plan, note = _plan_in_cluster(reset)
    elif reset.broker is not None:
        with contextlib.ExitStack() as stack:
            opened = stack.enter_context(opened_source(reset.source))
            plan = _plan_in_directory(reset, opened, stack)
            plan, note = _plan_through_broker(reset, str(reset.broker), plan, opened)
    else:
        broker = _broker_of(reset.source)
        if reset.is_applied and broker is not None:
            raise Failure(
                f"{reset.source} is the directory of a broker, which would not see the commits: while it runs, use "
                f"{_through_broker(reset, broker)}",
                WRONG_CALL,
            )
        with contextlib.ExitStack() as stack:
            opened = stack.enter_context(_opened(reset.source, is_for_writing=reset.is_applied))
            plan, note = _plan_in_directory(reset, opened, stack), _UNCHANGED
            if reset.is_applied:
                note = _commit(opened, plan)
            elif broker is not None:
                note = f"nothing was changed; while the broker runs, this commits: {_through_broker(reset, broker)}"
    if reset.as_csv:
        for line in plan.lines():
            click.echo(line)
        for finding in plan.missing:
            click.echo(f"offsetfs groups: {printable(finding.place)}: {printable(finding.evidence)}", err=True)
        return WRONG_CALL if plan.missing else DONE
    return form.show(plan.report(f"{reset.source}, {reset.group}", note))


def _broker_of(source: str) -> str | None:
    """Return the address of the `offsetfs serve` of a directory, `HOST:9092` for that of a Kafka broker, else None."""
    if not is_archive(source):
        for path in log_directories(source):
            server = serving_process(path)
            if server is not None:
                return server.listeners[0]
    with opened_source(source) as opened:
        return "HOST:9092" if opened.is_brokers else None


def _through_broker(reset: GroupReset, broker: str) -> str:
    """Return the command that commits the plan through a broker."""
    how = ("--reset-to", reset.where) if reset.where is not None else ("--reset-like", reset.other)
    words = ["offsetfs", "groups", reset.source, reset.group, *reset.names, *map(str, how)]
    return f"{shlex.join(words)} --bootstrap-server {broker} --yes"


# --- in a directory --------------------------------------------------------------------------------------------------


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


def _plan_in_directory(reset: GroupReset, opened: LogDirectories, stack: contextlib.ExitStack) -> ResetPlan:
    from offsetfs.answers.group_reset import committed_offsets, reset_plan

    place = _place(reset, stack)
    committed = sorted(partition for partition in committed_offsets(opened, reset.group) if opened.has(partition))
    return reset_plan(opened, reset.group, _partitions(reset, list(opened.partitions()), committed), place)


def _partitions(
    reset: GroupReset, present: Sequence[TopicPartition], committed: Sequence[TopicPartition]
) -> Sequence[TopicPartition]:
    """Return the named partitions, else those that the group has committed and that are here; `Failure` without any."""
    if reset.names:
        return resolve_among(reset.source, present, reset.names)
    if not committed:
        raise Failure(f"{printable(reset.group)} has no commits in {reset.source}: name the topics", WRONG_CALL)
    return committed


def _place(reset: GroupReset, stack: contextlib.ExitStack) -> Place:
    from offsetfs.answers import group_reset

    if reset.other is not None:
        return group_reset.by_content(stack.enter_context(_opened_other(reset)), reset.group)
    words = {"earliest": group_reset.at_start, "latest": group_reset.at_end}
    where = str(reset.where)
    if where in words:
        return words[where]
    offset = parse_offset(where.encode("utf-8", "replace"))
    return group_reset.at_time(_time_ms(where)) if offset is None else group_reset.at_offset(offset)


@contextlib.contextmanager
def _opened_other(reset: GroupReset) -> Iterator[LogDirectories]:
    """Open the directory or cluster of --reset-like; `Failure` if the group has no commits there."""
    from offsetfs.answers.group_reset import CONTENT_RECORDS, committed_offsets

    other = str(reset.other)
    config = reset.other_config or reset.config
    with opened_with_commits(other, reset.group, config, records_before=CONTENT_RECORDS) as opened:
        if not committed_offsets(opened, reset.group):
            raise Failure(f"{printable(reset.group)} has no commits in {other}", WRONG_CALL)
        yield opened


def _time_ms(where: str) -> int:
    when = argument_time_ms("--reset-to", where)
    if when is None:
        raise Failure(
            f"--reset-to {where!r}: write earliest, latest, an offset, or a time: {EXAMPLE_TIMES}", WRONG_CALL
        )
    return when


def _commit(opened: LogDirectories, plan: ResetPlan) -> str:
    from offsetfs.storage.coordinators import commit_offsets

    offsets = plan.offsets()
    if offsets:
        commit_offsets(opened, plan.group, offsets)
    return f"committed {counted(len(offsets), 'offset')}"


# --- in a cluster ----------------------------------------------------------------------------------------------------

_Step = Callable[["ClusterClient"], Awaitable["tuple[ResetPlan, str]"]]


def _plan_in_cluster(reset: GroupReset) -> tuple[ResetPlan, str]:
    from offsetfs.answers.cluster_group_reset import cluster_partitions, cluster_plan

    brokers = brokers_of(reset.source, "after the group", "--config FILE")
    place = _cluster_place(str(reset.where))

    async def run(client: ClusterClient) -> tuple[ResetPlan, str]:
        present, committed = await cluster_partitions(client, reset.group)
        partitions = _partitions(reset, present, sorted(committed))
        plan = await cluster_plan(client, reset.group, committed, partitions, place)
        return plan, await _committed_in_cluster(client, reset, plan)

    return _in_cluster(reset, brokers, run)


def _plan_by_content_in_cluster(reset: GroupReset) -> tuple[ResetPlan, str]:
    """Return the plan of --reset-like, made with a copy of the records that may be the place of the group."""
    from offsetfs.answers.group_reset import by_content, reset_plan, sought_times
    from offsetfs.kafka.mirror.survey import Beginning

    brokers = brokers_of(reset.source, "after the group", "--config FILE")
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(_opened_other(reset))
        times = sought_times(other, reset.group)
        wanted = _partitions(reset, list(times), sorted(times))
        begins = {partition: Beginning(times[partition] if times[partition] >= 0 else None) for partition in wanted}
        question = ClusterQuestion(begins=begins, may_lack=True)
        opened = stack.enter_context(opened_source(reset.source, question=question, config=reset.config))
        plan = reset_plan(opened, reset.group, wanted, by_content(other, reset.group))
        return _plan_through_broker(reset, brokers, plan, opened)


def _cluster_place(where: str) -> ClusterPlace:
    from offsetfs.answers.cluster_group_reset import ClusterPlace
    from offsetfs.kafka.client.partition_offsets import EARLIEST, LATEST

    words = {"earliest": EARLIEST, "latest": LATEST}
    if where in words:
        return ClusterPlace(timestamp=words[where])
    offset = parse_offset(where.encode("utf-8", "replace"))
    return ClusterPlace(timestamp=_time_ms(where)) if offset is None else ClusterPlace(offset=offset)


def _plan_through_broker(
    reset: GroupReset, brokers: str, plan: ResetPlan, opened: LogDirectories
) -> tuple[ResetPlan, str]:
    from offsetfs.answers.cluster_group_reset import WrongCluster, plan_for_cluster
    from offsetfs.storage.directory import cluster_id_of

    clusters = {cluster_id_of(log_directory.path) for log_directory in opened.directories if log_directory.is_brokers}

    async def run(client: ClusterClient) -> tuple[ResetPlan, str]:
        checked = await plan_for_cluster(client, plan, clusters)
        return checked, await _committed_in_cluster(client, reset, checked)

    try:
        return _in_cluster(reset, brokers, run)
    except WrongCluster as error:
        raise Failure(f"{reset.source} is of {error}; give a broker of its cluster", WRONG_CALL) from error


async def _committed_in_cluster(client: ClusterClient, reset: GroupReset, plan: ResetPlan) -> str:
    """Commit the plan, with `is_applied`; return what was done. `Failure` for a group with members."""
    from offsetfs.kafka.client.group_offsets import commit_offsets, group_state, has_members

    state = await group_state(client, plan.group)
    if has_members(state):
        reason = f"{printable(plan.group)} has members, its state is {state}: stop its consumers"
        if reset.is_applied:
            raise Failure(f"{reason}, then repeat the command; nothing was changed")
        return f"nothing was changed; {reason}, before --yes commits these offsets"
    if not reset.is_applied:
        return _UNCHANGED
    await commit_offsets(client, plan.group, plan.offsets())
    return f"committed {counted(len(plan.commits), 'offset')}"


def _in_cluster(reset: GroupReset, brokers: str, step: _Step) -> tuple[ResetPlan, str]:
    """Return what `step` returns for a client of the cluster; `Failure`."""
    import trio

    from offsetfs.kafka.client.cluster import ClusterClient, wait_for_cluster
    from offsetfs.kafka.client.errors import ClientError, is_authorization_error

    addresses, properties = broker_addresses(brokers), client_properties(reset.config)
    line = Line("offsetfs groups", every_seconds=_WAITING_S)

    async def run() -> tuple[ResetPlan, str]:
        async with ClusterClient(addresses, properties) as client:
            try:
                await wait_for_cluster(client, lambda text: line.show(printable(text)))
            finally:
                line.clear()
            return await step(client)

    try:
        return trio.run(run)
    except ClientError as error:
        text = printable(str(error))
        if is_authorization_error(error):
            text += "; the user of --config needs DESCRIBE and READ of the group and of its topics"
        raise Failure(text) from error
