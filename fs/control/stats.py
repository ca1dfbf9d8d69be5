"""`.offsetfs/stats`: the report as a table for users."""

from __future__ import annotations

from collections.abc import Iterator

from offsetfs.common.durations import DURATION_BOUNDS_S
from offsetfs.common.formatting import columns, duration, most_frequent, size
from offsetfs.fs.control.report import PartitionReport, Report

_HEADINGS = ("PARTITION", "START", "NEXT", "SIZE", "APPENDED", "BYTES", "READ", "NOT ON DISK", "SINCE", "FOLLOWERS")


def text(report: Report) -> bytes:
    """Return the report as lines and a table of the partitions that were used."""
    lines = [*_mount(report), "", *columns([_HEADINGS, *map(_row, report.partitions)])]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def _mount(report: Report) -> Iterator[str]:
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


def _syncs(report: Report) -> str:
    count = sum(report.sync_counts)
    failed = f", {report.sync_failures} FAILED" if report.sync_failures else ""
    if not count:
        return f"0{failed}"
    longest = max(index for index, each in enumerate(report.sync_counts) if each)
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
