"""A disk in memory that loses power.

Every change of it goes into `history`; applied one by one to a copy of the disk as it was before (`clone`, `apply`), it
leads through every state that the disk was in. `crash` of such a state returns one disk that power loss may leave:

*   a write that no completed sync of its file covers is there, or not, or a prefix of it, or some of its sectors, or
    zeros, or garbage in its place; each write for itself, or all up to a moment, as `_Outcome` draws it;
*   the length persists apart from the bytes: bytes without length are lost, a length without bytes reads as zeros;
*   a create, rename, unlink, mkdir or rmdir that no completed sync of its directory covers has happened or not. A
    rename is one change: the file has the old name or the new one, so a name that is replaced never stands for nothing;
*   what a sync covered never changes. A sync that fails gives up what it was to cover: a later one, which succeeds, is
    silent about it (Linux marks a page clean that it could not write), and it may be there or not for ever.

A process that is killed loses nothing: `clone` is what the next one finds. The engine runs on it through `simsystem`.
Maps are live: what is written is seen through them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

ROOT = 1
FIRST_NS, STEP_NS = 1_700_000_000 * 10**9, 10**6
"""When the first change is made, and how long it is to the next."""

Change = tuple[object, ...]
"""A change of the disk: the name of a method of `SimDisk` that begins with `_do_`, and its arguments."""


# --- the disk --------------------------------------------------------------------------------------------------------


class SimFile:
    """A regular file: `content` is what a reader sees, `durable` what is certain to be there after a power cut.

    `pending`: (number, position, bytes, size afterwards) of writes since then; a change of length has None for bytes.
    """

    __slots__ = ("changed", "content", "durable", "given_up", "pending", "settled")

    def __init__(self, durable: bytes = b"", changed: int = 0) -> None:
        self.durable = durable
        self.content: bytes | bytearray = durable
        self.changed = changed
        self.pending: list[tuple[int, int, bytes | None, int]] = []
        self.given_up: set[int] = set()
        self.settled: set[int] = set()

    def write(self, number: int, position: int, data: bytes) -> None:
        end = position + len(data)
        if end > len(self.content):
            self._resize(end)
        elif isinstance(self.content, bytes):
            self.content = bytearray(self.content)
        self.content[position:end] = data  # type: ignore[index]
        self.pending.append((number, position, data, len(self.content)))
        self.changed = FIRST_NS + number * STEP_NS

    def truncate(self, number: int, size: int) -> None:
        self._resize(size)
        self.pending.append((number, size, None, size))
        self.changed = FIRST_NS + number * STEP_NS

    def _resize(self, size: int) -> None:
        grown = bytearray(size)
        kept = min(size, len(self.content))
        grown[:kept] = self.content[:kept]
        self.content = grown

    def sync(self) -> None:
        if self.given_up:
            self.settled.update(change[0] for change in self.pending if change[0] not in self.given_up)
        else:
            self.durable = bytes(self.content)
            self.pending.clear()

    def give_up(self) -> None:
        self.given_up.update(change[0] for change in self.pending if change[0] not in self.settled)

    def clone(self) -> SimFile:
        copy = SimFile(self.durable, self.changed)
        copy.content = bytes(self.content) if self.pending else self.durable
        copy.pending = list(self.pending)
        copy.given_up, copy.settled = set(self.given_up), set(self.settled)
        return copy


class SimDirectory:
    """A directory: names as they are seen, and as they are certain to be after a power cut.

    `pending`: (number, what, name, inode, new name) since then.
    """

    __slots__ = ("changed", "durable", "given_up", "names", "pending", "settled")

    def __init__(self, durable: dict[str, int] | None = None, changed: int = 0) -> None:
        self.durable = durable or {}
        self.names = dict(self.durable)
        self.changed = changed
        self.pending: list[tuple[int, str, str, int, str]] = []
        self.given_up: set[int] = set()
        self.settled: set[int] = set()

    def note(self, number: int, what: str, name: str, inode: int, new_name: str = "") -> None:
        _rename(self.names, what, name, inode, new_name)
        self.pending.append((number, what, name, inode, new_name))
        self.changed = FIRST_NS + number * STEP_NS

    def sync(self) -> None:
        if self.given_up:
            self.settled.update(change[0] for change in self.pending if change[0] not in self.given_up)
        else:
            self.durable = dict(self.names)
            self.pending.clear()

    def give_up(self) -> None:
        self.given_up.update(change[0] for change in self.pending if change[0] not in self.settled)

    def clone(self) -> SimDirectory:
        copy = SimDirectory(self.durable, self.changed)
        copy.names = dict(self.names)
        copy.pending = list(self.pending)
        copy.given_up, copy.settled = set(self.given_up), set(self.settled)
        return copy


def _rename(names: dict[str, int], what: str, name: str, inode: int, new_name: str) -> None:
    """Make one change of names, as far as the names are what it needs."""
    if what == "create":
        names[name] = inode
    elif names.get(name) == inode:
        del names[name]
    if what == "rename":
        names[new_name] = inode


class SimDisk:
    """Files and directories by inode number, and every change since the disk was made."""

    def __init__(self) -> None:
        self.inodes: dict[int, SimFile | SimDirectory] = {ROOT: SimDirectory()}
        self.history: list[Change] = []
        self._number = 0
        self._next_inode = ROOT + 1

    def do(self, *change: object) -> None:
        """Make a change and note it."""
        self.history.append(change)
        self.apply(change)

    def apply(self, change: Change) -> None:
        """Make a change that another disk's history has."""
        self._number += 1
        getattr(self, f"_do_{change[0]}")(*change[1:])

    def _do_write(self, inode: int, position: int, data: bytes) -> None:
        self._file(inode).write(self._number, position, data)

    def _do_truncate(self, inode: int, size: int) -> None:
        self._file(inode).truncate(self._number, size)

    def _do_create(self, directory: int, name: str, is_directory: bool) -> None:
        inode, self._next_inode = self._next_inode, self._next_inode + 1
        changed = FIRST_NS + self._number * STEP_NS
        self.inodes[inode] = SimDirectory(changed=changed) if is_directory else SimFile(changed=changed)
        self.directory(directory).note(self._number, "create", name, inode)

    def _do_unlink(self, directory: int, name: str) -> None:
        self.directory(directory).note(self._number, "unlink", name, self.directory(directory).names[name])

    def _do_rename(self, directory: int, name: str, new_name: str) -> None:
        names = self.directory(directory).names
        self.directory(directory).note(self._number, "rename", name, names[name], new_name)

    def _do_touch(self, inode: int, changed: int) -> None:
        self.inodes[inode].changed = changed

    def _do_sync(self, inode: int) -> None:
        self.inodes[inode].sync()

    def _do_give_up(self, inode: int) -> None:
        self.inodes[inode].give_up()

    def _file(self, inode: int) -> SimFile:
        found = self.inodes[inode]
        assert isinstance(found, SimFile)
        return found

    def directory(self, inode: int) -> SimDirectory:
        found = self.inodes[inode]
        assert isinstance(found, SimDirectory)
        return found

    def tree(self, name: str, directory: int = ROOT) -> dict[str, bytes]:
        """Return what readers see of the files in `name` and below: content by path."""
        inode = self.directory(directory).names[name]
        found = self.inodes[inode]
        if isinstance(found, SimFile):
            return {name: bytes(found.content)}
        return {f"{name}/{path}": data for each in found.names for path, data in self.tree(each, inode).items()}

    def clone(self) -> SimDisk:
        """Return a copy with the same past and no history."""
        copy = SimDisk()
        copy.inodes = {inode: each.clone() for inode, each in self.inodes.items()}
        copy._number, copy._next_inode = self._number, self._next_inode
        return copy

    # --- power loss

    def crash(self, random: Random, kind: str | None = None) -> SimDisk:
        """Return a disk that power loss now may leave: `random` decides which, within the `kind` (see `_Outcome`)."""
        changes = [c[0] for each in self.inodes.values() for c in each.pending]
        outcome = _Outcome(random, min(changes, default=0), self._number, kind)
        left = SimDisk()
        left._number, left._next_inode = self._number, self._next_inode
        del left.inodes[ROOT]
        self._leave(left, ROOT, outcome)
        return left

    def _leave(self, left: SimDisk, inode: int, outcome: _Outcome) -> None:
        before = self.inodes[inode]
        if isinstance(before, SimFile):
            left.inodes[inode] = SimFile(outcome.content(before), before.changed)
            return
        names = outcome.names(before)
        left.inodes[inode] = SimDirectory(names, before.changed)
        for each in names.values():
            if each not in left.inodes:
                self._leave(left, each, outcome)


