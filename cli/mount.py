"""`offsetfs mount`: check, go to the background, open and recover the log directory, serve it."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import os
import resource
from collections.abc import Sequence

import click

from offsetfs.cli import dead_mount, preflight, running
from offsetfs.cli.detach import Word, detach
from offsetfs.cli.exit_codes import DONE, FAILED, INTERNAL, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.journal import open_journal
from offsetfs.cli.leaving import LeavingTeller
from offsetfs.cli.printable import printable
from offsetfs.cli.progress import RecoveryTeller
from offsetfs.cli.service_manager import ServiceManager
from offsetfs.fs.options import MountOptions, OptionError
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import InvalidConfig, LogDirectoryLocked, NotALogDirectory, StorageError
from offsetfs.storage.recovery.recover_all import RecoveryProgress
from offsetfs.storage.settings.directory_config import DirectoryConfig

_log = logging.getLogger(__name__)


OPEN_SEGMENTS_MAX = 2048
WORD_SECONDS = 0.5
LINE_SECONDS = 10.0
"""How often a recovery says how far it is: to whoever waits for the mount, and to the log."""

EXTEND_SECONDS = 120
"""What a recovery asks of the service manager each time: it tells itself how far it is with every few megabytes."""

DESCRIPTORS_FOR_A_SEGMENT = 6  # three while it stays open, as many again for all else


@click.command("mount", short_help="Mount a log directory.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("mount_point", metavar="MNT")
@click.option("-o", "texts", metavar="OPT[,OPT=...]", multiple=True, help="Options of the mount, see above.")
@click.option("-f", "--foreground", is_flag=True, help="Stay in the foreground, with the log on stderr.")
def command(log_directory: str, mount_point: str, texts: tuple[str, ...], foreground: bool) -> int:
    """Mount the Kafka log directory LOGDIR at MNT.

    Returns once the mount answers: the log is open, and recovered if it was not closed cleanly.

    \b
    offsetfs mount /var/lib/kafka/data /mnt/kafka -o ro
    offsetfs mount ~/logs ~/mnt -o create,linger-ms=20
    offsetfs mount ~/logs ~/mnt -o 'retention.ms=-1,cleanup.policy="compact,delete"' -f

    \b
    ro              read only; a broker may go on using the directory
    create          mkdir makes partitions; LOGDIR may be empty
    delete          rmdir removes partitions, with all their records
    delete-records  an offset written to `start` deletes the records below it
    isolation=read_committed
                    show no record of an open or aborted transaction
                    (read_uncommitted: all; segments and info show all)
    list=N          ls of a partition shows the newest N records, all or none (10000)
    linger-ms=N     how long a record waits for company in a batch (5)
    batch-bytes=N   size of a batch (1m), at most max.message.bytes
    buffer-bytes=N  memory for all batches (32m); writers wait when it is full
    flush-messages=N, flush-ms=N
                    records or milliseconds after which a partition is synced
                    (off, 1000); flush-ms=0: each batch before the next
    uid=N gid=N umask=OCT
                    owner and missing permissions of what is shown (you, 027)
    allow_other     let other users in
    log-level=L     what the log holds from: debug, info, warning, error (info)
    log-file=PATH   where the log goes, instead of the journal or syslog
    NAME=VALUE      any topic setting of Kafka's, as default for topics, or a
                    broker's, such as log.retention.check.interval.ms

    Exit codes: 1 wrong call or permissions, 2 system error, 4 internal error, 8 interrupted, 32 mount failed.
    """
    return mount("offsetfs mount", log_directory, mount_point, parsed(texts), foreground=foreground)


def parsed(texts: Sequence[str], *, sloppy: bool = False) -> MountOptions:
    """Read the values of -o; `Failure` where one is wrong."""
    try:
        return MountOptions.parse(texts, sloppy=sloppy)
    except OptionError as error:
        raise Failure(str(error), WRONG_CALL) from error


def mount(program: str, log_directory: str, mount_point: str, options: MountOptions, *, foreground: bool) -> int:
    """Check, and mount; return when the mount answers, or in the foreground when it has ended. `Failure` when not.

    Warnings are printed in the name of `program`.
    """
    if cleared := dead_mount.clear(mount_point):
        _warn(program, cleared)
    for warning in preflight.check(log_directory, mount_point, options):
        _warn(program, warning)
    # Absolute, because the daemon leaves the current directory: it must not keep that file system busy.
    daemon = _Mounting(os.path.realpath(log_directory), os.path.realpath(mount_point), options)
    if foreground:
        return daemon.run(Word(None))
    before = os.stat(mount_point).st_dev
    detach(daemon.run)
    if os.stat(mount_point).st_dev == before:
        raise Failure(f"{mount_point}: the mount is gone again, the log says why")
    return DONE


def _warn(program: str, sentence: str) -> None:
    click.echo(f"{program}: warning: {printable(sentence)}", err=True)


class _Mounting:
    """The daemon's life, in its own process."""

    def __init__(self, log_directory: str, mount_point: str, options: MountOptions) -> None:
        self._log_directory = log_directory
        self._mount_point = mount_point
        self._options = options
        self._place = running.own_directory()
        self._open_segments_max = 1
        self._manager = ServiceManager()
        self._daemon: running.Daemon | None = None

    def run(self, word: Word) -> int:
        """Serve until the end; return the exit code. What goes wrong before the mount answers is told to `word`."""
        is_foreground = not word.is_detached
        try:
            return self._serve(word)
        except Failure as failure:
            if is_foreground:
                raise
            word.failed(failure.message, failure.code)
            return failure.code
        except Exception as error:
            _log.exception("internal error")
            word.failed(f"internal error: {error!r}", INTERNAL)
            if is_foreground:
                raise
            return INTERNAL

    def _serve(self, word: Word) -> int:
        import trio  # here, after all checks: this and pyfuse3 take longer to load than everything before

        from offsetfs.fs.mounting.mount import MountError, serve

        os.chdir("/")
        os.umask(0o077)
        self._open_segments_max = _raise_limits() // DESCRIPTORS_FOR_A_SEGMENT
        self._open_journal(foreground=not word.is_detached)
        directory = self._open(word)
        leaving = LeavingTeller(self._manager, self._publish)

        def ready(device: int) -> None:
            self._daemon = self._registered(device)
            _log.info("%s is mounted at %s", self._log_directory, self._mount_point)
            word.ready()
            self._manager.ready(f"{self._log_directory} is mounted at {self._mount_point}")

        try:
            ending = trio.run(serve, directory, self._mount_point, self._options, ready, leaving.begin)
        except MountError as error:
            raise Failure(str(error)) from error
        finally:
            leaving.end()
        for failure in ending.failures:
            _log.error("%s", failure)
        self._leave(ending.failures)
        _log.info("%s is no longer mounted: %s", self._mount_point, ending.reason)
        return SYSTEM if ending.failures else DONE

    def _open_journal(self, *, foreground: bool) -> None:
        path = self._options.log_file
        try:
            open_journal(foreground=foreground, level=self._options.log_level, path=path)
        except OSError as error:
            raise Failure(f"log-file={path}: {error.strerror}", WRONG_CALL) from error

    def _open(self, word: Word) -> LogDirectory:
        tellers = (
            RecoveryTeller(word.progress, every_seconds=WORD_SECONDS),
            RecoveryTeller(_log.info, every_seconds=LINE_SECONDS),
            RecoveryTeller(lambda text: self._manager.busy(text, EXTEND_SECONDS), every_seconds=WORD_SECONDS),
        )

        self._manager.busy(f"opening {self._log_directory}", EXTEND_SECONDS)

        def progress(done: RecoveryProgress) -> None:
            for teller in tellers:
                teller(done)

        try:
            return LogDirectory.open(
                self._log_directory,
                read_only=self._options.read_only,
                defaults=self._options.topic_defaults,
                on_progress=progress,
                open_segments_max=min(self._open_segments_max, OPEN_SEGMENTS_MAX),
                config=DirectoryConfig.from_properties(self._options.directory_settings),
            )
        except (NotALogDirectory, InvalidConfig) as error:
            raise Failure(str(error), WRONG_CALL) from error
        except LogDirectoryLocked as error:
            raise Failure(f"{error}: stop it, or mount with -o ro", FAILED) from error
        except StorageError as error:
            raise Failure(str(error), FAILED) from error
        except OSError as error:
            code = WRONG_CALL if error.errno in (errno.EACCES, errno.EPERM) else SYSTEM
            raise Failure(f"{error.filename or self._log_directory}: {error.strerror}", code) from error

    def _registered(self, device: int) -> running.Daemon:
        pid = os.getpid()
        daemon = running.Daemon(
            pid,
            running.started(pid) or 0,
            device,
            self._mount_point,
            self._log_directory,
            self._options.texts(),
        )
        try:
            running.register(daemon, self._place)
        except OSError as error:  # without it umount cannot wait for us: worth a line, not the mount
            _log.warning("%s: %s", self._place, error)
        return daemon

    def _publish(self, ending: str) -> None:
        """Tell whoever waits for our end what is left to do."""
        if self._daemon is not None:
            with contextlib.suppress(OSError):
                running.register(dataclasses.replace(self._daemon, ending=ending), self._place)

    def _leave(self, failures: Sequence[str]) -> None:
        if self._daemon is None:
            return
        if not failures:
            running.unregister(self._daemon, self._place)
            return
        try:
            running.register(dataclasses.replace(self._daemon, failures=tuple(failures)), self._place)
        except OSError as error:
            _log.warning("%s: %s", self._place, error)


def _raise_limits() -> int:
    """Take all the descriptors we may have, and return how many: partitions appended to and segments read hold some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 20
