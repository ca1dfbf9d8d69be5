"""`offsetfs config`: show and change topic settings, also while the directory is mounted."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.log_directories import log_directories
from offsetfs.cli.arguments.named_partitions import NAME_LENGTH_MAX, no_such, partitions_of
from offsetfs.cli.arguments.settings_file import parsed_options, settings_options
from offsetfs.cli.arguments.topic_settings import illegal_setting
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.cli.mounts.serving_daemon import daemon_of, is_offsetfs
from offsetfs.common.formatting import printable
from offsetfs.common.quantities import plain_number
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory import (
    SettingLayers,
    has_meta_properties,
    metadata_directory_among,
    setting_layers,
    writer_of,
)
from offsetfs.storage.errors import InvalidConfig, StorageError
from offsetfs.storage.settings import (
    BROKER_SETTING_NAMES,
    TOPIC_SETTING_NAMES,
    TOPIC_SETTINGS_WITHOUT_EFFECT,
    TopicSettings,
    has_effect,
    is_broker_setting,
    topic_setting_of,
)

OF_TOPIC, OF_CLUSTER, OF_MOUNT, OF_BROKER, OF_KAFKA = "topic", "cluster", "mount", "broker", "default"

EMPTY_LIST = "[]"
"""A list without entries, as kafka-configs.sh writes it: NAME= removes the setting."""


@click.command("config", short_help="Show and change the settings of topics.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("topic", metavar="[TOPIC]", required=False)
@click.argument("changes", metavar="[NAME|NAME=VALUE|NAME=]...", nargs=-1)
@settings_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def command(
    log_directory: str, topic: str | None, changes: tuple[str, ...], texts: tuple[str, ...], as_json: bool
) -> int:
    """Show the settings of TOPIC, or the settings that were set for each topic; or change them.

    Names and values are those of Kafka; durations (7d) and sizes (64m) may have units. NAME=VALUE sets a value for the
    topic, NAME= removes it, so that the default applies again; cleanup.policy=[] keeps all records. The name of a
    broker setting (log.retention.hours=24) sets the topic setting of which it is the default. Either all changes of a
    call are made, or none. They are on disk when the command returns, and a mount applies them from its next append or
    background task on. A broker does not read these settings: beside a running one, nothing is changed.

    The settings of TOPIC are shown with their origin: topic (set here), cluster (the topic's settings in the metadata
    log), mount (topic settings in -o, or in the options of the mount that serves LOGDIR), broker (server.properties, a
    broker's names in -o, and the broker's settings in the metadata log), or Kafka's default. Earlier origins have
    precedence. With NAME, only this setting is shown.

    \b
    offsetfs config ~/logs
    offsetfs config ~/logs orders
    offsetfs config ~/logs orders retention.ms
    offsetfs config ~/logs orders retention.ms=7d segment.bytes=256m
    offsetfs config ~/logs orders cleanup.policy=compact,delete retention.ms=
    offsetfs config /disk1/kafka,/disk2/kafka orders
    offsetfs config /var/lib/kafka/data orders --config /etc/kafka/server.properties

    Exit codes: 1 wrong call or permissions, an unknown setting or an illegal value; 2 system error, 32 a
    broker is running.
    """
    paths = log_directories(log_directory)
    shown = _shown_names(changes)
    changes = () if shown else changes
    for path in paths:
        preflight.check_directory(path, read_only=not changes, may_be_empty=True)
    try:
        settings = {path: _opened(path, paths, texts, log_directory) for path in paths}
        if topic is None:
            _show_topics(settings, as_json)
            return DONE
        having = _having(log_directory, paths, topic)
        if changes:
            _check_no_broker(having, topic, changes)
            _change([settings[path].topics for path in having], topic, changes)
            _warn_of_brokers(having)
        else:
            # As in a mount of several directories, the first directory that has the topic says how it is set.
            _show_topic(settings[having[0]], topic, shown, as_json)
    except StorageError as error:
        raise Failure(str(error), WRONG_CALL) from error
    return DONE


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of one log directory: those of its topics, and those that they inherit."""

    topics: TopicSettings
    layers: SettingLayers
    options: MountOptions


