"""A log directory, served at a mount point until it is unmounted or ended by a signal.

    mounted ── requests ──┬─ umount(8): the kernel ends the session ─┐
                          └─ SIGTERM, SIGINT, SIGHUP ────────────────┴→ take nothing more → drain → sync
                                                                        → checkpoints, clean mark → mount gone

Promises: what was taken is on disk when `serve` returns, and the mount is gone; a second signal changes nothing. After
umount all files are closed, so unfinished lines become records; after a signal their writers may be in the middle of
a line, so they do not, and the log says how many bytes were dropped.

Leaves to others: what a path means, and that no handler raises anything but FUSEError (operations); whether mounting
makes sense at all (cli).
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
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

import pyfuse3
import trio

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.appends.shared_sync import Unsynced
from offsetfs.fs.control.control import set_level
from offsetfs.fs.mounting import reader_hand_off
from offsetfs.fs.mounting.descriptor_limits import Reserve, limit, reserve_size, threads_max
from offsetfs.fs.mounting.maintenance_runner import MaintenanceRunner
from offsetfs.fs.mounting.mount_table import MountTable
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.options import MountOptions
from offsetfs.fs.threads import in_thread
from offsetfs.fs.workers import workers
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import StorageError

_log = logging.getLogger(__name__)

REQUESTS_MAX = 4096  # handled at once, blocked readers included; each is a task
LAST_ANSWERS_S = 1.0  # for requests that wait for something else than the drain
THREADS_KEPT = 2
"""Worker threads that a mount has from its beginning to its end: at a limit of memory or of processes they serve."""

TIMEOUT_MIN_S = 15  # the kernel rounds a shorter request timeout up to this
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DEBUG_SIGNAL, LEVEL_SIGNAL = signal.SIGUSR1, signal.SIGUSR2
"""Log at level debug, and at the level of the options again. A read-only mount needs them because it rejects writes to
`.offsetfs/log-level`."""

Ready = Callable[[int], None]
Leaving = Callable[[str, Callable[[], Unsynced]], None]


class MountError(Exception):
    """The mount could not be made; the message says why. Cure: in the message."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a mount ended. `failures`: sentences about what is not on disk, or not as it should be."""

    reason: str
    failures: tuple[str, ...]


async def serve(
    directory: AnyLogDirectory,
    mount_point: str,
    options: MountOptions,
    ready: Ready,
    leaving: Leaving = lambda reason, left: None,
) -> Ending:
    """Mount `directory` at `mount_point`, call `ready` with its st_dev once it answers; return when it is over.

    `leaving` is called once, when the mount begins to end: with the reason, and a function that any thread may ask what
    is not on disk yet. Takes the directory over: it is closed when this returns or raises. Raises `MountError`. One per
    process.
    """
    options = dataclasses.replace(options, request_timeout_s=request_timeout_s(), threads_max=threads_max(limit()))
    session = _Session(directory, mount_point, options, leaving)
    if not workers.keep(THREADS_KEPT):
        _log.warning("no thread could be started: raise ulimit -v or ulimit -u; reads that wait for the disk will fail")
    heard = (*SIGNALS, DEBUG_SIGNAL, LEVEL_SIGNAL)
    with trio.open_signal_receiver(*heard) as signals:  # to the very end: a second signal must not break the drain
        try:
            await session.run(signals, ready)
        finally:
            session.close()
    if session.error is not None:
        raise session.error
    return Ending(session.reason, tuple(session.failures))


