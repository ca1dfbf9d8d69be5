"""The text of `.proto` files, read without `protoc`: proto2, proto3, and the editions 2023 and 2024.

Only what changes how values are read, and the tags of Confluent, are kept. Other options, services, extensions and
reserved names are read over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from offsetfs.schemas.protobuf_declarations import (
    DECLARATIONS_MAX,
    DEPTH_MAX,
    FILE_BYTES_MAX,
    NUMBER_MAX,
    SCALARS,
    EnumDeclaration,
    Features,
    FieldDeclaration,
    FileDeclaration,
    InvalidProto,
    MessageDeclaration,
    has_presence,
    is_required,
)

_TOKEN = re.compile(
    r"""(?P<name>[A-Za-z_]\w*) | (?P<number>0[xX][0-9a-fA-F]+ | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)
      | (?P<text>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*') | (?P<sign>[-+={}\[\]()<>;:,./])""",
    re.VERBOSE | re.ASCII,
)
_SPACE = re.compile(r"[\s\ufeff]+")
_EDITIONS = ("2023", "2024")
_MAP_KEYS = SCALARS - {"double", "float", "bytes"}
_FEATURES = ("field_presence", "message_encoding")
_META = re.compile(r"\(\.?(confluent\.)?(field|message)_meta\)(\.tags)?")


def parsed_text(text: str, name: str) -> FileDeclaration:
    """Return what a `.proto` file declares. `InvalidProto` names the line."""
    if len(text) > FILE_BYTES_MAX:
        raise InvalidProto(f"the schema has {len(text)} characters; {FILE_BYTES_MAX} are read")
    return _Parser(text, name).file()