def _opened(path: str, paths: Sequence[str], texts: tuple[str, ...], log_directory: str) -> _Settings:
    options = _options(path, texts, log_directory)
    layers = _layers(path, paths, options)
    return _Settings(TopicSettings(os.path.realpath(path), inherited=layers.inherited()), layers, options)


# --- changing --------------------------------------------------------------------------------------------------------


def _change(directories: Sequence[TopicSettings], topic: str, changes: tuple[str, ...]) -> None:
    """Change the topic in each directory that has it; what is illegal is refused in the first one."""
    wanted: dict[str, str | None] = {}
    for change in changes:
        name, _, value = change.partition("=")
        _want(wanted, name, value)
    for settings in directories:
        try:
            settings.change(topic, wanted)
        except InvalidConfig as error:  # its message names the settings file, but the value is of this command line
            raise illegal_setting(error, wanted) from error


def _check_no_broker(paths: Sequence[str], topic: str, changes: Sequence[str]) -> None:
    """`Failure` if a broker is running in one of the directories: its topics have their settings in the cluster."""
    for path in filter(has_meta_properties, paths):
        holder = writer_of(path)
        if holder is None or is_offsetfs(path, holder):
            continue
        named = [(name, plain_number(name, value)) for name, _, value in (change.partition("=") for change in changes)]
        added = ",".join(f"{name}={value}" for name, value in named if value)
        removed = ",".join(name for name, value in named if not value)
        words = [f"--add-config {added}"] * bool(added) + [f"--delete-config {removed}"] * bool(removed)
        tool = "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name"
        raise Failure(
            f"{path}: a broker is running there (process {holder}), which does not read settings from its directory; "
            f"change them in the cluster: {tool} {topic} {' '.join(words)}",
            FAILED,
        )


def _warn_of_brokers(paths: Sequence[str]) -> None:
    for path in filter(has_meta_properties, paths):
        click.echo(
            f"offsetfs config: warning: {path} belongs to a broker, which does not read these settings; "
            "only offsetfs uses them",
            err=True,
        )


def _want(wanted: dict[str, str | None], name: str, value: str) -> None:
    """Add one change. The name of a broker setting stands for the topic setting of which it is the default."""
    if name in TOPIC_SETTING_NAMES or not is_broker_setting(name):
        wanted[name] = "" if value == EMPTY_LIST else plain_number(name, value) or None
        _report_without_effect(TOPIC_SETTINGS_WITHOUT_EFFECT.intersection([name]))
        return
    if not has_effect(name):
        _report_without_effect([name])
    if name not in BROKER_SETTING_NAMES:
        return
    topic_setting = topic_setting_of(name, plain_number(name, value) or "1")
    if topic_setting is None:
        raise Failure(
            f"{name} applies to the whole directory: give it to mount or clean, with -o or --config", WRONG_CALL
        )
    wanted[topic_setting[0]] = topic_setting[1] if value else None


def _report_without_effect(names: Iterable[str]) -> None:
    for name in names:
        click.echo(f"offsetfs config: {name}: has no effect here", err=True)


def _options(path: str, texts: tuple[str, ...], log_directory: str) -> MountOptions:
    """Return the options of this call, preceded by the settings of the mount that serves the directory at `path`."""
    daemon = daemon_of(path)
    if daemon is None:
        return parsed_options(texts, log_directory)
    named = daemon.options.items()
    of_mount = [
        f'{name}="{value}"' for name, value in named if name in TOPIC_SETTING_NAMES or name in BROKER_SETTING_NAMES
    ]
    if "config" in daemon.options and os.path.exists(daemon.options["config"]):
        of_mount.insert(0, f'config="{daemon.options["config"]}"')
    return parsed_options((*of_mount, *texts), log_directory)


def _layers(path: str, paths: Sequence[str], options: MountOptions) -> SettingLayers:
    return setting_layers(
        os.path.realpath(path),
        broker=options.broker_context(metadata_directory_among(paths)),
        given=options.topic_defaults,
    )


