"""Receives and sends the bytes of a connection of the Kafka protocol, over a plain socket or TLS. For both ends.

Calls do not block: they raise BlockingIOError when they have to wait for the peer, and the connection waits with
`wait_readable` or `wait_writable`.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import socket
import ssl

import trio

from offsetfs.common.threads import in_thread
from offsetfs.storage.files import File

_LARGE_RECORD_BYTES = 1 << 12
"""After a TLS record of this size, the next record has probably arrived. TLS encrypts at most 16 KiB at once."""

_READ_BYTES, _SENT_BYTES = 1 << 20, 1 << 18
"""The most bytes of one call: encryption takes some 0.1 ms for them, and other clients wait."""


class PlainTransport:
    """A socket as it is. The calls are its own: each request makes several of them."""

    waits_for_disk = True
    """Whether `send_file` waits for what the page cache lacks."""
    held_bytes = 0
    """Bytes of a file in memory while the client does not read: a file is sent without a copy."""

    def __init__(self, peer: socket.socket) -> None:
        self.socket = peer
        self.recv = peer.recv
        self.recv_into = peer.recv_into
        self.send = peer.send
        self.wait_readable = functools.partial(trio.lowlevel.wait_readable, peer)
        self.wait_writable = functools.partial(trio.lowlevel.wait_writable, peer)

    async def send_file(self, file: File, position: int, size: int, *, nowait: bool) -> int:
        """Send up to `size` bytes of `file`, which the page cache has; return how many, 0 at the end of the file."""
        return file.send(self.socket.fileno(), position, size)

    def close(self) -> None:
        self.socket.close()


class TlsTransport:
    """A socket with TLS, after the handshake: the end of a client."""

    def __init__(self, peer: ssl.SSLSocket) -> None:
        self.socket = peer
        self._waits_to_write = False  # a read that has to write first, for new keys

    def recv(self, size: int) -> bytes:
        """Return the records that have arrived, at most `size` bytes; b"" at the end of the connection."""
        data = self._read(size)
        if len(data) < _LARGE_RECORD_BYTES:
            return data
        parts, left = [data], size - len(data)
        while left and len(data) >= _LARGE_RECORD_BYTES:
            try:
                data = self._read(left)
            except BlockingIOError:
                break
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def recv_into(self, buffer: memoryview) -> int:
        """Fill `buffer` with the records that have arrived; return the count, 0 at the end of the connection."""
        end = min(len(buffer), _READ_BYTES)
        done = count = self._read_into(buffer[:end])
        while count and done < end:
            try:
                count = self._read_into(buffer[done:end])
            except BlockingIOError:
                break
            done += count
        return done

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send the first bytes of `data`; return how many. After BlockingIOError they must be given again."""
        try:
            return self.socket.send(memoryview(data)[:_SENT_BYTES])
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError) as error:
            raise BlockingIOError from error

    async def wait_readable(self) -> None:
        if self.socket.pending():
            await trio.lowlevel.checkpoint()
        elif self._waits_to_write:
            self._waits_to_write = False
            await trio.lowlevel.wait_writable(self.socket)
        else:
            await trio.lowlevel.wait_readable(self.socket)

    async def wait_writable(self) -> None:
        await trio.lowlevel.wait_writable(self.socket)

    def close(self) -> None:
        """Send the notice of the end, if the socket takes it, and close."""
        with contextlib.suppress(OSError, ValueError):
            self.socket.unwrap()  # raises SSLWantReadError: nothing waits for the client's notice
        self.socket.close()

    def _read(self, size: int) -> bytes:
        try:
            return self.socket.recv(size)
        except ssl.SSLWantReadError as error:
            raise BlockingIOError from error
        except ssl.SSLWantWriteError as error:
            self._waits_to_write = True
            raise BlockingIOError from error

    def _read_into(self, buffer: memoryview) -> int:
        try:
            return self.socket.recv_into(buffer)
        except ssl.SSLWantReadError as error:
            raise BlockingIOError from error
        except ssl.SSLWantWriteError as error:
            self._waits_to_write = True
            raise BlockingIOError from error


Transport = PlainTransport | TlsTransport


async def finish_handshake(tls: ssl.SSLSocket, limiter: trio.CapacityLimiter) -> None:
    """Do the handshake of TLS; ssl.SSLError, OSError."""
    while True:
        # In a thread: a signature with an RSA key of 4,096 bits takes 4 ms, and all other connections would wait.
        step = await in_thread(functools.partial(_step, tls), limiter=limiter)
        if step is _Step.DONE:
            return
        wait = trio.lowlevel.wait_readable if step is _Step.READ else trio.lowlevel.wait_writable
        await wait(tls)


class _Step(enum.Enum):
    DONE = enum.auto()
    READ = enum.auto()
    WRITE = enum.auto()


def _step(tls: ssl.SSLSocket) -> _Step:
    """Continue a handshake without waiting; return the event that it waits for."""
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return _Step.READ
    except ssl.SSLWantWriteError:
        return _Step.WRITE
    return _Step.DONE
