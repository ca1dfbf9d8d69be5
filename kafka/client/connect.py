"""Makes connections to brokers: to the first address of a host that answers, ready for requests."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial

import trio

from offsetfs.common.addresses import Address, address_text
from offsetfs.common.transports import PlainTransport, Transport
from offsetfs.kafka.client.connection import RESPONSE_BYTES_MAX, BrokerConnection
from offsetfs.kafka.client.errors import ClientError, Disconnected, NoBrokerAnswers
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.client.sasl import log_in
from offsetfs.kafka.client.sockets import AllFailed, ResolvedAddress, first_success, open_socket, os_error_text, resolve
from offsetfs.kafka.client.tls import handshake


async def connect(
    address: Address, properties: ClientProperties, *, response_bytes_max: int = RESPONSE_BYTES_MAX
) -> BrokerConnection:
    """Return a connection to a broker, ready for `run`; ClientError.

    All addresses of the host are tried. `response_bytes_max`: larger responses are refused.
    """
    try:
        with trio.fail_after(_setup_s(properties)):
            found = await resolve(address)
    except trio.TooSlowError:
        raise Disconnected(f"{address_text(address)}: the host name is not resolved {_within(properties)}") from None
    except OSError as error:
        raise Disconnected(f"{address_text(address)}: {os_error_text(error)}") from error
    attempts = [partial(_connected, address, each, properties, response_bytes_max) for each in found]
    try:
        return await first_success(attempts, BrokerConnection.close)
    except AllFailed as error:
        raise _decisive(error.causes) or _several(address, found, error.causes) from None


async def connect_any(
    addresses: Sequence[Address], properties: ClientProperties, *, response_bytes_max: int = RESPONSE_BYTES_MAX
) -> BrokerConnection:
    """Return a connection to one of several brokers, ready for `run`; NoBrokerAnswers.

    AuthenticationFailed and the like if a broker answers, and does not accept the client.
    """
    attempts = [partial(connect, each, properties, response_bytes_max=response_bytes_max) for each in addresses]
    try:
        return await first_success(attempts, BrokerConnection.close)
    except AllFailed as error:
        final = next((each for each in error.causes if not each.is_retriable), None)
        raise final or _no_answer(error) from None


def _no_answer(error: AllFailed) -> NoBrokerAnswers:
    text = f"no broker answers: {error}"
    has_remedy = len(error.causes) == 1 and ";" in text
    return NoBrokerAnswers(text if has_remedy else f"{text}; check the address, and that a broker runs there")


def _decisive(causes: Sequence[ClientError]) -> ClientError | None:
    """Return a cause that another attempt would not change, or the only one there is."""
    return next((each for each in causes if not each.is_retriable), causes[0] if len(causes) == 1 else None)


def _several(address: Address, resolved: Sequence[ResolvedAddress], causes: Sequence[ClientError]) -> ClientError:
    prefix = f"{address_text(address)}: "
    reasons = (f"{each} {str(cause).removeprefix(prefix)}" for each, cause in zip(resolved, causes, strict=True))
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
    found = BrokerConnection(await _transport(peer, address, properties), address, properties, response_bytes_max)
    try:
        await found.negotiate()
        if properties.sasl is not None:
            await found.log_in(partial(log_in, address_text(address), properties.sasl))
    except BaseException:
        found.close()
        raise
    return found


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
