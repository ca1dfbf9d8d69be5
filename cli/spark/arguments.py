"""The arguments of Spark jobs, checked before Spark starts, which takes seconds.

A job checks them again. With Spark Connect (`sc://`) only the job does, because the paths are those of the server.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from offsetfs.cli import preflight
from offsetfs.cli.arguments.archives import attached
from offsetfs.cli.arguments.named_partitions import no_such, partitions_of, resolve_names
from offsetfs.cli.arguments.numbers import argument_time_ms
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.pipeline.read_options import OptionError, duration_ms, local_path
from offsetfs.storage.directory import split_paths


def is_remote(master: str | None) -> bool:
    """Whether the session is one of Spark Connect."""
    return master is not None and master.startswith("sc://")


def check_source(path: str, master: str | None, topics: Sequence[str] = ()) -> None:
    """`Failure` where a job that only reads cannot read `path`, or one of `topics` is not there."""
    if is_remote(master):
        return
    paths = split_paths(path)
    for directory in paths:
        preflight.check_directory(attached(directory), read_only=True, may_be_empty=False)
    present = [partition for directory in paths for partition in partitions_of(directory)]
    for topic in topics:
        if all(partition.topic != topic for partition in present):
            raise Failure(f"{topic}: {no_such([path], topic, present, is_topic=True)}", WRONG_CALL)


def check_destination(path: str, master: str | None, topic: str, *, may_create: bool) -> None:
    """`Failure` where a job cannot write to the log directory `path`, or to `topic` in it.

    A job that may create the topic creates a missing log directory as well.
    """
    _check_local(path, "a job that writes")
    if is_remote(master):
        return
    if may_create and not os.path.lexists(path):
        preflight.check_parent(path)
        return
    preflight.check_directory(path, read_only=False, may_be_empty=True, may_begin=True)
    if not may_create and all(partition.topic != topic for partition in partitions_of(path)):
        raise Failure(f"{topic}: {path} has no such topic; --partitions N creates it", WRONG_CALL)


def check_rebuilt(path: str, master: str | None) -> None:
    """`Failure` where a job cannot rewrite files of the log directory `path`."""
    _check_local(path, "a job that writes")
    if not is_remote(master):
        preflight.check_directory(path, read_only=False, may_be_empty=False)


def time_of(option: str, text: str | None) -> int | None:
    """Return the time of an option in milliseconds since 1970, None without it. `Failure` if it is none."""
    instant_ms = None if text is None else argument_time_ms(option, text)
    if text is not None and instant_ms is None:
        raise Failure(f"{option} {text}: is not a time such as 2026-11-29T10:00, @1795253676 or -1h", WRONG_CALL)
    return instant_ms


def duration_of(option: str, text: str | None) -> int | None:
    """Return a duration of an option in milliseconds, None without it. `Failure` if it is none."""
    if text is None:
        return None
    try:
        return duration_ms(text)
    except ValueError:
        raise Failure(f"{option} {text}: is not a time such as 30s or 15m", WRONG_CALL) from None


def _check_local(path: str, use: str) -> None:
    try:
        local_path(path, use)
    except OptionError as error:
        raise Failure(str(error), WRONG_CALL) from error


def partition_names(path: str, master: str | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return the partitions that `names` stand for: TOPIC stands for all partitions of a topic."""
    if is_remote(master):
        return tuple(names)
    return tuple(str(partition) for partition in resolve_names(path, names))


def input_exists(path: str, master: str | None) -> None:
    """`Failure` where there is no file to import. A pattern is left to the job."""
    if not is_remote(master) and not any(sign in path for sign in "*?[") and not os.path.exists(path):
        raise Failure(f"{path}: there is no file to import", WRONG_CALL)
