"""TLS of a connection of the broker: the handshake, the reasons for which it fails, receiving and sending.

The calls are those of `offsetfs.common.transports`. OpenSSL works on memory beside the socket (`ssl.MemoryBIO`): one
system call receives or sends many records. On the socket itself it makes two calls to receive a record, and those of
producers often have a few KiB. OpenSSL never makes that memory smaller, so it is filled in slices: a connection keeps
some 100 KiB at most.
"""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import cast

import trio

from offsetfs.common.security.x509 import parse_certificate
from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.tls.tls_context import TlsBuffers, TlsContext
from offsetfs.storage.files import File

_HELLO_BYTES = 1 << 14
"""The most bytes of a handshake that are received at once."""

_SLICE_BYTES = 1 << 15
"""Bytes that OpenSSL gets at once, in either direction."""

_RECORD_BYTES = (1 << 14) + (1 << 9)
"""A record of TLS 1.3 has fewer bytes. With as many in its memory, OpenSSL rarely reports an incomplete record: that is
an exception, which costs as much as a few records."""

_OVERHEAD_BYTES = 1 << 12
"""Bytes that are received beyond the free space, because records are longer than what is in them."""

_UNINTERRUPTED_BYTES_MAX = 1 << 20
"""After as many bytes of files, others have their turn: the socket may take each block at once. A pass of the event
loop costs as much as the encryption of 100 KiB."""

