"""Masks: fields of a topic's decoded values that are replaced by null, before anything filters, prints or exports them.

    orders:customer.email,phone    fields by their paths; lists and maps add no step
    orders:*.email                 every field of that name, wherever it is
    orders:#PII                    every field that has this tag in the schema
    orders:*                       every field

A column that has undecoded values of a masked field, because a type contains itself, is masked as a whole. While a
topic has a mask, the reasons of values that are not decoded are withheld as well: they may quote bytes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

WITHHELD = "not decoded; the topic has a mask, so neither the value nor the reason is shown"

FIELDS_MAX = 1000
"""Fields that the masks of a command name: each is compared with every field of a schema."""

_COMPARED_MAX = 255
"""Characters that are compared with names, because difflib takes quadratic time."""

Path: TypeAlias = tuple[str, ...]
TOP: Path = ()
_Tree: TypeAlias = "dict[str, Any] | None"
"""The masked fields of a column by name; None: the column itself."""


class MaskError(ValueError):
    """A mask that hides nothing, because its topic or field is not there. The message has the nearest name."""


@dataclass(frozen=True, slots=True)
class TypeMember:
    """A column within the columns of a reader's type, for masks."""

    path: Path
    """The names of the structs' fields that lead to it; empty for the value itself."""
    tags: frozenset[str] = frozenset()
    within: Path | None = None
    """The column has undecoded values of the type at this path."""
    is_open: bool = False
    """The column may have fields that the schema does not name, such as JSON text."""


class FieldMask:
    """The masked columns of one reader's type."""

    def __init__(self, paths: Collection[Path]) -> None:
        self.paths = frozenset(paths)
        self._tree: _Tree = {}
        for path in sorted(self.paths, key=len):
            self._add(path)

    def _add(self, path: Path) -> None:
        if not path:
            self._tree = None
        tree = self._tree
        for name in path[:-1]:
            if tree is None:
                return
            tree = tree.setdefault(name, {})
        if tree is not None:
            tree[path[-1]] = None

    def applied(self, column: pa.Array) -> pa.Array:
        """Return a column of the type, or of some of its fields, with nulls in place of what is masked."""
        return _masked(column, self._tree)

    def reasons(self, reasons: pa.DictionaryArray) -> pa.DictionaryArray:
        """Return the reasons of values that are not decoded, without anything that may be of a value."""
        hidden = pa.array([WITHHELD] * len(reasons.dictionary), pa.string())
        return pa.DictionaryArray.from_arrays(reasons.indices, hidden)


