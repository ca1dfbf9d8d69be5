"""The errors of a client of a cluster. Each message names the broker and the cause, and the remedy if there is one."""

from __future__ import annotations

import os
import socket

from offsetfs.kafka.protocol.error_codes import ErrorCode


class ClientError(Exception):
    """A request to a cluster failed."""

    is_retriable: bool = False
    """Whether the same request may succeed later, perhaps at another broker."""


class NoBrokerAnswers(ClientError):
    """No connection to any of the brokers can be made. The message has the cause for each of them."""

    is_retriable = True


class Disconnected(ClientError):
    """The connection ended before the response, or cannot be made. The broker may have executed the request."""

    is_retriable = True


class RequestTimedOut(ClientError):
    """There was no response in time. The broker may have executed the request."""

    is_retriable = True


class AuthenticationFailed(ClientError):
    """The broker does not accept user and password, token, or mechanism. Cure: correct client.properties."""


class TlsFailed(ClientError):
    """Client and broker do not agree on TLS. Cure: the message names the setting."""


class UnsupportedByBroker(ClientError):
    """The broker has no version of a request that can carry its fields. Cure: a newer broker."""


class InvalidResponse(ClientError):
    """The peer sent bytes that are not a response of Kafka, or is no Kafka broker."""


class ResponseTooLarge(InvalidResponse):
    """A response has more bytes than are received, or the peer is no Kafka broker."""


class KafkaError(ClientError):
    """An error code in a response."""

    def __init__(self, code: int, message: str | None = None) -> None:
        """`message`: that of the response, or what the request was for."""
        self.code = code
        self.name = error_name(code)
        self.message = message
        self.is_retriable = code in _CODES and ErrorCode(code).is_retriable
        super().__init__(f"{self.name}: {message}" if message else self.name)


_CODES = frozenset(int(code) for code in ErrorCode)


def error_name(code: int) -> str:
    """Return Kafka's name of an error code; a text with the number for a code of a later version."""
    return ErrorCode(code).name if code in _CODES else f"error code {code}"


def check_code(code: int, message: str | None = None) -> None:
    """Raise KafkaError unless `code` is 0."""
    if code:
        raise KafkaError(code, message)


def is_authorization_error(error: ClientError) -> bool:
    """Whether the user lacks a permission for a group, a topic or the cluster."""
    return isinstance(error, KafkaError) and error.name.endswith("_AUTHORIZATION_FAILED")


def os_error_text(error: OSError) -> str:
    """Return the cause of an error of the system, such as `Connection refused`."""
    if isinstance(error, socket.gaierror):
        return f"the host name cannot be resolved: {error.strerror}"
    return os.strerror(error.errno) if error.errno else str(error)
