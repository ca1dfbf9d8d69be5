"""Makes connections to brokers: to the first address of a host that answers, ready for requests."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

import trio

from offsetfs.common.addresses import Address, address_text
from offsetfs.common.transports import PlainTransport, Transport
from offsetfs.kafka.client.connection import RESPONSE_BYTES_MAX, BrokerConnection
from offsetfs.kafka.client.errors import ClientError, Disconnected, NoBrokerAnswers, os_error_text
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.client.sasl import log_in
from offsetfs.kafka.client.tls import handshake

PAUSE_S = 0.25
"""The time of an attempt before the next attempt begins in parallel (RFC 8305: Connection Attempt Delay)."""

T = TypeVar("T")


async def connect(
    address: Address, properties: ClientProperties, *, response_bytes_max: int = RESPONSE_BYTES_MAX
) -> BrokerConnection:
    """Return a connection to a broker, ready for `run`; ClientError.

    All addresses of the host are tried. `response_bytes_max`: larger responses are refused.
    """
    try:
        with trio.fail_after(_setup_s(properties)):
            addresses = await resolve(address)
    except trio.TooSlowError:
        raise Disconnected(f"{address_text(address)}: the host name is not resolved {_within(properties)}") from None
    except OSError as error:
        raise Disconnected(f"{address_text(address)}: {os_error_text(error)}") from error
    attempts = [partial(_connected, address, resolved, properties, response_bytes_max) for resolved in addresses]
    try:
        return await first_success(attempts, BrokerConnection.close)
    except AllFailed as error:
        raise _decisive(error.causes) or _several(address, addresses, error.causes) from None


async def connect_any(
    addresses: Sequence[Address], properties: ClientProperties, *, response_bytes_max: int = RESPONSE_BYTES_MAX
) -> BrokerConnection:
    """Return a connection to one of several brokers, ready for `run`; NoBrokerAnswers.

    AuthenticationFailed and the like if a broker answers, and does not accept the client.
    """
    attempts = [partial(connect, address, properties, response_bytes_max=response_bytes_max) for address in addresses]
    try:
        return await first_success(attempts, BrokerConnection.close)
    except AllFailed as error:
        final = next((cause for cause in error.causes if not cause.is_retriable), None)
        raise final or _no_answer(error) from None


def _no_answer(error: AllFailed) -> NoBrokerAnswers:
    text = f"no broker answers: {error}"
    has_remedy = len(error.causes) == 1 and ";" in text
    return NoBrokerAnswers(text if has_remedy else f"{text}; check the address, and that a broker runs there")


def _decisive(causes: Sequence[ClientError]) -> ClientError | None:
    """Return a cause that another attempt would not change, or the only one there is."""
    return next((cause for cause in causes if not cause.is_retriable), causes[0] if len(causes) == 1 else None)


def _several(address: Address, resolved: Sequence[ResolvedAddress], causes: Sequence[ClientError]) -> ClientError:
    prefix = f"{address_text(address)}: "
    reasons = (f"{place} {str(cause).removeprefix(prefix)}" for place, cause in zip(resolved, causes, strict=True))
    return Disconnected(prefix + ", ".join(reasons))


async def _connected(
    address: Address, resolved: ResolvedAddress, properties: ClientProperties, response_bytes_max: int
) -> BrokerConnection:
    try:
        with trio.fail_after(_setup_s(properties)):
            peer = await open_socket(resolved)
    except trio.TooSlowError:
        raise Disconnected(f"{address_text(address)}: no connection {_within(properties)}") from None
    except OSError as error:
        raise Disconnected(f"{address_text(address)}: {os_error_text(error)}") from error
    connection = BrokerConnection(await _transport(peer, address, properties), address, properties, response_bytes_max)
    try:
        await connection.negotiate()
        if properties.sasl is not None:
            await connection.log_in(partial(log_in, address_text(address), properties.sasl))
    except BaseException:
        connection.close()
        raise
    return connection


async def _transport(peer: socket.socket, address: Address, properties: ClientProperties) -> Transport:
    if properties.tls is None:
        return PlainTransport(peer)
    try:
        with trio.fail_after(_setup_s(properties)):
            return await handshake(peer, address, properties.tls)
    except trio.TooSlowError:
        raise Disconnected(f"{address_text(address)}: no handshake of TLS {_within(properties)}") from None


def _setup_s(properties: ClientProperties) -> float:
    return properties.socket_connection_setup_timeout_ms / 1000


def _within(properties: ClientProperties) -> str:
    return f"within {properties.socket_connection_setup_timeout_ms} ms (socket.connection.setup.timeout.ms)"


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """One of the addresses of a host name."""

    family: int
    address: tuple[str | int | bytes, ...]

    def __str__(self) -> str:
        return str(self.address[0])


async def resolve(address: Address) -> list[ResolvedAddress]:
    """Return all addresses of a host, in the order of the system; OSError."""
    entries = await trio.socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    return list(
        dict.fromkeys(ResolvedAddress(family, (*socket_address,)) for family, _, _, _, socket_address in entries)
    )


async def open_socket(resolved: ResolvedAddress) -> socket.socket:
    """Return a connected socket, which does not block; OSError."""
    opening = trio.socket.socket(resolved.family, socket.SOCK_STREAM)
    try:
        opening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        opening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, True)
        await opening.connect(resolved.address)
        peer = socket.socket(fileno=opening.detach())
    except BaseException:
        opening.close()
        raise
    peer.setblocking(False)
    return peer


class AllFailed(Exception):
    """None of several attempts has succeeded."""

    def __init__(self, causes: Sequence[ClientError]) -> None:
        super().__init__("; ".join(map(str, causes)))
        self.causes = causes


async def first_success(attempts: Sequence[Callable[[], Awaitable[T]]], discard: Callable[[T], None]) -> T:
    """Return the result of the first attempt that succeeds; AllFailed.

    Each begins `PAUSE_S` after the one before it, or as soon as that has failed. `discard`: closes a further result.
    """
    return await _Race(attempts, discard).run()


@dataclass(slots=True)
class _Race(Generic[T]):
    attempts: Sequence[Callable[[], Awaitable[T]]]
    discard: Callable[[T], None]
    results: list[T] = field(default_factory=list)
    causes: dict[int, ClientError] = field(default_factory=dict)

    async def run(self) -> T:
        try:
            async with trio.open_nursery() as nursery:
                for number in range(len(self.attempts)):
                    ended = trio.Event()
                    nursery.start_soon(partial(self._attempt, number, ended, nursery.cancel_scope))
                    with trio.move_on_after(PAUSE_S):
                        await ended.wait()
        except BaseException:
            for result in self.results:
                self.discard(result)
            raise
        if self.results:
            return self.results[0]
        raise AllFailed([self.causes[number] for number in sorted(self.causes)])

    async def _attempt(self, number: int, ended: trio.Event, scope: trio.CancelScope) -> None:
        try:
            result = await self.attempts[number]()
        except ClientError as error:
            self.causes[number] = error
        else:
            if self.results:
                self.discard(result)
            else:
                self.results.append(result)
                scope.cancel()
        finally:
            ended.set()
