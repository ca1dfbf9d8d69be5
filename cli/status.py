"""`offsetfs status`: what is mounted, and what a log directory holds.

The numbers of partitions are read from the log directory itself, read only, as a second reader beside the daemon: what
still waits in its memory is not in them. How much that is, the mount is asked, for two seconds at most.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import click

from offsetfs.cli import running
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.printable import printable
from offsetfs.cli.samples import Sample, take_if_it_answers
from offsetfs.fs.figures import duration, size
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, Mount, mounts, resolved
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition


@click.command("status", short_help="Show mounts and partitions.")
@click.argument("place", metavar="[LOGDIR|MNT]", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def command(place: str | None, as_json: bool) -> int:
    """Show the mounts of offsetfs; with LOGDIR or MNT that one, and its partitions.

    A mount has a line with its log directory, its mount point, ro or rw, its process, since when it is there (UTC), how
    much of what was written is not on disk yet, and its options.

    \b
    offsetfs status
    offsetfs status /mnt/kafka
    offsetfs status /var/lib/kafka/data --json | jq '.partitions[].next_offset'

    Exit codes: 1 wrong call, or neither a mount nor a log directory.
    """
    found = [_mount(mount) for mount in mounts() if mount.type == FILE_SYSTEM_TYPE]
    answer: dict[str, Any] = {"mounts": found}
    if place is not None:
        wanted = resolved(place)
        at = [mount for mount in found if wanted in (mount["mount_point"], mount["log_directory"])]
        directory = next((mount["log_directory"] for mount in at), wanted)
        if directory is None:
            raise Failure(f"{place}: the log directory of this mount is not known")
        answer = {"mounts": at, "log_directory": directory, "partitions": _partitions(directory)}
    click.echo(json.dumps(answer, indent=1) if as_json else _text(answer))
    return DONE


def _mount(mount: Mount) -> dict[str, Any]:
    daemon = running.find(mount.device, running.own_directory())
    return {
        "mount_point": mount.path,
        "log_directory": daemon.directory if daemon else None,
        "pid": daemon.pid if daemon else None,
        "is_alive": daemon.is_alive if daemon else None,
        "mode": "ro" if "ro" in mount.options.split(",") else "rw",
        "since": _stamp(daemon.since_s) if daemon else None,
        **_lag(take_if_it_answers(mount.path) if daemon is None or daemon.is_alive else None),
        "options": dict(daemon.options) if daemon else {},
    }


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _lag(sample: Sample | None) -> dict[str, Any]:
    """Return what is not on disk yet, and since when; None where the mount does not say."""
    if sample is None:
        return {"unsynced_bytes": None, "unsynced_age_seconds": None, "faults": None}
    partitions = sample.partitions.values()
    return {
        "unsynced_bytes": sum(int(each["unsynced_bytes"]) for each in partitions),
        "unsynced_age_seconds": max((each["unsynced_age_seconds"] for each in partitions), default=0.0),
        "faults": int(sample.mount["faults"]),
    }


def _partitions(directory: str) -> list[dict[str, Any]]:
    try:
        opened = LogDirectory.open(os.path.realpath(directory), read_only=True)
    except StorageError as error:
        raise Failure(str(error), WRONG_CALL) from error
    try:
        return [_partition(opened, partition) for partition in opened.partitions()]
    finally:
        opened.close()


def _partition(directory: LogDirectory, partition: TopicPartition) -> dict[str, Any]:
    answer: dict[str, Any] = {"topic": partition.topic, "partition": partition.partition}
    try:
        log = directory.log(partition)
    except (StorageError, OSError) as error:
        return {**answer, "error": str(error)}
    return {
        **answer,
        "log_start_offset": log.log_start_offset,
        "next_offset": log.next_offset,
        "size_bytes": log.size_bytes,
        "segments": len(log.snapshot()),
        "damage": [f"{each.path}: position {each.position}: {each.reason}" for each in log.damage],
    }


def _text(answer: dict[str, Any]) -> str:
    lines = [_mount_line(mount) for mount in answer["mounts"]] or ["nothing is mounted"]
    if "partitions" in answer:
        if not answer["mounts"]:
            lines = [f"{answer['log_directory']} is not mounted"]
        rows = [("PARTITION", "START", "NEXT", "BYTES", "SEGMENTS", "")]
        lines += _columns(rows + [_row(each) for each in answer["partitions"]])
    return "\n".join(lines)


def _mount_line(mount: dict[str, Any]) -> str:
    directory = mount["log_directory"] or "an unknown directory"
    alive = {True: f"pid {mount['pid']}", False: f"pid {mount['pid']} is DEAD", None: "pid unknown"}[mount["is_alive"]]
    options = ",".join(f"{name}={value}" if value else name for name, value in mount["options"].items())
    since = f", since {mount['since']}" if mount["since"] else ""
    line = f"{directory} on {mount['mount_point']}, {mount['mode']}, {alive}{since}, {_lag_text(mount)}"
    return printable(line + (f" ({options})" if options else ""))


def _lag_text(mount: dict[str, Any]) -> str:
    if mount["unsynced_bytes"] is None:
        return "not asked" if mount["is_alive"] is False else "no answer"
    faults = f", {mount['faults']} faults" if mount["faults"] else ""
    if not mount["unsynced_bytes"]:
        return f"all on disk{faults}"
    return f"{size(mount['unsynced_bytes'])} not on disk for {duration(mount['unsynced_age_seconds'])}{faults}"


def _row(partition: dict[str, Any]) -> tuple[str, ...]:
    name = f"{partition['topic']}-{partition['partition']}"
    if "error" in partition:
        return (name, "", "", "", "", partition["error"])
    numbers = (str(partition[key]) for key in ("log_start_offset", "next_offset", "size_bytes", "segments"))
    return (name, *numbers, "; ".join(partition["damage"]))


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in range(1, 5)), row[5]]).rstrip()
        for row in rows
    ]
