"""Statements of SQL for the page: rows that JSON can hold, so many, within a time.

The tables are those of `offsetfs sql`, with the masks of the page. A statement reads and writes no file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from offsetfs.common.extras import install_command
from offsetfs.storage.errors import sentence
from offsetfs.web.exact_json import EXACT_MAX
from offsetfs.web.http_server import HttpError

if TYPE_CHECKING:
    from offsetfs.web.record_views import RecordsOf

ROWS_MAX = 1000
CELL_CHARACTERS = 1000


def sql_view(records: RecordsOf, statement: str, started: Callable[[Callable[[], None]], None]) -> dict[str, Any]:
    """Return the first rows of a statement. `started` gets what interrupts it. `HttpError`; StorageError; OSError."""
    try:
        from offsetfs.schemas.registry_schemas import open_registry
        from offsetfs.tables.sql.session import SqlError, SqlSession
    except ModuleNotFoundError as error:
        raise HttpError(501, f"SQL needs {error.name}: {install_command('sql')}") from error
    try:
        with SqlSession(
            records.directory,
            skips_damage=True,
            files=(),
            schemas=records.files,
            masks=records.masks,
            registry=open_registry(records.registry_word),
        ) as session:
            started(session.interrupt)
            statements = session.statements(statement)
            if len(statements) != 1:
                raise HttpError(400, f"give one statement: there are {len(statements)}")
            session.parameters_of(statements[0], {})
            result = session.run(statements[0])
            rows = [[cell(value) for value in row] for row in islice(result.rows, ROWS_MAX + 1)]
            left_out = [*map(str, session.notes.values()), *(sentence(damage) for damage in session.damage)]
            return {
                "columns": [*result.columns],
                "rows": rows[:ROWS_MAX],
                "is_cut": len(rows) > ROWS_MAX,
                "left_out": left_out,
            }
    except SqlError as error:
        raise HttpError(400, " ".join(str(error).split())) from error


def cell(value: object) -> str | int | float | bool | None:
    """Return a value of DuckDB for JSON: a number that stays exact, or its text, cut."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= EXACT_MAX:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, bytes):
        value = value[:CELL_CHARACTERS].decode("utf-8", "backslashreplace")
    text = str(value)
    return text if len(text) <= CELL_CHARACTERS else f"{text[:CELL_CHARACTERS]}…"
