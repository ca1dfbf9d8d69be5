"""Expressions of SQL that turn bytes into text, for formats of text."""

from __future__ import annotations

import duckdb

from offsetfs.tables.sql.names import quoted


def as_text(value: str, kind: str) -> str:
    """Return the expression of a value in a text format: bytes, also within lists and structs, as text if they are."""
    if "BLOB" not in kind:
        return value
    try:
        return _with_texts(value, duckdb.sqltype(kind), 1)
    except duckdb.Error:  # a type that has no text that DuckDB reads again
        return value


def _with_texts(value: str, kind: duckdb.sqltypes.DuckDBPyType, depth: int) -> str:
    if kind.id == "blob":
        return f"coalesce(try(decode({value})), {value}::VARCHAR)"
    if "BLOB" not in str(kind):
        return value
    element = f"each{depth}"
    children = {name: child for name, child in kind.children if not isinstance(child, int | list)}
    if kind.id in ("list", "array"):
        return f"list_transform({value}, lambda {element}: {_with_texts(element, children['child'], depth + 1)})"
    if kind.id == "map":
        keys, values = (
            f"list_transform(map_{part}s({value}), lambda {element}: {_with_texts(element, children[part], depth + 1)})"
            for part in ("key", "value")
        )
        return f"map({keys}, {values})"
    if kind.id == "struct":
        fields = []
        for name, child in children.items():
            literal = name.replace("'", "''")
            field_value = _with_texts(f"struct_extract({value}, '{literal}')", child, depth)
            fields.append(f"{quoted(name)} := {field_value}")
        return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(fields)}) END"
    return value
