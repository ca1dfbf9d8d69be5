"""What may follow on a command line, for the shells' TAB: verbs, options, directories, partitions, mount options.

click walks the command line and asks the parameter at its end; its metavar says here what it can be, the word
that --help shows. Nothing is opened and nothing is loaded but the verb itself: names come from directory listings.
`completion_scripts` has the shells' ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from offsetfs.storage.errors import InvalidName
from offsetfs.storage.names import TopicPartition

PLAIN, PART, DIRECTORY, FILE = "plain", "part", "dir", "file"
"""Kinds of items: a whole word; one that goes on, so that no blank follows; whatever directories or files there are."""

Items = list[CompletionItem[str]]
Completer = Callable[[click.Context, str], Items]


def prepare(command: click.Command) -> None:
    """Teach the parameters of a command what they can be."""
    for parameter in command.params:
        metavar = parameter.metavar or ""
        completer = _OF_VERB.get((command.name or "", metavar)) or _BY_METAVAR.get(metavar)
        if completer is not None and isinstance(parameter.type, click.types.StringParamType):
            parameter.type = _Completed(completer)


class _Completed(click.types.StringParamType):
    """A string that completes in its own way."""

    def __init__(self, completer: Completer) -> None:
        self._completer = completer

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        return self._completer(ctx, incomplete)


# --- what there can be -----------------------------------------------------------------------------------------------


def _directories(ctx: click.Context, incomplete: str) -> Items:
    return [CompletionItem(incomplete, type=DIRECTORY)]


def _mount_points(ctx: click.Context, incomplete: str) -> Items:
    from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, mounts

    return _beginning(incomplete, (mount.path for mount in mounts() if mount.type == FILE_SYSTEM_TYPE)) or _directories(
        ctx, incomplete
    )


def _partitions(ctx: click.Context, incomplete: str) -> Items:
    return _beginning(incomplete, map(str, _in_log_directory(_log_directory(ctx))))


def _partition_wishes(ctx: click.Context, incomplete: str) -> Items:
    return _beginning(incomplete, (f"{each}=" for each in _in_log_directory(_log_directory(ctx))), PART)


def _topics(ctx: click.Context, incomplete: str) -> Items:
    return _beginning(incomplete, dict.fromkeys(each.topic for each in _in_log_directory(_log_directory(ctx))))


def _topics_and_partitions(ctx: click.Context, incomplete: str) -> Items:
    return _topics(ctx, incomplete) + _partitions(ctx, incomplete)


def _paths_and_partitions(kind: str) -> Completer:
    """Paths; behind one that is a log directory its partitions as well."""

    def complete(ctx: click.Context, incomplete: str) -> Items:
        before = [path for path in ctx.params.get("paths") or () if os.path.isdir(_expanded(path))]
        names = _in_log_directory(before[-1]) if before and os.sep not in incomplete else []
        return _beginning(incomplete, map(str, names)) or [CompletionItem(incomplete, type=kind)]

    return complete


_TOPICS = "topics/"
_IN_THE_TREE = ("README", "groups/", _TOPICS, ".offsetfs/")
_IN_A_PARTITION = (
    *("first", "latest", "start", "next", "info", "append", "append.ndjson", "append.raw", "values", "records.ndjson"),
    *("by-time/", "segments/", "range/", "last/", "by-key/", "follow"),
)
"""What is in every partition, by what goes on with a slash: the tree itself would have to be loaded to ask it."""
_IN_A_TOPIC = ("append", "append.ndjson", "values", "records.ndjson", "by-key/", "follow")
"""What is in every directory of `topics`."""


def _tree_paths(ctx: click.Context, incomplete: str) -> Items:
    """Partitions and topics with a slash, and behind it what is in each of them."""
    if incomplete.startswith(_TOPICS):
        topic, slash, _ = incomplete.removeprefix(_TOPICS).partition("/")
        topics = dict.fromkeys(each.topic for each in _in_log_directory(_log_directory(ctx)))
        below = (
            [f"{topic}/{name}" for name in _IN_A_TOPIC if topic in topics] if slash else [f"{each}/" for each in topics]
        )
        return _steps(incomplete, [_TOPICS + path for path in below])
    partition, slash, _ = incomplete.partition("/")
    partitions = list(map(str, _in_log_directory(_log_directory(ctx))))
    if not slash:
        return _steps(incomplete, [*(f"{each}/" for each in partitions), *_IN_THE_TREE])
    return _steps(incomplete, [f"{partition}/{name}" for name in _IN_A_PARTITION] if partition in partitions else [])


def _steps(incomplete: str, paths: list[str]) -> Items:
    return [item for path in paths for item in _beginning(incomplete, [path], PART if path.endswith("/") else PLAIN)]


def _files(ctx: click.Context, incomplete: str) -> Items:
    return [CompletionItem(incomplete, type=FILE)]


def _topic_settings(ctx: click.Context, incomplete: str) -> Items:
    from offsetfs.storage.settings.config import NAMES

    return _beginning(incomplete, (f"{name}=" for name in sorted(NAMES)), PART)


def _mount_options(ctx: click.Context, incomplete: str) -> Items:
    """Offer those that are not there yet, behind those that are."""
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
    "TOPIC[-PARTITION]=OFFSET...": _partition_wishes,
    "TOPIC[-PARTITION]...": _topics_and_partitions,
    "[TOPIC]": _topics,
    "NAME=VALUE": _topic_settings,
    "[NAME=VALUE|NAME=]...": _topic_settings,
    "OPT[,OPT=...]": _mount_options,
    "[PATH]...": _paths_and_partitions(FILE),
    "LOGDIR [TOPIC[-PARTITION] …] | PARTITION_DIRECTORY …": _paths_and_partitions(DIRECTORY),
    "FILE,FILE…": _files,
    "DIR": _directories,
    "FILE": _files,
}
_OF_VERB: dict[tuple[str, str], Completer] = {("umount", "MNT"): _mount_points}


# --- where it comes from ---------------------------------------------------------------------------------------------


def _beginning(incomplete: str, words: Iterable[str], kind: str = PLAIN) -> Items:
    return [CompletionItem(word, type=kind) for word in words if word.startswith(incomplete)]


def _log_directory(ctx: click.Context) -> str | None:
    return ctx.params.get("log_directory")


def _in_log_directory(path: str | None) -> list[TopicPartition]:
    """Return the partitions of a log directory as it was typed, none when it is none."""
    if not path:
        return []
    try:
        names = os.listdir(_expanded(path))
    except OSError:
        return []
    return sorted(partition for partition in map(_parsed, names) if partition is not None)


def _expanded(path: str) -> str:
    return os.path.expanduser(os.path.expandvars(path))


def _parsed(name: str) -> TopicPartition | None:
    try:
        return TopicPartition.parse(name)
    except InvalidName:
        return None