class _Tokens:
    """The tokens of a text, one ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._stream = self._split()
        self._at = 0
        self._line_at, self._line = 0, 1
        self.kind = self.token = ""
        self.advance()

    def _split(self) -> Iterator[tuple[str, str, int]]:
        text, at = self._text, 0
        while at < len(text):
            if space := _SPACE.match(text, at):
                at = space.end()
            elif text.startswith("//", at):
                end = text.find("\n", at)
                at = len(text) if end < 0 else end
            elif text.startswith("/*", at):
                end = text.find("*/", at + 2)
                if end < 0:
                    self._at = at
                    self.fail("begins a comment that does not end")
                at = end + 2
            elif found := _TOKEN.match(text, at):
                yield str(found.lastgroup), found.group(), at
                at = found.end()
            else:
                self._at = at
                self.fail(f"has {text[at]!r}, which no .proto file has there")
        yield "end", "", at

    @property
    def line(self) -> int:
        """The line of the token."""
        if self._at < self._line_at:
            self._line_at, self._line = 0, 1
        self._line += self._text.count("\n", self._line_at, self._at)
        self._line_at = self._at
        return self._line

    def advance(self) -> str:
        """Return the token, and go to the next."""
        token = self.token
        self.kind, self.token, self._at = next(self._stream, ("end", "", self._at))
        return token

    def fail(self, reason: str) -> NoReturn:
        raise InvalidProto(f"line {self.line} {reason}")

    def expect(self, *tokens: str) -> str:
        if self.token not in tokens or self.kind == "text":
            wanted = " or ".join(repr(token) for token in tokens)
            self.fail(f"has {self.token!r} in place of {wanted}" if self.token else f"ends in place of {wanted}")
        return self.advance()

    def accept(self, token: str) -> bool:
        if self.token != token or self.kind == "text":
            return False
        self.advance()
        return True

    def name(self) -> str:
        if self.kind != "name":
            self.fail(f"has {self.token!r} in place of a name" if self.token else "ends in place of a name")
        return self.advance()

    def text(self) -> str:
        if self.kind != "text":
            self.fail(f"has {self.token!r} in place of a text")
        parts = []
        while self.kind == "text":
            parts.append(self.advance()[1:-1])
        return "".join(parts)

    def integer(self) -> int:
        is_negative = self.accept("-")
        if self.kind != "number":
            self.fail(f"has {self.token!r} in place of a number")
        word = self.token
        if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|\d{1,20}", word):
            self.fail(f"has {word[:30]!r} in place of a whole number")
        self.advance()
        is_octal = len(word) > 1 and word.isdigit() and word[0] == "0"
        try:
            number = int(word, 8) if is_octal else int(word, 0)
        except ValueError:
            self.fail(f"has {word!r} in place of a whole number")
        return -number if is_negative else number

    def type_name(self) -> str:
        """Return a name with dots."""
        parts = ["."] if self.accept(".") else []
        parts.append(self.name())
        while self.accept("."):
            parts += (".", self.name())
        return "".join(parts)


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._tokens = _Tokens(text)
        self._file = FileDeclaration(name)
        self._count = 0

    def file(self) -> FileDeclaration:
        tokens, features, tags = self._tokens, dict[str, str](), set[str]()
        while tokens.kind != "end":
            word = tokens.token
            if tokens.accept(";"):
                continue
            if word in ("syntax", "edition"):
                self._syntax()
            elif word == "package":
                tokens.advance()
                self._file.package = tokens.type_name()
                tokens.expect(";")
            elif word == "import":
                self._import()
            elif word == "option":
                self._option(features, tags)
            else:
                self._definition(self._file, features, 0)
        return self._file

    def _syntax(self) -> None:
        tokens = self._tokens
        word = tokens.advance()
        tokens.expect("=")
        given = tokens.text()
        if given not in (("proto2", "proto3") if word == "syntax" else _EDITIONS):
            tokens.fail(f"has the {word} {given!r}, which is not known")
        self._file.syntax = given if word == "syntax" else "editions"
        tokens.expect(";")

    def _import(self) -> None:
        tokens = self._tokens
        tokens.advance()
        is_option = tokens.kind == "name" and tokens.token == "option"
        if tokens.kind == "name" and tokens.token in ("public", "weak", "option"):
            tokens.advance()
        name = tokens.text()
        if not is_option:  # such an import has options only
            self._file.imports.append(name)
        tokens.expect(";")

    def _definition(self, scope: FileDeclaration | MessageDeclaration, features: Features, depth: int) -> None:
        """Read a message, an enum, or what is read over."""
        tokens = self._tokens
        if tokens.token in ("export", "local") and self._file.syntax == "editions":
            tokens.advance()
        word = tokens.token
        if word == "message":
            tokens.advance()
            scope.messages.append(self._message(tokens.name(), features, depth))
        elif word == "enum":
            scope.enums.append(self._enum())
        elif word in ("extend", "service"):
            tokens.advance()
            tokens.type_name()
            self._skip_block()
        else:
            tokens.fail(f"has {word!r} in place of a declaration")

    def _counted(self) -> None:
        self._count += 1
        if self._count > DECLARATIONS_MAX:
            raise InvalidProto(f"the schema has more than {DECLARATIONS_MAX} declarations")

    # --- messages ----------------------------------------------------------------------------------------------------

    def _message(self, name: str, features: Features, depth: int) -> MessageDeclaration:
        tokens, message, own, tags = self._tokens, MessageDeclaration(name), dict(features), set[str]()
        self._counted()
        if depth >= DEPTH_MAX:
            tokens.fail("is nested too deeply")
        tokens.expect("{")
        while not tokens.accept("}"):
            self._member(message, own, tags, depth)
        message.tags = frozenset(tags)
        return message

    def _member(self, message: MessageDeclaration, features: dict[str, str], tags: set[str], depth: int) -> None:
        tokens = self._tokens
        word = tokens.token
        if tokens.accept(";"):
            return
        if word == "option":
            self._option(features, tags)
        elif word == "oneof":
            self._oneof(message, features, depth)
        elif word in ("reserved", "extensions"):
            self._skip_statement()
        elif word in ("message", "enum", "extend", "export", "local"):
            self._definition(message, features, depth + 1)
        else:
            label = tokens.advance() if word in ("optional", "required", "repeated") else ""
            self._field(message, label, "", features, depth)

    def _oneof(self, message: MessageDeclaration, features: Features, depth: int) -> None:
        tokens, own = self._tokens, dict(features)
        tokens.advance()
        name = tokens.name()
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.token == "option":
                self._option(own, set())
            elif not tokens.accept(";"):
                self._field(message, "", name, own, depth)

    def _field(self, message: MessageDeclaration, label: str, oneof: str, features: Features, depth: int) -> None:
        tokens = self._tokens
        self._counted()
        kind = tokens.type_name()
        if kind == "map" and tokens.token == "<":
            self._map(message)
            return
        name, place = tokens.name(), f"line {tokens.line}"
        number = self._number()
        options, tags = self._options()
        made = FieldDeclaration(name, number, kind, place, label == "repeated", oneof=oneof, tags=tags)
        own = {**features, **options}
        made.has_presence = has_presence(self._file.syntax, label, oneof, own)
        made.is_required = not made.is_repeated and is_required(self._file.syntax, label, own)
        made.is_delimited = kind == "group" or (
            self._file.syntax == "editions" and own.get("message_encoding") == "DELIMITED"
        )
        if kind == "group":
            inner = self._message(name, features, depth + 1)
            inner.is_group = True
            message.messages.append(inner)
            made.name, made.type = name.lower(), name
        else:
            tokens.expect(";")
        message.fields.append(made)

    def _map(self, message: MessageDeclaration) -> None:
        tokens, place = self._tokens, f"line {self._tokens.line}"
        tokens.expect("<")
        key = tokens.name()
        if key not in _MAP_KEYS:
            tokens.fail(f"has a map with keys of type {key!r}")
        tokens.expect(",")
        value = tokens.type_name()
        tokens.expect(">")
        name = tokens.name()
        entry = MessageDeclaration(entry_name(name), is_map_entry=True)
        entry.fields = [FieldDeclaration("key", 1, key, place), FieldDeclaration("value", 2, value, place)]
        message.messages.append(entry)
        made = FieldDeclaration(name, self._number(), entry.name, place, is_repeated=True)
        _, made.tags = self._options()
        message.fields.append(made)
        tokens.expect(";")

    def _number(self) -> int:
        tokens = self._tokens
        tokens.expect("=")
        number = tokens.integer()
        if not 1 <= number <= NUMBER_MAX:
            tokens.fail(f"has the field number {number}; it is between 1 and {NUMBER_MAX}")
        return number

    def _enum(self) -> EnumDeclaration:
        tokens = self._tokens
        tokens.advance()
        made = EnumDeclaration(tokens.name())
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.token == "option":
                self._option({}, set())
            elif tokens.token == "reserved":
                self._skip_statement()
            elif not tokens.accept(";"):
                self._counted()
                name = tokens.name()
                tokens.expect("=")
                number = tokens.integer()
                if not -(1 << 31) <= number < 1 << 31:
                    tokens.fail(f"has the number {number}; that of an enum has 32 bits")
                made.values.append((name, number))
                self._options()
                tokens.expect(";")
        return made

    # --- options, and what is read over ------------------------------------------------------------------------------

    def _option(self, features: dict[str, str], tags: set[str]) -> None:
        """Read a statement `option`; keep it if it is a feature or has tags."""
        self._tokens.advance()
        self._assignment(features, tags)
        self._tokens.expect(";")

    def _options(self) -> tuple[dict[str, str], frozenset[str]]:
        """Read the options of a field or a value in brackets, and return the features and the tags."""
        found, tags = dict[str, str](), set[str]()
        if self._tokens.accept("["):
            self._assignment(found, tags)
            while self._tokens.accept(","):
                self._assignment(found, tags)
            self._tokens.expect("]")
        return found, frozenset(tags)

    def _assignment(self, features: dict[str, str], tags: set[str]) -> None:
        tokens = self._tokens
        name = self._option_name()
        while tokens.accept("."):
            name += "." + self._option_name()
        tokens.expect("=")
        meta = _META.fullmatch(name)
        if tokens.token in ("{", "<", "[") and tokens.kind == "sign":  # registries of Confluent take lists, too
            self._aggregate(
                features if name == "features" else None, tags if meta else None, "tags" * bool(meta and meta[3])
            )
            return
        while tokens.token in ("-", "+"):
            tokens.advance()
        value = tokens.text() if tokens.kind == "text" else tokens.advance()
        if name.startswith("features.") and name[9:] in _FEATURES:
            features[name[9:]] = value
        if meta and meta[3]:
            tags.add(value)

    def _option_name(self) -> str:
        tokens = self._tokens
        if not tokens.accept("("):
            return tokens.name()
        name = tokens.type_name()
        tokens.expect(")")
        return f"({name})"

    def _aggregate(self, features: dict[str, str] | None, tags: set[str] | None = None, member: str = "") -> None:
        """Read over a value in braces; its outermost members are kept as features, or as tags, if they are some.

        `member`: the one whose values a list has.
        """
        tokens, depth, before = self._tokens, 0, ""
        while True:
            if tokens.kind == "end":
                tokens.fail("ends within the value of an option")
            is_sign = tokens.kind == "sign"
            depth += is_sign and tokens.token in "{[<"
            depth -= is_sign and tokens.token in "}]>"
            if features is not None and depth == 1 and before in _FEATURES and tokens.kind == "name":
                features[before] = tokens.token
            if depth == 1 and tokens.kind == "name":
                member = tokens.token
            if tags is not None and member == "tags" and tokens.kind == "text":
                tags.add(tokens.text())
                continue
            token = tokens.advance()
            before = token if token != ":" else before
            if not depth:
                return

    def _skip_statement(self) -> None:
        tokens = self._tokens
        while not tokens.accept(";"):
            if tokens.kind == "end" or tokens.token in ("{", "}"):
                tokens.fail(f"has {tokens.token!r} in place of ';'")
            if tokens.token == "[":
                self._options()
            else:
                tokens.advance()

    def _skip_block(self) -> None:
        tokens = self._tokens
        if tokens.token != "{":
            tokens.expect("{")
        self._aggregate(None)


def entry_name(field: str) -> str:
    """Return the name that protoc gives to the entries of a map."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"
