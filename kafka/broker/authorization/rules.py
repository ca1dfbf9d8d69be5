"""Applies the rules of the APIs: what their requests need, and what is answered where that is denied.

A rule gets a `Call`. It passes what is allowed to the handler of the API, and adds errors for the rest, so that
handlers know nothing of permissions. Without an authorizer no rule is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from offsetfs.kafka.broker.authorization.authorizer import Authorizer, identity_of
from offsetfs.kafka.broker.authorization.call import Call
from offsetfs.kafka.broker.connections.api import Answer, Api, Client
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol.message import ProtocolMessage

Rule = Callable[[Call], Awaitable[Answer]]


class Guard:
    """Applies the rule of each API, so that handlers get only what the client may do."""

    def __init__(self, authorizer: Authorizer, topics: Topics) -> None:
        self._authorizer = authorizer
        self._topics = topics

    def answer(self, api: Api, request: ProtocolMessage, version: int, client: Client) -> Awaitable[Answer]:
        """Return the response of the handler to what is allowed, with errors for the rest."""
        call = Call(api, request, version, client, identity_of(client), self._authorizer, self._topics)
        return api.rule(call)
