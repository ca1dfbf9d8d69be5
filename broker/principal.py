"""Who a client is: the principal that ACLs name, as Kafka's KafkaPrincipal."""

from __future__ import annotations

from dataclasses import dataclass

USER = "User"
"""The type of all principals of clients."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A type and a name; written `User:alice`."""

    name: str
    type: str = USER

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("ANONYMOUS")
"""A client of a listener without authentication."""
