"""Completion of arguments at TAB: verbs, options, directories, partitions, mount options.

click parses the command line and asks its last parameter for completions. The completer of a parameter is chosen by its
metavar, the word that --help shows. No log is opened, and only the module of the verb is imported, so that TAB is fast:
names come from directory listings. `scripts` contains the scripts for the shells.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from offsetfs.fs.naming.tree_table import IN_DECODED, IN_MOUNT, IN_PARTITION, IN_TOPIC, Kind, fixed_names
from offsetfs.storage import TopicPartition

PLAIN, PART, DIRECTORY, FILE = "plain", "part", "dir", "file"
"""Kinds of items: a complete word; a prefix, after which no blank follows; directories or files from the shell."""

Items = list[CompletionItem[str]]
Completer = Callable[[click.Context, str], Items]


def prepare(command: click.Command) -> None:
    """Set the completers of the parameters of a command."""
    for parameter in command.params:
        metavar = parameter.metavar or ""
        completer = _OF_VERB.get((command.name or "", metavar)) or _BY_METAVAR.get(metavar)
        if completer is not None and isinstance(parameter.type, click.types.StringParamType):
            parameter.type = _Completed(completer)


class _Completed(click.types.StringParamType):
    """A string parameter with a completer."""

    def __init__(self, completer: Completer) -> None:
        self._completer = completer

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        return self._completer(ctx, incomplete)


# --- completers ------------------------------------------------------------------------------------------------------


def _directories(ctx: click.Context, incomplete: str) -> Items:
    return [CompletionItem(incomplete, type=DIRECTORY)]


def _mount_points(ctx: click.Context, incomplete: str) -> Items:
    from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, mounts

    return _beginning(incomplete, (mount.path for mount in mounts() if mount.type == FILE_SYSTEM_TYPE)) or _directories(
        ctx, incomplete
    )


def _partitions(ctx: click.Context, incomplete: str) -> Items:
    return _beginning(incomplete, map(str, _in_log_directory(_log_directory(ctx))))


def _partitions_with_equals(ctx: click.Context, incomplete: str) -> Items:
    return _beginning(incomplete, (f"{partition}=" for partition in _in_log_directory(_log_directory(ctx))), PART)


def _topics(ctx: click.Context, incomplete: str) -> Items:
    return _beginning(
        incomplete, dict.fromkeys(partition.topic for partition in _in_log_directory(_log_directory(ctx)))
    )


def _topics_and_partitions(ctx: click.Context, incomplete: str) -> Items:
    return _topics(ctx, incomplete) + _partitions(ctx, incomplete)


def _paths_and_partitions(kind: str) -> Completer:
    """Return a completer for paths; after a path of a log directory it also offers its partitions."""

    def complete(ctx: click.Context, incomplete: str) -> Items:
        before = [path for path in ctx.params.get("paths") or () if os.path.isdir(_expanded(path))]
        names = _in_log_directory(before[-1]) if before and os.sep not in incomplete else []
        return _beginning(incomplete, map(str, names)) or [CompletionItem(incomplete, type=kind)]

    return complete


def _names_in(directory: str) -> list[str]:
    """Return the names in a directory of every mount; those of directories end with a slash."""
    return [f"{name}/" if kind.spec.is_directory else name for name, kind in fixed_names(directory)]


_DECODED = f"{Kind.DECODED.file_name.decode()}/"


def _tree_paths(ctx: click.Context, incomplete: str) -> Items:
    """Complete paths of the tree: partitions and topics with a slash, then the files in them."""
    topics_path = f"{Kind.TOPICS.file_name.decode()}/"
    if incomplete.startswith(topics_path):
        topic, slash, _ = incomplete.removeprefix(topics_path).partition("/")
        topics = dict.fromkeys(partition.topic for partition in _in_log_directory(_log_directory(ctx)))
        below = (
            [f"{topic}/{name}" for name in _names_in(IN_TOPIC) if topic in topics]
            if slash
            else [f"{topic}/" for topic in topics]
        )
        return _steps(incomplete, [topics_path + path for path in below])
    partition, slash, _ = incomplete.partition("/")
    partitions = list(map(str, _in_log_directory(_log_directory(ctx))))
    if not slash:
        return _steps(incomplete, [*(f"{partition}/" for partition in partitions), *_names_in(IN_MOUNT)])
    names = _names_in(IN_PARTITION) if partition in partitions else []
    if slash and incomplete.removeprefix(f"{partition}/").startswith(_DECODED):
        names = [f"{_DECODED}{name}" for name in _names_in(IN_DECODED)] if partition in partitions else []
    return _steps(incomplete, [f"{partition}/{name}" for name in names])


def _steps(incomplete: str, paths: list[str]) -> Items:
    return [item for path in paths for item in _beginning(incomplete, [path], PART if path.endswith("/") else PLAIN)]


def _files(ctx: click.Context, incomplete: str) -> Items:
    return [CompletionItem(incomplete, type=FILE)]


def _topic_settings(ctx: click.Context, incomplete: str) -> Items:
    from offsetfs.storage.settings import TOPIC_SETTING_NAMES

    return _beginning(incomplete, (f"{name}=" for name in sorted(TOPIC_SETTING_NAMES)), PART)


def _broker_settings(ctx: click.Context, incomplete: str) -> Items:
    from offsetfs.storage.settings import BROKER_SETTING_NAMES

    return _beginning(incomplete, (f"{name}=" for name in sorted(BROKER_SETTING_NAMES)), PART)


def _mirror_settings(ctx: click.Context, incomplete: str) -> Items:
    from offsetfs.cli.arguments.clusters import MIRROR_SETTING

    return _beginning(incomplete, [f"{MIRROR_SETTING}="], PART)


def _mount_options(ctx: click.Context, incomplete: str) -> Items:
    """Complete the last of several options, without those that are already given."""
    from offsetfs.fs.options import takes_value, words

    before, comma, last = incomplete.rpartition(",")
    name, equals, _ = last.partition("=")
    if equals:
        return _beginning(incomplete, (f"{before}{comma}{name}={word}" for word in words(name)))
    there = {option.partition("=")[0] for option in before.split(",")}
    items: Items = []
    for option, has_value in takes_value().items():
        if option not in there:
            text = f"{before}{comma}{option}{'=' if has_value else ''}"
            items += _beginning(incomplete, [text], PART if has_value else PLAIN)
    return items


_BY_METAVAR: dict[str, Completer] = {
    "LOGDIR": _directories,
    "BROKER_LOGDIR": _directories,
    "MNT": _directories,
    "[LOGDIR|MNT]": _directories,
    "TOPIC[-PARTITION]": _partitions,
    "TREE_PATH": _tree_paths,
    "TREE_PATH...": _tree_paths,
    "[TREE_PATH]...": _tree_paths,
    "[TOPIC[-PARTITION]]...": _topics_and_partitions,
    "TOPIC[-PARTITION]=OFFSET...": _partitions_with_equals,
    "TOPIC[-PARTITION]...": _topics_and_partitions,
    "[TOPIC]": _topics,
    "[NAME|NAME=VALUE|NAME=]...": _topic_settings,
    "OPT[,OPT=...]": _mount_options,
    "[PATH]...": _paths_and_partitions(FILE),
    "LOGDIR [TOPIC[-PARTITION] …] | PARTITION_DIRECTORY …": _paths_and_partitions(DIRECTORY),
    "FILE,FILE…": _files,
    "DIR": _directories,
    "FILE": _files,
}
_OF_VERB: dict[tuple[str, str], Completer] = {
    ("create", "NAME=VALUE"): _topic_settings,
    ("mirror", "NAME=VALUE"): _mirror_settings,
    ("restore", "NAME=VALUE"): _topic_settings,
    ("serve", "NAME=VALUE"): _broker_settings,
    ("schemas", "TOPIC"): _topics,
    ("umount", "MNT"): _mount_points,
}


# --- sources of names ------------------------------------------------------------------------------------------------


def _beginning(incomplete: str, words: Iterable[str], kind: str = PLAIN) -> Items:
    return [CompletionItem(word, type=kind) for word in words if word.startswith(incomplete)]


def _log_directory(ctx: click.Context) -> str | None:
    return ctx.params.get("log_directory")


def _in_log_directory(path: str | None) -> list[TopicPartition]:
    """Return the partitions of a log directory by its path as typed; empty if it is not a directory."""
    if not path:
        return []
    try:
        names = os.listdir(_expanded(path))
    except OSError:
        return []
    return sorted(filter(None, map(TopicPartition.parse_or_none, names)))


def _expanded(path: str) -> str:
    return os.path.expanduser(os.path.expandvars(path))