@dataclass(frozen=True, slots=True)
class Masks:
    """The masks of a command: what each topic hides."""

    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Paths, `*.NAME` and `#TAG` by topic."""

    def __contains__(self, topic: object) -> bool:
        return topic in self.fields

    def check_topics(self, topics: Collection[str]) -> None:
        """Raise `MaskError` for a topic that is not among those of a directory."""
        for topic in self.fields:
            if topic not in topics:
                raise MaskError(f"mask {topic}: there is no such topic{_near(topic, topics)}")

    def of(self, topic: str, members: Iterable[TypeMember], tags: Iterable[tuple[str, str]] = ()) -> FieldMask | None:
        """Return the mask of a topic whose values have these columns; None for a topic without one. `MaskError`.

        `tags`: paths and tags of the metadata of the schema, as `SchemaVersion` has them.
        """
        if topic not in self.fields:
            return None
        known, paths = _tagged(members, tags), set[Path]()
        for wanted in self.fields[topic]:
            found = _selected(wanted, known)
            if not found:
                raise MaskError(f"mask {topic}:{wanted}: values of {topic} have no such {_missing(wanted, known)}")
            paths |= found
        for member in known:
            if member.within is not None and any(path[: len(member.within)] == member.within for path in paths):
                paths.add(member.path)
        return FieldMask(paths)


def parse_masks(words: Iterable[str]) -> Masks:
    """Return the masks of texts `TOPIC:FIELD[,FIELD…]`. `MaskError` for another text."""
    found: dict[str, list[str]] = {}
    for word in words:
        topic, colon, text = word.partition(":")
        names = [name.strip() for name in text.split(",")]
        if not colon or not topic or not all(name.strip("#.") for name in names):
            raise MaskError(f"mask {word!r} is not TOPIC:FIELD[,FIELD], such as orders:customer.email or orders:#PII")
        found.setdefault(topic, []).extend(names)
    if sum(map(len, found.values())) > FIELDS_MAX:
        raise MaskError(f"masks name more than {FIELDS_MAX} fields")
    return Masks(found)


def _tagged(members: Iterable[TypeMember], tags: Iterable[tuple[str, str]]) -> list[TypeMember]:
    """Return columns with the tags of the metadata as well.

    Paths of it begin with names of types or `**`. The last name decides, so that rather too much is tagged.
    """
    names = [(re.compile(_glob(path.rpartition(".")[2]), re.DOTALL), tag) for path, tag in tags]
    found = []
    for member in members:
        own = [tag for name, tag in names if member.path and name.fullmatch(member.path[-1])]
        found.append(replace(member, tags=member.tags | frozenset(own)) if own else member)
    return found


def _glob(name: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in re.sub(r"\*+", "*", name))


def _selected(wanted: str, members: Sequence[TypeMember]) -> set[Path]:
    """Return the paths that a text selects; for a name also the columns that may have such fields unnamed.

    These alone are no match: a mistyped name would go unnoticed.
    """
    found = _matching(wanted, members)
    if found and "*" in wanted:
        found |= {member.path for member in members if member.is_open}
    return found


def _matching(wanted: str, members: Sequence[TypeMember]) -> set[Path]:
    if wanted.startswith("#"):
        return {member.path for member in members if wanted[1:] in member.tags}
    if wanted == "*":
        tops: set[Path] = {member.path for member in members if len(member.path) == 1}
        return tops or {TOP}
    parts = [".*" if part == "*" else re.escape(part) for part in wanted.split(".")]
    pattern = re.compile(r"\.".join(parts).replace(r".*\.", r"(?:.*\.)?"), re.DOTALL)
    return {member.path for member in members if member.path and pattern.fullmatch(".".join(member.path))}


def _missing(wanted: str, members: Sequence[TypeMember]) -> str:
    if wanted.startswith("#"):
        return f"tag{_near(wanted, {f'#{tag}' for member in members for tag in member.tags})}"
    names = {".".join(member.path) for member in members if member.path}
    names |= {f"*.{member.path[-1]}" for member in members if member.path} if "*" in wanted else set()
    return f"field{_near(wanted, names)}"


def _near(name: str, names: Collection[str]) -> str:
    by_lower = {candidate.lower(): candidate for candidate in sorted(names, reverse=True)}
    near = difflib.get_close_matches(name[:_COMPARED_MAX].lower(), by_lower, n=1)
    if near:
        return f"; did you mean {by_lower[near[0]]}?"
    shown = sorted(names, key=lambda path: (path.count("."), path))[:5]
    return f"; there are {', '.join(shown)}{', …' if len(names) > len(shown) else ''}" if shown else ""


def _masked(column: pa.Array, tree: _Tree) -> pa.Array:
    kind = column.type
    if tree is None:
        return pa.nulls(len(column), kind)
    if not tree:
        return column
    if pa.types.is_struct(kind):
        parts = [
            _masked(column.field(at), tree[kind.field(at).name]) if kind.field(at).name in tree else column.field(at)
            for at in range(kind.num_fields)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if column.offset:
        column = pa.concat_arrays([column])
    if pa.types.is_map(kind):
        items = [column.keys, _masked(column.items, tree)]
        entries = pa.StructArray.from_arrays(items, fields=[kind.key_field, kind.item_field])
    else:
        assert pa.types.is_list(kind), f"a mask within {kind}"
        entries = _masked(column.values, tree)
    return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], column.null_count, children=[entries])
