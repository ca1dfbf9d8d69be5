"""Keys, certificates and versions of TLS, by Kafka's settings: PEM, in files or in the settings themselves.

OpenSSL reports a wrong file with the name of one of its functions. Here each has a sentence with the setting, the path
and the remedy.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime
import os
import re
import ssl
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from offsetfs.common.security.settings import (
    CHAIN,
    KEY,
    KEY_FILE,
    KEY_PASSWORD,
    KEYSTORE,
    KEYSTORE_TYPE,
    PROTOCOLS,
    SUITES,
    TRUSTED,
    TRUSTSTORE,
    TRUSTSTORE_TYPE,
)
from offsetfs.common.security.x509 import CertificateError, parse_certificate
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import printable

VERSIONS = ("TLSv1.2", "TLSv1.3")

_BYTES_MAX = 1 << 20
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_VERSIONS = dict(zip(VERSIONS, (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), strict=True))
_TO_PEM = {
    b"\xfe\xed\xfe\xed": (
        "a JKS file",
        "keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12 "
        "&& openssl pkcs12 -in {path}.p12 -nodes -out {path}.pem",
    ),
    b"\x30": ("a PKCS12 file", "openssl pkcs12 -in {path} {content} -out {path}.pem"),
}


@dataclass(frozen=True, slots=True)
class PemSource:
    """The place of keys or certificates: a file, or the setting itself."""

    setting: str
    path: str | None = None
    text: str | None = field(default=None, repr=False)  # may be a key

    def __str__(self) -> str:
        return self.setting if self.path is None else f"{self.setting}: {self.path}"

    def read(self) -> bytes:
        """Return the content; InvalidConfig, with the command that converts a file of another type."""
        if self.path is None:
            return (self.text or "").encode()
        try:
            status = os.stat(self.path)
            if not stat.S_ISREG(status.st_mode):
                raise InvalidConfig(f"{self} is not a regular file; give a PEM file")
            if status.st_size > _BYTES_MAX:
                raise InvalidConfig(f"{self} has {status.st_size} bytes; a PEM file has at most {_BYTES_MAX}")
            with open(self.path, "rb") as file:
                data = file.read(_BYTES_MAX)
        except OSError as error:
            raise InvalidConfig(f"{self}: {error.strerror}; give a PEM file that this user can read") from error
        for magic, (what, command) in _TO_PEM.items():
            if data.startswith(magic):
                content = "-nokeys" if self.setting == TRUSTSTORE else "-nodes"
                remedy = command.format(path=self.path, content=content)
                raise InvalidConfig(f"{self} is {what}, and only PEM is supported; convert it: {remedy}")
        return data

    def state(self) -> tuple[int, ...]:
        """Return a value that changes with the file; () if it cannot be read, or does not exist."""
        try:
            status = os.stat(self.path) if self.path is not None else None
        except OSError:
            return ()
        return () if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def check_store_types(values: Mapping[str, str]) -> None:
    """Raise InvalidConfig for a type of keystore or truststore other than PEM, with the command that converts it."""
    for name, location in ((KEYSTORE_TYPE, values.get(KEYSTORE)), (TRUSTSTORE_TYPE, values.get(TRUSTSTORE))):
        if values.get(name, "PEM").upper() != "PEM":
            path = location or "STORE"
            convert = f"openssl pkcs12 -in {path} -nodes -out {path}.pem"
            if values[name].upper() == "JKS":
                convert = _TO_PEM[b"\xfe\xed\xfe\xed"][1].format(path=path)
            raise InvalidConfig(
                f"{name} is {printable(values[name])}, and only PEM is supported; convert it: {convert}"
            )


def keystore(values: Mapping[str, str]) -> tuple[PemSource, PemSource] | None:
    """Return where the certificates and the key are; None if there are none. InvalidConfig."""
    chain = _source(values, KEYSTORE, CHAIN)
    if chain is None:
        return None
    key = _source(values, KEY_FILE, KEY)
    if key is None:
        if chain.path is None:
            raise InvalidConfig(f"{CHAIN} is set without {KEY}; add it")
        key = chain
    return chain, key


def truststore(values: Mapping[str, str]) -> PemSource | None:
    """Return where the authorities of the peers are; None if they are not named. InvalidConfig."""
    return _source(values, TRUSTSTORE, TRUSTED)


def _source(values: Mapping[str, str], of_file: str, of_text: str) -> PemSource | None:
    if of_file in values and of_text in values:
        raise InvalidConfig(f"{of_file} and {of_text} exclude each other; remove one of them")
    if of_file in values:
        return PemSource(of_file, path=os.path.abspath(values[of_file]))
    return PemSource(of_text, text=values[of_text]) if of_text in values else None


# --- versions and cipher suites --------------------------------------------------------------------------------------


def tls_versions(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the versions of TLS in `ssl.enabled.protocols`; InvalidConfig."""
    versions = tuple(version.strip() for version in values.get(PROTOCOLS, ",".join(VERSIONS)).split(","))
    for version in versions:
        if version not in VERSIONS:
            raise InvalidConfig(f"{PROTOCOLS}: {printable(version)} is not supported; {' and '.join(VERSIONS)} are")
    return versions


