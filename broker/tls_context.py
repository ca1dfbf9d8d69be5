"""The TLS context of a listener, made from its settings, and made again when its files change.

OpenSSL reports a wrong file with the name of one of its functions. Here each has a sentence with the setting, the path
and the remedy.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime
import logging
import os
import re
import ssl
from collections.abc import Iterable, Iterator

import trio

from offsetfs.broker.security_names import CHAIN, KEY_FILE, KEY_PASSWORD, PROTOCOLS, SUITES
from offsetfs.broker.tls_settings import VERSIONS, PemSource, TlsSettings
from offsetfs.runtime.threads import in_thread
from offsetfs.runtime.x509 import CertificateError, parse_certificate
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import printable

_log = logging.getLogger(__name__)

RELOAD_S = 3.0
"""How often the files are examined for changes."""

HANDSHAKES_MAX = 2
"""How many handshakes are computed at the same time: clients that connect leave threads to others."""

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = dict(zip(VERSIONS, (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), strict=True))


class TlsContext:
    """The context of one listener."""

    def __init__(self, settings: TlsSettings) -> None:
        """Read the files; InvalidConfig."""
        self.settings = settings
        self.handshakes = trio.CapacityLimiter(HANDSHAKES_MAX)
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
        return [each.state() for each in self.settings.sources]


async def reload_changed(contexts: Iterable[TlsContext]) -> None:
    """Reload contexts whose files change, until cancelled."""
    found = list(contexts)
    while found:
        await trio.sleep(RELOAD_S)
        for each in found:
            with trio.CancelScope(shield=True):
                await in_thread(each.reload)


def load_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a context for connections of clients; InvalidConfig."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    # No session is resumed: it would outlive the certificate of its client.
    context.options |= ssl.OP_NO_TICKET  # before TLS 1.3
    context.num_tickets = 0
    chosen = [_VERSIONS[each] for each in settings.versions]
    context.minimum_version, context.maximum_version = min(chosen), max(chosen)
    if settings.suites:
        _choose_suites(context, settings)
    _load_keystore(context, settings)
    if settings.trusted is not None:
        _load_truststore(context, settings.trusted)
    context.verify_mode = _VERIFY[settings.client_auth]
    return context


def _choose_suites(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Permit only the suites of the settings.

    Python cannot choose among those of TLS 1.3. So either all of them are named, or none, and TLS 1.3 is not used.
    """
    context.set_ciphers("ALL:COMPLEMENTOFALL")
    known = {each["name"]: each["protocol"] for each in context.get_ciphers()}
    newest = {name for name, protocol in known.items() if protocol == "TLSv1.3"}
    wanted = [each if each in known else _openssl_name(each) for each in settings.suites]
    for given, name in zip(settings.suites, wanted, strict=True):
        if name not in known:
            raise InvalidConfig(f"{SUITES}: {printable(given)} is no cipher suite of OpenSSL; see openssl ciphers -v")
    of_newest, others = newest.intersection(wanted), [each for each in wanted if each not in newest]
    if of_newest and of_newest != newest:
        all_names = ", ".join(sorted(newest))
        raise InvalidConfig(
            f"{SUITES}: the suites of TLS 1.3 cannot be chosen one by one; name all of them: {all_names}"
        )
    versions = [each for each, names in zip(VERSIONS, (others, of_newest), strict=True) if names]
    usable = [_VERSIONS[each] for each in versions if each in settings.versions]
    if not usable:
        raise InvalidConfig(f"{SUITES} has no suite for {', '.join(settings.versions)} ({PROTOCOLS}); add one")
    context.minimum_version, context.maximum_version = min(usable), max(usable)
    if others:
        context.set_ciphers(":".join(others))


def _openssl_name(name: str) -> str:
    """Return OpenSSL's name for one of Java: ECDHE-RSA-AES256-GCM-SHA384 for TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384."""
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).removesuffix("_SHA256" if "CHACHA20" in cipher else "!")
    return f"{exchange}_{cipher}".replace("_", "-").removeprefix("RSA-")


# --- keys and certificates -------------------------------------------------------------------------------------------


def _load_keystore(context: ssl.SSLContext, settings: TlsSettings) -> None:
    chain, key, password = settings.chain, settings.key, settings.password
    content = chain.read()
    of_key = content if key is chain else key.read()
    _check_dates(chain, content)
    if not _KEY.search(of_key):
        remedy = f"put the key behind the certificates, or give its file as {KEY_FILE}" if key is chain else "add it"
        raise InvalidConfig(f"{key} has no private key (BEGIN PRIVATE KEY); {remedy}")
    is_encrypted = False

    def read_password() -> str:
        nonlocal is_encrypted
        is_encrypted = True
        if password is None:
            raise InvalidConfig(f"{key} has an encrypted key; set {KEY_PASSWORD} in the file of settings")
        return password

    try:
        with _as_file(content) as of_chain, _as_file(of_key) as path:
            context.load_cert_chain(of_chain, path, read_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            reason = f"the key in {key} is not that of the first certificate in {chain}; give a matching pair"
        elif is_encrypted:
            reason = f"{KEY_PASSWORD} is not the password of the key in {key}; correct it"
        else:
            reason = f"{chain} cannot be used: {_reason(error)}; give a PEM file with a certificate and its key"
        raise InvalidConfig(reason) from error


def _load_truststore(context: ssl.SSLContext, source: PemSource) -> None:
    content = b"\n".join(match[0] for match in _CERTIFICATE.finditer(source.read()))
    if not content:
        raise InvalidConfig(f"{source} has no certificate (BEGIN CERTIFICATE); add the CA of the clients")
    try:
        context.load_verify_locations(cadata=content.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise InvalidConfig(f"{source} cannot be used: {_reason(error)}; give a PEM file with certificates") from error
    # Any certificate of a truststore is trusted, as in Java, also one that another authority has signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _check_dates(source: PemSource, content: bytes) -> None:
    """Raise InvalidConfig unless `content` has certificates, which are valid now."""
    found = [match[1] for match in _CERTIFICATE.finditer(content)]
    if not found:
        remedy = "add it" if source.setting == CHAIN else "give a PEM file with key and certificates"
        raise InvalidConfig(f"{source} has no certificate (BEGIN CERTIFICATE); {remedy}")
    now = datetime.datetime.now(datetime.UTC)
    for each in found:
        try:
            certificate = parse_certificate(base64.b64decode(each))
        except (binascii.Error, CertificateError) as error:
            raise InvalidConfig(f"{source} cannot be read: {error}; give a PEM file with certificates") from error
        subject = printable(certificate.subject)
        if certificate.not_after < now:
            raise InvalidConfig(f"{source}: the certificate of {subject} expired on {certificate.not_after}; renew it")
        if certificate.not_before > now:
            begin = certificate.not_before
            raise InvalidConfig(f"{source}: the certificate of {subject} is valid from {begin} on; check the clock")


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Make `content` readable under a path, in memory: OpenSSL reads keys from files only."""
    fd = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return (reason or str(error)).replace("_", " ").lower()
