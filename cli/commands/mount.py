"""`offsetfs mount`: check, go to the background, open and recover the log directory, serve it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.archive_mounts import ArchiveMount, archive_mount, option_texts
from offsetfs.cli.arguments.archives import attached, is_archive
from offsetfs.cli.arguments.log_directories import log_directories
from offsetfs.cli.arguments.page_doors import OF_MOUNT, PageDoor, page_line, page_records
from offsetfs.cli.arguments.schema_options import with_checked_masks
from offsetfs.cli.arguments.settings_file import config_option, settings_path, with_file
from offsetfs.cli.exit_codes import DONE, FAILED, INTERNAL, SYSTEM, WRONG_CALL, Failure, of_os_error
from offsetfs.cli.mounts import daemon_registry, stale_mount
from offsetfs.cli.mounts.daemon_log import configure_log
from offsetfs.cli.mounts.detach import ParentPipe, detach
from offsetfs.cli.mounts.service_manager import ServiceManager
from offsetfs.cli.mounts.serving_daemon import in_use, locked_directory
from offsetfs.cli.mounts.unmount_progress import UnmountProgress
from offsetfs.cli.terminal.directory_warnings import directory_warnings
from offsetfs.cli.terminal.progress import RecoveryReporter, cut_sentences
from offsetfs.common.addresses import address_text, endpoint_text
from offsetfs.common.formatting import printable
from offsetfs.fs.options import MountOptionError, MountOptions
from offsetfs.kafka.broker.security_names import is_security_setting
from offsetfs.kafka.broker.settings import SETTING_KINDS
from offsetfs.storage import LogDirectories, LogDirectory
from offsetfs.storage.directory import RecoveryProgress, left_out_message, metadata_directory_among
from offsetfs.storage.errors import InvalidConfig, LogDirectoryLocked, NotALogDirectory, StorageError

if TYPE_CHECKING:
    from offsetfs.cli.arguments.kafka_mounts import KafkaMount
    from offsetfs.cli.mounts.mounted_broker import MountedBroker
    from offsetfs.cli.mounts.mounted_mirror import MountedMirror
    from offsetfs.web.server import PageServer

_log = logging.getLogger(__name__)


KAFKA_SCHEME = "kafka://"
USE_THE_MOUNT = "use that mount, or unmount it first (offsetfs umount {mount}), or mount it again with -o ro"
USE_ANOTHER_CACHE = "use that mount, or give this one a directory of its own: -o cache=DIR"
OPEN_SEGMENTS_MAX = 2048
REPORT_SECONDS = 0.5
LINE_SECONDS = 10.0
"""The interval of progress reports of a recovery: to the waiting process (`REPORT_SECONDS`), and to the log."""

EXTEND_SECONDS = 120
"""The timeout that a recovery requests from the service manager with each report, which it sends every few MB."""


@click.command("mount", short_help="Mount a log directory.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("mount_point", metavar="MNT")
@click.option("-o", "texts", metavar="OPT[,OPT=...]", multiple=True, help="Mount options, see above.")
@config_option
@click.option("-f", "--foreground", is_flag=True, help="Stay in the foreground, with the log on stderr.")
def command(log_directory: str, mount_point: str, texts: tuple[str, ...], foreground: bool) -> int:
    """Mount the Kafka log directory LOGDIR at MNT.

    The command returns when the mount is ready: the log is open, and recovered if it was not closed cleanly.

    Several log directories, separated by commas as in log.dirs, are shown as one tree. A directory that cannot be
    opened is left out, with a warning. New partitions are created in the directory with the fewest. LOGDIR may be a
    broker's server.properties, which names its log directories and settings.

    LOGDIR may also be the address of a cluster, kafka://HOST:PORT,HOST:PORT/: its topics are mirrored into a cache
    directory, in the same process, and mounted read-only. Mounted again, the mirror continues where the cache ends.

    LOGDIR may also be the URL of an archive in object storage, such as s3://BUCKET/PREFIX. It is mounted read-only:
    blocks are fetched when they are read, and kept in a cache directory.

    \b
    offsetfs mount /var/lib/kafka/data /mnt/kafka -o ro
    offsetfs mount /disk1/kafka,/disk2/kafka /mnt/kafka -o ro
    offsetfs mount /etc/kafka/server.properties /mnt/kafka -o ro
    offsetfs mount ~/logs ~/mnt -o create,linger-ms=20
    offsetfs mount kafka://broker1:9092/ ~/mnt -o topic=orders,from=-1d
    offsetfs mount s3://bucket/kafka ~/mnt -o cache-size=50g
    offsetfs mount ~/logs ~/mnt -o create,web=127.0.0.1:9380
    offsetfs mount ~/logs ~/mnt -o 'retention.ms=7d,cleanup.policy="compact,delete"' -f

    \b
    ro              read only; a broker may be using the directory
    create          mkdir creates partitions; LOGDIR may be empty
    delete          rmdir removes partitions with all their records
    delete-records  an offset written to `start` deletes the records below it
    isolation=read_committed
                    hide records of open and aborted transactions
                    (default read_uncommitted; segments and info show all)
    high-watermark=log-end
                    with ro: also show records that a broker's followers do
                    not have yet (default checkpoint: up to the checkpointed
                    high watermark)
    metadata.log.dir=PATH
                    the directory of __cluster_metadata-0, if not LOGDIR
    damage=skip     values and records.ndjson leave out damaged records
                    (default eio: reading fails there); damage is always reported
    json-bytes=base64
                    keys, values and headers in .ndjson and .json are always
                    base64: key_b64, value_b64 (default text, where UTF-8)
    json-values=text
                    append.ndjson accepts a value that is not a string, and
                    stores its JSON text (default refuse: rejects the line)
    schema=NAME=FILE
                    a schema for decoded/, or a directory of schemas
    schema-registry=URL|FILE
                    a registry for schemas that are nowhere else; FILE is a
                    properties file with schema.registry.url, and the login
    mask=TOPIC:FIELD
                    null in place of a field; the topic has only decoded/
    list=N          ls of a partition lists the newest N records, all or none (10000)
    linger-ms=N     how long an open batch waits for more records (5)
    batch-bytes=N   size of a batch (1m), at most max.message.bytes
    buffer-bytes=N  memory for all batches (32m); writers wait when it is full
    flush-messages=N, flush-ms=N
                    records or milliseconds after which a partition is synced
                    (off, 1000); flush-ms=0: each batch before the next
    listen=[PROTOCOL://]HOST:PORT
                    serve the same logs over the Kafka protocol, as offsetfs
                    serve does; may be repeated. Only for one LOGDIR. Settings
                    such as num.partitions apply to it
    advertise=HOST:PORT
                    the address that Kafka clients get, if it differs; one
                    for each listener, or one for all
    allow-anonymous
                    listen on addresses that other machines reach, too
    web=HOST:PORT   show the logs to browsers there, as offsetfs web does; the
                    command prints the address with its token, and so does
                    offsetfs status. masks apply
    web-host=NAME, web-tls-cert=FILE, web-tls-key=FILE, web-insecure
                    as --host, --tls-cert, --tls-key and --insecure of
                    offsetfs web
    uid=N gid=N umask=OCT
                    owner of the files, and permissions they lack (you, 027)
    allow_other     give other users access
    log-level=L     lowest level in the log: debug, info, warning, error (info)
    log-file=PATH   file of the log, instead of the journal or syslog
    topic=REGEX, groups=REGEX, from=WHEN, keep, on-gap=skip, rate=BYTES,
    retention.ms=N, config=FILE
                    with kafka://: as the options of offsetfs mirror;
                    config is client.properties; patterns may be repeated
    cache=DIR       with kafka://: the log directory of the mirror
                    (default: one for each cluster in the user cache);
                    with an archive: the blocks that were read
    cache-size=N, timeout=SECONDS
                    with an archive: the bytes of the cache (10g; 0: none), and
                    the longest time of one request (30); then reads fail: EIO
    NAME=VALUE      a topic setting of Kafka, as the default of all topics, or a
                    broker setting, such as log.retention.hours; see --config

    Exit codes: 1 wrong call or permissions, 2 system error, 4 internal error, 8 interrupted, 32 mount failed.
    """
    if log_directory.startswith(KAFKA_SCHEME):
        source, options = kafka_options(log_directory, texts)
        return mount_kafka("offsetfs mount", source, mount_point, options, foreground=foreground)
    if is_archive(log_directory):
        archive, options = archive_options(log_directory, texts)
        return mount_archive("offsetfs mount", archive, mount_point, options, foreground=foreground)
    return mount(
        "offsetfs mount",
        log_directories(log_directory),
        mount_point,
        parse_options(texts, log_directory),
        foreground=foreground,
    )


def kafka_options(
    log_directory: str, texts: Sequence[str], *, sloppy: bool = False, ignored: Collection[str] = ()
) -> tuple[KafkaMount, MountOptions]:
    """Parse the address of a cluster and the values of -o, without those `ignored`; `Failure` if one is invalid."""
    from offsetfs.cli.arguments.kafka_mounts import kafka_mount

    source = kafka_mount(log_directory, texts, settings_path(), ignored=ignored)
    try:
        return source, dataclasses.replace(MountOptions.parse(source.texts, sloppy=sloppy), of_url=source.shown)
    except MountOptionError as error:
        raise Failure(str(error), WRONG_CALL) from error


def archive_options(
    log_directory: str, texts: Sequence[str], *, sloppy: bool = False
) -> tuple[ArchiveMount, MountOptions]:
    """Parse the URL of an archive and the values of -o; `Failure` if one is invalid."""
    archive = archive_mount(log_directory, texts)
    options = parse_options(archive.texts, log_directory, sloppy=sloppy)
    return archive, dataclasses.replace(options, of_url=option_texts(archive.settings))


def parse_options(texts: Sequence[str], log_directory: str, *, sloppy: bool = False) -> MountOptions:
    """Parse the values of -o, and LOGDIR if it is a broker's settings; `Failure` if an option is invalid."""
    try:
        return MountOptions.parse(
            with_file(tuple(texts), log_directory),
            sloppy=sloppy,
            server_names=SETTING_KINDS,
            is_security_setting=is_security_setting,
        )
    except MountOptionError as error:
        raise Failure(str(error), WRONG_CALL) from error


def mount(program: str, paths: Sequence[str], mount_point: str, options: MountOptions, *, foreground: bool) -> int:
    """Check, and mount the log directories at `paths`. Return when the mount is ready; in the foreground, when it ends.

    `Failure` if it cannot be mounted. Warnings are printed with the prefix `program`.
    """
    _remove_stale(program, mount_point)
    checked = preflight.check(paths, mount_point, options)
    for warning in [*(left_out_message(path, reason) for path, reason in checked.left_out.items()), *checked.warnings]:
        _warn(program, warning)
    # Absolute, because the daemon leaves the current directory: it must not keep that file system busy.
    served = list(map(os.path.realpath, checked.paths))
    return _run(program, _Daemon(served, checked.left_out, os.path.realpath(mount_point), options), foreground)


def mount_kafka(program: str, source: KafkaMount, mount_point: str, options: MountOptions, *, foreground: bool) -> int:
    """Check, and mount a mirror of a cluster, as `mount` does."""
    _remove_stale(program, mount_point)
    for warning in preflight.check_mount(mount_point, options):
        _warn(program, warning)
    return _run(program, _Daemon([], {}, os.path.realpath(mount_point), options, source), foreground)


def mount_archive(
    program: str, archive: ArchiveMount, mount_point: str, options: MountOptions, *, foreground: bool
) -> int:
    """Check, and mount an archive in object storage, as `mount` does. The daemon alone makes requests."""
    _remove_stale(program, mount_point)
    for warning in preflight.check_mount(mount_point, options):
        _warn(program, warning)
    daemon = _Daemon([archive.url], {}, os.path.realpath(mount_point), options, archive=archive)
    return _run(program, daemon, foreground)


def _remove_stale(program: str, mount_point: str) -> None:
    if cleared := stale_mount.remove(mount_point):
        _warn(program, cleared)


def _run(program: str, daemon: _Daemon, foreground: bool) -> int:
    mount_point = daemon.mount_point
    if foreground:
        return daemon.run(ParentPipe(None))
    before = os.stat(mount_point).st_dev
    detach(daemon.run, lambda text: _warn(program, text))
    if os.stat(mount_point).st_dev == before:
        raise Failure(f"{mount_point}: the mount ended at once; see its log for the reason")
    if daemon.has_page:
        registered = daemon_registry.find(os.stat(mount_point).st_dev, daemon_registry.own_directory())
        if registered is not None:
            click.echo(page_line(registered.page))
    return DONE


def _warn(program: str, sentence: str) -> None:
    click.echo(f"{program}: warning: {printable(sentence)}", err=True)


class _Daemon:
    """The process that opens the log directories and serves the mount."""

    def __init__(
        self,
        log_directories: Sequence[str],
        left_out: Mapping[str, Exception],
        mount_point: str,
        options: MountOptions,
        source: KafkaMount | None = None,
        archive: ArchiveMount | None = None,
    ) -> None:
        """`left_out`: the log directories that cannot be served, with the reasons.

        `source`: a cluster, which is mirrored into a cache; there is no other log directory then. `archive`: how the
        only log directory is read, which is the URL of an archive.
        """
        self._log_directories = log_directories
        self._log_directory = ",".join(log_directories)
        self._left_out = left_out
        self.mount_point = mount_point
        self._options = options
        self._source = source
        self._archive = archive
        self._registry = daemon_registry.own_directory()
        self._open_segments_max = 1
        self._manager = ServiceManager()
        self._daemon: daemon_registry.Daemon | None = None
        self._page: PageServer | None = None

    @property
    def has_page(self) -> bool:
        """Whether browsers see the logs."""
        return self._options.web is not None

    @property
    def _is_read_only(self) -> bool:
        """Whether the log directory is opened read-only: a mirror writes to it, though the mount is read-only."""
        return self._options.read_only and self._source is None

    def run(self, parent: ParentPipe) -> int:
        """Serve until unmounted; return the exit code. Errors before the mount is ready are sent to `parent`."""
        is_foreground = not parent.is_detached
        try:
            return self._serve(parent)
        except Failure as failure:
            if is_foreground:
                raise
            parent.failed(failure.message, failure.code)
            return failure.code
        except Exception as error:
            _log.exception("internal error")
            parent.failed(f"internal error: {error!r}", INTERNAL)
            if is_foreground:
                raise
            return INTERNAL

    def _serve(self, parent: ParentPipe) -> int:
        options = self._options
        if options.web is None:
            return self._serve_logs(parent)
        door = PageDoor(
            OF_MOUNT,
            address_text(options.web),
            options.web_names,
            options.web_tls_cert,
            options.web_tls_key,
            is_insecure=options.web_insecure,
        )
        with contextlib.closing(door.opened()) as self._page:  # before the recovery, which may take long
            self._options = dataclasses.replace(options, web=self._page.address)
            return self._serve_logs(parent)

    def _serve_logs(self, parent: ParentPipe) -> int:
        if self._source is not None:
            return self._serve_mirror(self._source, parent)
        if not self._options.listeners:  # the modules of the broker would take 4 MiB of memory
            return self._serve_beside(None, parent)
        from offsetfs.cli.mounts.mounted_broker import mounted_broker

        with mounted_broker(self._options, self._log_directory) as broker:  # before the recovery, which may take long
            self._options = dataclasses.replace(self._options, listeners=broker.endpoints)
            return self._serve_beside(broker, parent)

    def _serve_mirror(self, source: KafkaMount, parent: ParentPipe) -> int:
        from offsetfs.cli.mounts.mounted_mirror import MountedMirror, cache_directory

        os.umask(0o077)
        self._log_directory = cache_directory(source, self.mount_point)
        self._log_directories = [self._log_directory]
        return self._serve_beside(MountedMirror(source, self._log_directory, parent.warn), parent)

    def _serve_beside(self, companion: MountedBroker | MountedMirror | None, parent: ParentPipe) -> int:
        # Here, after the checks, because importing trio and pyfuse3 takes longer than all of them.
        import trio

        from offsetfs.fs.mounting import descriptor_limits
        from offsetfs.fs.mounting.mount import MountError, serve

        os.chdir("/")
        os.umask(0o077)
        descriptors = descriptor_limits.raise_limit()
        self._open_segments_max = descriptor_limits.segments_max(descriptors)
        self._configure_log(foreground=not parent.is_detached)
        if not self._is_read_only:
            partitions_max = descriptor_limits.partitions_max(descriptors)
            _log.info("%d open files are allowed: %d partitions stay open for appends", descriptors, partitions_max)
        directory = self._open(parent)
        for path, error in directory.failures.items():
            if path not in self._left_out:  # the checks have reported those
                parent.warn(left_out_message(path, error))
        for warning in directory_warnings(directory):
            _log.warning("%s", warning)
            parent.warn(warning)
        for sentence in cut_sentences(directory):
            _log.warning("%s", sentence)
            parent.warn(sentence)
        if self._source is not None:
            self._begin_mirror(cast("MountedMirror", companion), directory)
        page = self._begin_page(directory)
        unmount_progress = UnmountProgress(self._manager, self._publish)

        def ready(device: int) -> None:
            self._daemon = self._registered(device)
            if self._options.listeners:
                addresses = ", ".join(map(endpoint_text, self._options.listeners))
                _log.info("%s is served at %s", self._log_directory, addresses)
            _log.info("%s is mounted at %s", self._log_directory, self.mount_point)
            if self._page is not None and not parent.is_detached:
                click.echo(page_line(self._page.url))
            parent.ready()
            self._manager.ready(f"{self._log_directory} is mounted at {self.mount_point}")

        try:
            ending = trio.run(
                serve, directory, self.mount_point, self._options, ready, unmount_progress.begin, companion, page
            )
        except MountError as error:
            raise _not_mounted(str(error)) from error
        finally:
            unmount_progress.end()
        for failure in ending.failures:
            _log.error("%s", failure)
        self._unregister(ending.failures)
        _log.info("%s is no longer mounted: %s", self.mount_point, ending.reason)
        return SYSTEM if ending.failures else DONE

    def _begin_mirror(self, mirror: MountedMirror, directory: LogDirectories) -> None:
        try:
            mirror.begin(directory.directories[0])
        except BaseException:
            directory.close()
            raise

    def _begin_page(self, directory: LogDirectories) -> Callable[[], Awaitable[None]] | None:
        if self._page is None:
            return None
        options = self._options
        try:
            records = page_records(
                directory, self._log_directory, options.schemas, options.schema_registry, options.masks
            )
        except BaseException:
            directory.close()
            raise
        return partial(self._page.run, records)

    def _configure_log(self, *, foreground: bool) -> None:
        path = self._options.log_file
        try:
            configure_log(foreground=foreground, level=self._options.log_level, path=path)
        except OSError as error:
            raise Failure(f"log-file={path}: {error.strerror}", WRONG_CALL) from error

    def _open(self, parent: ParentPipe) -> LogDirectories:
        reporters = (
            RecoveryReporter(parent.progress, every_seconds=REPORT_SECONDS),
            RecoveryReporter(_log.info, every_seconds=LINE_SECONDS),
            RecoveryReporter(lambda text: self._manager.busy(text, EXTEND_SECONDS), every_seconds=REPORT_SECONDS),
        )

        self._manager.busy(f"opening {self._log_directory}", EXTEND_SECONDS)
        if self._archive is not None:
            attached(self._archive.url, self._archive.settings)

        def progress(done: RecoveryProgress) -> None:
            for reporter in reporters:
                reporter(done)

        settings = self._options.of_directory(metadata_directory_among(self._log_directories))
        open_segments_max = min(self._open_segments_max, OPEN_SEGMENTS_MAX) // len(self._log_directories)
        settings["access"] = dataclasses.replace(settings["access"], open_segments_max=max(1, open_segments_max))

        def open_one(path: str) -> LogDirectory:
            return LogDirectory.open(
                path,
                read_only=self._is_read_only,
                on_progress=progress,
                **settings,
            )

        try:
            opened = LogDirectories.open(self._log_directories, open_one, self._left_out)
            return with_checked_masks(opened, self._options)
        except (NotALogDirectory, InvalidConfig) as error:
            raise Failure(str(error), WRONG_CALL) from error
        except LogDirectoryLocked as error:
            remedy = USE_THE_MOUNT if self._source is None else USE_ANOTHER_CACHE
            raise in_use(error, locked_directory(error), remedy) from error
        except StorageError as error:
            raise Failure(str(error), FAILED) from error
        except OSError as error:
            raise Failure(f"{error.filename or self._log_directory}: {error.strerror}", of_os_error(error)) from error

    def _registered(self, device: int) -> daemon_registry.Daemon:
        pid = os.getpid()
        daemon = daemon_registry.Daemon(
            pid,
            daemon_registry.started(pid) or 0,
            device,
            self.mount_point,
            self._log_directory,
            self._options.texts(),
            directories=tuple(self._log_directories),
            page="" if self._page is None else self._page.url,
        )
        try:
            daemon_registry.register(daemon, self._registry)
        except OSError as error:  # the mount works without it, but `offsetfs umount` cannot wait for this process
            _log.warning("%s: %s", self._registry, error)
        return daemon

    def _publish(self, ending: str) -> None:
        """Report what is left to do to processes that wait for this daemon to end."""
        if self._daemon is not None:
            with contextlib.suppress(OSError):
                daemon_registry.register(dataclasses.replace(self._daemon, ending=ending), self._registry)

    def _unregister(self, failures: Sequence[str]) -> None:
        if self._daemon is None:
            return
        if not failures:
            daemon_registry.unregister(self._daemon, self._registry)
            return
        try:
            daemon_registry.register(dataclasses.replace(self._daemon, failures=tuple(failures)), self._registry)
        except OSError as error:
            _log.warning("%s: %s", self._registry, error)


def _not_mounted(reason: str) -> Failure:
    """Return the error for a mount that libfuse or fusermount3 refused, with the remedy for missing permissions."""
    if "not permitted" in reason:
        return Failure(f"{reason}; {preflight.NOT_PERMITTED}", SYSTEM)
    return Failure(reason)
