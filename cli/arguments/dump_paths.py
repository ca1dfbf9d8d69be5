"""Resolves the arguments of `offsetfs dump` to files: of a partition, of a topic, or of a log directory."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from offsetfs.cli.arguments import archives
from offsetfs.cli.arguments.named_partitions import no_such, partitions_of
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.cli.preflight import check_not_mounted, check_single
from offsetfs.fs.mounting.mount_table import mount_holding, resolved
from offsetfs.storage import TopicPartition, files
from offsetfs.storage.segments import parse_segment_name

_SLASHES = re.compile("/+")


def listed(values: Sequence[str]) -> list[str]:
    """Return the paths in the values of --files, separated by commas, normalized as Java normalizes them."""
    paths = [path for value in values for path in value.split(",") if path]
    return [_normalized(path) for path in paths]


def _normalized(path: str) -> str:
    if archives.is_archive(path):
        return archives.attached(path)
    return _SLASHES.sub("/", path.rstrip("/") or "/")


def expanded(arguments: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    """Return the files for the arguments; of a directory, the files with one of `suffixes`, sorted by name.

    Names of topics or partitions (`orders-0`) after a log directory select partitions of it. `Failure` for a missing
    path, and for a directory without segments and partitions.
    """
    groups: list[tuple[str, list[str]]] = []
    for argument in map(archives.attached, arguments):
        is_partition = TopicPartition.parse_or_none(argument) is not None
        if groups and is_partition and archives.is_directory(os.path.join(groups[-1][0], argument)):
            groups[-1][1].append(argument)
        elif groups and (of_topic := _of_topic(groups[-1][0], argument)):
            groups[-1][1].extend(of_topic)
        elif groups and _is_missing_name(argument) and archives.is_directory(groups[-1][0]):
            directory = groups[-1][0]
            raise Failure(f"{argument}: {no_such([directory], argument, partitions_of(directory))}", WRONG_CALL)
        else:
            groups.append((argument, []))
    return [file for path, chosen in groups for file in _files(path, chosen, suffixes)]


def _is_missing_name(argument: str) -> bool:
    return os.sep not in argument and not archives.exists(argument)


def _of_topic(directory: str, name: str) -> list[str]:
    if os.sep in name or archives.exists(name) or not archives.is_directory(directory):
        return []
    return [str(partition) for partition in partitions_of(directory) if partition.topic == name]


def _files(path: str, chosen: list[str], suffixes: Sequence[str]) -> list[str]:
    if not archives.exists(path):
        check_single(path)
        raise Failure(f"{path}: no such file or directory", WRONG_CALL)
    if not archives.is_directory(path):
        return [path]
    mount = None if archives.is_archive(path) else mount_holding(path)
    if mount is not None and mount.path == resolved(path):
        check_not_mounted(path)
    names = files.names(path)
    if not chosen and any(parse_segment_name(name) for name in names):
        return _partition_files(path, suffixes)
    partitions = chosen or [
        str(partition) for partition in sorted(filter(None, map(TopicPartition.parse_or_none, names)))
    ]
    if not partitions:
        raise Failure(f"{path}: contains neither segments nor partitions (such as orders-0)", WRONG_CALL)
    return [file for name in partitions for file in _partition_files(os.path.join(path, name), suffixes)]


def _partition_files(path: str, suffixes: Sequence[str]) -> list[str]:
    segments = ((name, parse_segment_name(name)) for name in sorted(files.names(path)))
    return [os.path.join(path, name) for name, parsed in segments if parsed and parsed[1] in suffixes]
