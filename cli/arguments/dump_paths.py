"""Resolves the arguments of `offsetfs dump` to files: of a partition, of a topic, or of a log directory."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from offsetfs.cli.arguments.named_partitions import partitions_of
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.cli.preflight import check_not_mounted
from offsetfs.fs.mounting.mount_table import mount_holding, resolved
from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import InvalidName
from offsetfs.storage.segments import parse_segment_name

_SLASHES = re.compile("/+")


def listed(values: Sequence[str]) -> list[str]:
    """Return the paths in the values of --files, separated by commas, normalized as Java normalizes them."""
    paths = [path for value in values for path in value.split(",") if path]
    return [_SLASHES.sub("/", path.rstrip("/") or "/") for path in paths]


def expanded(arguments: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    """Return the files for the arguments; of a directory, the files with one of `suffixes`, sorted by name.

    Names of topics or partitions (`orders-0`) after a log directory select partitions of it. `Failure` for a missing
    path, and for a directory without segments and partitions.
    """
    groups: list[tuple[str, list[str]]] = []
    for argument in arguments:
        if groups and _is_partition(argument) and os.path.isdir(os.path.join(groups[-1][0], argument)):
            groups[-1][1].append(argument)
        elif groups and (of_topic := _of_topic(groups[-1][0], argument)):
            groups[-1][1].extend(of_topic)
        elif groups and os.sep not in argument and not os.path.lexists(argument) and os.path.isdir(groups[-1][0]):
            raise Failure(f"{argument}: {groups[-1][0]} has no such topic or partition", WRONG_CALL)
        else:
            groups.append((argument, []))
    return [file for path, chosen in groups for file in _files(path, chosen, suffixes)]


def _of_topic(directory: str, name: str) -> list[str]:
    if os.sep in name or os.path.lexists(name) or not os.path.isdir(directory):
        return []
    return [str(partition) for partition in partitions_of(directory) if partition.topic == name]


def _files(path: str, chosen: list[str], suffixes: Sequence[str]) -> list[str]:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise Failure(f"{path}: no such file or directory") from None
    if not os.path.isdir(path):
        return [path]
    mount = mount_holding(path)
    if mount is not None and mount.path == resolved(path):
        check_not_mounted(path)
    names = os.listdir(path)
    if not chosen and any(parse_segment_name(name) for name in names):
        return _partition_files(path, suffixes)
    partitions = chosen or [str(each) for each in sorted(TopicPartition.parse(n) for n in names if _is_partition(n))]
    if not partitions:
        raise Failure(f"{path}: contains neither segments nor partitions (such as orders-0)", WRONG_CALL)
    return [file for name in partitions for file in _partition_files(os.path.join(path, name), suffixes)]


def _partition_files(path: str, suffixes: Sequence[str]) -> list[str]:
    segments = ((name, parse_segment_name(name)) for name in sorted(os.listdir(path)))
    return [os.path.join(path, name) for name, parsed in segments if parsed and parsed[1] in suffixes]


def _is_partition(name: str) -> bool:
    try:
        TopicPartition.parse(name)
    except InvalidName:
        return False
    return True
