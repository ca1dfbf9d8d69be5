"""The broker of `offsetfs mount -o listen=HOST:PORT`: the Kafka protocol from the logs of the mount, in its process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.common.addresses import AddressError, Endpoint, listeners_text
from offsetfs.fs.companion import CompanionReport, OnFault
from offsetfs.fs.options import MountOptions
from offsetfs.kafka.broker.broker import Broker, logins_of
from offsetfs.kafka.broker.connections.listeners import Listener, ListenError, open_listeners
from offsetfs.kafka.broker.listener_settings import check_authentication
from offsetfs.kafka.broker.report import BrokerReport
from offsetfs.kafka.broker.settings import ServerSettings, advertised_at
from offsetfs.kafka.broker.settings_file import load_settings
from offsetfs.storage import LogDirectory
from offsetfs.storage.errors import InvalidConfig, StorageError
from offsetfs.storage.security import SecurityStore

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class MountedBroker:
    """The broker beside a mount (`fs.companion.MountCompanion`).

    It listens before the logs are open: a program may connect as soon as the mount answers.
    """

    def __init__(self, settings: ServerSettings, listeners: Sequence[Listener]) -> None:
        self._settings = settings
        self._listeners = listeners
        self._broker: Broker | None = None
        self._is_stopped = False

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses at which the broker listens: port 0 is replaced by the one that the system has chosen."""
        return tuple(Endpoint(listener.settings.name, listener.address) for listener in self._listeners)

    name = "the broker"

    async def run(self, directory: LogDirectory, on_fault: OnFault) -> None:
        """Serve `directory` until `stop`; connections have been answered then. It reports no faults of its own."""
        if self._is_stopped:
            return
        self._broker = Broker(directory, self._settings, self._listeners)
        await self._broker.run()

    async def report(self) -> CompanionReport | None:
        """Return its metrics; None before it serves."""
        return None if self._broker is None else companion_report(await self._broker.reporter.report())

    def stop(self) -> None:
        """Accept nothing more; `run` returns when the connections have been answered."""
        self._is_stopped = True
        if self._broker is not None:
            self._broker.stop()


def companion_report(report: BrokerReport) -> CompanionReport:
    """Return the report of a broker as a mount shows it."""

    def families() -> Iterator[Metric]:
        from offsetfs.kafka.broker import exporter  # when metrics are read

        return exporter.families(report)

    return CompanionReport(report.lines, families, has_group_lags=True)


@contextlib.contextmanager
def mounted_broker(options: MountOptions, log_directory: str) -> Iterator[MountedBroker]:
    """Listen on the addresses of the options; `Failure` if that is not possible."""
    settings = _settings(options, log_directory)
    _check_security(settings, log_directory)
    with contextlib.ExitStack() as opened:
        try:
            listeners = open_listeners(settings.listeners, "-o listen=HOST:PORT")
            for listener in listeners:
                opened.callback(listener.close)
                listener.listen()
        except ListenError as error:
            raise Failure(f"listen={error}") from error
        yield MountedBroker(settings, listeners)


def _check_security(settings: ServerSettings, log_directory: str) -> None:
    """`Failure` for what would stop the broker when it begins, behind a mount that has been reported as done."""
    try:
        logins_of(settings.listeners, SecurityStore(log_directory, read_only=True))
    except InvalidConfig as error:
        raise Failure(str(error), WRONG_CALL) from error
    except StorageError as error:
        raise Failure(str(error)) from error


def _settings(options: MountOptions, log_directory: str) -> ServerSettings:
    """Return the settings of the broker among the options; `Failure` for an illegal value."""
    try:
        settings = {**options.server_settings, **options.security_settings}
        given = [f"{name}={value}" for name, value in settings.items()]
        server = load_settings(None, [*given, f"listeners={listeners_text(options.listeners)}"], log_directory).server
        if not options.allow_anonymous:
            check_authentication(server.listeners, "the option allow-anonymous")
        return advertised_at(server, options.advertised, "advertise")
    except AddressError as error:
        raise Failure(f"listen={error}", WRONG_CALL) from error
    except InvalidConfig as error:
        raise Failure(str(error), WRONG_CALL) from error
