"""The collaborators of one mount that its nodes need: log directory, options, caches, threads, events and reports."""

from __future__ import annotations

import time
from dataclasses import dataclass

import trio

from offsetfs.fs.attributes import Attributes
from offsetfs.fs.caches import MountCaches, mount_caches
from offsetfs.fs.companion import MountCompanion
from offsetfs.fs.options import MountOptions
from offsetfs.fs.reporting.counters import Counters
from offsetfs.fs.reporting.directory_reports import ConfigRefresh, DamageReports, report_opening
from offsetfs.fs.reporting.error_log import ErrorLog, Refusals
from offsetfs.fs.requests.events import MountEvents
from offsetfs.fs.requests.read_executor import ReadExecutor
from offsetfs.fs.requests.waiting import Waiting
from offsetfs.storage import AnyLogDirectory


@dataclass(frozen=True, slots=True)
class MountContext:
    """The collaborators that every node of one mount gets. The context has no behavior of its own."""

    directory: AnyLogDirectory
    options: MountOptions
    mount_point: str
    """Empty for a tree without a kernel."""
    is_read_only: bool
    """Whether the options or the log directory forbid all changes."""
    started_s: float
    """Seconds since 1970."""
    nursery: trio.Nursery
    """The tasks that outlive a request. They end with the mount."""
    attributes: Attributes
    caches: MountCaches
    executor: ReadExecutor
    events: MountEvents
    waiting: Waiting
    counters: Counters
    error_log: ErrorLog
    damage: DamageReports
    refusals: Refusals
    config: ConfigRefresh
    companion: MountCompanion | None
    """The broker or the mirror in this process."""


def mount_context(
    directory: AnyLogDirectory,
    options: MountOptions,
    nursery: trio.Nursery,
    mount_point: str = "",
    companion: MountCompanion | None = None,
) -> MountContext:
    """Return the collaborators of a new mount, and record the findings at the opening of its directory."""
    is_read_only = options.read_only or directory.read_only
    error_log, events = ErrorLog(), MountEvents()
    report_opening(directory, error_log)
    waiting = Waiting(nursery, others_write=directory.read_only, request_timeout_s=options.request_timeout_s)
    events.partition_changed.subscribe(waiting.grown)
    return MountContext(
        directory=directory,
        options=options,
        mount_point=mount_point,
        is_read_only=is_read_only,
        started_s=time.time(),
        nursery=nursery,
        attributes=Attributes(options.uid, options.gid, options.umask),
        caches=mount_caches(),
        executor=ReadExecutor(),
        events=events,
        waiting=waiting,
        counters=Counters(),
        error_log=error_log,
        damage=DamageReports(directory, error_log, events),
        refusals=Refusals(error_log, is_read_only=is_read_only),
        config=ConfigRefresh(directory, error_log),
        companion=companion,
    )
