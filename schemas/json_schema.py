"""JSON Schema as types of columns: drafts 4 to 2020-12, with references resolved, and bounded.

    parsed('{"type": "object", "properties": …}')   →   JsonType("object", ("id", …), (JsonType("integer"), …))

| schema | type |
|---|---|
| `string`, `boolean`, `integer`, `number`, `null`; `enum` and `const` of such values | that |
| `object` with `properties` | object; other properties are left out |
| `object` with one type for all properties | map |
| `array` with `items` | array |
| several types, no type, tuples, a type within itself, anything else | json: the text of the value |

`allOf` and `$ref` add to what stands beside them. `anyOf` and `oneOf` have a type if all branches but null have the
same. Any type may be null. `format` does not change a type: a time with a zone has more than an instant. `if`, `not`
and limits such as `minimum` do not matter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from offsetfs.schemas.formats import InvalidSchema

TEXT_BYTES_MAX = 8 << 20
"""The size of a schema: protects memory."""

DEPTH_MAX = 64
"""Schemas within each other; what is deeper is JSON text. Protects the stack."""

SCHEMAS_MAX = 50_000
"""Schemas that are read, one that is referred to each time: protects time and memory."""

_NAMES_A_STEP = 16
"""Properties of an object that are merged in about the time that another schema takes."""

PARTS_MAX = 1_000_000
"""Parts of a schema that are searched for tags: protects time."""

_SCALARS = frozenset(("null", "boolean", "integer", "number", "string"))
_DATA = frozenset(("enum", "const", "default", "examples"))
"""Keywords whose values are no schemas."""
_BY_NAME = frozenset(("properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies"))
"""Keywords whose values have a schema for each name."""
_BRANCHES = ("anyOf", "oneOf")
_TAGS = "confluent:tags"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JsonType:
    """The type of a value."""

    kind: str
    """null, boolean, integer, number, string, object, array, map, json"""
    names: Path = ()
    """The properties of an object."""
    children: tuple[JsonType, ...] = ()
    """Of an object those of its properties; of an array or a map one."""
    tags: frozenset[str] = frozenset()
    """Those of Confluent, `confluent:tags`; of JSON text all that its parts may have."""
    within: Path | None = None
    """Of JSON text: the place around it whose type it has again."""


_JSON = JsonType("json")


def parsed(text: str, references: Mapping[str, str] | None = None) -> JsonType:
    """Return the type that a schema defines; `references` are texts of schemas to which it may refer, by name.

    `InvalidSchema` for a text that is no schema, a reference that leads to none, and a schema that is too large.
    """
    return _Parser(text, references or {}).type()


class _Parser:
    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self._resources: dict[str, Any] = {}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._bases: dict[int, str] = {}
        self._active: dict[int, Path] = {}
        self._count = self._searched = 0
        for name, other in references.items():
            self._index(_loaded(other), name)
        self._root = _loaded(text)
        self._index(self._root, "")
        self._has_tags = _TAGS in text or any(_TAGS in other for other in references.values())

    def type(self) -> JsonType:
        return self._type(self._root, (), 0)

    # --- references --------------------------------------------------------------------------------------------------

    def _index(self, root: Any, name: str) -> None:
        """Note where the schemas of a document are, by URI and anchor."""
        self._resources[name] = root
        is_old = isinstance(root, dict) and "draft-04" in str(root.get("$schema"))
        waiting = [(root, name, False)]
        while waiting:
            schema, base, is_by_name = waiting.pop()
            if isinstance(schema, list):
                waiting += ((item, base, False) for item in schema)
            elif isinstance(schema, dict) and is_by_name:
                waiting += ((part, base, False) for part in schema.values())
            elif isinstance(schema, dict):
                base = self._bases[id(schema)] = self._note(schema, base, "id" if is_old else "$id")
                parts = ((keyword, part) for keyword, part in schema.items() if keyword not in _DATA)
                waiting += ((part, base, keyword in _BY_NAME) for keyword, part in parts)

    def _note(self, schema: Mapping[str, Any], base: str, keyword: str) -> str:
        """Note the names that a schema gives itself; return its base URI."""
        own, anchor = schema.get(keyword), schema.get("$anchor")
        if isinstance(own, str) and own.startswith("#"):
            self._anchors.setdefault((base, own[1:]), schema)
        elif isinstance(own, str):
            base = _joined(base, own)[0]
            self._resources.setdefault(base, schema)
        if isinstance(anchor, str):
            self._anchors.setdefault((base, anchor), schema)
        return base

    def _target(self, schema: Mapping[str, Any], reference: object, path: Path) -> Any:
        """Return the schema to which one refers."""
        if not isinstance(reference, str):
            raise _invalid(path, "has a $ref that is not text")
        uri, fragment = _joined(self._bases.get(id(schema), ""), reference)
        resource = self._resources.get(uri, self._resources.get(reference.partition("#")[0]))
        if resource is not None and fragment and not fragment.startswith("/"):
            resource = self._anchors.get((self._bases.get(id(resource), uri), fragment))
        elif resource is not None:
            resource = _pointed(resource, fragment)
        if resource is None:
            raise _invalid(path, f"refers to {reference}, which neither the schema nor its references define")
        return resource

    # --- types -------------------------------------------------------------------------------------------------------

    def _type(self, schema: Any, path: Path, depth: int) -> JsonType:
        self._count += 1
        if self._count > SCHEMAS_MAX:
            raise InvalidSchema(f"the schema has more than {SCHEMAS_MAX} schemas in it")
        if isinstance(schema, bool):
            return _JSON
        if not isinstance(schema, dict):
            raise _invalid(path, "is not a schema")
        if id(schema) in self._active:
            return replace(_JSON, within=self._active[id(schema)], tags=self._tags_within(schema))
        if depth > DEPTH_MAX:
            return replace(_JSON, tags=self._tags_within(schema))
        self._active[id(schema)] = path
        found = self._combined(schema, path, depth + 1)
        del self._active[id(schema)]
        if found.kind == "json":
            return replace(found, tags=found.tags | self._tags_within(schema))
        return replace(found, tags=found.tags | _tags_of(schema))

    def _combined(self, schema: Mapping[str, Any], path: Path, depth: int) -> JsonType:
        found = self._own(schema, path, depth)
        if "$ref" in schema:
            found = _both(found, self._type(self._target(schema, schema["$ref"], path), path, depth))
        for part in _schemas(schema, "allOf", path):
            self._count += len(found.names) // _NAMES_A_STEP
            found = _both(found, self._type(part, path, depth))
        for keyword in _BRANCHES:
            branches = [self._type(part, path, depth) for part in _schemas(schema, keyword, path)]
            if branches:
                found = _both(found, _either(branches))
        self._count += len(found.names) // _NAMES_A_STEP
        return found

    def _own(self, schema: Mapping[str, Any], path: Path, depth: int) -> JsonType:
        """Return the type by the keywords of a schema alone."""
        kinds = _kinds(schema)
        if len(kinds) != 1:
            return _JSON
        (kind,) = kinds
        if kind == "object":
            return self._object(schema, path, depth)
        if kind == "array":
            return self._array(schema, path, depth)
        return JsonType(kind) if kind in _SCALARS else _JSON

    def _object(self, schema: Mapping[str, Any], path: Path, depth: int) -> JsonType:
        properties = _mapping(schema, "properties", path)
        names = tuple(name for name in properties if _is_name(name))
        if names:
            return JsonType(
                "object", names, tuple(self._type(properties[name], (*path, name), depth) for name in names)
            )
        patterns = list(_mapping(schema, "patternProperties", path).values())
        others = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        values = [*patterns, *([others] if isinstance(others, dict) and others else [])]
        if len(values) != 1:
            return _JSON
        return JsonType("map", (), (self._type(values[0], path, depth),))

    def _array(self, schema: Mapping[str, Any], path: Path, depth: int) -> JsonType:
        items = schema.get("items", True)
        if "prefixItems" in schema or isinstance(items, list):
            return _JSON
        return JsonType("array", (), (self._type(items, path, depth),))

    def _tags_within(self, schema: Any) -> frozenset[str]:
        """Return the tags of a schema and all its parts, which its JSON text has within it."""
        if not self._has_tags:
            return frozenset()
        tags, waiting, seen = set[str](), [schema], set[int]()
        while waiting:
            part = waiting.pop()
            if id(part) in seen or not isinstance(part, dict | list):
                continue
            seen.add(id(part))
            self._searched += 1
            if self._searched > PARTS_MAX:
                raise InvalidSchema(f"the schema has tags in more than {PARTS_MAX} places")
            if isinstance(part, dict):
                tags |= _tags_of(part)
                if isinstance(part.get("$ref"), str):
                    waiting.append(self._target(part, part["$ref"], ()))
            waiting += part.values() if isinstance(part, dict) else part
        return frozenset(tags)


# --- types of several schemas ----------------------------------------------------------------------------------------


def _both(one: JsonType, other: JsonType) -> JsonType:
    """Return the type of values that fit two schemas. JSON text fits any."""
    tags = one.tags | other.tags
    if "json" in (one.kind, other.kind):
        if one.kind == other.kind:
            return replace(_JSON, tags=tags, within=_around(one.within, other.within))
        return replace(one if other.kind == "json" else other, tags=tags)
    kinds = {one.kind, other.kind}
    if kinds == {"integer", "number"}:
        return JsonType("integer", tags=tags)
    if kinds == {"object", "map"}:
        return replace(one if one.kind == "object" else other, tags=tags)
    if len(kinds) > 1:
        return replace(_JSON, tags=tags | _all_tags(one) | _all_tags(other))
    if one.kind == "object":
        parts = dict(zip(one.names, one.children, strict=True))
        for name, child in zip(other.names, other.children, strict=True):
            parts[name] = _both(parts[name], child) if name in parts else child
        return JsonType("object", tuple(parts), tuple(parts.values()), tags)
    children = tuple(_both(*pair) for pair in zip(one.children, other.children, strict=True))
    return JsonType(one.kind, (), children, tags)


def _either(branches: Sequence[JsonType]) -> JsonType:
    """Return the type of values that fit one of several schemas."""
    others = [branch for branch in branches if branch.kind != "null"]
    if not others:
        return branches[0]
    tags = frozenset[str]().union(*(branch.tags for branch in branches))
    if {branch.kind for branch in others} == {"integer", "number"}:
        return JsonType("number", tags=tags)
    if all(_shape(branch) == _shape(others[0]) for branch in others[1:]):
        found = others[0]
        for branch in others[1:]:
            found = _both(found, branch)
        return replace(found, tags=tags)
    within = None
    for branch in others:
        within = _around(within, branch.within)
    return JsonType("json", tags=tags.union(*map(_all_tags, others)), within=within)


def _shape(kind: JsonType) -> object:
    """Return a type without its tags, for comparison."""
    return kind.kind, kind.names, tuple(_shape(child) for child in kind.children)


def _all_tags(kind: JsonType) -> frozenset[str]:
    return kind.tags.union(*(_all_tags(child) for child in kind.children))


def _around(one: Path | None, other: Path | None) -> Path | None:
    """Return the place that is around both."""
    if one is None or other is None:
        return other if one is None else one
    size = next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), None)
    return one[: min(len(one), len(other)) if size is None else size]


# --- keywords --------------------------------------------------------------------------------------------------------


def _loaded(text: str) -> Any:
    if len(text) > TEXT_BYTES_MAX:
        raise InvalidSchema(f"the schema has {len(text)} characters; {TEXT_BYTES_MAX} are read")
    try:
        return json.loads(text)
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply") from None
    except ValueError as error:
        raise InvalidSchema(f"the schema is not JSON: {error}") from None


def _joined(base: str, reference: str) -> tuple[str, str]:
    """Return the URI of a reference, and its fragment. A base of another form than a URL has no relatives."""
    address, _, fragment = reference.partition("#")
    try:
        return (urldefrag(urljoin(base, address))[0] if address else base), unquote(fragment)
    except ValueError as error:
        raise InvalidSchema(f"the schema has the reference {reference}, which is no URI: {error}") from None


def _pointed(schema: Any, pointer: str) -> Any:
    """Return the part of a schema at a JSON pointer; None if there is none."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, dict):
            schema = schema.get(name)
        elif isinstance(schema, list) and name.isascii() and name.isdigit() and len(name) < 10:
            schema = schema[int(name)] if int(name) < len(schema) else None
        else:
            return None
    return schema


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a schema names, or those of its values; of several, null does not count."""
    given = schema.get("type")
    if given is None:
        given = _kinds_of_values(schema) or (["object"] if "properties" in schema else [])
    kinds = {kind for kind in (given if isinstance(given, list) else [given]) if isinstance(kind, str)}
    if len(kinds) > 1:
        kinds.discard("null")
    return {"number"} if kinds == {"integer", "number"} else kinds


def _kinds_of_values(schema: Mapping[str, Any]) -> list[str]:
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return [_kind_of(value) for value in values] if isinstance(values, list) else []


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "number"
    kinds = {str: "string", int: "integer", type(None): "null"}
    return kinds.get(type(value), "json")


def _is_name(name: str) -> bool:
    """Whether a property can be a column: Arrow's names are UTF-8, and end at a zero byte."""
    try:
        return "\0" not in name and bool(name.encode())
    except UnicodeEncodeError:
        return False


def _mapping(schema: Mapping[str, Any], keyword: str, path: Path) -> Mapping[str, Any]:
    found = schema.get(keyword, {})
    if not isinstance(found, dict):
        raise _invalid(path, f"has {keyword!r} that are not an object")
    return found


def _schemas(schema: Mapping[str, Any], keyword: str, path: Path) -> Sequence[Any]:
    found = schema.get(keyword, [])
    if not isinstance(found, list):
        raise _invalid(path, f"has {keyword!r} that is not a list")
    return found


def _tags_of(schema: Mapping[str, Any]) -> frozenset[str]:
    given = schema.get(_TAGS)
    return frozenset(tag for tag in given if isinstance(tag, str)) if isinstance(given, list) else frozenset()


def _invalid(path: Path, reason: str) -> InvalidSchema:
    return InvalidSchema(f"{'.'.join(path) or 'the schema'} {reason}")
