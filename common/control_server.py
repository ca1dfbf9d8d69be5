"""Carries out commands of the same user in the process that serves a log directory, over a socket in the file system.

    request     {"action": "create", "partitions": ["orders-0"], "properties": {"retention.ms": "-1"}}
    response    {"done": null}    or    {"failure": "the partition exists already", "path": …}

One connection is one request and one response, each a line of JSON. The socket lies in a directory of that user alone.
After a response the change is on disk.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import trio

from offsetfs.common.security_rows import SECURITY_ROWS, Row
from offsetfs.common.threads import in_thread
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.errors import StorageError, sentence
from offsetfs.storage.security import security_record_of

_log = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 16 << 20
REQUEST_S = 10.0
"""The time that a client may take to send its request."""


class ControlServer:
    """Answers requests for one open log directory at the socket `path`."""

    def __init__(self, directory: LogDirectory, path: str) -> None:
        """Listen; OSError. Requests wait until `run`."""
        self._directory = directory
        self._path = path
        self._listener = _listening(path)
        self._actions: Mapping[str, Callable[[Mapping[str, Any]], Callable[[], object]]] = {
            "create": self._create,
            "delete": self._delete,
            "bounds": self._bounds,
            "delete_records": self._delete_records,
            "acls": self._security_rows,
            "credentials": self._security_rows,
            "change_security": self._change_security,
        }

    async def run(self) -> None:
        """Answer requests until cancelled."""
        listener = trio.socket.from_stdlib_socket(self._listener)
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    peer, _ = await listener.accept()
                except OSError as error:
                    _log.error("a command could not be accepted: %s", error)
                    await trio.sleep(0.1)  # at the limit of open files every accept fails at once
                    continue
                nursery.start_soon(self._serve, trio.SocketStream(peer))

    def close(self) -> None:
        """Remove the socket, after `run` or without it."""
        self._listener.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    async def _serve(self, stream: trio.SocketStream) -> None:
        try:
            async with stream:
                request = await _line(stream)
                if request is not None:
                    with trio.CancelScope(shield=True):  # a command that has begun is answered
                        answer = await self._answer(request)
                        with trio.move_on_after(REQUEST_S):
                            await stream.send_all(json.dumps(answer).encode() + b"\n")
        except (trio.BrokenResourceError, OSError) as error:
            _log.debug("a command was interrupted: %s", error)

    async def _answer(self, request: bytes) -> dict[str, object]:
        try:
            wanted = json.loads(request)
            work = self._actions[wanted["action"]](wanted)
        except StorageError as error:
            return {"failure": sentence(error)}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return {"failure": f"this process does not know the request: {error!r}"}
        try:
            return {"done": await in_thread(work)}
        except (StorageError, OSError) as error:
            return {"failure": sentence(error)}
        except Exception as error:
            _log.exception("a command failed")
            return {"failure": f"internal error: {error!r}"}

    # --- actions: each takes a request apart, and returns the work for it ---------------------------------------------

    def _create(self, request: Mapping[str, Any]) -> Callable[[], None]:
        return partial(self._directory.create_partitions, _partitions(request), _properties(request))

    def _delete(self, request: Mapping[str, Any]) -> Callable[[], None]:
        partitions = _partitions(request)

        def delete() -> None:
            for partition in partitions:
                self._directory.delete_partition(partition)

        return delete

    def _bounds(self, request: Mapping[str, Any]) -> Callable[[], list[tuple[int, int]]]:
        partitions = _partitions(request)

        def bounds() -> list[tuple[int, int]]:
            logs = [self._directory.log(partition) for partition in partitions]
            return [(log.log_start_offset, log.next_offset) for log in logs]

        return bounds

    def _delete_records(self, request: Mapping[str, Any]) -> Callable[[], int]:
        (partition,) = _partitions(request)
        offset = int(request["offset"])
        return lambda: self._directory.log(partition).delete_records(offset)

    def _security_rows(self, request: Mapping[str, Any]) -> Callable[[], list[Row]]:
        rows = SECURITY_ROWS[request["action"]]
        return lambda: rows(self._directory.security.image)

    def _change_security(self, request: Mapping[str, Any]) -> Callable[[], None]:
        records = [security_record_of(base64.b64decode(text, validate=True)) for text in request["records"]]

        def change() -> None:
            self._directory.security.change(records)

        return change


def _partitions(request: Mapping[str, Any]) -> list[TopicPartition]:
    return [TopicPartition.parse(name) for name in request["partitions"]]


def _properties(request: Mapping[str, Any]) -> dict[str, str]:
    properties = dict(request["properties"])
    if not all(isinstance(value, str) for value in properties.values()):
        raise TypeError("a setting whose value is not text")
    return properties


def _listening(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):  # of a process with this pid that was killed
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


async def _line(stream: trio.SocketStream) -> bytes | None:
    """Return the line that a client sends; None if it does not send one in time, or too long a one."""
    data = bytearray()
    with trio.move_on_after(REQUEST_S):
        while len(data) <= REQUEST_BYTES_MAX:
            more = await stream.receive_some()
            if not more:
                return None
            data += more
            if data.endswith(b"\n"):
                return bytes(data)
    return None
