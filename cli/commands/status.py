"""`offsetfs status`: what is mounted, and what a log directory holds.

The command reads the numbers of partitions from the log directory itself, read-only, beside the daemon. They do not
include records that the daemon still buffers; the mount returns their size, for which the command waits two seconds at
most.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

from offsetfs.cli.arguments.archives import attached, is_archive
from offsetfs.cli.arguments.log_directories import log_directories
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.cli.mounts import daemon_registry
from offsetfs.cli.mounts.metrics_samples import Sample, read_files_or_none, read_sample_or_none
from offsetfs.cli.mounts.mirroring_process import mirroring_process
from offsetfs.cli.mounts.serving_daemon import user_name
from offsetfs.cli.mounts.serving_process import ServingProcess, serving_process
from offsetfs.cli.mounts.stale_mount import is_stale
from offsetfs.cli.preflight import check_not_mounted
from offsetfs.common.formatting import columns, duration, printable, size
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, Mount, mounts, resolved
from offsetfs.fs.options import MountOptions, takes_value
from offsetfs.storage import LogDirectories, LogDirectory, TopicPartition, files
from offsetfs.storage.directory import MirrorFile, split_paths, writer_of
from offsetfs.storage.errors import StorageError, counted, sentence
from offsetfs.storage.maintenance import dirty_range, kept_files

ASKED_MAX = 100
"""The damaged partitions that a mount is asked about, at most: each may take two seconds where it does not answer."""

PARTITIONS_SHOWN = 15
"""The partitions of a table; with more, it has a line a topic: a mount and its partitions fit 24 lines."""

_HEADINGS = ("START", "NEXT", "BYTES", "SEGMENTS", "")


@click.command("status", short_help="Show mounts and partitions.")
@click.argument("directory", metavar="[LOGDIR|MNT]", required=False)
@click.option("--all", "shows_all", is_flag=True, help="Show every partition and every option.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def command(directory: str | None, shows_all: bool, as_json: bool) -> int:
    """Show the mounts of offsetfs; with LOGDIR or MNT that one, and its partitions.

    For each mount: log directory, mount point, ro or rw, process, start time (UTC), the bytes that are not on disk yet,
    and the options that differ from the defaults. If a directory has more partitions than fit on a screen, each topic
    has one line, and so has each partition with damage or with records that a recovery cut; --all shows every
    partition, and of compacted ones what the next compaction would process.

    If offsetfs serve serves LOGDIR, its addresses are shown; if offsetfs mirror writes it, how far it is behind. The
    address of a page of the mount or server has its token. For the directory of a mirror the cluster is shown, also
    while no process mirrors it.

    \b
    offsetfs status
    offsetfs status /mnt/kafka
    offsetfs status /var/lib/kafka/data --json | jq '.partitions[].next_offset'

    Exit codes: 0 every mount shown is alive; 1 wrong call, or neither a mount nor a log directory; 32 a mount whose
    daemon is gone.
    """
    mounted = [_mount(mount) for mount in mounts() if mount.type == FILE_SYSTEM_TYPE]
    answer: dict[str, Any] = {"mounts": mounted}
    if directory is not None:
        wanted = directory if is_archive(directory) else resolved(directory)
        at = [mount for mount in mounted if wanted in (mount["mount_point"], *mount["log_directories"])]
        paths = at[0]["log_directories"] if at else log_directories(directory)
        for path in paths:
            attached(path)
        at = at or [mount for mount in mounted if set(paths) & set(mount["log_directories"])]
        if not paths:
            raise Failure(f"{directory}: the log directory of this mount is not known")
        if not at:
            for path in paths:
                check_not_mounted(path)
        server = serving_process(paths[0]) if not at and len(paths) == 1 else None
        answer = {"server": _server(server)} if server is not None else {}
        mirror = mirroring_process(paths[0]) if len(paths) == 1 else None
        partitions = _partitions(paths, _damage_met(at))
        if mirror is not None:
            answer["mirror"] = {key: mirror[key] for key in ("pid", "source", "failures")}
            for partition in partitions:
                partition["mirror"] = mirror["partitions"].get(f"{partition['topic']}-{partition['partition']}")
        source = _mirrored_source(paths)
        if source:
            answer["mirrored_from"] = source
        answer |= {"mounts": at, "log_directory": ",".join(paths), "partitions": partitions}
    click.echo(json.dumps(answer, indent=1) if as_json else _text(answer, shows_all))
    return FAILED if any(mount["is_alive"] is False for mount in answer["mounts"]) else DONE


def _mount(mount: Mount) -> dict[str, Any]:
    served = daemon_registry.serving(mount)
    daemon = served[0] if served else None
    source = mount.source if mount.source.startswith("/") else None
    is_alive = daemon.is_alive if daemon else False if is_stale(mount) else None
    return {
        "mount_point": mount.path,
        "log_directory": daemon.directory if daemon else source,
        "log_directories": list(daemon.directories) if daemon else split_paths(source) if source else [],
        "user": user_name(mount.owner),
        "pid": daemon.pid if daemon else None,
        "is_alive": is_alive,
        "mode": "ro" if "ro" in mount.options.split(",") else "rw",
        "since": _stamp(daemon.since_s) if daemon else None,
        **_lag(read_sample_or_none(mount.path) if is_alive is not False else None),
        "options": dict(daemon.options) if daemon else {},
        **({"page": daemon.page} if daemon and daemon.page else {}),
    }


def _mirrored_source(paths: Sequence[str]) -> str:
    """Return the addresses of the cluster that a directory mirrors, as given to the last run; else ""."""
    if len(paths) != 1 or is_archive(paths[0]):
        return ""
    try:
        mirror_file = MirrorFile.read(files.real_path(paths[0]))
    except (StorageError, OSError):  # opening the directory for writing reports it
        return ""
    return "" if mirror_file is None else mirror_file.source


def _server(server: ServingProcess) -> dict[str, Any]:
    return {"pid": server.pid, "listeners": list(server.listeners), **({"page": server.page} if server.page else {})}


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _lag(sample: Sample | None) -> dict[str, Any]:
    """Return what is not on disk yet, and since when; None where the mount does not say."""
    if sample is None:
        unknown = ("unsynced_bytes", "unsynced_age_seconds", "faults", "unrecovered", "damaged_partitions")
        return dict.fromkeys(unknown)
    partitions = sample.partitions.values()
    damaged = [name for name, values in sample.partitions.items() if values.get("log_damaged_places")]
    return {
        "unsynced_bytes": sum(int(values["unsynced_bytes"]) for values in partitions),
        "unsynced_age_seconds": max((values["unsynced_age_seconds"] for values in partitions), default=0.0),
        "faults": int(sample.mount["faults"]),
        "unrecovered": int(sample.mount.get("unrecovered_partitions", 0)),  # an older daemon has no such metric
        "damaged_partitions": sorted(damaged),
    }


def _damage_met(at: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the damage that the mounts know of, by partition: readers met it, or a recovery cut it."""
    met: dict[str, list[dict[str, Any]]] = {}
    for mount in at:
        for name in (mount["damaged_partitions"] or [])[:ASKED_MAX]:
            text = read_files_or_none(mount["mount_point"], f"{name}/info")
            if text is not None:
                met.setdefault(name, []).extend(json.loads(text)["damage"])
    return met


