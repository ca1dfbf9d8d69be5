"""The TLS settings of a listener, by Kafka's names. Keys and certificates are PEM, in files or in the settings.

ssl.keystore.location=/etc/kafka/server.pem         key and certificates in one file,
ssl.key.location=/etc/kafka/server.key              or the key in another one (Kafka has no such setting)
ssl.truststore.location=/etc/kafka/clients.pem      the authorities of clients
ssl.client.auth=required
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from offsetfs.broker.principal_rules import PrincipalRules
from offsetfs.broker.security_names import (
    CHAIN,
    CLIENT_AUTH,
    KEY,
    KEY_FILE,
    KEY_PASSWORD,
    KEYSTORE,
    KEYSTORE_TYPE,
    PRINCIPAL_RULES,
    PROTOCOLS,
    SUITES,
    TLS_DEFAULTS,
    TRUSTED,
    TRUSTSTORE,
    TRUSTSTORE_TYPE,
)
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import printable

VERSIONS = ("TLSv1.2", "TLSv1.3")

_BYTES_MAX = 1 << 20
_CLIENT_AUTH = ("none", "requested", "required")
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
    """Where keys or certificates are: in a file, or in the setting itself."""

    setting: str
    path: str | None = None
    text: str | None = None

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
                found = file.read(_BYTES_MAX)
        except OSError as error:
            raise InvalidConfig(f"{self}: {error.strerror}; give a PEM file that this user can read") from error
        for magic, (what, command) in _TO_PEM.items():
            if found.startswith(magic):
                content = "-nokeys" if self.setting == TRUSTSTORE else "-nodes"
                remedy = command.format(path=self.path, content=content)
                raise InvalidConfig(f"{self} is {what}, and only PEM is supported; convert it: {remedy}")
        return found

    def state(self) -> tuple[int, ...]:
        """Return what changes with the file; () where it cannot be read, or there is none."""
        try:
            status = os.stat(self.path) if self.path is not None else None
        except OSError:
            return ()
        return () if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The checked settings of one listener; what is in the files is not read yet."""

    chain: PemSource
    key: PemSource
    password: str | None
    trusted: PemSource | None
    client_auth: str
    versions: tuple[str, ...]
    suites: tuple[str, ...]
    """Empty: those that OpenSSL has chosen."""
    rules: PrincipalRules

    @property
    def sources(self) -> tuple[PemSource, ...]:
        return (self.chain, self.key, *([self.trusted] if self.trusted is not None else []))


def tls_settings(properties: Mapping[str, str]) -> TlsSettings:
    """Return the settings in `properties`; InvalidConfig."""
    values = {**TLS_DEFAULTS, **{name: value.strip() for name, value in properties.items() if value.strip()}}
    for name, location in ((KEYSTORE_TYPE, values.get(KEYSTORE)), (TRUSTSTORE_TYPE, values.get(TRUSTSTORE))):
        if values[name].upper() != "PEM":
            path = location or "STORE"
            convert = f"openssl pkcs12 -in {path} -nodes -out {path}.pem"
            if values[name].upper() == "JKS":
                convert = _TO_PEM[b"\xfe\xed\xfe\xed"][1].format(path=path)
            raise InvalidConfig(
                f"{name} is {printable(values[name])}, and only PEM is supported; convert it: {convert}"
            )
    chain, key = _keystore(values)
    trusted = _source(values, TRUSTSTORE, TRUSTED)
    client_auth = values[CLIENT_AUTH].lower()
    if client_auth not in _CLIENT_AUTH:
        raise InvalidConfig(f"{CLIENT_AUTH} is {printable(client_auth)}, but must be one of {', '.join(_CLIENT_AUTH)}")
    if client_auth != "none" and trusted is None:
        raise InvalidConfig(f"{CLIENT_AUTH} is {client_auth}: add {TRUSTSTORE}, a PEM file with the CA of the clients")
    versions = tuple(each.strip() for each in values[PROTOCOLS].split(","))
    for each in versions:
        if each not in VERSIONS:
            raise InvalidConfig(f"{PROTOCOLS}: {printable(each)} is not supported; {' and '.join(VERSIONS)} are")
    suites = tuple(filter(None, (each.strip() for each in values.get(SUITES, "").split(","))))
    try:
        rules = PrincipalRules.parse(values[PRINCIPAL_RULES])
    except ValueError as error:
        raise InvalidConfig(f"{PRINCIPAL_RULES}: {error}") from error
    return TlsSettings(chain, key, values.get(KEY_PASSWORD), trusted, client_auth, versions, suites, rules)


def _keystore(values: Mapping[str, str]) -> tuple[PemSource, PemSource]:
    chain = _source(values, KEYSTORE, CHAIN)
    if chain is None:
        raise InvalidConfig(f"there is no certificate: set {KEYSTORE}, a PEM file with key and certificates")
    key = _source(values, KEY_FILE, KEY)
    if key is None:
        if chain.path is None:
            raise InvalidConfig(f"{CHAIN} is set without {KEY}; add it")
        key = chain
    return chain, key


def _source(values: Mapping[str, str], of_file: str, of_text: str) -> PemSource | None:
    if of_file in values and of_text in values:
        raise InvalidConfig(f"{of_file} and {of_text} exclude each other; remove one of them")
    if of_file in values:
        return PemSource(of_file, path=os.path.abspath(values[of_file]))
    return PemSource(of_text, text=values[of_text]) if of_text in values else None
