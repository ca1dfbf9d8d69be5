"""A request that is being authorized: its client's permissions, and the responses for what is denied."""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.connections.api import Answer, Api, Client
from offsetfs.kafka.broker.connections.codecs import elements_of
from offsetfs.kafka.broker.connections.connection import ProtocolError
from offsetfs.kafka.broker.connections.response_queue import DelayedResponse
from offsetfs.kafka.broker.errors import failure_response
from offsetfs.kafka.broker.operations import CLUSTER_NAME, SUPPORTED, Operation, Resource, bits
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol import messages
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage.settings import printable

if TYPE_CHECKING:
    from offsetfs.kafka.broker.authorization.authorizer import Authorizer, Identity

T = TypeVar("T")

INLINE_FAILURES_MAX = 200
"""Responses with more errors are made in a thread: an error takes some microseconds."""

_log = logging.getLogger(__name__)

DENIED: Mapping[Resource, ErrorCode] = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a denied operation, by the type of the resource."""

MESSAGES: Mapping[ErrorCode, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""Kafka's texts."""


@dataclass(slots=True)
class Call:
    """A request and its client. The handler of `api` answers what is allowed."""

    api: Api
    request: Any
    version: int
    client: Client
    identity: Identity
    authorizer: Authorizer
    topics: Topics

    def allows(self, operation: Operation, kind: Resource, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client may do an operation on a resource."""
        return self.authorizer.allows(self.identity.principal, self.identity.host, operation, kind, name)

    def allows_topic(self, operation: Operation, name: str) -> bool:
        """Return whether the client may do an operation on a topic. One whose id is not known is not named at all."""
        is_unknown = not name and self.version >= self.api.ids_since
        return is_unknown or self.allows(operation, Resource.TOPIC, name)

    def allows_on_any(self, operation: Operation, kind: Resource) -> bool:
        """Return whether the client may do an operation on at least one resource of a type."""
        return self.authorizer.allows_on_any(self.identity.principal, self.identity.host, operation, kind)

    def operations(self, kind: Resource, name: str = CLUSTER_NAME) -> int:
        """Return all that the client may do with a resource, a bit for each operation."""
        return bits(operation for operation in SUPPORTED[kind] if self.allows(operation, kind, name))

    def changed(self, **fields: Any) -> Any:
        """Return a copy of the request with other values of some fields."""
        request = copy.copy(self.request)
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    async def answer(self, request: Any = None) -> Any:
        """Return the handler's response to the request, or to the allowed part of it."""
        return await self.api.handle(self.request if request is None else request, self.version, self.client)

    async def failed(self, code: ErrorCode, request: Any = None) -> Any:
        """Return a response that has an error for all of the request, or of the denied part of it."""
        asked = self.request if request is None else request
        name, principal = self.api.name, printable(self.identity.principal)
        _log.debug("%s of %s from %s: %s", name, principal, self.identity.host, code.name)
        work = partial(failure_response, asked, self.version, code, MESSAGES.get(code))
        response = work() if elements_of(asked) <= INLINE_FAILURES_MAX else await in_thread(work)
        if response is None:
            raise ProtocolError(f"acks=0, and an error: {code.name}")
        return response

    async def divided(self, elements: Iterable[T], is_allowed: Callable[[T], bool]) -> tuple[list[T], list[T]]:
        """Return the elements that are allowed, and the others."""
        allowed, denied, slices = list[T](), list[T](), Slices()
        for element in elements:
            await slices.step()
            (allowed if is_allowed(element) else denied).append(element)
        return allowed, denied

    async def answer_part(self, asked: str, answered: str, is_allowed: Callable[[Any], bool], code: ErrorCode) -> Any:
        """Answer the allowed elements of the array `asked`; the others get an error in the array `answered`."""
        allowed, denied = await self.divided(getattr(self.request, asked), is_allowed)
        if not denied:
            return await self.answer()
        # An empty array means everything in some requests.
        response = await self.answer(self.changed(**{asked: allowed})) if allowed else None
        # Only now: it ends the connection of a producer that expects no answer, whose other records are appended.
        errors = getattr(await self.failed(code, self.changed(**{asked: denied})), answered)
        if response is None:
            return getattr(messages, f"{self.api.name}Response")(**{answered: errors})

        def merged(response: Any) -> Any:
            getattr(response, answered).extend(errors)
            return response

        if isinstance(response, DelayedResponse):
            wait = response.wait

            async def wait_and_merge() -> Any:
                return merged(await wait())

            return DelayedResponse(wait_and_merge, response.freed_bytes)
        return merged(response)


Rule = Callable[[Call], Awaitable[Answer]]
"""Passes what is allowed to the handler of the API, and adds errors for the rest. Handlers know no permissions."""
