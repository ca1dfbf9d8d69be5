"""What a file, a link and a directory of the mount can do. One class a kind; the `number` says which one of its kind.

directories     /, orders-0                  views          values, records.ndjson
record_listing  the records in `ls`          segment_files  segments/*
records         <offset>                     append_file    append
links           first, latest                start_file     start
by_time         by-time/**                   texts          README, next, info
ranges          range/*, last/*              by_key         by-key/*
follow          follow*                      record_parts   <offset>.json, .key, .headers
topics          topics/**                    groups         groups/**
control         .offsetfs/*
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeGuard, runtime_checkable

from pyfuse3 import EntryAttributes, PollHandle

Reply = Callable[[bytes, EntryAttributes, int], bool]
"""Called with name, attributes, and the place after the entry; False: no room, this entry comes first next time."""

Buffer = bytes | bytearray | memoryview


class Handle(Protocol):
    """An open file."""

    async def read(self, position: int, size: int) -> Buffer:
        """Return `size` bytes from `position`, fewer only at the end."""

    async def release(self) -> None:
        """The last copy of the descriptor was closed."""


@runtime_checkable
class Sink(Handle, Protocol):
    """An open file that takes writes."""

    async def write(self, data: bytes) -> int:
        """Take `data`, or the beginning of it; return how many bytes were taken. OSError when it was none of them."""

    async def flush(self) -> None:
        """A copy of the descriptor was closed."""

    async def fsync(self) -> None:
        """Return when what was taken is on disk."""


@runtime_checkable
class Closable(Handle, Protocol):
    """An open file whose `release` may wait, and for which the order of the closes matters."""

    def close(self) -> None:
        """The last copy of the descriptor was closed; `release` does the rest. Never waits."""


@runtime_checkable
class PlacedSink(Sink, Protocol):
    """One that may mind where in the file bytes are written, and how long the file is."""

    def place(self, position: int) -> None:
        """The next write is meant for this position."""

    def resize(self, size: int) -> None:
        """Let the file end at `size`; OSError EINVAL where it cannot."""


@runtime_checkable
class Pollable(Handle, Protocol):
    """An open file that is not always ready."""

    async def poll(self, number: int, poll: PollHandle | None) -> int:
        """Return the events of poll(2) that hold now, and notify `poll` when they may be others.

        `number` is the handle's: the kernel forgets the last `poll` when it brings another one.
        """


def takes_writes(handle: bytes | Handle) -> TypeGuard[Sink]:
    """Whether `handle` is a `Sink`."""
    return _is_sink(type(handle))


def minds_places(handle: bytes | Handle | None) -> TypeGuard[PlacedSink]:
    """Whether `handle` is a `PlacedSink`."""
    return _is_placed_sink(type(handle))


def is_closable(handle: bytes | Handle) -> TypeGuard[Closable]:
    """Whether `handle` is a `Closable`."""
    return _is_closable(type(handle))


def is_pollable(handle: bytes | Handle) -> TypeGuard[Pollable]:
    """Whether `handle` is a `Pollable`."""
    return _is_pollable(type(handle))


# Asked at each write and each close, and looking for the methods of a protocol takes longer than a read does.
_is_sink: Callable[[type], bool] = functools.cache(lambda kind: issubclass(kind, Sink))
_is_placed_sink: Callable[[type], bool] = functools.cache(lambda kind: issubclass(kind, PlacedSink))
_is_closable: Callable[[type], bool] = functools.cache(lambda kind: issubclass(kind, Closable))
_is_pollable: Callable[[type], bool] = functools.cache(lambda kind: issubclass(kind, Pollable))


@dataclass(frozen=True, slots=True)
class Opening:
    """How a file is opened: the flags of open(2), and the process that asks (0: it cannot be seen from here)."""

    flags: int
    pid: int = 0

    @property
    def writes(self) -> bool:
        """Whether something is to be changed; by O_TRUNC also where nothing is to be written."""
        return self.flags & os.O_ACCMODE != os.O_RDONLY or bool(self.flags & os.O_TRUNC)

    @property
    def is_nonblocking(self) -> bool:
        return bool(self.flags & os.O_NONBLOCK)


@dataclass(frozen=True, slots=True)
class Opened:
    """What open(2) gives: a handle, or the whole content.

    `direct`: past the page cache, so that sizes may change. `is_stream`: without a position, so that nobody seeks.
    """

    handle: Handle | bytes
    direct: bool = False
    is_stream: bool = False


class Listing(Protocol):
    """An open directory."""

    async def reply(self, start: int, reply: Reply) -> None:
        """Reply entries from place `start` on, until there are no more or there is no room."""


class Node(Protocol):
    """Anything with an inode number, of which `number` is the part that its kind gives a meaning."""

    async def attributes(self, number: int) -> EntryAttributes:
        """Return what stat(2) shows; ESTALE for a number that was never given, or means nothing any more."""


class FileNode(Node, Protocol):
    """What is opened and read."""

    async def open(self, number: int, opening: Opening) -> Opened:
        """Open; for writing only what is a `WritableFile`."""


class WritableFile(FileNode, Protocol):
    """A file that may be opened for writing, and be cut to nothing, which does nothing: `>` does both."""

    def check_writable(self, number: int) -> None:
        """Raise EROFS or EPERM where nothing is to be written."""


class LinkNode(Node, Protocol):
    """A symbolic link."""

    def target(self, number: int) -> bytes:
        """Return the path that it holds, relative to where it lies."""


class DirectoryNode(Node, Protocol):
    """What holds names."""

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        """Return the entry of that name, None when there is none."""

    async def listing(self, number: int) -> Listing:
        """Open it for readdir(3); what is reached by name only is not in there."""


class ShortListing:
    """A directory whose entries are all known when it is opened."""

    def __init__(self, entries: list[tuple[bytes, EntryAttributes]]) -> None:
        self._entries = entries

    async def reply(self, start: int, reply: Reply) -> None:
        for place in range(start, len(self._entries)):
            if not reply(*self._entries[place], place + 1):
                return
