"""`offsetfs create`: create partitions of a topic, in a log directory or through its mount."""

from __future__ import annotations

import os

import click

from offsetfs.cli import preflight
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.mounts.serving_daemon import daemon_of
from offsetfs.cli.mounts.serving_process import serving_process
from offsetfs.cli.terminal.progress import open_for_writing
from offsetfs.storage import LogConfig, TopicPartition, check_topic
from offsetfs.storage.directory import has_meta_properties
from offsetfs.storage.errors import LogDirectoryLocked, StorageError

PARTITIONS_MAX = 100_000  # in one call: protects against a typing error that would create a million directories


@click.command("create", short_help="Create partitions of a topic.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("topic", metavar="TOPIC")
@click.option(
    "--partitions",
    type=click.IntRange(1, PARTITIONS_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of partitions.",
)
@click.option(
    "--config", "settings", multiple=True, metavar="NAME=VALUE", help="A topic setting of Kafka; may be repeated."
)
@click.option("--if-not-exists", is_flag=True, help="Create only missing partitions.")
def command(log_directory: str, topic: str, partitions: int, settings: tuple[str, ...], if_not_exists: bool) -> int:
    """Create partitions 0 to N-1 of TOPIC in the log directory LOGDIR, which may be empty.

    They are on disk when the command returns. If LOGDIR is mounted with -o create, or served, the command
    works through the mount or the server.

    \b
    offsetfs create ~/logs orders
    offsetfs create ~/logs orders --partitions 3 --config retention.ms=-1
    offsetfs create ~/logs users --config cleanup.policy=compact

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused; the message gives the reason.
    """
    properties = _properties(settings)
    try:
        check_topic(topic)
        LogConfig.from_properties(properties)
    except StorageError as error:
        raise Failure(str(error), WRONG_CALL) from error
    wanted = [TopicPartition(topic, number) for number in range(partitions)]
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


def _properties(settings: tuple[str, ...]) -> dict[str, str]:
    properties = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise Failure(f"--config {setting}: give NAME=VALUE", WRONG_CALL)
        properties[name] = value
    return properties


def _check_not_a_partition(log_directory: str, topic: str) -> None:
    """`Failure` if `topic` is the name of a partition, because names in commands would become ambiguous."""
    if os.path.isdir(os.path.join(log_directory, topic)) and TopicPartition.parse_or_none(topic) is not None:
        of_partition, _, _ = topic.rpartition("-")
        raise Failure(
            f"{topic} is a partition of topic {of_partition}; to add partitions to it use offsetfs create "
            f"{log_directory} {of_partition} --partitions N --if-not-exists",
            WRONG_CALL,
        )


def _missing(log_directory: str, wanted: list[TopicPartition], if_not_exists: bool) -> list[TopicPartition]:
    missing = [each for each in wanted if not os.path.lexists(os.path.join(log_directory, str(each)))]
    if len(missing) < len(wanted) and not if_not_exists:
        there = next(each for each in wanted if each not in missing)
        raise Failure(f"{there} already exists (--if-not-exists creates only missing partitions)")
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
        raise Failure(f"{locked}; with a running broker, use kafka-topics.sh --create") from locked
    if "create" not in daemon.options:
        raise Failure(f"{log_directory} is mounted at {daemon.mount_point} without -o create: unmount it first")
    if properties:
        raise Failure(f"{log_directory} is mounted at {daemon.mount_point}: unmount it to create with --config")
    for partition in missing:
        os.mkdir(os.path.join(daemon.mount_point, str(partition)))
