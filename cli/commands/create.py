"""`offsetfs create`: create partitions of a topic, in a log directory or through its mount."""

from __future__ import annotations

import os

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.topic_settings import illegal_setting, parsed_settings, topic_settings_option
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, daemon_of, in_use
from offsetfs.cli.mounts.serving_process import serving_process
from offsetfs.cli.terminal.directory_warnings import print_new_directory
from offsetfs.cli.terminal.progress import open_for_writing
from offsetfs.storage import LogConfig, TopicPartition, check_topic
from offsetfs.storage.directory import has_meta_properties
from offsetfs.storage.errors import InvalidConfig, LogDirectoryLocked, StorageError, counted

PARTITIONS_SUGGESTED_MAX = 100  # a larger number is rather a year or a date in the name of a topic
PARTITIONS_MAX = 100_000  # in one call: protects against a typing error that would create a million directories


@click.command("create", short_help="Create partitions of a topic.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("topic", metavar="TOPIC")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1, PARTITIONS_MAX),
    metavar="N",
    help="Number of partitions; default 1.",
)
@topic_settings_option("A topic setting of Kafka; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Create only missing partitions.")
def command(
    log_directory: str, topic: str, partitions: int | None, settings: tuple[str, ...], if_not_exists: bool
) -> int:
    """Create partitions 0 to N-1 of TOPIC in the log directory LOGDIR, which may be empty or missing.

    Values of settings may be durations (7d) and sizes (64m). A topic whose name looks like that of a partition
    (orders-0) needs --partitions.

    They are on disk when the command returns. If LOGDIR is mounted with -o create, or served, the command
    works through the mount or the server.

    \b
    offsetfs create ~/logs orders
    offsetfs create ~/logs orders --partitions 3 -o retention.ms=7d -o segment.bytes=64m
    offsetfs create ~/logs users -o cleanup.policy=compact

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused; the message gives the reason.
    """
    properties = parsed_settings(settings)
    try:
        check_topic(topic)
        LogConfig.from_properties(properties)
    except InvalidConfig as error:
        raise illegal_setting(error, properties) from error
    except StorageError as error:
        raise Failure(str(error), WRONG_CALL) from error
    wanted = [TopicPartition(topic, number) for number in range(partitions or 1)]
    preflight.check_single(log_directory)
    if partitions is None:
        _check_no_partition_is_meant(log_directory, topic)
    if preflight.make_missing(log_directory):
        print_new_directory(log_directory)
    preflight.check_directory(log_directory, read_only=False, may_be_empty=True, may_begin=True)
    _check_not_a_partition(log_directory, topic)
    missing = _missing(log_directory, wanted, if_not_exists)
    if has_meta_properties(log_directory):
        click.echo(
            f"offsetfs create: warning: {log_directory} belongs to a broker, which moves partitions away that it did "
            "not create; create the topic with the broker, and see offsetfs hand-over",
            err=True,
        )
    try:
        _create(log_directory, missing, properties)
    except LogDirectoryLocked as error:
        server = serving_process(log_directory)
        if server is None:
            _create_through_mount(log_directory, missing, properties, error)
        elif missing:
            server.request("create", missing, properties=properties)
    except StorageError as error:
        raise Failure(str(error)) from error
    return DONE


def _check_not_a_partition(log_directory: str, topic: str) -> None:
    """`Failure` if `topic` is the name of a partition, because names in commands would become ambiguous."""
    if os.path.isdir(os.path.join(log_directory, topic)) and TopicPartition.parse_or_none(topic) is not None:
        of_partition, _, _ = topic.rpartition("-")
        raise Failure(
            f"{topic} is a partition of topic {of_partition}; to add partitions to it use offsetfs create "
            f"{log_directory} {of_partition} --partitions N --if-not-exists",
            WRONG_CALL,
        )


def _check_no_partition_is_meant(log_directory: str, topic: str) -> None:
    """`Failure` if `topic` looks like the name of a partition, which Kafka permits, but which is rarely meant."""
    partition = TopicPartition.parse_or_none(topic)
    if partition is None or any(os.path.isdir(os.path.join(log_directory, name)) for name in (topic, f"{topic}-0")):
        return  # a later check names what is there
    meant = partition.topic
    if 0 < partition.partition < PARTITIONS_SUGGESTED_MAX:
        meant += f" --partitions {partition.partition + 1}"
    if os.path.isdir(os.path.join(log_directory, f"{partition.topic}-0")):
        meant += " --if-not-exists"
    raise Failure(
        f"{topic} is the name of partition {partition.partition} of topic {partition.topic}: write offsetfs create "
        f"{log_directory} {meant}; for a topic named {topic} add --partitions 1",
        WRONG_CALL,
    )


def _missing(log_directory: str, wanted: list[TopicPartition], if_not_exists: bool) -> list[TopicPartition]:
    missing = [partition for partition in wanted if not os.path.lexists(os.path.join(log_directory, str(partition)))]
    if len(missing) < len(wanted) and not if_not_exists:
        there = next(partition for partition in wanted if partition not in missing)
        more = f"--if-not-exists adds the {counted(len(missing), 'missing partition')}" if missing else ""
        raise Failure(f"{there} already exists; {more or '--if-not-exists makes that a success'}")
    return missing


def _create(log_directory: str, missing: list[TopicPartition], properties: dict[str, str]) -> None:
    directory = open_for_writing(log_directory)
    try:
        directory.create_partitions(missing, properties)
    finally:
        directory.close()


def _create_through_mount(
    log_directory: str, missing: list[TopicPartition], properties: dict[str, str], locked: LogDirectoryLocked
) -> None:
    daemon = daemon_of(log_directory)
    if daemon is None:
        raise in_use(locked, log_directory, UNMOUNT_FIRST) from locked
    if "create" not in daemon.options:
        raise Failure(f"{log_directory} is mounted at {daemon.mount_point} without -o create: unmount it first")
    if properties:
        raise Failure(f"{log_directory} is mounted at {daemon.mount_point}: unmount it to create with -o")
    for partition in missing:
        os.mkdir(os.path.join(daemon.mount_point, str(partition)))