def tls_suites(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the cipher suites in `ssl.cipher.suites`; empty for those that OpenSSL has chosen."""
    return tuple(filter(None, (name.strip() for name in values.get(SUITES, "").split(","))))


def choose_versions(context: ssl.SSLContext, versions: Sequence[str], suites: Sequence[str]) -> None:
    """Permit only these versions, and these cipher suites unless there are none; InvalidConfig."""
    chosen = [_VERSIONS[version] for version in versions]
    context.minimum_version, context.maximum_version = min(chosen), max(chosen)
    if suites:
        _choose_suites(context, versions, suites)


def _choose_suites(context: ssl.SSLContext, versions: Sequence[str], suites: Sequence[str]) -> None:
    """Permit only the suites of the settings.

    Python cannot choose among those of TLS 1.3. So either all of them are named, or none, and TLS 1.3 is not used.
    """
    context.set_ciphers("ALL:COMPLEMENTOFALL")
    known = {cipher["name"]: cipher["protocol"] for cipher in context.get_ciphers()}
    newest = {name for name, protocol in known.items() if protocol == "TLSv1.3"}
    wanted = [suite if suite in known else _openssl_name(suite) for suite in suites]
    for given, name in zip(suites, wanted, strict=True):
        if name not in known:
            raise InvalidConfig(f"{SUITES}: {printable(given)} is not a cipher suite of OpenSSL: see openssl ciphers")
    of_newest, others = newest.intersection(wanted), [suite for suite in wanted if suite not in newest]
    if of_newest and of_newest != newest:
        all_names = ", ".join(sorted(newest))
        raise InvalidConfig(
            f"{SUITES}: the suites of TLS 1.3 cannot be chosen one by one; name all of them: {all_names}"
        )
    with_suites = [version for version, names in zip(VERSIONS, (others, of_newest), strict=True) if names]
    usable = [_VERSIONS[version] for version in with_suites if version in versions]
    if not usable:
        raise InvalidConfig(f"{SUITES} has no suite for {', '.join(versions)} ({PROTOCOLS}); add one")
    context.minimum_version, context.maximum_version = min(usable), max(usable)
    if others:
        context.set_ciphers(":".join(others))


def _openssl_name(name: str) -> str:
    """Return OpenSSL's name for one of Java: ECDHE-RSA-AES256-GCM-SHA384 for TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384."""
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).removesuffix("_SHA256" if "CHACHA20" in cipher else "!")
    return f"{exchange}_{cipher}".replace("_", "-").removeprefix("RSA-")


# --- keys and certificates -------------------------------------------------------------------------------------------


def load_keystore(context: ssl.SSLContext, chain: PemSource, key: PemSource, password: str | None) -> None:
    """Load certificates and key; InvalidConfig."""
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


def load_truststore(context: ssl.SSLContext, source: PemSource, peers: str) -> None:
    """Load the authorities of the peers, such as "clients"; InvalidConfig."""
    content = b"\n".join(match[0] for match in _CERTIFICATE.finditer(source.read()))
    if not content:
        raise InvalidConfig(f"{source} has no certificate (BEGIN CERTIFICATE); add the CA of the {peers}")
    try:
        context.load_verify_locations(cadata=content.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise InvalidConfig(f"{source} cannot be used: {_reason(error)}; give a PEM file with certificates") from error
    # Any certificate of a truststore is trusted, as in Java, also one that another authority has signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _check_dates(source: PemSource, content: bytes) -> None:
    """Raise InvalidConfig unless `content` has certificates, which are valid now."""
    certificates = [match[1] for match in _CERTIFICATE.finditer(content)]
    if not certificates:
        remedy = "add it" if source.setting == CHAIN else "give a PEM file with key and certificates"
        raise InvalidConfig(f"{source} has no certificate (BEGIN CERTIFICATE); {remedy}")
    now = datetime.datetime.now(datetime.UTC)
    for encoded in certificates:
        try:
            certificate = parse_certificate(base64.b64decode(encoded))
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