def _having(log_directory: str, paths: Sequence[str], topic: str) -> list[str]:
    """Return the directories that have partitions of the topic; `Failure` if there is none."""
    topics = {path: _topics(path) for path in paths}
    having = [path for path in paths if topic in topics[path]]
    if having:
        return having
    if "=" in topic or topic in TOPIC_SETTING_NAMES:
        raise Failure(f"{topic}: give the topic first: offsetfs config {log_directory} TOPIC {topic}", WRONG_CALL)
    of_partition = topic.rpartition("-")[0]
    if any(of_partition in topics[path] and os.path.isdir(os.path.join(path, topic)) for path in paths):
        raise Failure(f"{topic} is a partition; settings belong to its topic, {of_partition}", WRONG_CALL)
    present = [partition for path in paths for partition in partitions_of(path)]
    raise Failure(f"{topic}: {no_such([log_directory], topic, present, is_topic=True)}", WRONG_CALL)


def _topics(log_directory: str) -> set[str]:
    return {partition.topic for partition in partitions_of(log_directory)}


# --- showing ---------------------------------------------------------------------------------------------------------


def _shown_names(words: Sequence[str]) -> Sequence[str]:
    """Return the names of settings to show: all words if none has an equals sign; none if each has. `Failure`."""
    names = [word for word in words if "=" not in word]
    if names and len(names) < len(words):
        raise Failure(f"{names[0]}: give NAME=VALUE, or NAME= to remove a setting", WRONG_CALL)
    return names


def _show_topic(settings: _Settings, topic: str, names: Sequence[str], as_json: bool) -> None:
    """Print the settings of a topic, all of them or `names`; `Failure` for an unknown one."""
    _warn_of_problem(settings.topics)
    values = _with_origins(settings, topic)
    for name in names:
        if name not in values:
            raise Failure(_reason_not_shown(name, values), WRONG_CALL)
    _show({name: values[name] for name in names} if names else values, as_json)
    _report_without_effect([*settings.options.without_effect, *settings.layers.problems])


def _reason_not_shown(name: str, names: Iterable[str]) -> str:
    """Return why a setting is not among the `names` of topic settings, with the name that is probably meant."""
    topic_setting = topic_setting_of(name, "1") if name in BROKER_SETTING_NAMES else None
    if topic_setting is not None:
        return f"{name} is a setting of brokers; that of topics is {topic_setting[0]}"
    near = difflib.get_close_matches(name[:NAME_LENGTH_MAX].replace("_", "."), names, n=1)
    return f"unknown setting {name!r}" + (f"; did you mean {near[0]}?" if near else "")


def _warn_of_problem(settings: TopicSettings) -> None:
    if settings.problem is not None:
        click.echo(f"offsetfs config: warning: {printable(str(settings.problem))}", err=True)


def _with_origins(settings: _Settings, topic: str) -> dict[str, tuple[str, str]]:
    """Return value and origin of each setting, by name."""
    origins = (
        (OF_TOPIC, settings.topics.of(topic)),
        (OF_CLUSTER, settings.layers.cluster.get(topic, {})),
        (OF_MOUNT, settings.layers.given),
        (OF_BROKER, settings.layers.broker),
    )
    values = settings.topics.config_of(topic).properties()

    def origin(name: str) -> str:
        return next((origin for origin, named in origins if name in named), OF_KAFKA)

    return {name: (values[name], origin(name)) for name in sorted(values)}


def _show(settings: Mapping[str, tuple[str, str]], as_json: bool) -> None:
    if as_json:
        click.echo(
            json.dumps({name: {"value": v, "origin": origin} for name, (v, origin) in settings.items()}, indent=1)
        )
        return
    widths = max(map(len, settings)), max(len(value) for value, _ in settings.values())
    for name, (value, origin) in settings.items():
        click.echo(f"{name:{widths[0]}}  {value:{widths[1]}}  {origin}")


def _show_topics(directories: Mapping[str, _Settings], as_json: bool) -> None:
    own: dict[str, dict[str, str]] = {}
    for path, settings in directories.items():
        _warn_of_problem(settings.topics)
        for topic in sorted(_topics(path)):
            own.setdefault(topic, dict(sorted(settings.topics.of(topic).items())))
    if as_json:
        click.echo(json.dumps(dict(sorted(own.items())), indent=1))
        return
    for topic, properties in sorted(own.items()):
        text = " ".join(f"{name}={value}" for name, value in properties.items())
        click.echo(f"{topic}: {text or 'no settings of its own'}")
