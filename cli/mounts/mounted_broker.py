"""The broker of `offsetfs mount -o listen=HOST:PORT`: the Kafka protocol from the logs of the mount, in its process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import trio

from offsetfs.broker.broker import Broker
from offsetfs.broker.listeners import ListenError, listen
from offsetfs.broker.report import BrokerReport
from offsetfs.broker.settings import ServerSettings
from offsetfs.broker.settings_file import load_settings
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.fs.options import MountOptions
from offsetfs.runtime.addresses import Address
from offsetfs.storage import LogDirectory
from offsetfs.storage.errors import InvalidConfig


class MountedBroker:
    """The broker beside a mount (`fs.companion.MountCompanion`). It listens before the logs are open."""

    def __init__(self, settings: ServerSettings, sockets: Sequence[trio.socket.SocketType]) -> None:
        self._settings = settings
        self._sockets = list(sockets)
        self._broker: Broker | None = None
        self._is_stopped = False

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it listens: port 0 is replaced by the one that the system has chosen."""
        return tuple((str(host), int(port)) for host, port, *_ in (each.getsockname() for each in self._sockets))

    async def run(self, directory: LogDirectory) -> None:
        """Serve `directory` until `stop`; connections have been answered then."""
        if self._is_stopped:
            return
        self._broker = Broker(directory, self._settings, self._sockets)
        await self._broker.run()

    async def report(self) -> BrokerReport | None:
        """Return its metrics; None before it serves."""
        return None if self._broker is None else await self._broker.reporter.report()

    def stop(self) -> None:
        """Accept nothing more; `run` returns when the connections have been answered."""
        self._is_stopped = True
        if self._broker is not None:
            self._broker.stop()
        for each in self._sockets:
            each.close()


@contextlib.contextmanager
def mounted_broker(options: MountOptions, log_directory: str) -> Iterator[MountedBroker | None]:
    """Listen on the addresses of the options, if there are any; `Failure` if that is not possible."""
    settings = _settings(options, log_directory)
    with contextlib.ExitStack() as sockets:
        opened = []
        for address in options.listeners:
            try:
                opened.append(listen(*address, "-o listen=HOST:PORT"))
            except ListenError as error:
                raise Failure(f"listen={error}") from error
            sockets.callback(_close, opened[-1])
        yield MountedBroker(settings, opened) if opened else None


def _settings(options: MountOptions, log_directory: str) -> ServerSettings:
    """Return the settings of the broker among the options; `Failure` for an illegal value."""
    try:
        given = [f"{name}={value}" for name, value in options.server_settings.items()]
        found = load_settings(None, given, log_directory).server
    except InvalidConfig as error:
        raise Failure(str(error), WRONG_CALL) from error
    return replace(found, listeners=options.listeners, advertised=options.advertised)


def _close(listener: trio.socket.SocketType) -> None:
    """Close a listener, unless `MountedBroker.stop` has: trio closes sockets on its event loop only."""
    if listener.fileno() != -1:
        os.close(listener.detach())