class _Session:
    """One mount, from mount(2) to umount(2)."""

    def __init__(self, directory: AnyLogDirectory, mount_point: str, options: MountOptions, leaving: Leaving) -> None:
        self.reason = ""
        self.failures: list[str] = []
        self.error: MountError | None = None
        self._directory = directory
        self._mount_point = mount_point
        self._options = options
        self._leaving = leaving
        self._left: Callable[[], Unsynced] = Unsynced
        self._is_mounted = False
        self._device: int | None = None
        self._over = trio.Event()
        self._idle = trio.Event()  # no request is being handled any more
        self._table = MountTable()
        self._reserve = Reserve(reserve_size(limit()))

    async def run(self, signals: AsyncIterator[int], ready: Ready) -> None:
        """Mount, serve, drain. What the operations do in the background ends with it."""
        async with trio.open_nursery() as nursery:
            operations = Operations(self._directory, self._options, nursery)
            operations.shared.mount_point = self._mount_point
            for partition, cause in self._directory.failed.items():
                operations.shared.error_log.add(cause, "recovery", str(partition))
            try:
                self._mount(operations)
            except MountError as error:
                self.error = error
            else:
                operations.shared.hand_over = _hand_over
                operations.shared.announce_damage = _log_damage
                maintenance = None
                if not self._directory.read_only:
                    maintenance = MaintenanceRunner(operations.shared)
                    operations.shared.wake_duties = maintenance.wake
                await self._serve(operations, maintenance, signals, ready)
            nursery.cancel_scope.cancel()

    def _mount(self, operations: Operations) -> None:
        with tempfile.TemporaryFile() as said, _stderr_into(said.fileno()):
            try:
                pyfuse3.init(
                    operations,
                    self._mount_point,
                    mount_options([each.path for each in self._directory.directories], self._options),
                )
            except RuntimeError as error:
                said.seek(0)
                text = " ".join(said.read(4096).decode(errors="replace").split())
                raise MountError(text or str(error)) from error
        self._is_mounted = True

    async def _serve(
        self, operations: Operations, maintenance: MaintenanceRunner | None, signals: AsyncIterator[int], ready: Ready
    ) -> None:
        accumulators = operations.accumulators
        self._left = accumulators.unsynced
        async with trio.open_nursery() as tasks:
            tasks.start_soon(self._answer)
            tasks.start_soon(self._announce, ready)
            tasks.start_soon(self._listen, signals)
            if maintenance is not None:
                tasks.start_soon(maintenance.run)
            await self._over.wait()
            if maintenance is not None:
                maintenance.stop()
            pyfuse3.terminate()
            operations.shared.waiting.close()
            await self._drain(accumulators)
            with trio.move_on_after(LAST_ANSWERS_S):
                await self._idle.wait()
            tasks.cancel_scope.cancel()

    async def _answer(self) -> None:
        try:
            await reader_hand_off.answer(REQUESTS_MAX)
            self._end("unmounted" if self._is_gone() else "the kernel ended the session")
        except Exception as error:
            _log.exception("requests are no longer read")
            self._end(f"internal error: {error!r}")
            self.failures.append(f"requests could no longer be read: {error!r}")
        finally:
            self._idle.set()

    async def _announce(self, ready: Ready) -> None:
        try:
            # In a thread: the loop has to answer the question.
            device = await in_thread(functools.partial(_device_of, self._mount_point), abandon_on_cancel=True)
        except OSError as error:
            self.error = MountError(f"{self._mount_point} does not answer: {error.strerror}")
            self._end("no answer")
        else:
            self._device = device
            ready(device)

    async def _listen(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            name = signal.Signals(number).name
            if number in (DEBUG_SIGNAL, LEVEL_SIGNAL):
                set_level("debug" if number == DEBUG_SIGNAL else self._options.log_level)
                continue
            if self._over.is_set():
                _log.warning("%s: already ending, everything taken is being written", name)
            self._end(name)

    def _end(self, reason: str) -> None:
        if not self._over.is_set():
            _log.info("ending: %s", reason)
            self.reason = reason
            self._reserve.release()
            self._leaving(reason, self._left)
            self._over.set()

    async def _drain(self, accumulators: Accumulators) -> None:
        if self._is_gone():  # the kernel drops RELEASE requests that it has not yet sent when the last user is gone
            await accumulators.release_all()
        failures = await accumulators.close()
        self.failures += [f"{partition} is not on disk: {error.strerror}" for partition, error in failures.items()]

    def _is_gone(self) -> bool:
        mount = self._table.mount_at(self._mount_point)  # what an automounter put there lies below ours, and stays
        return mount is None or (self._device is not None and mount.device != self._device)

    def close(self) -> None:
        """Write checkpoints and the mark of the clean shutdown; then let the mount go."""
        self._reserve.release()
        try:
            self._directory.close()
        except (StorageError, OSError) as error:
            _log.error("%s", error)
            self.failures.append(f"{self._directory.path} is not closed cleanly: {error}")
        if self._is_mounted:
            pyfuse3.close()
            self._detach()
        self._table.close()

    def _detach(self) -> None:
        """Take away what pyfuse3 leaves when the kernel's side was aborted: a mount that answers nothing."""
        remaining = self._table.mount_at(self._mount_point)
        if remaining is not None and remaining.device == self._device:
            command = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
            subprocess.run([*command, self._mount_point], check=False)


# --- options and state of the kernel's mount -------------------------------------------------------------------------


def mount_options(directories: Sequence[str], options: MountOptions) -> set[str]:
    """Return the options for mount(2) and libfuse. Text from a user gets in only as `[A-Za-z0-9._/-]+`."""
    fixed = {"default_permissions", "nosuid", "nodev", "noexec", f"fsname={source(directories)}", "subtype=offsetfs"}
    chosen = {"ro": options.read_only, "allow_other": options.allow_other}
    return fixed | {name for name, is_set in chosen.items() if is_set}


def source(directories: Sequence[str]) -> str:
    """Return the source for the table of mounts: the path by which `mount -a` finds what is mounted; several, commas
    between them, which libfuse takes for its own without a backslash.

    A path with other characters than `[A-Za-z0-9._/-]`, which could be taken for options, is not written there; the
    last name of the first one is, with underscores. Alone, mount(8) would take that for a path.
    """
    if all(re.fullmatch(r"/[A-Za-z0-9._/-]*", directory) for directory in directories):
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
        return 0  # an older kernel: it waits for ever


def _log_damage(error: StorageError) -> None:
    _log.warning("damage: %s; what it holds is left out or answers with an error", error)


def _hand_over(inode: int, content: bytes) -> None:
    """Put the content of a file into the kernel's page cache. Where it takes none, or has let go of it, it will ask."""
    with contextlib.suppress(OSError):
        pyfuse3.notify_store(inode, 0, content)


def _device_of(path: str) -> int:
    return os.stat(path).st_dev


@contextlib.contextmanager
def _stderr_into(fd: int) -> Iterator[None]:
    """Catch what libfuse and fusermount3 print: it is the only word about why they refuse."""
    saved = os.dup(2)
    os.dup2(fd, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
