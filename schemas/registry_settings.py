"""The settings of a client of a schema registry: a URL, or a properties file with Confluent's names.

    schema.registry.url=https://registry.example.com
    basic.auth.user.info=USER:PASSWORD          or in the URL; or bearer.auth.token=TOKEN
    ssl.truststore.location=ca.pem              and the other settings of TLS that Kafka's clients have

Names may begin with `schema.registry.`, as those in the settings of Kafka's clients.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from offsetfs.common.security.settings import KEY_PASSWORD
from offsetfs.common.security.tls_stores import (
    check_store_types,
    choose_versions,
    keystore,
    load_keystore,
    load_truststore,
    tls_suites,
    tls_versions,
    truststore,
)
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import read_properties_file

URL, USER_INFO, TOKEN = "schema.registry.url", "basic.auth.user.info", "bearer.auth.token"
_PREFIX = "schema.registry."
_SOURCES = {"basic.auth.credentials.source": ("URL", "USER_INFO"), "bearer.auth.credentials.source": ("STATIC_TOKEN",)}
_CHECKED_NAME = "ssl.endpoint.identification.algorithm"
_VISIBLE = re.compile(r"[\x21-\x7e]+\Z")


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """How a registry is reached."""

    url: str
    """Without user and password, and without a slash at the end."""
    authorization: str | None = field(default=None, repr=False)
    """The value of the header."""
    tls: ssl.SSLContext | None = field(default=None, repr=False, compare=False)


def registry_settings(word: str) -> RegistrySettings:
    """Return the settings of a URL or a properties file. `InvalidConfig`; OSError of the file."""
    if word.startswith(("http://", "https://")):
        return _parsed({URL: word})
    if "://" in word:
        raise InvalidConfig("a URL of a registry begins with http:// or https://")
    values = read_properties_file(word)
    if URL not in values:
        raise InvalidConfig(f"{URL} is missing", path=word)
    return _parsed({name if name == URL else name.removeprefix(_PREFIX): value for name, value in values.items()})


def has_login(url: str) -> bool:
    """Return whether a URL has a user or a password in it."""
    return "@" in url.partition("://")[2].partition("/")[0]


def _parsed(values: Mapping[str, str]) -> RegistrySettings:
    given = values[URL].strip()
    try:
        parts = urlsplit(given)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = SplitResult("", "", "", "", "")
    if parts.scheme not in ("http", "https") or not host or port == 0 or not given.isascii() or " " in given:
        raise InvalidConfig(f"{URL} is no URL; give one, such as https://registry.example.com:8081")
    if "," in given:
        raise InvalidConfig(f"{URL} has several URLs; give one")
    if parts.query or parts.fragment:
        raise InvalidConfig(f"{URL} has a query; give the URL without ? and #")
    url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    return RegistrySettings(url, _authorization(values, parts), _tls(values) if parts.scheme == "https" else None)


def _authorization(values: Mapping[str, str], parts: SplitResult) -> str | None:
    for name, supported in _SOURCES.items():
        if values.get(name, supported[0]) not in supported:
            raise InvalidConfig(f"{name} must be {' or '.join(supported)}")
    user = values.get(USER_INFO)
    if user is None and parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    token = values.get(TOKEN)
    if user is not None and token is not None:
        raise InvalidConfig(f"{USER_INFO} and {TOKEN} exclude each other; remove one of them")
    if token is not None:
        if not _VISIBLE.match(token):
            raise InvalidConfig(f"{TOKEN} is no token: it has spaces or other characters that a header has not")
        return f"Bearer {token}"
    if user is None:
        return None
    if ":" not in user:
        raise InvalidConfig(f"{USER_INFO} must be USER:PASSWORD")
    return "Basic " + base64.b64encode(user.encode()).decode()


def _tls(values: Mapping[str, str]) -> ssl.SSLContext:
    check_store_types(values)
    checked = values.get(_CHECKED_NAME, "https").strip().lower()
    if checked not in ("https", ""):
        raise InvalidConfig(f"{_CHECKED_NAME} must be https, or empty: then no name is checked")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(checked)
    choose_versions(context, tls_versions(values), tls_suites(values))
    trusted, own = truststore(values), keystore(values)
    if trusted is None:
        context.load_default_certs()
    else:
        load_truststore(context, trusted, "registry")
    if own is not None:
        load_keystore(context, *own, values.get(KEY_PASSWORD))
    return context
