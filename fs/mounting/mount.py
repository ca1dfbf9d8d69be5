"""A log directory, served at a mount point until it is unmounted or ended by a signal.

    mounted ── requests ──┬─ umount(8): the kernel ends the session ─┐
                          └─ SIGTERM, SIGINT, SIGHUP ────────────────┴→ companion ends → accept no more → drain → sync
                                                                        → checkpoints, clean mark → mount gone

Guarantees: when `serve` returns, accepted records are on disk and the mount is gone; a second signal changes nothing.
After umount all files are closed, so unfinished lines become records. After a signal they do not, because their writers
may be in the middle of a line, and the log reports how many bytes were dropped.

`operations` handles the requests; `cli/commands/mount` checks beforehand whether the mount is possible.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import pyfuse3
import trio

from offsetfs.common.task_runner import TaskObserver, TaskRunner
from offsetfs.common.threads import in_thread, workers
from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.companion import MountCompanion, OnFault
from offsetfs.fs.control.control import set_level
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.mounting import reader_hand_off
from offsetfs.fs.mounting.descriptor_limits import Reserve, limit, reserve_size, threads_max
from offsetfs.fs.mounting.mount_table import MountTable
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.options import MountOptions
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage import AnyLogDirectory, Unsynced
from offsetfs.storage.errors import StorageError, sentence
from offsetfs.storage.maintenance import TaskResult

_log = logging.getLogger(__name__)

REQUESTS_MAX = 4096  # handled at once, blocked readers included; each is a task
LAST_REPLIES_S = 1.0  # for requests that wait for something else than the drain
THREADS_KEPT = 2
"""Worker threads that a mount keeps from its beginning: at a limit of memory or of processes no others start."""

TIMEOUT_MIN_S = 15  # the kernel rounds a shorter request timeout up to this
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DEBUG_SIGNAL, LEVEL_SIGNAL = signal.SIGUSR1, signal.SIGUSR2
"""Log at level debug, and at the level of the options again. A read-only mount needs them because it rejects writes to
`.offsetfs/log-level`."""

COMPANION_ENDS_S = 10.0
"""The time that the end of a mount waits for its companion, which has a shorter limit of its own."""

OnReady = Callable[[int], None]
OnEnding = Callable[[str, Callable[[], Unsynced]], None]

_CLOCK_JUMP = Fault(
    None,
    "retention",
    "",
    "the clock jumped ahead; retention and compaction ignore it for an hour",
    "set the clock right if it is wrong",
)


class MountError(Exception):
    """The mount failed; the message contains the cause and the remedy."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a mount. `failures`: sentences about records that are not on disk, and other errors at the end."""

    reason: str
    failures: tuple[str, ...]


async def serve(
    directory: AnyLogDirectory,
    mount_point: str,
    options: MountOptions,
    on_ready: OnReady,
    on_ending: OnEnding = lambda reason, unsynced: None,
    companion: MountCompanion | None = None,
    beside: Callable[[], Awaitable[None]] | None = None,
) -> Ending:
    """Mount `directory` at `mount_point`; return when the mount has ended. Once per process.

    `on_ready` is called with the st_dev of the mount when it answers requests. `on_ending` is called once, when the
    mount begins to end: with the reason, and a function that returns, in any thread, the unsynced records.
    `companion` runs from the time when the mount answers until it begins to end. It serves the first log directory:
    there must be one. `beside` runs as long, and is cancelled then. Closes the directory, also on an error. Raises
    `MountError`.
    """
    options = dataclasses.replace(options, request_timeout_s=request_timeout_s(), threads_max=threads_max(limit()))
    session = _Session(directory, mount_point, options, on_ending, companion, beside)
    if not workers.keep(THREADS_KEPT):
        _log.warning("no thread could be started: raise ulimit -v or ulimit -u; reads that wait for the disk will fail")
    # Until the directory is closed: a second SIGTERM with its default action would kill the process in the drain.
    with trio.open_signal_receiver(*SIGNALS, DEBUG_SIGNAL, LEVEL_SIGNAL) as signals:
        try:
            await session.run(signals, on_ready)
        finally:
            session.close()
    if session.error is not None:
        raise session.error
    return Ending(session.reason, tuple(session.failures))