KEPT, LOST, TORN = "kept", "lost", "torn"


class _Outcome:
    """How one power cut goes: what becomes of each change that no sync covers.

    Kinds of outcome, for chance alone would rarely find those that file systems prefer: everything is there; nothing
    is; all up to a moment is, whose last change is torn; names only, or bytes only; each change for itself.
    """

    def __init__(self, random: Random, first: int, last: int, kind: str | None = None) -> None:
        self.random = random
        kind = kind or random.choices(("all", "none", "until", "names", "bytes", "each"), (2, 2, 6, 3, 3, 8))[0]
        alike: dict[str, Callable[[int], str]] = {"all": self._all, "none": self._none, "until": self._until}
        self._of_bytes = self._of_names = alike.get(kind, self._each)
        if kind == "names":
            self._of_names = random.choice((self._all, self._until))
        elif kind == "bytes":
            self._of_bytes, self._of_names = random.choice((self._all, self._until)), self._each
        self._moment = random.randint(first, last)

    def _all(self, _number: int) -> str:
        return KEPT

    def _none(self, _number: int) -> str:
        return LOST

    def _until(self, number: int) -> str:
        return KEPT if number < self._moment else TORN if number == self._moment else LOST

    def _each(self, _number: int) -> str:
        return self.random.choice((KEPT, LOST, TORN))

    def names(self, directory: SimDirectory) -> dict[str, int]:
        """Return the names that are left in a directory."""
        names = dict(directory.durable)
        if not directory.pending:
            return names
        happened = [n for n, *_ in directory.pending if n in directory.settled or self._has_happened(n)]
        renamed = {inode: n for n, what, _, inode, _ in directory.pending if what == "rename" and n in happened}
        for number, what, name, inode, new_name in directory.pending:
            # A file that was renamed for certain has been made, and has lost the names that it had before.
            if number in happened or number < renamed.get(inode, 0):
                _rename(names, what, name, inode, new_name)
        return names

    def _has_happened(self, number: int) -> bool:
        fate = self._of_names(number)
        return fate is KEPT or (fate is TORN and self.random.random() < 0.5)

    def content(self, file: SimFile) -> bytes:
        """Return the bytes that are left of a file."""
        if not file.pending:
            return file.durable
        content = bytearray(file.durable)
        is_whole = True
        for number, position, data, _ in file.pending:
            fate = KEPT if number in file.settled else self._of_bytes(number)
            is_whole = is_whole and fate is KEPT
            if data is None:
                if fate is KEPT or (fate is TORN and self.random.random() < 0.5):
                    _cut(content, position)
            elif fate is KEPT:
                _put(content, position, data)
            elif fate is TORN:
                self._tear(content, position, data)
        if not is_whole and not file.settled and self.random.random() < 0.4:
            _cut(content, self.random.choice([len(file.durable), *(size for *_, size in file.pending)]))
        return bytes(content)

    def _tear(self, content: bytearray, position: int, data: bytes) -> None:
        """Leave something of one write: a prefix, zeros, or sector by sector the new, the old, zeros or garbage."""
        kind = self.random.randrange(4)
        if kind == 0:
            _put(content, position, data[: self.random.randrange(len(data) + 1)])
        elif kind == 1:
            _put(content, position, bytes(len(data)))
        elif kind == 2:
            _put(content, position, self.random.randbytes(len(data)))
        else:
            for start, end in _sectors(position, len(data), self.random.choice((512, 4096))):
                fate = self.random.randrange(4)
                new = data[start:end] if fate == 0 else bytes(end - start) if fate == 1 else b""
                _put(content, position + start, self.random.randbytes(end - start) if fate == 2 else new)


def _sectors(position: int, size: int, sector: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end), relative to `position`, of the parts of a write that lie in one sector each."""
    start = 0
    while start < size:
        end = min(size, start + sector - (position + start) % sector)
        yield start, end
        start = end


def _put(content: bytearray, position: int, data: bytes) -> None:
    if not data:
        return
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _cut(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))
