"""Who a client is: the principal that ACLs name, as Kafka's KafkaPrincipal."""

from __future__ import annotations

from dataclasses import dataclass

from offsetfs.storage.settings import printable

USER = "User"
"""The type of all principals of clients."""


@dataclass(frozen=True, slots=True, repr=False)
class Principal:
    """A type and a name; written `User:alice`."""

    name: str
    type: str = USER

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    def __repr__(self) -> str:
        """Return the text for a log: clients choose names, also with control characters."""
        return printable(str(self))


ANONYMOUS = Principal("ANONYMOUS")
"""A client of a listener without authentication."""
