"""A client of a schema registry: one request at a time, bounded in time and bytes, without redirects.

An answer counts only if it is whole: it has a length or is chunked, and ended before the time limit. After a failure,
the registry is left alone for a while, so that many unknown names do not take the time limit each.
"""

from __future__ import annotations

import contextlib
import http
import http.client
import json
import socket
import ssl
import threading
import time
from urllib.parse import urlsplit

from offsetfs.schemas.registry_json import RegistryError
from offsetfs.schemas.registry_settings import RegistrySettings

TIME_LIMIT_S = 10.0
"""Of a request, its connection included."""

ANSWER_BYTES_MAX = 16 << 20

RETRY_S = 60.0
"""The time after a failure without requests."""

UNKNOWN_MAX = 1000
"""Names that the registry does not know, after which it is asked for no more: bytes may look like many ids."""

_REASON_MAX = 200
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class RegistryClient:
    """Asks one registry. Thread-safe: requests wait for each other."""

    def __init__(self, settings: RegistrySettings) -> None:
        self.url = settings.url
        self._settings = settings
        self._lock = threading.Lock()
        self._failure = ""
        self._retry_at = 0.0
        self._unknown: set[str] = set()

    def get(self, path: str, *, counts_unknown: bool = True) -> bytes | None:
        """Return the body of an answer; None if the registry does not have it. `RegistryError`."""
        with self._lock:
            if self._failure and time.monotonic() < self._retry_at:
                raise RegistryError(self._failure)
            if counts_unknown and path not in self._unknown and len(self._unknown) >= UNKNOWN_MAX:
                raise self._error(f"was asked for {UNKNOWN_MAX} schemas that it does not have, and is asked no more")
            try:
                answer = self._request(path)
            except RegistryError as error:
                self._leave(error)
                raise
            if counts_unknown:
                (self._unknown.add if answer is None else self._unknown.discard)(path)
            return answer

    def refuse(self, reason: str) -> RegistryError:
        """Return the error for an answer that no registry gives, and leave the registry alone."""
        error = self._error(reason)
        with self._lock:
            self._leave(error)
        return error

    def _leave(self, error: RegistryError) -> None:
        self._failure, self._retry_at = str(error), time.monotonic() + RETRY_S

    def _request(self, path: str) -> bytes | None:
        try:
            with _Limit(TIME_LIMIT_S) as limit:
                status, body = self._answer(path, limit)
        except TimeoutError as error:
            raise self._error(f"does not answer within {TIME_LIMIT_S:g} s") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._error(_sentence(error)) from error
        return self._checked(status, body)

    def _answer(self, path: str, limit: _Limit) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        host, tls = parts.hostname or "", self._settings.tls
        connection = http.client.HTTPConnection(host, parts.port or (80 if tls is None else 443))
        headers = {"Accept": _ACCEPT, "Accept-Encoding": "identity"}
        if self._settings.authorization is not None:
            headers["Authorization"] = self._settings.authorization
        with contextlib.closing(connection):
            connection.sock = limit.connect(host, connection.port, tls)
            connection.request("GET", parts.path + path, headers=headers)
            with connection.getresponse() as answer:
                return answer.status, _body(answer)

    def _checked(self, status: int, body: bytes) -> bytes | None:
        if status == http.HTTPStatus.OK:
            return body
        if status == http.HTTPStatus.NOT_FOUND:
            if _error_code(body) // 100 == http.HTTPStatus.NOT_FOUND:
                return None
            raise self._error("answers 404, and is no schema registry; check the URL")
        if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            raise self._error(f"answers {status}; check basic.auth.user.info or bearer.auth.token")
        if 300 <= status < 400:
            raise self._error(f"answers {status}; redirects are not followed, give the final URL")
        raise self._error(f"answers {status}")

    def _error(self, reason: str) -> RegistryError:
        return RegistryError(f"the registry {self.url} {reason}")


class _Limit:
    """The time limit of a request: what waits for the socket ends with `TimeoutError`; whole answers alone count."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._sock: socket.socket | None = None
        self._watch = threading.Timer(seconds, self._cut)
        self._watch.daemon = True
        self._is_over = False

    def __enter__(self) -> _Limit:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.cancel()
        if self._is_over:  # whatever the other end of the socket looked like
            raise TimeoutError

    def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> socket.socket:
        """Return a connection. OSError."""
        failure: OSError | None = None
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(self._left())
                sock.connect(address)
                sock.settimeout(self._left())
                self._sock = sock if tls is None else tls.wrap_socket(sock, server_hostname=host)
                return self._sock
            except OSError as error:
                sock.close()
                failure = error
        raise failure or OSError(f"{host} has no address")

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _cut(self) -> None:
        self._is_over = True
        if self._sock is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)  # that of TLS would go on in plain text


def _body(answer: http.client.HTTPResponse) -> bytes:
    """Return the body of an answer that is whole. ValueError, HTTPException."""
    if answer.length is None and not answer.chunked:
        raise ValueError("its answer has no length, so that it may be cut")
    if answer.length is not None and answer.length > ANSWER_BYTES_MAX:
        raise ValueError(f"its answer has more than {ANSWER_BYTES_MAX >> 20} MiB")
    body = answer.read(ANSWER_BYTES_MAX + 1)
    if len(body) > ANSWER_BYTES_MAX:
        raise ValueError(f"its answer has more than {ANSWER_BYTES_MAX >> 20} MiB")
    if answer.length:
        raise ValueError("its answer was cut")
    return body


def _sentence(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"is not trusted: {error.verify_message.rstrip('.')}; see ssl.truststore.location"
    if isinstance(error, ssl.SSLError):
        return f"cannot be reached with TLS: {(error.reason or 'failed').replace('_', ' ').lower()}"
    if isinstance(error, http.client.IncompleteRead):
        return "cannot be used: its answer was cut"
    if isinstance(error, http.client.HTTPException):
        return f"does not answer in HTTP ({type(error).__name__})"
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    is_answered = isinstance(error, ValueError)
    return f"cannot be {'used' if is_answered else 'reached'}: {reason[:_REASON_MAX]}"


def _error_code(body: bytes) -> int:
    """Return the number that a registry gives to an error: 40403 for a schema that it does not have."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return 0
    code = found.get("error_code") if isinstance(found, dict) else None
    return code if isinstance(code, int) else 0
