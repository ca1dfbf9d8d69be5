"""The hosts of ACLs: one address, a range of addresses, or all. Follows CidrUtils of Kafka 4.4 (KIP-1276).

    *               every client
    10.0.0.7        one address; IPv6 may be written in any way
    10.0.0.0/8      the addresses with the same first bits; those behind them are not looked at
    2001:db8::/32   the same of IPv6; no IPv4 client is in it, as in Kafka

A name of a host means nothing to a broker: it compares addresses.
"""

from __future__ import annotations

import functools
import ipaddress
import re

from offsetfs.kafka.broker.operations import WILDCARD

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Host = str | Network
"""One address or `*` as text; a range of addresses."""

_IPV4_RANGE = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})\Z")
_IPV6_RANGE = re.compile(r"([0-9A-Fa-f:.]{2,45})/([0-9]{1,3})\Z")


def parse_host(text: str) -> Host | None:
    """Return what the host of an ACL means; None if it means nothing to a broker, such as a host name."""
    if text == WILDCARD:
        return text
    try:
        return _network(text) if "/" in text else _address_text(text)
    except ValueError:
        return None


def is_from(host: Host, client: str) -> bool:
    """Return whether a client, whose address has the form of `host_text`, is one of a host."""
    if isinstance(host, str):
        return host in (WILDCARD, client)
    try:
        return ipaddress.ip_address(client.partition("%")[0]) in host
    except ValueError:
        return False


@functools.lru_cache(maxsize=1024)
def host_text(host: str) -> str:
    """Return one text for each address: Java writes IPv6 in full, and IPv4 clients of IPv6 sockets as IPv4."""
    try:
        return _address_text(host)
    except ValueError:
        return host


def _address_text(text: str) -> str:
    found = ipaddress.ip_address(text)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def _network(text: str) -> Network:
    if found := _IPV4_RANGE.match(text):
        *octets, bits = map(int, found.groups())  # Kafka reads 010 as ten, where Python refuses it
        return ipaddress.IPv4Network((bytes(octets), bits), strict=False)
    found = _IPV6_RANGE.match(text)
    if found is None:
        raise ValueError(text)
    address = ipaddress.IPv6Address(found[1])
    if address.ipv4_mapped is not None:
        raise ValueError(text)  # Java has IPv4 addresses for them
    return ipaddress.IPv6Network((address, int(found[2])), strict=False)
