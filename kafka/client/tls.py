"""TLS of a client: the truststore and the certificate of `client.properties`, and the reasons of failures, in words."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import trio

from offsetfs.common.addresses import Address, address_text
from offsetfs.common.security.settings import KEY_PASSWORD
from offsetfs.common.security.tls_stores import (
    VERSIONS,
    PemSource,
    check_store_types,
    choose_versions,
    keystore,
    load_keystore,
    load_truststore,
    tls_suites,
    tls_versions,
    truststore,
)
from offsetfs.common.transports import TlsTransport, finish_handshake
from offsetfs.kafka.client.errors import ClientError, Disconnected, TlsFailed
from offsetfs.storage.errors import InvalidConfig

CHECKED_NAME = "ssl.endpoint.identification.algorithm"

_HANDSHAKES_MAX = 8
"""The handshakes in threads at the same time, at most."""


@dataclass(frozen=True, slots=True)
class TlsProperties:
    """The validated TLS settings: trusted authorities, and the certificate of the client."""

    trusted: PemSource | None = None
    """The authorities of the brokers; None for those of the system."""
    own: tuple[PemSource, PemSource] | None = None
    """Certificates and key of the client."""
    key_password: str | None = None
    versions: tuple[str, ...] = VERSIONS
    suites: tuple[str, ...] = ()
    checks_name: bool = True
    """Whether the certificate must be for the host that the client has connected to."""

    def __repr__(self) -> str:
        return f"TlsProperties(trusted={self.trusted}, own={self.own})"  # without the password

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> TlsProperties:
        """Return the settings in `values`; InvalidConfig."""
        check_store_types(values)
        checked = values.get(CHECKED_NAME, "https").strip().lower()
        if checked not in ("https", ""):
            raise InvalidConfig(f"{CHECKED_NAME} must be https, or empty: then no name is checked")
        parsed = cls(
            truststore(values),
            keystore(values),
            values.get(KEY_PASSWORD),
            tls_versions(values),
            tls_suites(values),
            checks_name=bool(checked),
        )
        parsed.context()  # wrong files are found at the start
        return parsed

    def context(self) -> ssl.SSLContext:
        """Return a context with the files as they are now; InvalidConfig."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.checks_name
        choose_versions(context, self.versions, self.suites)
        if self.trusted is None:
            context.load_default_certs()
        else:
            load_truststore(context, self.trusted, "brokers")
        if self.own is not None:
            load_keystore(context, *self.own, self.key_password)
        return context


async def handshake(peer: socket.socket, address: Address, properties: TlsProperties) -> TlsTransport:
    """Agree with a broker on keys, and verify its certificate; ClientError. Takes `peer` over."""
    try:
        tls = properties.context().wrap_socket(peer, server_hostname=address[0], do_handshake_on_connect=False)
    except InvalidConfig as error:
        peer.close()
        raise TlsFailed(str(error)) from error
    except BaseException:
        peer.close()
        raise
    try:
        await finish_handshake(tls, trio.CapacityLimiter(_HANDSHAKES_MAX))
        return TlsTransport(tls)
    except (ssl.SSLZeroReturnError, ssl.SSLEOFError, ConnectionError) as error:
        tls.close()
        raise Disconnected(
            f"{address_text(address)}: the broker has closed the connection in the handshake of TLS; if this listener "
            "has no TLS, set security.protocol=PLAINTEXT or SASL_PLAINTEXT in the file of --config"
        ) from error
    except ssl.SSLError as error:
        tls.close()
        raise tls_failure(address, error) from error
    except BaseException:
        tls.close()
        raise


def tls_failure(address: Address, error: ssl.SSLError) -> ClientError:
    """Return the error of a client for one of TLS, with the remedy."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = _unverified(error)
    else:
        name = error.reason or str(error)
        reason = _SENTENCES.get(name, f"TLS: {name.replace('_', ' ').lower()}")
    return TlsFailed(f"{address_text(address)}: {reason}")


_NO_NAME = (62, 63, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_EMAIL_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH."""
_EXPIRED, _NOT_YET_VALID = 10, 9

_SENTENCES = {
    "WRONG_VERSION_NUMBER": "this listener has no TLS; set security.protocol=PLAINTEXT or SASL_PLAINTEXT in the file "
    "of --config",
    "HTTP_REQUEST": "an HTTP server, not a Kafka broker; give the address of a Kafka listener",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the broker permits none of the versions in ssl.enabled.protocols",
    "UNSUPPORTED_PROTOCOL": "the broker has none of the versions in ssl.enabled.protocols",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the broker accepts none of the cipher suites, or needs a certificate of the "
    "client: ssl.keystore.location",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker needs a certificate of the client; set ssl.keystore.location",
    "TLSV1_ALERT_UNKNOWN_CA": "the broker does not trust the certificate of ssl.keystore.location: its CA is missing "
    "in the broker's truststore",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the broker does not accept the certificate of ssl.keystore.location",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate of ssl.keystore.location has expired; renew it",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the broker does not accept the certificate of ssl.keystore.location",
}


def _unverified(error: ssl.SSLCertVerificationError) -> str:
    text = error.verify_message.rstrip(".")
    if error.verify_code in _NO_NAME:
        return (
            f"the certificate of the broker is for another host: {text}; use a host name of the certificate, or set "
            f"{CHECKED_NAME}= without a value in the file of --config to check no name"
        )
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        return f"the certificate of the broker is not valid now: {text}; it has to be renewed, or a clock is wrong"
    return f"the certificate of the broker is not trusted: {text}; add its CA to the file of ssl.truststore.location"
