"""`offsetfs serve`: the Kafka protocol from a log directory, without a JVM."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.archives import attached, is_archive
from offsetfs.cli.arguments.page_doors import OF_SERVE, PageDoor, page_line, page_records
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.cli.mounts import daemon_registry, serving_process
from offsetfs.cli.mounts.service_manager import ServiceManager
from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, in_use
from offsetfs.cli.terminal.repeated_messages import RepetitionFilter
from offsetfs.common.addresses import (
    Address,
    AddressError,
    Endpoint,
    address_text,
    check_loopback,
    endpoint_text,
    listeners_text,
    parse_address,
    parse_endpoint,
)
from offsetfs.storage.errors import InvalidConfig, LogDirectoryLocked, StorageError, counted

if TYPE_CHECKING:
    from offsetfs.common.control_server import ControlServer
    from offsetfs.kafka.broker.settings import ServerSettings
    from offsetfs.kafka.broker.settings_file import LoadedSettings
    from offsetfs.storage import LogDirectory
    from offsetfs.web.server import PageServer

METRICS_PORT = 9308
_log = logging.getLogger(__name__)


@click.command("serve", short_help="Serve a log directory over the Kafka protocol.")
@click.argument("log_directory", metavar="LOGDIR")
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(),
    help="Take settings from a broker's server.properties; -o has precedence.",
)
@click.option(
    "-o", "options", metavar="NAME=VALUE", multiple=True, help="A broker setting by Kafka's name; may be repeated."
)
@click.option(
    "--listen",
    "listeners",
    metavar="[PROTOCOL://]HOST:PORT",
    multiple=True,
    help="Where clients connect; default port 9092 of 127.0.0.1 and ::1, without encryption.",
)
@click.option(
    "--advertise",
    "advertised",
    metavar="HOST:PORT",
    multiple=True,
    help="The address that clients get, if it differs; one for each --listen, or one for all.",
)
@click.option(
    "--partitions",
    metavar="N",
    type=click.IntRange(1, 10_000),
    help="Partitions of topics that are created without a number; default 1.",
)
@click.option("--no-create", is_flag=True, help="Do not create topics that clients ask for.")
@click.option("--allow-anonymous", is_flag=True, help="Also listen on addresses that other machines reach.")
@click.option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus over HTTP; default port 9308.")
@click.option("--web", "web", metavar="HOST:PORT", help="Show the logs to browsers there, as offsetfs web; port 9380.")
@click.option(
    "--web-host", "web_names", metavar="NAME", multiple=True, help="A name by which browsers reach it; may be repeated."
)
@click.option("--web-tls-cert", metavar="FILE", type=click.Path(), help="A certificate in PEM, for https.")
@click.option("--web-tls-key", metavar="FILE", type=click.Path(), help="Its key, if that is in another file.")
@click.option("--web-insecure", is_flag=True, help="Show the page to other machines without TLS.")
@click.option("-v", "--verbose", is_flag=True, help="Log each connection and each request.")
@click.option("--read-only", is_flag=True, help="Beside a running broker, or over an archive: writes get an error.")
def command(
    log_directory: str,
    config: str | None,
    options: tuple[str, ...],
    listeners: tuple[str, ...],
    advertised: tuple[str, ...],
    partitions: int | None,
    no_create: bool,
    allow_anonymous: bool,
    metrics: str | None,
    web: str | None,
    web_names: tuple[str, ...],
    web_tls_cert: str | None,
    web_tls_key: str | None,
    web_insecure: bool,
    verbose: bool,
    read_only: bool,
) -> int:
    """Serve LOGDIR to Kafka clients: one broker, without a JVM, for tests, laptops and backups. Runs until SIGTERM or
    Ctrl-C; then every acknowledged record is on disk, and a Kafka broker can take LOGDIR over.

    Clients produce (also idempotently and in transactions), consume, use consumer groups, and administer topics. Groups
    and offsets are in __consumer_offsets, transactions in __transaction_state, as a broker has them.

    Listeners have TLS and logins by their security protocol (SSL, SASL_SSL, SASL_PLAINTEXT) and the settings of
    --config: offsetfs users adds users, offsetfs acls what they may do. Without a login and ACLs, each client may read,
    write and delete: listen on addresses that only you reach.

    The page of --web shows all records to who has the token in its address, also beside ACLs; offsetfs status LOGDIR
    prints that address, too.

    acks=all answers when the records are on disk (-o acks.all=page-cache: as acks=1), acks=1 when they are in the
    segment file.

    Settings have Kafka's names. -o has precedence over the other options, and these over --config.

    \b
    offsetfs serve ~/logs
    offsetfs serve ~/logs --listen 127.0.0.1:19092 --partitions 4
    offsetfs serve ~/logs --config server.properties -o log.retention.hours=1
    offsetfs serve ~/logs --listen SASL_PLAINTEXT://127.0.0.1:9092
    offsetfs serve ~/logs --web 127.0.0.1:9380
    offsetfs serve /backup/kafka --read-only
    kcat -b 127.0.0.1:9092 -L

    Exit codes: 1 wrong call or permissions, 2 system error, 32 in use or not served.
    """
    short = [f"num.partitions={partitions}"] if partitions is not None else []
    if no_create:
        short.append("auto.create.topics.enable=false")
    try:
        if listeners:
            # The advertised addresses in the file belong to the listeners in the file.
            short += [f"listeners={listeners_text([*map(parse_endpoint, listeners)])}", "advertised.listeners="]
        addresses = [*map(parse_address, advertised)]
        metrics_listener = None if metrics is None else parse_address(metrics, METRICS_PORT)
    except AddressError as error:
        raise Failure(str(error), WRONG_CALL) from error
    if any(option.startswith("advertised.listeners=") for option in options):
        addresses = []
    loaded = _settings(config, (*short, *options), addresses, log_directory)
    loaded = replace(loaded, server=replace(loaded.server, metrics_listener=metrics_listener))
    if not allow_anonymous:
        _check_authentication(loaded.server)
    if is_archive(log_directory) and not read_only:
        raise Failure(f"{log_directory}: is an archive; add --read-only", WRONG_CALL)
    log_directory = attached(log_directory)
    preflight.check_directory(log_directory, read_only=read_only, may_be_empty=not read_only, may_begin=not read_only)
    handler = logging.StreamHandler()
    handler.addFilter(RepetitionFilter())
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", handlers=[handler])
    if verbose:
        logging.getLogger("offsetfs.kafka.broker").setLevel(logging.DEBUG)
    if loaded.without_effect:
        click.echo(f"settings without effect here: {', '.join(loaded.without_effect)}", err=True)
    page = _page(PageDoor(OF_SERVE, web, web_names, web_tls_cert, web_tls_key, is_insecure=web_insecure))
    try:
        _serve(log_directory, loaded, page, read_only=read_only)
    finally:
        if page is not None:
            page.close()
    return DONE


def _page(door: PageDoor) -> PageServer | None:
    """Return the page, which listens; None without --web. `Failure`."""
    if door.listen is not None:
        return door.opened()
    if door != PageDoor(OF_SERVE, None):
        raise Failure(
            "--web-host, --web-tls-cert, --web-tls-key and --web-insecure go with --web HOST:PORT", WRONG_CALL
        )
    return None


def _settings(
    path: str | None, options: tuple[str, ...], advertised: Sequence[Address], log_directory: str
) -> LoadedSettings:
    """Return the settings of the file and of `options`, of which the last one counts; `Failure` for a wrong one."""
    from offsetfs.kafka.broker.security_names import is_secret
    from offsetfs.kafka.broker.settings import advertised_at
    from offsetfs.kafka.broker.settings_file import load_settings

    for name in filter(is_secret, (option.partition("=")[0] for option in options)):
        raise Failure(f"-o {name}: other users can read arguments; put it into a file, and give --config", WRONG_CALL)
    try:
        loaded = load_settings(path, options, log_directory)
        return replace(loaded, server=advertised_at(loaded.server, advertised, "--advertise"))
    except InvalidConfig as error:
        raise Failure(str(error), WRONG_CALL) from error
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}", WRONG_CALL) from error


def _serve(log_directory: str, loaded: LoadedSettings, page: PageServer | None, *, read_only: bool) -> None:
    """Serve until a signal; `Failure` where it cannot begin."""
    import trio

    from offsetfs.cli.terminal.progress import recovery_progress
    from offsetfs.kafka.broker.connections.listeners import Listener, ListenError, open_listeners
    from offsetfs.kafka.broker.listener_settings import ListenerSettings
    from offsetfs.kafka.broker.server import serve
    from offsetfs.storage import LogDirectories, LogDirectory
    from offsetfs.storage.directory import writer_of

    server, listeners = loaded.server, list[Listener]()
    try:
        # First, because a second start of the same command would only report its port.
        holder = None if read_only else writer_of(log_directory)
        if holder is not None:
            raise LogDirectoryLocked(f"in use by process {holder}", path=log_directory, pid=holder)
        preflight.check_descriptors()  # each connection needs one, and 1,024 is the usual limit
        # Before the recovery, which may take long.
        listeners = open_listeners(server.listeners, "--listen HOST:PORT")
        if server.metrics_listener is not None:
            Listener(ListenerSettings(server.metrics_listener), "--metrics HOST:PORT").close()
        with recovery_progress() as on_progress:
            directory = LogDirectory.open(
                log_directory,
                read_only=read_only,
                on_progress=on_progress,
                config=loaded.directory,
                broker=loaded.broker,
            )
        control = None if read_only else _control(directory)
        try:
            content = f"{counted(len(directory.partitions()), 'partition')}{', read only' if read_only else ''}"
            records = None if page is None else page_records(LogDirectories([directory], {}), log_directory)
            ready = partial(_ready, log_directory, content, page, takes_commands=control is not None)

            async def beside() -> None:
                async with trio.open_nursery() as nursery:
                    if control is not None:
                        nursery.start_soon(control.run)
                    if page is not None and records is not None:
                        nursery.start_soon(page.run, records)

            trio.run(serve, directory, server, listeners, ready, beside)
        finally:
            serving_process.unregister()
            if control is not None:
                control.close()
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, UNMOUNT_FIRST) from error
    except ListenError as error:
        raise Failure(str(error), WRONG_CALL if isinstance(error.__cause__, PermissionError) else FAILED) from error
    except StorageError as error:
        raise Failure(str(error)) from error
    finally:
        for listener in listeners:
            listener.close()


def _check_authentication(settings: ServerSettings) -> None:
    from offsetfs.kafka.broker.listener_settings import check_authentication

    metrics = settings.metrics_listener
    try:
        check_authentication(settings.listeners, "--allow-anonymous")
        check_loopback([metrics] if metrics else [], "--allow-anonymous")
    except AddressError as error:
        raise Failure(str(error), WRONG_CALL) from error


def _control(directory: LogDirectory) -> ControlServer | None:
    """Return what answers commands; None if it is not possible: clients are served without it."""
    from offsetfs.common.control_server import ControlServer

    registry = daemon_registry.own_directory()
    try:
        daemon_registry.create_own(registry)
        return ControlServer(directory, serving_process.socket_path(os.getpid(), registry))
    except OSError as error:
        _log.warning(
            "%s: %s; commands such as offsetfs create do not reach this process", registry, error.strerror or error
        )
        return None


def _ready(
    log_directory: str,
    content: str,
    page: PageServer | None,
    listeners: Sequence[Endpoint],
    metrics: Address | None,
    *,
    takes_commands: bool,
) -> None:
    if takes_commands:
        try:
            addresses = tuple(map(endpoint_text, listeners))
            serving_process.register(log_directory, addresses, "" if page is None else page.url)
        except OSError as error:  # clients are served without it
            _log.warning("commands do not find this process: %s: %s", error.filename, error.strerror)
    line = f"{log_directory} is served at {', '.join(map(endpoint_text, listeners))}: {content}"
    click.echo(line)
    ServiceManager().ready(line)
    if metrics is not None:
        click.echo(f"metrics are at http://{address_text(metrics)}/metrics")
    if page is not None:
        click.echo(page_line(page.url))
