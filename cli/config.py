"""`offsetfs config`: show and change the settings of topics; also while the directory is mounted."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import click

from offsetfs.cli import preflight
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.served import daemon_of
from offsetfs.storage.checkpoint import META_PROPERTIES
from offsetfs.storage.errors import InvalidName, StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.settings.config import DEFAULTS, NAMES, LogConfig
from offsetfs.storage.settings.topic_settings import TopicSettings

OF_TOPIC, OF_MOUNT, OF_KAFKA = "topic", "mount", "default"


@click.command("config", short_help="Show and change the settings of topics.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("topic", metavar="[TOPIC]", required=False)
@click.argument("changes", metavar="[NAME=VALUE|NAME=]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def command(log_directory: str, topic: str | None, changes: tuple[str, ...], as_json: bool) -> int:
    """Show the settings of TOPIC, or of every topic that has some of its own; or change them.

    Names and values are Kafka's. NAME=VALUE sets one for the topic, NAME= takes it away, so that the default holds
    again. All changes of one call are made, or none. They are on disk when the command returns, and a mount goes by
    them from its next append or duty on; a broker has settings of its own and does not look at these.

    Shown is where each comes from: topic, the options of the mount that serves LOGDIR, or Kafka's default.

    \b
    offsetfs config ~/logs
    offsetfs config ~/logs orders
    offsetfs config ~/logs orders retention.ms=86400000 segment.bytes=268435456
    offsetfs config ~/logs orders cleanup.policy=compact,delete retention.ms=

    Exit codes: 1 wrong call, an unknown setting, an illegal value, or permissions, 2 system error.
    """
    read_only = not changes
    preflight.check_directory(log_directory, read_only=read_only, may_be_empty=True)
    try:
        settings = TopicSettings(os.path.realpath(log_directory))
        if topic is None:
            _show_topics(log_directory, settings, as_json)
        elif changes:
            _change(log_directory, settings, topic, changes)
        else:
            _check_topic(log_directory, topic)
            _show(_with_origins(log_directory, settings, topic), as_json)
    except StorageError as error:
        raise Failure(str(error), WRONG_CALL) from error
    return DONE


# --- changing --------------------------------------------------------------------------------------------------------


def _change(log_directory: str, settings: TopicSettings, topic: str, changes: tuple[str, ...]) -> None:
    _check_topic(log_directory, topic)
    wanted: dict[str, str | None] = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals:
            raise Failure(f"{change}: NAME=VALUE is meant, or NAME= to take a setting away", WRONG_CALL)
        wanted[name] = value or None
    daemon = daemon_of(log_directory)
    if daemon is not None:  # what contradicts the options of the mount would not hold there
        options = {name: value for name, value in daemon.options.items() if name in NAMES}
        settings = TopicSettings(os.path.realpath(log_directory), LogConfig.from_properties(options, DEFAULTS))
    settings.change(topic, wanted)
    if os.path.exists(os.path.join(log_directory, META_PROPERTIES)):
        click.echo(
            f"offsetfs config: warning: {log_directory} is a broker's, which does not look at these settings: "
            "they hold where offsetfs writes",
            err=True,
        )


def _check_topic(log_directory: str, topic: str) -> None:
    if topic not in _topics(log_directory):
        raise Failure(f"{log_directory} has no partition of a topic {topic}", WRONG_CALL)


def _topics(log_directory: str) -> set[str]:
    topics = set()
    for name in os.listdir(log_directory):
        try:
            topics.add(TopicPartition.parse(name).topic)
        except InvalidName:
            continue
    return topics


# --- showing ---------------------------------------------------------------------------------------------------------


def _with_origins(log_directory: str, settings: TopicSettings, topic: str) -> dict[str, tuple[str, str]]:
    """Return value and origin of each setting, by name."""
    daemon = daemon_of(log_directory)
    mounted = {name: value for name, value in (daemon.options if daemon else {}).items() if name in NAMES}
    own = settings.of(topic)
    values = LogConfig.from_properties({**mounted, **own}, DEFAULTS).properties()

    def origin(name: str) -> str:
        return OF_TOPIC if name in own else OF_MOUNT if name in mounted else OF_KAFKA

    return {name: (values[name], origin(name)) for name in sorted(values)}


def _show(found: Mapping[str, tuple[str, str]], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({name: {"value": v, "origin": origin} for name, (v, origin) in found.items()}, indent=1))
        return
    widths = max(map(len, found)), max(len(value) for value, _ in found.values())
    for name, (value, origin) in found.items():
        click.echo(f"{name:{widths[0]}}  {value:{widths[1]}}  {origin}")


def _show_topics(log_directory: str, settings: TopicSettings, as_json: bool) -> None:
    own = {topic: dict(sorted(settings.of(topic).items())) for topic in sorted(_topics(log_directory))}
    if as_json:
        click.echo(json.dumps(own, indent=1))
        return
    for topic, properties in own.items():
        said = " ".join(f"{name}={value}" for name, value in properties.items())
        click.echo(f"{topic}: {said or 'no settings of its own'}")