def _partitions(paths: Sequence[str], met: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    try:
        opened = LogDirectories.open(paths, lambda path: LogDirectory.open(files.real_path(path), read_only=True))
    except StorageError as error:
        raise Failure(str(error), WRONG_CALL) from error
    try:
        return [_partition(opened, partition, met.get(str(partition), [])) for partition in opened.partitions()]
    finally:
        opened.close()


def _partition(directory: LogDirectories, partition: TopicPartition, met: list[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {"topic": partition.topic, "partition": partition.partition}
    try:
        log = directory.log(partition)
    except (StorageError, OSError) as error:
        return {**answer, "error": sentence(error)}
    holder = directory.directory_of(partition)
    compaction = dirty_range(holder, log)
    places = [(place.path, place.position, place.reason) for place in log.damage]
    places += [(place["path"], place["position"], place["reason"]) for place in met]
    unique = {(path, position): (path, position, reason) for path, position, reason in places}.values()
    return {
        **answer,
        "log_start_offset": log.log_start_offset,
        "remote_storage": log.remote_note,
        "next_offset": log.log_end_offset(),
        "high_watermark": log.high_watermark,
        "size_bytes": log.size_bytes,
        "segments": len(log.snapshot()),
        "log_directory": holder.path,
        "compaction": None if compaction is None else compaction.fields(),
        "damage": [f"{path}: position {position}: {reason}" for path, position, reason in unique],
        "cut": kept_files(log.path),
    }


def _text(answer: dict[str, Any], shows_all: bool) -> str:
    lines = [line for mount in answer["mounts"] for line in _mount_lines(mount, shows_all)] or ["nothing is mounted"]
    if "partitions" in answer:
        if "server" in answer:
            server = answer["server"]
            addresses = ", ".join(server["listeners"])
            lines = [f"{answer['log_directory']} is served at {addresses} by process {server['pid']}"]
            lines += _page_lines(server)
        elif "mirror" in answer:
            lines = lines if answer["mounts"] else []
            mirror = answer["mirror"]
            lines.append(f"{answer['log_directory']} is mirrored from {mirror['source']} by process {mirror['pid']}")
            lines += [f"  {topic}: {failure}" for topic, failure in mirror["failures"].items()]
        elif not answer["mounts"]:
            lines = [f"{answer['log_directory']} is not mounted"]
        if "mirrored_from" in answer and "mirror" not in answer:
            is_idle = writer_of(files.real_path(answer["log_directory"])) is None
            state = "; no process mirrors it now" if is_idle else ""
            lines.append(f"  a mirror of {answer['mirrored_from']}{state}")
        lines += _partition_lines(answer["partitions"], shows_all)
    return "\n".join(map(printable, lines))


def _partition_lines(partitions: list[dict[str, Any]], shows_all: bool) -> list[str]:
    if shows_all or len(partitions) <= PARTITIONS_SHOWN:
        return _columns([("PARTITION", *_HEADINGS), *(_row(partition, shows_all) for partition in partitions)])
    topics: dict[str, list[dict[str, Any]]] = {}
    for partition in partitions:
        topics.setdefault(partition["topic"], []).append(partition)
    rows = [_topic_row(topic, of_topic) for topic, of_topic in topics.items()]
    shown = ("error", "damage", "cut", "remote_storage")
    damaged = [_row(partition) for partition in partitions if any(partition.get(key) for key in shown)]
    lines = _columns([("TOPIC", *_HEADINGS), *rows[:PARTITIONS_SHOWN], *damaged])
    return [*lines, f"{counted(len(partitions), 'partition')} of {counted(len(topics), 'topic')}; --all shows each"]


def _topic_row(topic: str, partitions: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the sums of a topic. Offsets of different partitions have no sum."""
    size_bytes, segments = (
        sum(partition.get(key, 0) for partition in partitions) for key in ("size_bytes", "segments")
    )
    return (topic, "", "", str(size_bytes), str(segments), counted(len(partitions), "partition"))


def _mount_lines(mount: dict[str, Any], shows_all: bool) -> list[str]:
    """Return what is known of a mount, in lines that fit a terminal as long as the paths do."""
    directory = mount["log_directory"] or "an unknown directory"
    state = {True: f"pid {mount['pid']}", False: "its daemon is DEAD", None: f"user {mount['user']}"}[mount["is_alive"]]
    facts = [mount["mode"], state, f"since {mount['since']}" if mount["since"] else "", _lag_text(mount)]
    lines = [f"{directory} on {mount['mount_point']}", f"  {', '.join(filter(None, facts))}"]
    takes = takes_value()
    options = [
        f"{name}={value}" if value or takes.get(name) else name
        for name, value in _options_of(mount["options"], shows_all)
    ]
    if options:
        lines.append(f"  options: {','.join(options)}")
    lines += _page_lines(mount)
    if mount["is_alive"] is False:
        lines.append(f"  remove it with: offsetfs umount {mount['mount_point']}")
    return lines


def _page_lines(process: dict[str, Any]) -> list[str]:
    return [f"  page: {process['page']}"] if process.get("page") else []


def _options_of(options: dict[str, str], shows_all: bool) -> Iterator[tuple[str, str]]:
    """Yield the options that differ from the defaults, or all of them; ro stands in the line above."""
    defaults = MountOptions().texts()
    if "cache-size" in options:
        from offsetfs.cli.arguments.archive_mounts import option_texts

        defaults |= option_texts()
    yield from ((n, v) for n, v in options.items() if shows_all or (n != "ro" and defaults.get(n) != v))


def _lag_text(mount: dict[str, Any]) -> str:
    if mount["unsynced_bytes"] is None:
        return "" if mount["is_alive"] is False else "no answer"
    faults = f", {counted(mount['faults'], 'fault')}" if mount["faults"] else ""
    if mount["unrecovered"]:
        faults += f", {counted(mount['unrecovered'], 'partition')} not recovered and read only: see .offsetfs/errors"
    if mount["damaged_partitions"]:
        faults += f", damage in {', '.join(mount['damaged_partitions'][:3])}"
        faults += ", …" if len(mount["damaged_partitions"]) > 3 else ""
    if not mount["unsynced_bytes"]:
        return f"all on disk{faults}"
    return f"{size(mount['unsynced_bytes'])} not on disk for {duration(mount['unsynced_age_seconds'])}{faults}"


def _row(partition: dict[str, Any], shows_compaction: bool = False) -> tuple[str, ...]:
    name = f"{partition['topic']}-{partition['partition']}"
    if "error" in partition:
        return (name, "", "", "", "", partition["error"])
    numbers = (str(partition[key]) for key in ("log_start_offset", "next_offset", "size_bytes", "segments"))
    kept = [f"a recovery cut {name} (offsetfs dump reads it)" for name in partition["cut"]]
    compaction = [_compaction_text(partition["compaction"])] if shows_compaction and partition["compaction"] else []
    remote = [partition["remote_storage"]] if partition.get("remote_storage") else []
    notes = [*partition["damage"], *remote, *kept, *_mirror_notes(partition.get("mirror")), *compaction]
    return (name, *numbers, "; ".join(notes))


def _compaction_text(compaction: dict[str, Any]) -> str:
    dirty, uncleanable = compaction["first_dirty_offset"], compaction["first_uncleanable_offset"]
    if dirty >= uncleanable:
        return f"clean below offset {dirty}"
    return f"{compaction['dirty_ratio']:.0%} dirty, offsets {dirty} to {uncleanable - 1}"


def _mirror_notes(mirror: dict[str, Any] | None) -> list[str]:
    """Return what a running mirror says about a partition, if it is behind or has failed."""
    if mirror is None:
        return []
    if mirror["failure"]:
        return [str(mirror["failure"])]
    if not mirror["lag"]:
        return []
    return [f"{counted(mirror['lag'], 'record')} behind the source, for {duration(mirror['lag_seconds'])}"]


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines, the last column as it is."""
    aligned = columns([row[:-1] for row in rows])
    return [f"{line}  {row[-1]}".rstrip() for line, row in zip(aligned, rows, strict=True)]
