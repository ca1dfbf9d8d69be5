"""Addresses of listeners: their text, and which of them other machines reach."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

PORT = 9092
LOOPBACK = "127.0.0.1"

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?\Z")

Address = tuple[str, int]
"""Host and port; port 0 is any free one."""


class AddressError(ValueError):
    """An address that is none, or that may not be used; the message says why, and what to write instead."""


def parse_address(text: str, default_port: int = PORT) -> Address:
    """Return the address in `HOST:PORT`, `[IPv6]:PORT` or `HOST`; AddressError."""
    match = _ADDRESS.match(text)
    port = int(match["port"] or default_port) if match else -1
    if match is None or not 0 <= port <= 65535:
        raise AddressError(f"{text!r} is not an address; write HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092")
    return match["six"] or match["host"] or LOOPBACK, port


def address_text(address: Address) -> str:
    """Return the text that `parse_address` takes."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_loopback(addresses: Iterable[Address], permission: str) -> None:
    """Raise AddressError if other machines reach one of the addresses. `permission`: the option that permits it."""
    for host, _ in addresses:
        if not _is_loopback(host):
            reason = "everyone who reaches it could read and write: there is no authentication"
            raise AddressError(f"{host}: {reason}; listen on {LOOPBACK}, or add {permission}")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
