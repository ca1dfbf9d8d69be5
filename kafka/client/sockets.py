"""Connected sockets: all addresses of a host name, and the first of several attempts that succeeds."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

import trio

from offsetfs.common.addresses import Address
from offsetfs.kafka.client.errors import ClientError

T = TypeVar("T")

PAUSE_S = 0.25
"""How long an attempt has before the next one begins beside it (RFC 8305: Connection Attempt Delay)."""


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """One of the addresses of a host name."""

    family: int
    address: tuple[str | int | bytes, ...]

    def __str__(self) -> str:
        return str(self.address[0])


async def resolve(address: Address) -> list[ResolvedAddress]:
    """Return all addresses of a host, in the order of the system; OSError."""
    found = await trio.socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ResolvedAddress(family, (*each,)) for family, _, _, _, each in found))


async def open_socket(resolved: ResolvedAddress) -> socket.socket:
    """Return a connected socket, which does not block; OSError."""
    found = trio.socket.socket(resolved.family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, True)
        await found.connect(resolved.address)
        peer = socket.socket(fileno=found.detach())
    except BaseException:
        found.close()
        raise
    peer.setblocking(False)
    return peer


def os_error_text(error: OSError) -> str:
    """Return the cause of an error of the system, such as `Connection refused`."""
    if isinstance(error, socket.gaierror):
        return f"the host name cannot be resolved: {error.strerror}"
    return os.strerror(error.errno) if error.errno else str(error)


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
    found: list[T] = field(default_factory=list)
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
            for each in self.found:
                self.discard(each)
            raise
        if self.found:
            return self.found[0]
        raise AllFailed([self.causes[number] for number in sorted(self.causes)])

    async def _attempt(self, number: int, ended: trio.Event, scope: trio.CancelScope) -> None:
        try:
            result = await self.attempts[number]()
        except ClientError as error:
            self.causes[number] = error
        else:
            if self.found:
                self.discard(result)
            else:
                self.found.append(result)
                scope.cancel()
        finally:
            ended.set()
