"""`offsetfs mount`: check, go to the background, open and recover the log directory, serve it."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import os
from collections.abc import Mapping, Sequence

import click

from offsetfs.cli import dead_mount, preflight, running
from offsetfs.cli.detach import Word, detach
from offsetfs.cli.exit_codes import DONE, FAILED, INTERNAL, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.journal import open_journal
from offsetfs.cli.leaving import LeavingTeller
from offsetfs.cli.log_directories import log_directories
from offsetfs.cli.open_warnings import open_warnings
from offsetfs.cli.printable import printable
from offsetfs.cli.progress import RecoveryTeller, cut_sentences
from offsetfs.cli.served import in_use, locked_directory
from offsetfs.cli.service_manager import ServiceManager
from offsetfs.cli.settings_file import config_option, with_file
from offsetfs.fs.options import MountOptionError, MountOptions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.log_directories import LogDirectories, left_out, metadata_directory_among
from offsetfs.storage.errors import InvalidConfig, LogDirectoryLocked, NotALogDirectory, StorageError
from offsetfs.storage.recovery.recover_all import RecoveryProgress

_log = logging.getLogger(__name__)


MOUNT_INSTEAD = "use that mount, or unmount it first (offsetfs umount {mount}), or mount it again with -o ro"
OPEN_SEGMENTS_MAX = 2048
WORD_SECONDS = 0.5
LINE_SECONDS = 10.0
"""How often a recovery reports its progress: to the process that waits for the mount, and to the log."""

EXTEND_SECONDS = 120
"""What a recovery asks of the service manager each time: it tells itself how far it is with every few megabytes."""


@click.command("mount", short_help="Mount a log directory.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("mount_point", metavar="MNT")
@click.option("-o", "texts", metavar="OPT[,OPT=...]", multiple=True, help="Options of the mount, see above.")
@config_option
@click.option("-f", "--foreground", is_flag=True, help="Stay in the foreground, with the log on stderr.")
def command(log_directory: str, mount_point: str, texts: tuple[str, ...], foreground: bool) -> int:
    """Mount the Kafka log directory LOGDIR at MNT.

    Returns once the mount answers: the log is open, and recovered if it was not closed cleanly.

    Several log directories, with commas between them as in log.dirs, are shown as one tree. One that cannot be opened
    is left out, with a warning. New partitions go where there are the fewest. A broker's server.properties names its
    log directories and settings.

    \b
    offsetfs mount /var/lib/kafka/data /mnt/kafka -o ro
    offsetfs mount /disk1/kafka,/disk2/kafka /mnt/kafka -o ro
    offsetfs mount /etc/kafka/server.properties /mnt/kafka -o ro
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
    high-watermark=log-end
                    with ro: show also what a broker's followers do not have
                    yet (checkpoint: up to the checkpointed high watermark)
    metadata.log.dir=PATH
                    where __cluster_metadata-0 is, if not in LOGDIR
    damage=skip     values and records.ndjson leave out what cannot be read
                    (eio: reading them fails there); either way it is reported
    json-values=text
                    append.ndjson takes a value that is no string as its text
                    (refuse: such a line is refused)
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
                    broker's, such as log.retention.hours; see --config

    Exit codes: 1 wrong call or permissions, 2 system error, 4 internal error, 8 interrupted, 32 mount failed.
    """
    return mount(
        "offsetfs mount",
        log_directories(log_directory),
        mount_point,
        parsed(texts, log_directory),
        foreground=foreground,
    )


def parsed(texts: Sequence[str], log_directory: str, *, sloppy: bool = False) -> MountOptions:
    """Read the values of -o, and LOGDIR when it is a broker's settings; `Failure` where one is wrong."""
    try:
        return MountOptions.parse(with_file(tuple(texts), log_directory), sloppy=sloppy)
    except MountOptionError as error:
        raise Failure(str(error), WRONG_CALL) from error


def mount(program: str, paths: Sequence[str], mount_point: str, options: MountOptions, *, foreground: bool) -> int:
    """Check, and mount the log directories at `paths`; return when the mount answers, in the foreground when it ended.

    `Failure` when it cannot be mounted. Warnings are printed in the name of `program`.
    """
    if cleared := dead_mount.clear(mount_point):
        _warn(program, cleared)
    checked = preflight.check(paths, mount_point, options)
    for warning in [*(left_out(path, reason) for path, reason in checked.left_out.items()), *checked.warnings]:
        _warn(program, warning)
    # Absolute, because the daemon leaves the current directory: it must not keep that file system busy.
    served = list(map(os.path.realpath, checked.paths))
    daemon = _Mounting(served, checked.left_out, os.path.realpath(mount_point), options)
    if foreground:
        return daemon.run(Word(None))
    before = os.stat(mount_point).st_dev
    detach(daemon.run, lambda text: _warn(program, text))
    if os.stat(mount_point).st_dev == before:
        raise Failure(f"{mount_point}: the mount is gone again, the log says why")
    return DONE