class _Session:
    """One mount, from mount(2) to umount(2)."""

    def __init__(
        self,
        directory: AnyLogDirectory,
        mount_point: str,
        options: MountOptions,
        on_ending: OnEnding,
        companion: MountCompanion | None,
        beside: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self.reason = ""
        self.failures: list[str] = []
        self.error: MountError | None = None
        self._directory = directory
        self._mount_point = mount_point
        self._options = options
        self._on_ending = on_ending
        self._companion = companion
        self._companion_ended = trio.Event()
        self._beside = beside
        self._unsynced: Callable[[], Unsynced] = Unsynced
        self._is_mounted = False
        self._device: int | None = None
        self._is_ready = trio.Event()  # or ending
        self._ending = trio.Event()
        self._requests_done = trio.Event()
        self._table = MountTable()
        self._reserve = Reserve(reserve_size(limit()))

    async def run(self, signals: AsyncIterator[int], on_ready: OnReady) -> None:
        """Mount, serve and drain. Tasks that requests have started end with it."""
        async with trio.open_nursery() as nursery:
            operations = Operations(self._directory, self._options, nursery, self._mount_point, self._companion)
            for partition, cause in self._directory.failed.items():
                operations.mount.error_log.add(cause, "recovery", str(partition))
            try:
                self._mount(operations)
            except MountError as error:
                self.error = error
            else:
                events = operations.mount.events
                events.content_known.subscribe(_store_in_page_cache)
                events.damage_found.subscribe(_log_damage)
                maintenance = None
                if not self._directory.read_only:
                    maintenance = TaskRunner(self._directory.directories, TaskReports(operations.mount))
                await self._serve(operations, maintenance, signals, on_ready)
            nursery.cancel_scope.cancel()

    def _mount(self, operations: Operations) -> None:
        with tempfile.TemporaryFile() as output, _stderr_into(output.fileno()):
            try:
                pyfuse3.init(
                    operations,
                    self._mount_point,
                    mount_options([directory.path for directory in self._directory.directories], self._options),
                )
            except RuntimeError as error:
                output.seek(0)
                text = " ".join(output.read(4096).decode(errors="replace").split())
                raise MountError(text or str(error)) from error
        self._is_mounted = True

    async def _serve(
        self,
        operations: Operations,
        maintenance: TaskRunner | None,
        signals: AsyncIterator[int],
        on_ready: OnReady,
    ) -> None:
        accumulators = operations.accumulators
        self._unsynced = accumulators.unsynced
        async with trio.open_nursery() as tasks:
            tasks.start_soon(self._answer_requests)
            tasks.start_soon(self._report_ready, on_ready)
            tasks.start_soon(self._handle_signals, signals)
            if maintenance is not None:
                tasks.start_soon(maintenance.run)
            if self._companion is not None:
                tasks.start_soon(self._run_companion, self._companion, operations.mount.error_log.report)
            if self._beside is None:
                await self._ending.wait()
            else:
                await self._run_beside(self._beside)
            if self._companion is not None:
                self._companion.stop()
                with trio.move_on_after(COMPANION_ENDS_S):
                    await self._companion_ended.wait()
            if maintenance is not None:
                maintenance.stop()
            pyfuse3.terminate()
            operations.mount.waiting.close()
            await self._drain(accumulators)
            with trio.move_on_after(LAST_REPLIES_S):
                await self._requests_done.wait()
            tasks.cancel_scope.cancel()

    async def _answer_requests(self) -> None:
        try:
            await reader_hand_off.answer(REQUESTS_MAX)
            self._end("unmounted" if self._is_gone() else "the kernel ended the session")
        except Exception as error:
            _log.exception("requests are no longer read")
            self._end(f"internal error: {error!r}")
            self.failures.append(f"requests could no longer be read: {error!r}")
        finally:
            self._requests_done.set()

    async def _run_companion(self, companion: MountCompanion, on_fault: OnFault) -> None:
        try:
            await self._is_ready.wait()
            await companion.run(self._directory.directories[0], on_fault)
        except Exception as error:
            _log.exception("%s ended", companion.name)
            self._end(f"internal error: {error!r}")
            self.failures.append(f"{companion.name} ended: {error!r}")
        finally:
            self._companion_ended.set()

    async def _run_beside(self, beside: Callable[[], Awaitable[None]]) -> None:
        """Run `beside` from the time when the mount answers until it begins to end."""
        await self._is_ready.wait()
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                try:
                    await beside()
                except Exception:  # files are answered without it
                    _log.exception("the page ended")

            nursery.start_soon(run)
            await self._ending.wait()
            nursery.cancel_scope.cancel()

    async def _report_ready(self, on_ready: OnReady) -> None:
        try:
            # In a thread: stat(2) of the mount point is a request that this event loop answers.
            device = await in_thread(functools.partial(_device_of, self._mount_point), abandon_on_cancel=True)
        except OSError as error:
            self.error = MountError(f"{self._mount_point} does not answer: {error.strerror}")
            self._end("no answer")
        else:
            self._device = device
            on_ready(device)
            self._is_ready.set()

    async def _handle_signals(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            name = signal.Signals(number).name
            if number in (DEBUG_SIGNAL, LEVEL_SIGNAL):
                set_level("debug" if number == DEBUG_SIGNAL else self._options.log_level)
                continue
            if self._ending.is_set():
                _log.warning("%s: already ending, accepted records are being written", name)
            self._end(name)

    def _end(self, reason: str) -> None:
        if not self._ending.is_set():
            _log.info("ending: %s", reason)
            self.reason = reason
            self._reserve.release()
            self._on_ending(reason, self._unsynced)
            self._ending.set()
            self._is_ready.set()

    async def _drain(self, accumulators: Accumulators) -> None:
        if self._is_gone():  # at umount the kernel drops RELEASE requests that it has not sent yet
            await accumulators.release_all()
        failures = await accumulators.close()
        self.failures += [f"{partition} is not on disk: {error.strerror}" for partition, error in failures.items()]

    def _is_gone(self) -> bool:
        # Compared by device, because an automounter has a mount at this path too, below ours.
        mount = self._table.mount_at(self._mount_point)
        return mount is None or (self._device is not None and mount.device != self._device)

    def close(self) -> None:
        """Write checkpoints and the clean shutdown file; then unmount.

        In this order, because the directory must be closed when `umount` returns.
        """
        self._reserve.release()
        try:
            self._directory.close()
        except (StorageError, OSError) as error:
            _log.error("%s", sentence(error))
            self.failures.append(f"{self._directory.path} is not closed cleanly: {sentence(error)}")
        if self._is_mounted:
            pyfuse3.close()
            self._detach()
        self._table.close()

    def _detach(self) -> None:
        """Unmount what pyfuse3 leaves if the connection was aborted: a mount whose requests fail with ENOTCONN."""
        remaining = self._table.mount_at(self._mount_point)
        if remaining is not None and remaining.device == self._device:
            command = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
            subprocess.run([*command, self._mount_point], check=False)


# --- options and state of the kernel's mount -------------------------------------------------------------------------


def mount_options(directories: Sequence[str], options: MountOptions) -> set[str]:
    """Return the options for mount(2) and libfuse. Text from users is restricted to `[A-Za-z0-9._/-]+`.

    Commas separate options: a path with a comma could add an option such as `suid`.
    """
    fixed = {"default_permissions", "nosuid", "nodev", "noexec", f"fsname={source(directories)}", "subtype=offsetfs"}
    chosen = {"ro": options.read_only, "allow_other": options.allow_other}
    return fixed | {name for name, is_set in chosen.items() if is_set}


def source(directories: Sequence[str]) -> str:
    """Return the source for the table of mounts, by which `mount -a` recognizes a mount: paths separated by commas.

    libfuse needs a backslash before each comma. If a path contains other characters than `[A-Za-z0-9._/-]`, the source
    is the last component of the first path, with underscores. The prefix keeps mount(8) from using it as a path. The
    URL of an archive is its own source.
    """
    if all(re.fullmatch(r"([a-z0-9]+:/)?/[A-Za-z0-9._/-]*", directory) for directory in directories):
        return "\\,".join(directories)
    return "offsetfs-" + re.sub(r"[^A-Za-z0-9._-]", "_", os.path.basename(directories[0]))


def request_timeout_s(directory: str = "/proc/sys/fs/fuse") -> float | None:
    """Return after how many seconds the kernel (6.15 and later) ends a mount that leaves a request unanswered."""
    limits = [_number_in(os.path.join(directory, name)) for name in ("default_request_timeout", "max_request_timeout")]
    set_limits = [limit for limit in limits if limit]
    return max(float(min(set_limits)), float(TIMEOUT_MIN_S)) if set_limits else None


def _number_in(path: str) -> int:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0  # an older kernel has no limit


def _log_damage(error: StorageError) -> None:
    _log.warning("damage: %s; what it holds is left out or answers with an error", error)


def _store_in_page_cache(inode: int, content: bytes) -> None:
    """Put the content of a file into the kernel's page cache, so that no read request follows.

    OSError is ignored: the kernel may have dropped the inode already, and then reads it when it needs it.
    """
    with contextlib.suppress(OSError):
        pyfuse3.notify_store(inode, 0, content)


def _device_of(path: str) -> int:
    return os.stat(path).st_dev


@contextlib.contextmanager
def _stderr_into(fd: int) -> Iterator[None]:
    """Redirect stderr to a file: libfuse and fusermount3 report the cause of a failed mount only there."""
    saved = os.dup(2)
    os.dup2(fd, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


class TaskReports(TaskObserver):
    """Reports of background tasks: counters, `.offsetfs/errors`, line indexes of changed segments."""

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
