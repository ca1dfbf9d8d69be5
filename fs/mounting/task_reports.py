"""What a mount reports of its background tasks: counters, `.offsetfs/errors`, line indexes of changed segments."""

from __future__ import annotations

from offsetfs.common.task_runner import TaskObserver
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage.maintenance import TaskResult

_CLOCK_JUMP = Fault(
    None,
    "retention",
    "",
    "the clock jumped ahead; retention and compaction ignore it for an hour",
    "set the clock right if it is wrong",
)


class TaskReports(TaskObserver):
    """The reports of one mount."""

    def __init__(self, mount: MountContext) -> None:
        self._mount = mount

    def begin(self) -> None:
        """Load changed settings, so that an idle mount reports errors in them, too."""
        self._mount.config.refresh()

    def postponed(self, error: Exception) -> None:
        self._mount.error_log.add(error, "background tasks", "")

    def done(self, result: TaskResult) -> None:
        counts = self._mount.counters.tasks[result.task]
        counts.runs += result.error is None
        counts.failures += result.error is not None
        counts.segments_removed += result.segments_removed
        counts.bytes_freed += result.bytes_freed
        if result.partition is not None:
            self._mount.events.segments_changed.publish(result.partition)
        if result.error is not None:
            self._mount.error_log.add(result.error, result.task, str(result.partition or ""))

    def end(self) -> None:
        if any(directory.cautious_clock.doubt_ms > 0 for directory in self._mount.directory.directories):
            self._mount.error_log.report(_CLOCK_JUMP)
