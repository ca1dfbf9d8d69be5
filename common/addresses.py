"""Addresses and names of listeners: their text, and which of them other machines reach."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from typing import NamedTuple

PORT = 9092
PAGE_PORT = 9380
"""The default port of the page of logs."""
LOOPBACK = "127.0.0.1"
LOOPBACK_6 = "::1"
PLAINTEXT = "PLAINTEXT"
"""The default name and security protocol of a listener."""

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?\Z")

_NUMBER_ALONE = re.compile(r"([0-9]{1,5})[0-9A-Za-z-]*\Z")

_NAME = re.compile(r"\w[\w.-]*\Z")

Address = tuple[str, int]
"""Host and port; port 0 is any free one."""


class Endpoint(NamedTuple):
    """The name of a listener, which stands for a security protocol, and its address."""

    name: str
    address: Address


class AddressError(ValueError):
    """A text that is not an address, or an address that may not be used; the message has reason and remedy."""


def parse_address(text: str, default_port: int = PORT) -> Address:
    """Return the address in `HOST:PORT`, `[IPv6]:PORT` or `HOST`; AddressError."""
    match = _ADDRESS.match(text)
    port = int(match["port"] or default_port) if match else -1
    if number := _NUMBER_ALONE.match(text):  # otherwise the name of a host, whose listener needs authentication
        raise AddressError(f"{text!r} is not an address; write HOST:PORT, such as 127.0.0.1:{number[1]}")
    if match is None or not 0 <= port <= 65535:
        raise AddressError(f"{text!r} is not an address; write HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092")
    return match["six"] or match["host"] or LOOPBACK, port


def address_text(address: Address) -> str:
    """Return the text that `parse_address` takes."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_endpoint(text: str, default_port: int = PORT) -> Endpoint:
    """Return the listener in `HOST:PORT`, `PROTOCOL://HOST:PORT` or `NAME://HOST:PORT`; AddressError."""
    name, separator, address = text.rpartition("://")
    if separator and _NAME.match(name) is None:
        raise AddressError(f"{text!r} is not a listener; write HOST:PORT, or PROTOCOL://HOST:PORT, such as SSL://:9093")
    return Endpoint(name.upper() or PLAINTEXT, parse_address(address, default_port))


def endpoint_text(endpoint: Endpoint) -> str:
    """Return the text that `parse_endpoint` takes, without the name if it is PLAINTEXT."""
    address = address_text(endpoint.address)
    return address if endpoint.name == PLAINTEXT else f"{endpoint.name}://{address}"


def listeners_text(endpoints: Sequence[Endpoint]) -> str:
    """Return the value of Kafka's `listeners`."""
    return ",".join(f"{endpoint.name}://{address_text(endpoint.address)}" for endpoint in endpoints)


def loopback_addresses() -> list[str]:
    """Return the addresses that other machines do not reach: without IPv6, 127.0.0.1 alone."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind((LOOPBACK_6, 0))
    except OSError:
        return [LOOPBACK]
    return [LOOPBACK, LOOPBACK_6]


def check_loopback(addresses: Iterable[Address], permission: str) -> None:
    """Raise AddressError if other machines reach one of the addresses, at which metrics are served.

    `permission`: the option that permits it.
    """
    for host, _ in addresses:
        if not is_loopback(host):
            reason = "each client that reaches it could read the metrics: they have no authentication"
            raise AddressError(f"{host}: {reason}; listen on {LOOPBACK}, or add {permission}")


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
