"""Protobuf schemas: messages as types, with names resolved, and bounded.

    schema = parsed(text, find)   →   ProtoSchema: `message(path)`

The text is that of a `.proto` file, or the base64 of a descriptor. An import that neither the references nor the
built-in files have is an error only if a field needs it: most of such files declare options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from offsetfs.schemas.formats import InvalidSchema
from offsetfs.schemas.protobuf_builtin import BUILTIN
from offsetfs.schemas.protobuf_declarations import (
    SCALARS,
    EnumDeclaration,
    FieldDeclaration,
    FileDeclaration,
    InvalidProto,
    MessageDeclaration,
)
from offsetfs.schemas.protobuf_descriptors import descriptor_bytes, parsed_descriptors
from offsetfs.schemas.protobuf_text import parsed_text

FILES_MAX = 1000
"""The files of a schema, with those that it imports."""


@dataclass(eq=False, slots=True)
class ProtobufEnum:
    """An enum. Of several names for a number, the first counts."""

    name: str
    symbols: Mapping[int, str]
    numbers: Mapping[str, int]


@dataclass(eq=False, slots=True)
class MessageType:
    """A message; its fields may lead to itself."""

    name: str
    """The full name, without a dot in front."""
    fields: tuple[ProtoField, ...] = ()
    is_map_entry: bool = False
    tags: frozenset[str] = frozenset()


@dataclass(eq=False, slots=True)
class ProtoField:
    name: str
    number: int
    type: FieldType
    is_repeated: bool
    has_presence: bool
    """Whether an absent value is null rather than the default of its type."""
    is_delimited: bool
    oneof: str
    is_required: bool = False
    tags: frozenset[str] = frozenset()

    @property
    def is_map(self) -> bool:
        return isinstance(self.type, MessageType) and self.type.is_map_entry and self.is_repeated


FieldType = str | ProtobufEnum | MessageType
"""A text is the name of a scalar."""


class ProtoSchema:
    """The messages of a file, by their paths."""

    def __init__(self, file: FileDeclaration, linker: _Linker) -> None:
        self._file, self._linker = file, linker

    def message(self, path: Sequence[int]) -> MessageType | None:
        """Return the message at a path of indexes; None if there is none.

        In a file of text the indexes leave out groups and entries of maps, as Confluent's serializer in Java counts; in
        a descriptor they do not, as those in Python and Go count. `InvalidSchema` names a field without a known type.
        """
        scope, found, name = self._file.messages, None, self._file.package
        for index in path:
            counted = self._counted(scope)
            if not 0 <= index < len(counted):
                return None
            found = counted[index]
            name = f"{name}.{found.name}" if name else found.name
            scope = found.messages
        return None if found is None or found.is_map_entry else self._linker.message(name)

    def path(self, name: str) -> tuple[int, ...] | None:
        """Return the path of a message by its full name: the other way of `message`; None if there is none."""
        scope, at, path = self._file.messages, self._file.package, list[int]()
        while at != name:
            for index, message in enumerate(self._counted(scope)):
                full = f"{at}.{message.name}" if at else message.name
                if name == full or name.startswith(f"{full}."):
                    at, scope = full, message.messages
                    path.append(index)
                    break
            else:
                return None
        return tuple(path) or None

    def _counted(self, scope: Sequence[MessageDeclaration]) -> list[MessageDeclaration]:
        return [message for message in scope if not (self._file.is_text and (message.is_map_entry or message.is_group))]

    def named(self, name: str) -> MessageType | None:
        """Return a message by its full name; None if there is none. `InvalidSchema`."""
        return self._linker.message(name) if self._linker.has_message(name) else None

    @property
    def is_one_message(self) -> bool:
        """Whether values can only be the first message."""
        messages = self._file.messages
        return len(messages) == 1 and all(inner.is_map_entry or inner.is_group for inner in messages[0].messages)

    @property
    def depth(self) -> int:
        """The number of indexes of the longest path."""
        deepest, waiting = 0, [(top, 1) for top in self._file.messages]
        while waiting:
            message, depth = waiting.pop()
            deepest = max(deepest, depth)
            waiting += [(inner, depth + 1) for inner in message.messages]
        return deepest


def parsed(text: str, find: Callable[[str], str | None]) -> ProtoSchema:
    """Return the schema of a text. `find` returns the text of an import by its name, or None. `InvalidSchema`."""
    try:
        files = _parsed(text, "")
        known = {file.name: file for file in files[:-1]}
        return ProtoSchema(files[-1], _Linker(list(_with_imports(files[-1], known, find))))
    except InvalidProto as error:
        raise InvalidSchema(str(error)) from None
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply") from None


def _parsed(text: str, name: str) -> list[FileDeclaration]:
    """Return the files of a text; the last is the one that the others are imported by."""
    data = descriptor_bytes(text)
    files = [parsed_text(text, name)] if data is None else parsed_descriptors(data)
    if not files:
        raise InvalidProto("the descriptor has no file")
    return files


def _with_imports(
    root: FileDeclaration, known: dict[str, FileDeclaration], find: Callable[[str], str | None]
) -> Iterator[FileDeclaration]:
    """Yield a file and those that it imports, each once: circles end here."""
    waiting, seen = [root], {root.name}
    while waiting:
        file = waiting.pop()
        yield file
        for name in file.imports:
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > FILES_MAX:
                raise InvalidProto(f"the schema imports more than {FILES_MAX} files")
            if name not in known:
                text = find(name)
                text = BUILTIN.get(name) if text is None else text
                if text is None:
                    continue
                known[name] = _imported(text, name)
            waiting.append(known[name])


def _imported(text: str, name: str) -> FileDeclaration:
    try:
        return _parsed(text, name)[-1]
    except InvalidProto as error:
        raise InvalidProto(f"import {name}: {error}") from None


class _Linker:
    """Resolves names. Messages are linked when they are asked for, with all that they lead to."""

    def __init__(self, files: Sequence[FileDeclaration]) -> None:
        self._declared: dict[str, MessageDeclaration | EnumDeclaration] = {}
        self._linked: dict[str, MessageType | ProtobufEnum] = {}
        for file in files:
            self._declare_all(file, file.package)

    def _declare_all(self, scope: FileDeclaration | MessageDeclaration, name: str) -> None:
        for message in scope.messages:
            self._declare(message, name)
        for enum in scope.enums:
            self._declare(enum, name)

    def _declare(self, declared: MessageDeclaration | EnumDeclaration, scope: str) -> None:
        name = f"{scope}.{declared.name}" if scope else declared.name
        if name in self._declared:
            raise InvalidProto(f"{name} is declared twice")
        self._declared[name] = declared
        if isinstance(declared, MessageDeclaration):
            self._declare_all(declared, name)

    def has_message(self, name: str) -> bool:
        return isinstance(self._declared.get(name), MessageDeclaration)

    def message(self, name: str) -> MessageType:
        made = self._linked.get(name)
        if made is None:
            waiting: list[str] = []
            made = self._type(name, waiting)
            try:
                while waiting:
                    self._link(waiting.pop(), waiting)
            except InvalidSchema:
                self._linked.clear()  # some have no fields yet
                raise
        assert isinstance(made, MessageType)
        return made

    def _link(self, name: str, waiting: list[str]) -> None:
        """Fill in the fields of a message; `waiting` gets the names of messages that are new."""
        made, declared = self._linked[name], self._declared[name]
        assert isinstance(made, MessageType) and isinstance(declared, MessageDeclaration)
        made.fields = tuple(self._field(field, name, waiting) for field in declared.fields)
        for part in ("name", "number"):
            values = [getattr(field, part) for field in declared.fields]
            if len(set(values)) < len(values):
                raise InvalidSchema(f"{name} has two fields with the same {part}")

    def _field(self, declared: FieldDeclaration, scope: str, waiting: list[str]) -> ProtoField:
        kind: FieldType = declared.type
        if declared.type not in SCALARS:
            full = self._resolved(declared, scope)
            kind = self._type(full, waiting)
        is_message = isinstance(kind, MessageType)
        is_delimited = declared.is_delimited and is_message and not self._in_map(kind, scope)
        presence = is_message or declared.has_presence
        return ProtoField(
            declared.name, declared.number, kind, declared.is_repeated, presence, is_delimited, declared.oneof,
            declared.is_required, declared.tags,
        )  # fmt: skip

    def _in_map(self, kind: FieldType, scope: str) -> bool:
        """Whether this is a map, or the value of one: they are never groups."""
        message = self._declared.get(scope)
        is_entry = isinstance(message, MessageDeclaration) and message.is_map_entry
        return is_entry or (isinstance(kind, MessageType) and kind.is_map_entry)

    def _resolved(self, declared: FieldDeclaration, scope: str) -> str:
        """Return the full name of a type: the innermost scope that has it counts."""
        name = declared.type
        if name.startswith("."):
            if name[1:] in self._declared:
                return name[1:]
        else:
            at = scope
            while True:
                full = f"{at}.{name}" if at else name
                if full in self._declared:
                    return full
                if not at:
                    break
                at = at.rpartition(".")[0]
        raise InvalidSchema(
            f"{declared.place}: the field {declared.name} has the type {name!r}, which neither the schema nor its "
            "references declare"
        )

    def _type(self, full: str, waiting: list[str]) -> MessageType | ProtobufEnum:
        made = self._linked.get(full)
        if made is not None:
            return made
        declared = self._declared[full]
        if isinstance(declared, EnumDeclaration):
            symbols: dict[int, str] = {}
            for name, number in declared.values:
                symbols.setdefault(number, name)
            made = ProtobufEnum(full, symbols, dict(declared.values))
        else:
            made = MessageType(full, is_map_entry=declared.is_map_entry, tags=declared.tags)
            waiting.append(full)
        self._linked[full] = made
        return made
