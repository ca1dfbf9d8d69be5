"""An API that the broker answers, as a connection knows it, and the client of a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import trio

from offsetfs.kafka.broker.connections.codecs import Codecs
from offsetfs.kafka.broker.connections.response_queue import DelayedResponse
from offsetfs.kafka.broker.metrics import ApiCounts
from offsetfs.kafka.broker.principal import ANONYMOUS, Principal
from offsetfs.kafka.protocol.message import ProtocolMessage

UntilClosed = Callable[[], AbstractContextManager[trio.CancelScope]]
"""Returns a context that is cancelled when the client leaves, and a moment after the broker begins to end."""

NO_VERSION = 1 << 15
"""Versions have 16 bits."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who sent a request, as group members are described."""

    client_id: str
    host: str
    port: int
    principal: Principal = ANONYMOUS
    until_closed: UntilClosed = field(default=trio.CancelScope, compare=False, repr=False)
    """The scope that the end of the connection cancels, for a handler that waits only sometimes."""


Answer = ProtocolMessage | DelayedResponse | None
"""What a handler returns: the response, at once or later; None sends none."""


@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """An API that the broker answers, in versions `first` to `last`."""

    key: int
    name: str
    first: int
    last: int
    request: Callable[[], type[ProtocolMessage]]
    """Returns the class of the requests, whose module is not loaded before."""
    rule: Callable[[Any], Awaitable[Answer]]
    """What a client needs: the `Rule` of `authorization`, which is above."""
    handle: Callable[..., Awaitable[Answer]]
    """Takes a request, its version, and with `takes_client` its client. The functions of `apis` check the types."""
    counts: ApiCounts = field(default_factory=ApiCounts)
    takes_client: bool = False
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

    def answer(self, request: Any, version: int, client: Client) -> Awaitable[Answer]:
        """Let the handler answer a request."""
        return self.handle(request, version, client) if self.takes_client else self.handle(request, version)

    def codecs(self, version: int) -> Codecs:
        """Return what reads and writes a version."""
        found = self._codecs.get(version)
        if found is None:
            found = self._codecs[version] = Codecs.of(
                self.request().__name__,
                version,
                has_plain_header=self.offers_versions,
                has_records=self.has_records,
                has_ranges=self.has_ranges,
            )
        return found


Dispatch = Callable[[Api, Any, int, Client], Awaitable[Answer]]
"""Brings a request to the handler of its API, past what stands before it."""
