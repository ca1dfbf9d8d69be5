"""The handshake of TLS with a client, and the reasons why it fails, in words."""

from __future__ import annotations

import socket
import ssl

import trio

from offsetfs.kafka.broker.tls.tls_context import TlsContext
from offsetfs.kafka.broker.tls.tls_transport import ServerTlsTransport

HANDSHAKE_S = 10.0
"""How long a client may take for its part of a handshake."""


class HandshakeError(Exception):
    """A client and the broker did not agree; the message says why."""


async def handshake(peer: socket.socket, context: TlsContext) -> ServerTlsTransport:
    """Return `peer` with TLS, after the handshake; HandshakeError, OSError. Takes `peer` over."""
    found = ServerTlsTransport(peer, context)
    try:
        with trio.fail_after(HANDSHAKE_S):
            await found.handshake(context.handshakes)
            return found
    except ssl.SSLError as error:
        found.close()
        raise HandshakeError(_sentence(error)) from error
    except trio.TooSlowError as error:
        found.close()
        raise HandshakeError(f"the client has not finished it after {HANDSHAKE_S:.0f} seconds") from error
    except BaseException:
        found.close()
        raise


_SENTENCES = {
    "WRONG_VERSION_NUMBER": "the client does not use TLS; it needs security.protocol=SSL, or SASL_SSL",
    "HTTP_REQUEST": "an HTTP request; this is a port for Kafka clients (metrics have one of their own: --metrics)",
    "UNSUPPORTED_PROTOCOL": "the client has no version of TLS that ssl.enabled.protocols permits",
    "NO_SHARED_CIPHER": "the client has no cipher suite that ssl.cipher.suites and the certificate permit",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has sent no certificate, and ssl.client.auth is required",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust this certificate; add its CA to the client's truststore",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept this certificate, or not for this host name",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept this certificate, or not for this host name",
}


def _sentence(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    reason = error.reason or str(error)
    return _SENTENCES.get(reason, reason.replace("_", " ").lower())
