"""The TLS context of a listener, made from its settings, and made again when its files change."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable

import trio

from offsetfs.common.security.tls_stores import choose_versions, load_keystore, load_truststore
from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.tls.tls_settings import TlsSettings
from offsetfs.storage.errors import InvalidConfig

_log = logging.getLogger(__name__)

RELOAD_S = 3.0
"""The interval at which the files are examined for changes."""

HANDSHAKES_MAX = 2
"""Handshakes that are computed at the same time, at most: clients that connect leave threads to others."""

_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


BUFFER_BYTES = 1 << 18
"""The most bytes of one call: encryption takes some 0.1 ms for them, and other clients wait. More are not faster."""


class TlsBuffers:
    """Memory for what passes through; used by the event loop only, by one connection at a time.

    A connection may use it until its next wait.
    """

    def __init__(self) -> None:
        self.received, self.plain = memoryview(bytearray(BUFFER_BYTES)), memoryview(bytearray(BUFFER_BYTES))


class TlsContext:
    """The context of one listener."""

    def __init__(self, settings: TlsSettings) -> None:
        """Read the files; InvalidConfig."""
        self.settings = settings
        self.handshakes = trio.CapacityLimiter(HANDSHAKES_MAX)
        self.buffers = TlsBuffers()
        self._states = self._read_states()
        self.current = load_context(settings)

    def reload(self) -> None:
        """Make the context again if a file has changed. A wrong file is logged, and the one before stays in use."""
        states = self._read_states()
        if states == self._states:
            return
        self._states = states
        try:
            self.current = load_context(self.settings)
        except InvalidConfig as error:
            _log.error("the certificate in use is kept: %s", error.reason)
        else:
            _log.warning("%s: read again, because it has changed; new connections use it", self.settings.chain)

    def _read_states(self) -> list[tuple[int, ...]]:
        return [source.state() for source in self.settings.sources]


async def reload_changed(contexts: Iterable[TlsContext]) -> None:
    """Reload contexts whose files change, until cancelled."""
    watched = list(contexts)
    while watched:
        await trio.sleep(RELOAD_S)
        for context in watched:
            with trio.CancelScope(shield=True):
                await in_thread(context.reload)


def load_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a context for connections of clients; InvalidConfig."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    # No session is resumed with a ticket: it would outlive the certificate of its client. OpenSSL's own cache of
    # sessions of TLS 1.2 stays (`ServerTlsTransport` checks the certificate).
    context.options |= ssl.OP_NO_TICKET  # before TLS 1.3
    context.num_tickets = 0
    choose_versions(context, settings.versions, settings.suites)
    load_keystore(context, settings.chain, settings.key, settings.password)
    if settings.trusted is not None:
        load_truststore(context, settings.trusted, "clients")
    context.verify_mode = _VERIFY[settings.client_auth]
    return context
