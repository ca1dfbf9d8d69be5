"""A broker in a thread of the caller's process: the implementation of `offsetfs.serve`.

The thread has an event loop of its own. Signals stay with the main thread, and the caller may run any event loop. A
process for each broker would import this package again, which takes longer than a test.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType

import trio

from offsetfs import arguments
from offsetfs.common.addresses import Address, Endpoint, address_text, listeners_text, parse_endpoint
from offsetfs.kafka.broker.connections.listeners import Listener, open_listeners
from offsetfs.kafka.broker.listener_settings import check_authentication
from offsetfs.kafka.broker.server import serve_until
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.settings_file import LISTENERS, load_settings
from offsetfs.storage import LogDirectory
from offsetfs.storage.errors import InvalidConfig

END_S = 60.0
"""The time that `close` waits. Requests have 5 s to end (`DRAIN_S`); the rest is for the last flush."""

_ANY_PORT = 0
_NO_SETTINGS: Mapping[str, str | int | bool] = MappingProxyType({})


def serve(
    path: str | bytes | os.PathLike[str],
    *,
    listen: str = "127.0.0.1:0",
    settings: Mapping[str, str | int | bool] = _NO_SETTINGS,
    read_only: bool = False,
    allow_anonymous: bool = False,
) -> EmbeddedBroker:
    """Serve the log directory at `path` over the Kafka protocol, from a thread of this process; return when it accepts.

        with offsetfs.serve(tmp_path) as broker:
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

    The directory is created if it is missing. `listen`: an address of this machine; port 0 is any free one. `settings`:
    by the names in Kafka's server.properties, such as `{"num.partitions": 4}`. With `read_only` nothing is written:
    over a backup, or beside a running broker. `allow_anonymous`: also listen on an address that other machines reach
    without authentication.

    Raises TypeError for an argument of a wrong type, ValueError for such an address without it,
    `errors.NotALogDirectory`, `errors.LogDirectoryLocked`, `errors.InvalidConfig`, and OSError, also for an address
    that cannot be used.
    """
    path, settings = arguments.path_text("path", path), arguments.broker_settings(settings)
    read_only = arguments.flag("read_only", read_only)
    allow_anonymous = arguments.flag("allow_anonymous", allow_anonymous)
    endpoint = parse_endpoint(arguments.text("listen", listen, "127.0.0.1:0"), _ANY_PORT)
    if LISTENERS in settings:
        raise InvalidConfig(f"settings: {LISTENERS} has no effect here; give the address as listen=")
    options = [f"{name}={_text(value)}" for name, value in settings.items()]
    options.append(f"{LISTENERS}={listeners_text([endpoint])}")
    loaded = load_settings(None, options, path, origin="settings")
    if not allow_anonymous:
        check_authentication(loaded.server.listeners, "allow_anonymous=True")
    if not read_only:
        os.makedirs(path, exist_ok=True)
    (listener,) = open_listeners(loaded.server.listeners, "listen=")
    try:
        directory = LogDirectory.open(
            path,
            read_only=read_only,
            config=loaded.directory,
            broker=loaded.broker,
        )
    except BaseException:
        listener.close()
        raise
    return EmbeddedBroker(directory, loaded.server, listener).start()


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class EmbeddedBroker:
    """A running broker. Use `offsetfs.serve`; every method may be called from any thread."""

    def __init__(self, directory: LogDirectory, settings: ServerSettings, listener: Listener) -> None:
        self.path = directory.path
        self.bootstrap_servers = ""
        """The address of the broker as clients take it, such as 127.0.0.1:40123."""
        self._directory = directory
        self._settings = settings
        self._listener = listener
        self._started: Future[Sequence[Endpoint]] = Future()
        self._error: BaseException | None = None
        self._is_ending = False
        self._end = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None  # of the event loop, once it runs
        # A daemon thread does not keep a program from ending that never calls `close`; `atexit` calls it then.
        self._thread = threading.Thread(target=self._run, name="offsetfs broker", daemon=True)

    def start(self) -> EmbeddedBroker:
        """Start the thread; return when connections are accepted. ListenError, OSError."""
        self._thread.start()
        atexit.register(self.close)
        try:
            listeners = self._started.result()
        except BaseException:  # KeyboardInterrupt of the caller, too
            self.close()
            raise
        self.bootstrap_servers = ",".join(address_text(listener.address) for listener in listeners)
        return self

    def __enter__(self) -> EmbeddedBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._thread.is_alive() else ", closed"
        return f"<EmbeddedBroker {self.path} at {self.bootstrap_servers}{state}>"

    def close(self) -> None:
        """Answer what was accepted, write everything to disk, mark the directory as cleanly closed.

        A request that waits for records is answered at once; a request that waits for group members, after 0.2 s
        (`WAIT_ENDS_S`); a response that its client does not read is ended after 5 s (`DRAIN_S`).
        Further calls do nothing. Raises OSError if the last flush failed, and TimeoutError if the disk does not answer.
        """
        self._is_ending = True
        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._end.set)
        self._thread.join(END_S)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.path}: the broker has not ended after {END_S:.0f} s; the disk does not answer")
        atexit.unregister(self.close)
        error, self._error = self._error, None
        if error is not None:
            raise error

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            try:
                trio.run(self._serve)
            finally:
                self._listener.close()
                self._directory.close()
        except BaseException as error:  # raised in the thread of the caller
            if self._started.done():
                self._error = error
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        if not self._is_ending:  # `close` came before there was a token
            await serve_until(self._end.wait, self._directory, self._settings, [self._listener], self._report)

    def _report(self, listeners: Sequence[Endpoint], metrics: Address | None) -> None:
        self._started.set_result(listeners)
