"""The interfaces of files, links and directories of the mount. One class per kind; `number` selects one of its kind.

`naming/tree_table` declares the kinds. Their classes are in these modules:

mounting  directories         /, orders-0          appends  append_file      append, append.ndjson, append.raw
files     record_listing      the records in `ls`           start_file       start
          records             <offset>                      topics           topics/*, topics/*/append*
          record_parts        <offset>.json, …     groups   groups           groups, groups/*, lag, state
          links               first, latest,                group_commits    groups/*/<partition>
                              by-time/**           control  control          .offsetfs/*
          growing_file        values, records.ndjson
          ranges              range/*, last/*
          follow              follow*
          by_key              by-key/*, topics/*/by-key/*
          segment_files       segments/*
          texts               README, next, info, errors, version
          topic_follow, topic_snapshots, topic_ranges, topic_times: follow*, snapshots, ranges and links of a topic
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeGuard, runtime_checkable

from offsetfs.fs.fuse_types import EntryAttributes, PollHandle

Reply = Callable[[bytes, EntryAttributes, int], bool]
"""Called with name, attributes, and the position after the entry. False: the reply is full; resume with this entry."""

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
        """Accept `data` or the beginning of it; return how many bytes. OSError if none was accepted."""

    async def flush(self) -> None:
        """A copy of the descriptor was closed."""

    async def fsync(self) -> None:
        """Return when the accepted bytes are on disk."""


@runtime_checkable
class Closable(Handle, Protocol):
    """An open file whose `release` may wait, and for which the order of the closes matters."""

    def close(self) -> None:
        """The last copy of the descriptor was closed; `release` does the rest. Never waits."""


@runtime_checkable
class PlacedSink(Sink, Protocol):
    """A sink that may depend on the position of a write and on the length of the file."""

    def place(self, position: int) -> None:
        """Set the position of the next write."""

    def resize(self, size: int) -> None:
        """Set the length of the file. OSError EINVAL if that is not possible."""


@runtime_checkable
class Pollable(Handle, Protocol):
    """An open file that is not always ready."""

    async def poll(self, number: int, poll: PollHandle | None) -> int:
        """Return the current events of poll(2), and notify `poll` when they may have changed.

        `number` is that of the handle. The kernel drops the previous `poll` of a handle when it sends a new one.
        """


def is_sink(handle: bytes | Handle) -> TypeGuard[Sink]:
    """Whether `handle` is a `Sink`."""
    return _is_sink(type(handle))


def is_placed_sink(handle: bytes | Handle | None) -> TypeGuard[PlacedSink]:
    """Whether `handle` is a `PlacedSink`."""
    return _is_placed_sink(type(handle))


def is_closable(handle: bytes | Handle) -> TypeGuard[Closable]:
    """Whether `handle` is a `Closable`."""
    return _is_closable(type(handle))


def is_pollable(handle: bytes | Handle) -> TypeGuard[Pollable]:
    """Whether `handle` is a `Pollable`."""
    return _is_pollable(type(handle))


# Cached, because each write and close needs it, and a check of a protocol's methods takes longer than a read.
_is_sink: Callable[[type], bool] = functools.cache(lambda kind: issubclass(kind, Sink))
_is_placed_sink: Callable[[type], bool] = functools.cache(lambda kind: issubclass(kind, PlacedSink))
_is_closable: Callable[[type], bool] = functools.cache(lambda kind: issubclass(kind, Closable))
_is_pollable: Callable[[type], bool] = functools.cache(lambda kind: issubclass(kind, Pollable))


@dataclass(frozen=True, slots=True)
class Opening:
    """The arguments of open: the flags of open(2), and the calling process (0: it is not visible to the daemon)."""

    flags: int
    pid: int = 0

    @property
    def writes(self) -> bool:
        """Whether the caller may change the file: it opens for writing, or with O_TRUNC."""
        return self.flags & os.O_ACCMODE != os.O_RDONLY or bool(self.flags & os.O_TRUNC)

    @property
    def is_nonblocking(self) -> bool:
        return bool(self.flags & os.O_NONBLOCK)


@dataclass(frozen=True, slots=True)
class Opened:
    """The result of open(2): a handle, or the whole content.

    `direct`: reads bypass the page cache, so that sizes may change. `is_stream`: the file has no position and no seek.
    """

    handle: Handle | bytes
    direct: bool = False
    is_stream: bool = False


class Listing(Protocol):
    """An open directory."""

    async def reply(self, start: int, reply: Reply) -> None:
        """Reply the entries from position `start` on, until the last one or until the reply is full."""


class Node(Protocol):
    """A file, link or directory. `number` is the part of the inode number that the kind defines."""

    async def attributes(self, number: int) -> EntryAttributes:
        """Return the attributes for stat(2). ESTALE for a number that was never assigned, or is not valid any more."""


class FileNode(Node, Protocol):
    """A file that can be opened and read."""

    async def open(self, number: int, opening: Opening) -> Opened:
        """Open the file; for writing only if it is a `WritableFile`."""


class WritableFile(FileNode, Protocol):
    """A file that may be opened for writing. Truncation to 0 has no effect: the shell's `>` truncates and writes."""

    def check_writable(self, number: int) -> None:
        """Raise EROFS or EPERM if the file may not be written."""


class LinkNode(Node, Protocol):
    """A symbolic link."""

    def target(self, number: int) -> bytes:
        """Return the target, relative to the directory of the link."""


class DirectoryNode(Node, Protocol):
    """A directory."""

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        """Return the entry with that name; None if no file has the name."""

    async def listing(self, number: int) -> Listing:
        """Open the directory for readdir(3). Files that exist by name only are left out."""


class ShortListing:
    """A listing whose entries are all known at open."""

    def __init__(self, entries: list[tuple[bytes, EntryAttributes]]) -> None:
        self._entries = entries

    async def reply(self, start: int, reply: Reply) -> None:
        for index in range(start, len(self._entries)):
            if not reply(*self._entries[index], index + 1):
                return
