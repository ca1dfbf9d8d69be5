"""The nodes of a mount or of a partition by kind, and the entries of a directory by name.

Both follow the table of the tree (`naming/tree_table`); a test checks that each row has exactly one node.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.naming.lookup_numbers import LookupNumbers
from offsetfs.fs.naming.tree_table import fixed_names
from offsetfs.fs.nodes import DirectoryNode, FileNode, LinkNode, Node

Find = Callable[[], Awaitable[EntryAttributes | None]]
"""Returns the attributes of an entry; None if there is no such file now."""


@dataclass(frozen=True, slots=True)
class TreeNodes:
    """The nodes of the mount, or of one partition, by kind. A kind has one node for all its numbers."""

    directories: dict[int, DirectoryNode]
    files: dict[int, FileNode]
    links: dict[int, LinkNode] = field(default_factory=dict)
    lookup_numbers: dict[int, LookupNumbers[Any]] = field(default_factory=dict)
    """The numbers that look-ups assigned. They are kept until the kernel forgets the look-ups."""

    def node(self, kind: int) -> Node:
        """Return the node of a kind; ESTALE if there is none."""
        node: Node | None = self.files.get(kind) or self.directories.get(kind) or self.links.get(kind)
        if node is None:
            raise FUSEError(errno.ESTALE)
        return node


class NamedEntries:
    """The files of one directory that the table declares by name.

    A file that exists once has the attributes of its node. `found` has the names that are looked up in another way,
    `listed` those for which a listing returns something else than a look-up. Names whose look-up assigns a number are
    left to the node of their kind.
    """

    def __init__(
        self,
        directory: str,
        node: Callable[[int], Node],
        found: Mapping[str, Find],
        listed: Mapping[str, Find],
    ) -> None:
        assert {*found, *listed} <= {name for name, _ in fixed_names(directory)}, "a name that the table lacks"
        self._found: dict[bytes, Find] = {}
        self._listed: dict[bytes, Find] = {}
        for name, kind in fixed_names(directory):
            if name not in found and not kind.exists_once:
                continue
            find = self._found[name.encode()] = found.get(name) or partial(node(kind).attributes, kind)
            if kind.spec.is_listed:
                self._listed[name.encode()] = listed.get(name, find)

    def find(self, name: bytes) -> Find | None:
        """Return what looks `name` up; None for a name that the table does not declare."""
        return self._found.get(name)

    def listed(self) -> Iterable[tuple[bytes, Find]]:
        """Return the listed names, in the order of the table."""
        return self._listed.items()
