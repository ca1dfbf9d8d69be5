"""The texts of `.offsetfs`: `stats`, the report as a table for users, and `config`, the options and settings in use.

config is an INI file:

    [mount]           every option of the mount, defaults included; NAME=VALUE as after -o
    [directory]       Kafka's broker settings that differ from their defaults
    [without effect]  names of broker settings that have no effect on a mount
    [left out]        settings in the metadata log that are not valid
    [topic orders]    settings of a topic that differ from Kafka's defaults, from any source
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from offsetfs.common.durations import DURATION_BOUNDS_S
from offsetfs.common.formatting import columns, duration, most_frequent, size
from offsetfs.fs.control.report import MountReport, PartitionReport
from offsetfs.fs.options import MountOptions
from offsetfs.storage import AnyLogDirectory
from offsetfs.storage.settings import DEFAULTS

_HEADINGS = ("PARTITION", "START", "NEXT", "SIZE", "APPENDED", "BYTES", "READ", "NOT ON DISK", "SINCE", "FOLLOWERS")


def stats_text(report: MountReport) -> bytes:
    """Return the report as lines and a table of the partitions that were used."""
    lines = [*_mount_lines(report), "", *columns([_HEADINGS, *map(_row, report.partitions)])]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def _mount_lines(report: MountReport) -> Iterator[str]:
    mode = "ro" if report.is_read_only else "rw"
    up = duration(report.taken_s - report.started_s)
    mount_point = report.mount_point or "no mount point"
    yield f"offsetfs {report.version}: {report.log_directory} on {mount_point}, {mode}, for {up}"
    yield f"partitions  {report.partitions_count}, of which {len(report.partitions)} were used"
    yield f"open files  {report.open_files}"
    yield f"requests    {sum(report.requests.values())}: {most_frequent(report.requests)}"
    yield f"errnos      {sum(report.refusals.values())}: {most_frequent(report.refusals)}"
    yield f"faults      {report.faults}" + (", see errors" if report.faults else "")
    if report.unrecovered:
        names = ", ".join(report.unrecovered[:8]) + (", …" if len(report.unrecovered) > 8 else "")
        yield f"unrecovered {len(report.unrecovered)}, read only: {names}"
    yield f"syncs       {_syncs(report)}"
    yield f"buffers     {size(report.buffer_bytes)} of {size(report.buffer_bytes_max)}"
    for name, cache in report.caches.items():
        share = "" if cache.hit_share is None else f", {cache.hit_share:.0%} of {cache.hits + cache.misses} found"
        yield f"cache       {name}: {size(cache.bytes)} of {size(cache.bytes_max)}{share}"
    for task, counts in sorted(report.tasks.items()):
        yield f"task        {task}: {counts.runs} times, {counts.failures} failed, {size(counts.bytes_freed)} freed"
    if report.companion is not None:
        yield from report.companion.lines()


def _syncs(report: MountReport) -> str:
    count = sum(report.sync_counts)
    failed = f", {report.sync_failures} FAILED" if report.sync_failures else ""
    if not count:
        return f"0{failed}"
    longest = max(index for index, syncs in enumerate(report.sync_counts) if syncs)
    limit = f"under {duration(DURATION_BOUNDS_S[longest])}" if longest < len(DURATION_BOUNDS_S) else "over 10 s"
    return f"{count}, mean {duration(report.sync_sum_s / count)}, the longest {limit}{failed}"


def _row(partition: PartitionReport) -> tuple[str, ...]:
    counts, log = partition.counts, partition.log
    name = "(others)" if partition.name is None else str(partition.name)
    of_log = ("", "", "") if log is None else (str(log.log_start_offset), str(log.next_offset), size(log.size_bytes))
    state = " FAILED" if log is not None and log.has_failed else ""
    return (
        name + state,
        *of_log,
        str(counts.appended_records),
        size(counts.appended_bytes),
        size(counts.read_bytes),
        size(partition.unsynced_bytes) if partition.unsynced_batches else "-",
        duration(partition.unsynced_age_s) if partition.unsynced_batches else "-",
        str(counts.followers),
    )


def config_text(directory: AnyLogDirectory, options: MountOptions) -> bytes:
    """Return the content of the file. Reads the settings of every topic and opens no log."""
    return "\n".join(_config_lines(directory, options)).encode("utf-8", "surrogateescape")


def _config_lines(directory: AnyLogDirectory, options: MountOptions) -> Iterator[str]:
    named = {**options.topic_defaults, **options.all_broker_settings}
    yield from _section("mount", {name: value for name, value in options.texts().items() if name not in named})
    yield from _section("directory", options.all_broker_settings)
    if options.without_effect:
        yield "[without effect]"
        yield from options.without_effect
    if problems := directory.setting_problems:
        yield "[left out]"
        yield from problems
    defaults = DEFAULTS.properties()
    for topic in sorted({partition.topic for partition in directory.partitions()}):
        settings = directory.config_of(topic).properties()
        yield from _section(f"topic {topic}", {n: v for n, v in settings.items() if defaults.get(n) != v})
    yield ""


def _section(name: str, settings: Mapping[str, str]) -> Iterator[str]:
    if settings:
        yield f"[{name}]"
        yield from (f"{setting}={value}" for setting, value in settings.items())
