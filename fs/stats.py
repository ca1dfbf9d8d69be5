"""`.offsetfs/stats`: a report for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offsetfs.fs.counters import DURATION_BOUNDS_S
from offsetfs.fs.report import PartitionReport, Report

_HEADINGS = ("PARTITION", "START", "NEXT", "SIZE", "APPENDED", "BYTES", "READ", "NOT ON DISK", "SINCE", "FOLLOWERS")


def text(report: Report) -> bytes:
    """Return the report as lines and a table of the partitions that were used."""
    lines = [*_mount(report), "", *columns([_HEADINGS, *map(_row, report.partitions)])]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def _mount(report: Report) -> Iterator[str]:
    mode = "ro" if report.is_read_only else "rw"
    up = duration(report.taken_s - report.started_s)
    place = report.mount_point or "no mount point"
    yield f"offsetfs {report.version}: {report.log_directory} on {place}, {mode}, for {up}"
    yield f"partitions  {report.partitions_count}, of which {len(report.partitions)} were used"
    yield f"open files  {report.open_files}"
    yield f"requests    {sum(report.requests.values())}: {_most(report.requests)}"
    yield f"errnos      {sum(report.refusals.values())}: {_most(report.refusals)}"
    yield f"faults      {report.faults}" + (", see errors" if report.faults else "")
    yield f"syncs       {_syncs(report)}"
    yield f"buffers     {size(report.buffer_bytes)} of {size(report.buffer_bytes_max)}"
    for name, cache in report.caches.items():
        share = "" if cache.hit_share is None else f", {cache.hit_share:.0%} of {cache.hits + cache.misses} found"
        yield f"cache       {name}: {size(cache.bytes)} of {size(cache.bytes_max)}{share}"
    for duty, counts in sorted(report.duties.items()):
        yield f"duty        {duty}: {counts.runs} times, {counts.failures} failed, {size(counts.bytes_freed)} freed"


def _most(counts: dict[str, int] | object) -> str:
    assert isinstance(counts, dict)
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:8]
    return ", ".join(f"{name} {count}" for name, count in most) or "none"


def _syncs(report: Report) -> str:
    count = sum(report.sync_counts)
    failed = f", {report.sync_failures} FAILED" if report.sync_failures else ""
    if not count:
        return f"0{failed}"
    longest = max(place for place, each in enumerate(report.sync_counts) if each)
    limit = f"under {duration(DURATION_BOUNDS_S[longest])}" if longest < len(DURATION_BOUNDS_S) else "over 10 s"
    return f"{count}, mean {duration(report.sync_sum_s / count)}, the longest {limit}{failed}"


def _row(partition: PartitionReport) -> tuple[str, ...]:
    counts, log = partition.counts, partition.log
    name = "(others)" if partition.name is None else str(partition.name)
    of_log = ("", "", "") if log is None else (str(log.log_start_offset), str(log.next_offset), size(log.size_bytes))
    state = " FENCED" if log is not None and log.is_fenced else ""
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


# --- numbers for people ----------------------------------------------------------------------------------------------


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines: the first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def size(count: float) -> str:
    """Return bytes with three digits and a unit of 1024: `1.21 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1000 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.3g} {unit}" if unit != "B" else f"{int(count)} B"


def duration(seconds: float) -> str:
    """Return a time as people say it: `4.2 ms`, `12 s`, `2 h 5 min`."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = int(seconds) // 60
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
