"""An API that the broker answers, as a connection knows it, and the client of a request with its principal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Never

import trio

from offsetfs.kafka.broker.connections.codecs import Codecs
from offsetfs.kafka.broker.connections.response_queue import DelayedResponse
from offsetfs.kafka.broker.metrics import ApiCounts
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.storage.settings import printable

UntilClosed = Callable[[], AbstractContextManager[trio.CancelScope]]
"""Returns a context that is cancelled when the client leaves, and a moment after the broker begins to end."""

NO_VERSION = 1 << 15
"""Versions have 16 bits."""


USER = "User"
"""The type of all principals of clients."""


@dataclass(frozen=True, slots=True, repr=False)
class Principal:
    """A client, as ACLs name it: a type and a name, written `User:alice`. Kafka: KafkaPrincipal."""

    name: str
    type: str = USER

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    def __repr__(self) -> str:
        """Return the text for a log: clients choose names, also with control characters."""
        return printable(str(self))


ANONYMOUS = Principal("ANONYMOUS")
"""A client of a listener without authentication."""


@dataclass(frozen=True, slots=True)
class Client:
    """The sender of a request, as group members are described."""

    client_id: str
    host: str
    port: int
    principal: Principal = ANONYMOUS
    until_closed: UntilClosed = field(default=trio.CancelScope, compare=False, repr=False)
    """The scope that the end of the connection cancels, for a handler that waits only sometimes."""


Answer = ProtocolMessage | DelayedResponse | None
"""The result of a handler: the response, at once or later; None sends none."""


@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """An API that the broker answers, in versions `first` to `last`."""

    key: int
    name: str
    first: int
    last: int
    request: Callable[[], type[ProtocolMessage]]
    """Returns the class of the requests, whose module is not loaded before."""
    rule: Callable[[Never], Awaitable[Answer]]
    """The `Rule` of `authorization`, which is above and calls it."""
    handle: Callable[[ProtocolMessage, int, Client], Awaitable[Answer]]
    """Answers a request of the class `request()`, of a version and a client."""
    counts: ApiCounts = field(default_factory=ApiCounts)
    overlaps: bool = False
    """Requests are handled while responses to earlier ones wait: their order is that of their appends."""
    has_records: bool = False
    """Most of a request are records, which are not decoded."""
    writes_log: bool = False
    """A large request waits for the disk for most of its time, and does not count for `LARGE_MAX`."""
    may_wait: bool = False
    """A request may wait for other clients; it is cancelled when its client leaves."""
    waits_itself: bool = False
    """The handler waits in `Client.until_closed` if there is nothing to send, and returns None if the client left."""
    has_ranges: bool = False
    """A response may have ranges of files."""
    offers_versions: bool = False
    """An unknown version is answered in version 0. Clients read responses before they know the versions (KIP-511)."""
    ids_since: int = NO_VERSION
    """From this version on, requests have the ids of topics and not their names, which handlers and rules get."""
    _codecs: dict[int, Codecs] = field(default_factory=dict, init=False, repr=False)

    def codecs(self, version: int) -> Codecs:
        """Return the codecs of a version."""
        codecs = self._codecs.get(version)
        if codecs is None:
            codecs = self._codecs[version] = Codecs.of(
                self.request().__name__,
                version,
                has_plain_header=self.offers_versions,
                has_records=self.has_records,
                has_ranges=self.has_ranges,
            )
        return codecs


Dispatch = Callable[[Api, ProtocolMessage, int, Client], Awaitable[Answer]]
"""Brings a request to the handler of its API, after names for ids and the rule."""
