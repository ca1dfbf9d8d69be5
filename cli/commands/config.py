"""`offsetfs config`: show and change topic settings, also while the directory is mounted."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.settings_file import parsed_options, settings_options
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.mounts.serving_daemon import daemon_of
from offsetfs.cli.terminal.printable import printable
from offsetfs.fs.options import MountOptions
from offsetfs.storage import TopicPartition
from offsetfs.storage.directory import SettingLayers, has_meta_properties, setting_layers
from offsetfs.storage.errors import InvalidConfig, InvalidName, StorageError
from offsetfs.storage.settings import (
    BROKER_SETTING_NAMES,
    TOPIC_SETTING_NAMES,
    TopicSettings,
    is_broker_setting,
    topic_setting_of,
)

OF_TOPIC, OF_CLUSTER, OF_MOUNT, OF_BROKER, OF_KAFKA = "topic", "cluster", "mount", "broker", "default"


@click.command("config", short_help="Show and change the settings of topics.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("topic", metavar="[TOPIC]", required=False)
@click.argument("changes", metavar="[NAME=VALUE|NAME=]...", nargs=-1)
@settings_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def command(
    log_directory: str, topic: str | None, changes: tuple[str, ...], texts: tuple[str, ...], as_json: bool
) -> int:
    """Show the settings of TOPIC, or the settings that were set for each topic; or change them.

    Names and values are those of Kafka. NAME=VALUE sets a value for the topic, NAME= removes it, so that the default
    applies again. The name of a broker setting (log.retention.hours=24) sets the topic setting of which it is the
    default. Either all changes of a call are made, or none. They are on disk when the command returns, and a mount
    applies them from its next append or background task on. A broker does not read these settings.

    The settings of TOPIC are shown with their origin: topic (set here), cluster (the topic's settings in the metadata
    log), mount (topic settings in -o, or in the options of the mount that serves LOGDIR), broker (server.properties, a
    broker's names in -o, and the broker's settings in the metadata log), or Kafka's default. Earlier origins have
    precedence.

    \b
    offsetfs config ~/logs
    offsetfs config ~/logs orders
    offsetfs config ~/logs orders retention.ms=86400000 segment.bytes=268435456
    offsetfs config ~/logs orders cleanup.policy=compact,delete retention.ms=
    offsetfs config /var/lib/kafka/data orders --config /etc/kafka/server.properties

    Exit codes: 1 wrong call or permissions, an unknown setting or an illegal value; 2 system error.
    """
    read_only = not changes
    preflight.check_directory(log_directory, read_only=read_only, may_be_empty=True)
    try:
        options = _options(log_directory, texts)
        layers = _layers(log_directory, options)
        settings = TopicSettings(os.path.realpath(log_directory), inherited=layers.inherited())
        if read_only and settings.problem is not None:
            click.echo(f"offsetfs config: warning: {printable(str(settings.problem))}", err=True)
        if topic is None:
            _show_topics(log_directory, settings, as_json)
        elif changes:
            _change(log_directory, settings, topic, changes)
        else:
            _check_topic(log_directory, topic)
            _show(_with_origins(settings, layers, topic), as_json)
            _report_without_effect([*options.without_effect, *layers.problems])
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
            raise Failure(f"{change}: give NAME=VALUE, or NAME= to remove a setting", WRONG_CALL)
        _want(wanted, name, value)
    try:
        settings.change(topic, wanted)
    except (
        InvalidConfig
    ) as error:  # the message of the error names the settings file, but the value is from this command line
        raise Failure(error.reason, WRONG_CALL) from error
    if has_meta_properties(log_directory):
        click.echo(
            f"offsetfs config: warning: {log_directory} belongs to a broker, which does not read these settings; "
            "only offsetfs uses them",
            err=True,
        )


def _want(wanted: dict[str, str | None], name: str, value: str) -> None:
    """Add one change. The name of a broker setting stands for the topic setting of which it is the default."""
    if name in TOPIC_SETTING_NAMES or not is_broker_setting(name):
        wanted[name] = value or None
        return
    if name not in BROKER_SETTING_NAMES:
        _report_without_effect([name])
        return
    found = topic_setting_of(name, value or "1")
    if found is None:
        raise Failure(
            f"{name} applies to the whole directory: give it to mount or clean, with -o or --config", WRONG_CALL
        )
    wanted[found[0]] = found[1] if value else None


def _report_without_effect(names: Sequence[str]) -> None:
    for name in names:
        click.echo(f"offsetfs config: {name}: has no effect here", err=True)


def _options(log_directory: str, texts: tuple[str, ...]) -> MountOptions:
    """Return the options of this call, preceded by the settings of the mount that serves the directory."""
    daemon = daemon_of(log_directory)
    if daemon is None:
        return parsed_options(texts)
    named = daemon.options.items()
    of_mount = [
        f'{name}="{value}"' for name, value in named if name in TOPIC_SETTING_NAMES or name in BROKER_SETTING_NAMES
    ]
    if "config" in daemon.options and os.path.exists(daemon.options["config"]):
        of_mount.insert(0, f'config="{daemon.options["config"]}"')
    return parsed_options((*of_mount, *texts))


def _layers(log_directory: str, options: MountOptions) -> SettingLayers:
    path = os.path.realpath(log_directory)
    return setting_layers(
        path,
        options.metadata_log_directory,
        broker=options.all_broker_settings,
        is_broker_known=options.config_file is not None,
        given=options.topic_defaults,
    )


def _check_topic(log_directory: str, topic: str) -> None:
    topics = _topics(log_directory)
    if topic in topics:
        return
    if "=" in topic:
        raise Failure(f"{topic}: give the topic first: offsetfs config {log_directory} TOPIC {topic}", WRONG_CALL)
    of_partition = topic.rpartition("-")[0]
    if of_partition in topics and os.path.isdir(os.path.join(log_directory, topic)):
        raise Failure(f"{topic} is a partition; settings belong to its topic, {of_partition}", WRONG_CALL)
    raise Failure(f"{topic}: {log_directory} has no such topic", WRONG_CALL)


def _topics(log_directory: str) -> set[str]:
    topics = set()
    for name in os.listdir(log_directory):
        try:
            topics.add(TopicPartition.parse(name).topic)
        except InvalidName:
            continue
    return topics


# --- showing ---------------------------------------------------------------------------------------------------------


def _with_origins(settings: TopicSettings, layers: SettingLayers, topic: str) -> dict[str, tuple[str, str]]:
    """Return value and origin of each setting, by name."""
    origins = (
        (OF_TOPIC, settings.of(topic)),
        (OF_CLUSTER, layers.cluster.get(topic, {})),
        (OF_MOUNT, layers.given),
        (OF_BROKER, layers.broker),
    )
    values = settings.config_of(topic).properties()

    def origin(name: str) -> str:
        return next((origin for origin, named in origins if name in named), OF_KAFKA)

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
        text = " ".join(f"{name}={value}" for name, value in properties.items())
        click.echo(f"{topic}: {text or 'no settings of its own'}")