def _warn(program: str, sentence: str) -> None:
    click.echo(f"{program}: warning: {printable(sentence)}", err=True)


class _Mounting:
    """The daemon's life, in its own process."""

    def __init__(
        self, log_directories: Sequence[str], left_out: Mapping[str, Exception], mount_point: str, options: MountOptions
    ) -> None:
        """`left_out`: the log directories that cannot be served, with the reason."""
        self._log_directories = log_directories
        self._log_directory = ",".join(log_directories)
        self._left_out = left_out
        self._mount_point = mount_point
        self._options = options
        self._place = running.own_directory()
        self._open_segments_max = 1
        self._manager = ServiceManager()
        self._daemon: running.Daemon | None = None

    def run(self, word: Word) -> int:
        """Serve until the end; return the exit code. What goes wrong before the mount answers goes to `word`."""
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

        from offsetfs.fs.mounting import descriptor_limits
        from offsetfs.fs.mounting.mount import MountError, serve

        os.chdir("/")
        os.umask(0o077)
        descriptors = descriptor_limits.raise_limit()
        self._open_segments_max = descriptor_limits.segments_max(descriptors)
        self._open_journal(foreground=not word.is_detached)
        if not self._options.read_only:
            partitions_max = descriptor_limits.partitions_max(descriptors)
            _log.info("%d open files are allowed: %d partitions stay open for appends", descriptors, partitions_max)
        directory = self._open(word)
        for path, error in directory.failures.items():
            if path not in self._left_out:  # the command has named those
                word.warn(left_out(path, error))
        for warning in open_warnings(directory):
            _log.warning("%s", warning)
            word.warn(warning)
        for sentence in cut_sentences(directory):
            _log.warning("%s", sentence)
            word.warn(sentence)
        leaving = LeavingTeller(self._manager, self._publish)

        def ready(device: int) -> None:
            self._daemon = self._registered(device)
            _log.info("%s is mounted at %s", self._log_directory, self._mount_point)
            word.ready()
            self._manager.ready(f"{self._log_directory} is mounted at {self._mount_point}")

        try:
            ending = trio.run(serve, directory, self._mount_point, self._options, ready, leaving.begin)
        except MountError as error:
            raise _not_mounted(str(error)) from error
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

    def _open(self, word: Word) -> LogDirectories:
        tellers = (
            RecoveryTeller(word.progress, every_seconds=WORD_SECONDS),
            RecoveryTeller(_log.info, every_seconds=LINE_SECONDS),
            RecoveryTeller(lambda text: self._manager.busy(text, EXTEND_SECONDS), every_seconds=WORD_SECONDS),
        )

        self._manager.busy(f"opening {self._log_directory}", EXTEND_SECONDS)

        def progress(done: RecoveryProgress) -> None:
            for teller in tellers:
                teller(done)

        open_segments_max = min(self._open_segments_max, OPEN_SEGMENTS_MAX) // len(self._log_directories)

        metadata_directory = self._options.metadata_log_directory or metadata_directory_among(self._log_directories)

        def open_one(path: str) -> LogDirectory:
            return LogDirectory.open(
                path,
                read_only=self._options.read_only,
                on_progress=progress,
                open_segments_max=max(1, open_segments_max),
                **self._options.of_directory(metadata_directory),
            )

        try:
            return LogDirectories.open(self._log_directories, open_one, self._left_out)
        except (NotALogDirectory, InvalidConfig) as error:
            raise Failure(str(error), WRONG_CALL) from error
        except LogDirectoryLocked as error:
            raise in_use(error, locked_directory(error), MOUNT_INSTEAD) from error
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
            directories=tuple(self._log_directories),
        )
        try:
            running.register(daemon, self._place)
        except OSError as error:  # without it umount cannot wait for us: worth a line, not the mount
            _log.warning("%s: %s", self._place, error)
        return daemon

    def _publish(self, ending: str) -> None:
        """Tell processes that wait for our end what is left to do."""
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


def _not_mounted(reason: str) -> Failure:
    """Return what to raise where libfuse or fusermount3 refused; a refused permission has its remedy."""
    if "not permitted" in reason:
        return Failure(f"{reason}; {preflight.NOT_PERMITTED}", SYSTEM)
    return Failure(reason)