_REPLIES_BYTES_MAX = 1 << 14
"""Bytes of OpenSSL's own that a client may leave unread, such as refusals of a renegotiation."""


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class ServerTlsTransport:
    """The broker's end of a connection with TLS."""

    waits_for_disk = False

    def __init__(self, peer: socket.socket, context: TlsContext) -> None:
        self.socket = peer
        self._buffers: TlsBuffers = context.buffers
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.current.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.version: str | None = None
        """The version of the protocol; None before the handshake."""
        self._has_ended = False  # the client will send nothing more
        self._unsent = deque[bytes | memoryview]()
        """Records that the socket has not taken yet."""
        self._accepted = 0
        """Bytes of the caller in `_unsent`."""
        self._uninterrupted = 0
        """Bytes of files that were encrypted since others had their turn."""

    @property
    def held_bytes(self) -> int:
        """Bytes of files and responses that the socket has not taken yet, without the overhead of records."""
        return self._accepted

    # --- the handshake

    async def handshake(self, limiter: trio.CapacityLimiter) -> None:
        """Agree with the client on keys, and verify its certificate; OSError."""
        is_complete = False
        while not is_complete:
            await trio.lowlevel.wait_readable(self.socket)
            try:
                arrived = self.socket.recv(_HELLO_BYTES)
            except BlockingIOError:
                continue
            if not arrived:
                raise ConnectionAbortedError("the client has left in the handshake")
            self._incoming.write(arrived)
            # In a thread: a signature with an RSA key of 4,096 bits takes 4 ms, and all other clients would wait.
            is_complete = await in_thread(self._is_complete, limiter=limiter)
            if is_complete:
                self.version = self._tls.version()
                self._check_resumed()
            await self._send_replies()

    def _is_complete(self) -> bool:
        """Do what is possible of the handshake now; return whether it is complete."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _check_resumed(self) -> None:
        """Check the dates of a certificate that a resumed session of TLS 1.2 brought: OpenSSL does not verify it again.

        The standard library cannot turn off OpenSSL's cache of sessions. A session ends with its context, thus with a
        change of the certificates that are trusted.
        """
        certificate = self._tls.getpeercert(binary_form=True)
        if (
            self._tls.session_reused
            and certificate is not None
            and not parse_certificate(certificate).is_valid_at(_now())
        ):
            raise ssl.SSLError(1, "the client resumes a session, and its certificate is not valid any more")

    async def _send_replies(self) -> None:
        self._take_records()
        while True:
            try:
                return self._flush()
            except BlockingIOError:
                await self.wait_writable()

    def subject(self) -> str | None:
        """Return the subject of the client's certificate; None if it has sent none."""
        certificate = self._tls.getpeercert(binary_form=True)
        return None if certificate is None else parse_certificate(certificate).subject

    # --- after it

    def recv(self, size: int) -> bytes:
        """Return the records that have arrived, at most `size` bytes; b"" at the end of the connection."""
        buffer = self._buffers.plain[:size]
        return bytes(buffer[: self.recv_into(buffer)])

    def recv_into(self, buffer: memoryview) -> int:
        """Fill `buffer` with the records that have arrived; return the count, 0 at the end of the connection."""
        buffer = buffer[: len(self._buffers.received)]
        if self._is_readable():
            done = self._decrypt(buffer, 0)
            if done or self._has_ended:
                return done
        arrived = self.socket.recv_into(self._buffers.received[: len(buffer) + _OVERHEAD_BYTES])
        if not arrived:
            return 0
        done = self._decrypt(buffer, arrived)
        if done or self._has_ended:
            return done
        raise BlockingIOError

    def _decrypt(self, buffer: memoryview, arrived: int) -> int:
        """Fill `buffer` with records; return the count. `arrived` further bytes are in `TlsBuffers.received`."""
        incoming, received = self._incoming, self._buffers.received
        read = cast(Callable[[int, memoryview], int], self._tls.read)  # with a buffer it returns a count
        given = done = 0
        while done < len(buffer):
            if given < arrived and incoming.pending < _RECORD_BYTES:
                given += incoming.write(received[given : min(given + _SLICE_BYTES, arrived)])
            try:
                count = read(len(buffer) - done, buffer[done:])
            except ssl.SSLWantReadError:
                if given == arrived:
                    break
                continue
            if not count:
                self._has_ended = True
                break
            done += count
            if given == arrived and not incoming.pending:
                break
        if given < arrived:  # `buffer` is full
            incoming.write(received[given:arrived])
        if self._outgoing.pending:
            self._reply()
        return done

    def _is_readable(self) -> bool:
        """Return whether something that has been received is not read yet."""
        return self._has_ended or bool(self._incoming.pending or self._tls.pending())

    def _reply(self) -> None:
        """Send what OpenSSL itself has to say to a client, if the socket takes it."""
        if self._outgoing.pending > _REPLIES_BYTES_MAX:
            raise ConnectionAbortedError("the client does not read what it makes OpenSSL send")
        if not self._unsent:
            self._take_records()
            with contextlib.suppress(BlockingIOError):
                self._flush()

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send the first bytes of `data`; return how many. After BlockingIOError they must be given again."""
        if not self._accepted:
            self._encrypt(memoryview(data)[: len(self._buffers.plain)])
        return self._sent()

    async def send_file(self, file: File, position: int, size: int, *, nowait: bool) -> int:
        """Send up to `size` bytes of `file`; return how many, 0 at the end of the file.

        With `nowait`, `WouldBlock` if the page cache does not hold all of them. After BlockingIOError, call it again.
        """
        if not self._accepted:
            if self._uninterrupted >= _UNINTERRUPTED_BYTES_MAX:
                self._uninterrupted = 0
                await trio.lowlevel.checkpoint()
            buffer = self._buffers.plain[:size]
            self._encrypt(buffer[: file.read_into(buffer, position, nowait=nowait)])
            self._uninterrupted += self._accepted
        return self._sent()

    def _encrypt(self, data: memoryview) -> None:
        done = 0
        while done < len(data):
            done += self._tls.write(data[done : done + _SLICE_BYTES])
            self._take_records()
        self._accepted = done

    def _sent(self) -> int:
        """Send the records; return how many bytes of the caller were in them."""
        self._flush()
        accepted, self._accepted = self._accepted, 0
        return accepted

    def _take_records(self) -> None:
        if self._outgoing.pending:
            self._unsent.append(self._outgoing.read())

    def _flush(self) -> None:
        """Send all records that are not sent yet; BlockingIOError if the socket does not take them."""
        unsent = self._unsent
        while unsent:
            count = self.socket.sendmsg(unsent)
            while unsent and count >= len(unsent[0]):
                count -= len(unsent.popleft())
            if count:
                unsent[0] = memoryview(unsent[0])[count:]

    async def wait_readable(self) -> None:
        if self._is_readable():
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.wait_readable(self.socket)

    async def wait_writable(self) -> None:
        await trio.lowlevel.wait_writable(self.socket)

    def close(self) -> None:
        """Send the notice of the end, or of an error, if the socket takes it, and close."""
        with contextlib.suppress(OSError, ValueError):
            self._tls.unwrap()  # raises SSLWantReadError: nothing waits for the client's notice
        with contextlib.suppress(OSError):
            self._take_records()
            self._flush()
        self.socket.close()


HANDSHAKE_S = 10.0
"""The time that a client may take for its part of a handshake."""


class HandshakeError(Exception):
    """A client and the broker did not agree; the message has the reason."""


async def handshake(peer: socket.socket, context: TlsContext) -> ServerTlsTransport:
    """Return `peer` with TLS, after the handshake; HandshakeError, OSError. Takes `peer` over."""
    transport = ServerTlsTransport(peer, context)
    try:
        with trio.fail_after(HANDSHAKE_S):
            await transport.handshake(context.handshakes)
            return transport
    except ssl.SSLError as error:
        transport.close()
        raise HandshakeError(_sentence(error)) from error
    except trio.TooSlowError as error:
        transport.close()
        raise HandshakeError(f"the client has not finished it after {HANDSHAKE_S:.0f} seconds") from error
    except BaseException:
        transport.close()
        raise


_SENTENCES = {
    "WRONG_VERSION_NUMBER": "the client does not use TLS; it needs security.protocol=SSL, or SASL_SSL",
    "HTTP_REQUEST": "an HTTP request; this is a port for Kafka clients (metrics have one of their own: --metrics)",
    "UNSUPPORTED_PROTOCOL": "the client has no version of TLS that ssl.enabled.protocols permits",
    "NO_SHARED_CIPHER": "the client has no cipher suite that ssl.cipher.suites and the certificate permit",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has sent no certificate, and ssl.client.auth is required",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust this certificate; add its CA to the client's truststore",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept this certificate, or not for this host name",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept this certificate, or not for this host name",
}


def _sentence(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    reason = error.reason or str(error)
    return _SENTENCES.get(reason, reason.replace("_", " ").lower())
