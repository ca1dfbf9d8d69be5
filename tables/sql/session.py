"""A connection to DuckDB in which each topic of a log directory is a table.

    orders                 the records of a topic: the columns of Spark's source, `key_text`, `value_text`, `value_json`
    all_topics             the same of all topics but internal ones
    __consumer_offsets     the committed offsets of consumer groups
    decoded.orders         the values of a topic, decoded by its schema

The tables are views over `TopicTable`. Nothing is written into the log directory (`file_access`). DuckDB loads no
extension; larger results than its memory limit are spilled into a temporary directory.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

import duckdb

from offsetfs.schemas.decoding import DirectorySchemas, NoSchema
from offsetfs.schemas.masks import MaskError, Masks
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.storage import INTERNAL_TOPICS, AnyLogDirectory, TopicPartition
from offsetfs.storage.coordinators import OFFSETS_TOPIC
from offsetfs.storage.errors import StorageError
from offsetfs.tables.sql.bytes_as_text import as_text
from offsetfs.tables.sql.decoded_tables import DECODED, DecodedTable, distinct
from offsetfs.tables.sql.error_text import hint_for, in_two_lines
from offsetfs.tables.sql.file_access import FileAccess, FileRefused
from offsetfs.tables.sql.formats import COPY_OPTIONS
from offsetfs.tables.sql.forwarding import forwarding
from offsetfs.tables.sql.interruption import InterruptibleCalls
from offsetfs.tables.sql.names import QUOTED, places, quoted, reserved, table_names
from offsetfs.tables.sql.offsets_table import OffsetsTable
from offsetfs.tables.sql.topic_table import FoundTable, Scan, ScanContext, TopicTable

if TYPE_CHECKING:
    import pyarrow as pa

    from offsetfs.schemas.registry_schemas import RegistrySchemas

_COLUMNS = (
    'key, value, topic, "partition", "offset", "timestamp", "timestampType", headers,'
    " try(decode(key)) AS key_text, try(decode(value)) AS value_text,"
    " try_cast(try(decode(value)) AS JSON) AS value_json"
)
_COLUMNS_OF_MASKED = (
    'key, topic, "partition", "offset", "timestamp", "timestampType", headers, try(decode(key)) AS key_text'
)
"""Those of a topic with a mask."""

_RECORD_COLUMNS = (
    *("topic", "partition", "offset", "timestamp", "headers"),
    *("key", "key_text", "value", "value_text", "value_json"),
)

_NO_COLUMN = re.compile(r'Referenced column "(\w+)" not found')

_FETCH_ROWS = 2048

_LISTED_MAX = 10
"""Topics that a message names, at most."""

_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(ANALYZE\s+)?(\([^()]*\)\s*)?", re.IGNORECASE)

_NO_COMMANDS = (
    "commands that begin with a backslash are those of the prompt; SHOW TABLES and DESCRIBE TOPIC are statements"
)

_FIELD_OF_BYTES = re.compile(r'(?<![\w"])(key|value)"?\s*(->(?!>)|::\s*json\b)', re.IGNORECASE)
"""A field of bytes by `->`, or their cast to JSON: DuckDB returns NULL, or a text, and no error."""

ALL_TOPICS = "all_topics"
"""The table of the records of all topics, but internal ones; a topic of this name hides it."""

_SAME_WORD = 0.65
"""The similarity (of `difflib`) from which a name is taken for a misspelled one: `records` is not for `orders`."""

_MACROS = (
    # Without them a field of `value` is NULL: DuckDB makes a JSON text of bytes.
    'CREATE MACRO "->>"(bytes BLOB, path) AS'
    " system.main.json_extract_string(try_cast(try(decode(bytes)) AS JSON), path),"
    " (json, path) AS system.main.json_extract_string(json, path)",
    "CREATE MACRO header(headers, name) AS"
    " try(decode(list_last(list_filter(headers, lambda each: each.key = name)).value))",
)


class SqlError(Exception):
    """A statement that cannot be run. The message has the position, where DuckDB knows it, and the remedy."""


@dataclass(slots=True)
class QueryResult:
    """The rows of a statement. `columns` is empty for a statement without rows."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[object, ...]]
    is_plan: bool = False
    """Whether the rows are the plan of an EXPLAIN."""
    scans: list[Scan] = field(default_factory=list)
    """The ranges and columns that are read, for a plan."""


class SqlSession:
    """Runs statements over an open log directory. One thread at a time. Ctrl-C ends a statement: KeyboardInterrupt."""

    def __init__(
        self,
        directory: AnyLogDirectory,
        *,
        isolation: str = "read_uncommitted",
        skips_damage: bool = False,
        files: Sequence[str] | None = None,
        schemas: Mapping[str, FileSchema] | None = None,
        masks: Masks | None = None,
        registry: RegistrySchemas | None = None,
    ):
        """`SqlError` if one of `files`, or the directory for temporary files, is at, in or above the log directory.

        `isolation`: whether records of open and aborted transactions are shown, as `LogReader` takes it.

        `skips_damage`: leave out batches that cannot be read, and collect their errors in `damage`.

        `files`: directories and files that statements may read and write, as `FileAccess` takes them.

        `schemas`: those of files, by the name that records or topics have for them (`read_schema_files`).

        `registry`: is asked for schemas that are neither in files nor in the topic `_schemas`.

        `masks`: fields that are null; topics that have one show no raw values. `SqlError` if one is not there.
        """
        self._directory = directory
        self._schemas = DirectorySchemas(directory, schemas or {}, masks, registry)
        self._check_masks()
        self.damage: list[StorageError] = []
        self._context = ScanContext(
            directory,
            is_committed_only=isolation == "read_committed",
            masked=self._schemas.masks.fields.keys(),
            damage=self.damage if skips_damage else None,
        )
        self.notes: Mapping[TopicPartition, str] = self._context.notes
        """Records that the scanned partitions lack, because they are only in remote storage."""
        try:
            self._files = FileAccess(directory.path, files)
        except FileRefused as error:
            raise SqlError(str(error)) from error
        try:
            self._files.check_file(tempfile.gettempdir())
        except FileRefused as error:
            raise SqlError(f"{error}: set TMPDIR to another directory") from error
        self._spill = os.path.realpath(tempfile.mkdtemp(prefix="offsetfs-sql-"))
        config: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": self._spill,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_persistent_secrets": False,
        }
        self._connection = duckdb.connect(config=config)
        self._interruptible = InterruptibleCalls(self._connection)
        self._files.apply(self._connection, self._spill)
        for macro in _MACROS:
            self._connection.execute(macro)
        self._all_topics().create_view(ALL_TOPICS)
        self._connection.execute(f"CREATE SCHEMA {DECODED}")
        self._decoded: dict[str, str] = {}  # the views; why a table has none
        self._known: dict[str, str] = {}  # the topic of each table
        self.refresh()

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and remove what it has spilled."""
        self._interruptible.close()
        self._connection.close()
        shutil.rmtree(self._spill, ignore_errors=True)

    def interrupt(self) -> None:
        """End the statement that runs in another thread. DuckDB forgets it between two steps: repeat it."""
        with suppress(duckdb.Error):  # it is closed
            self._connection.interrupt()

    def show_progress(self, on_progress: Callable[[int, int], None] | None) -> None:
        """Call `on_progress` with the bytes read and to be read of the statements that follow, from any thread."""
        self._context.on_progress = on_progress

    def tables(self) -> list[str]:
        """Return the names of the tables, sorted."""
        return sorted(self._known)

    def table_of(self, topic: str) -> str:
        """Return the name of the table of a topic, as a statement writes it."""
        return quoted(next(table for table, held_topic in self._known.items() if held_topic == topic))

    def decoded_table_of(self, topic: str) -> str | None:
        """Return the name of the table of a topic's decoded values, as a statement writes it; None without one."""
        table = next(table for table, held_topic in self._known.items() if held_topic == topic)
        return None if self._decoded.get(table, "no") else f"{DECODED}.{quoted(table)}"

    def columns(self, table: str) -> list[tuple[str, str]]:
        """Return names and types of the columns of a table. `SqlError` for an unknown one."""
        described = self.run(f"DESCRIBE {quoted(table)}")
        return [(str(row[0]), str(row[1])) for row in described.rows]

    def _check_masks(self) -> None:
        if self._schemas.masks.fields:
            self._schemas.refresh()
        try:
            self._schemas.check_masks()
        except MaskError as error:
            raise SqlError(str(error)) from error

    def _all_topics(self) -> duckdb.DuckDBPyRelation:
        return self._connection.from_arrow(TopicTable(None, self._context)).project(_COLUMNS)

    def refresh(self) -> None:
        """Take in topics that were created or deleted since."""
        present = table_names({partition.topic for partition in self._directory.partitions()})
        for table, topic in self._known.items():
            if present.get(table) != topic:
                self._connection.execute(f"DROP VIEW IF EXISTS {quoted(table)}")
                if table.lower() == ALL_TOPICS:
                    self._all_topics().create_view(ALL_TOPICS)
        for table, topic in present.items():
            if self._known.get(table) == topic:
                continue
            if topic == OFFSETS_TOPIC:
                relation = self._connection.from_arrow(OffsetsTable(self._directory))
            else:
                columns = _COLUMNS_OF_MASKED if topic in self._schemas.masks else _COLUMNS
                relation = self._connection.from_arrow(TopicTable(topic, self._context)).project(columns)
            relation.create_view(table)
        self._refresh_decoded(present)
        self._known = present

    def _refresh_decoded(self, present: Mapping[str, str]) -> None:
        """Make the views of decoded values; anew, if there are new schemas."""
        if not self._schemas.refresh() and present == self._known:
            return
        for table in self._decoded:
            self._connection.execute(f"DROP VIEW IF EXISTS {DECODED}.{quoted(table)}")
        self._decoded = {}
        self._connection.execute(f"USE {DECODED}")
        try:
            for table, topic in present.items():
                if topic not in INTERNAL_TOPICS:
                    self._decoded[table] = self._made_decoded(table, topic)
        finally:
            self._connection.execute("USE main")

    def _made_decoded(self, table: str, topic: str) -> str:
        """Make the view of a topic's decoded values; return why there is none, else an empty text."""
        try:
            decoded = DecodedTable(topic, self._context, self._schemas)
        except NoSchema as error:
            return f"{error.reason}; --schema {error.word} gives a schema" if error.word else error.reason
        except MaskError as error:
            return str(error)
        columns = ", ".join(map(quoted, decoded.columns()))
        self._connection.from_arrow(decoded).project(columns).create_view(table)
        return ""

    def warnings(self, statement: str) -> list[str]:
        """Return what a statement does that DuckDB permits and that is most likely a mistake."""
        field = _FIELD_OF_BYTES.search(QUOTED.sub("''", statement))
        if field is None:
            return []
        name = field[1].lower()
        return [f"{name} is bytes, of which {field[2]} makes no JSON; write {name}->>'FIELD', or use value_json"]

    def statements(self, text: str) -> list[str]:
        """Return the statements of a text. `SqlError` for one that is wrong."""
        try:
            return [statement.query.strip() for statement in self._connection.extract_statements(text)]
        except duckdb.Error as error:
            if text.lstrip().startswith(("\\", ".")):
                raise SqlError(_NO_COMMANDS) from error
            raise self._explained(error, text) from error

    def parameters_of(self, statement: str, parameters: Mapping[str, object]) -> dict[str, object]:
        """Return those parameters that a statement names. `SqlError` for one that is missing."""
        names = sorted(
            name for parsed in self._connection.extract_statements(statement) for name in parsed.named_parameters
        )
        missing = [name for name in names if name not in parameters]
        if missing and missing[0].isdigit():
            raise SqlError("the statement has a parameter without a name; write $NAME, and give --param NAME=VALUE")
        if missing:
            raise SqlError(f"the statement has the parameter ${missing[0]}; give it with --param {missing[0]}=VALUE")
        return {name: parameters[name] for name in names}

    def run(self, statement: str, parameters: Mapping[str, object] | None = None) -> QueryResult:
        """Run one statement. `SqlError`, or the `StorageError` or OSError that ended the reading of a log.

        The rows are computed as they are taken, which raises the same errors.
        """
        plain = _explained_statement(self._connection, statement)
        if plain is not None:
            return self._explain(statement, plain, parameters)
        cursor = self._execute(statement, parameters)
        columns = tuple(column[0] for column in cursor.description or ())
        if columns == ("Count",) and self._kind_of(statement) == duckdb.StatementType.CREATE:
            list(self._rows(cursor))  # DuckDB counts rows, which are none of the statement
            return QueryResult((), iter(()))
        return QueryResult(columns, self._rows(cursor))

    def _kind_of(self, statement: str) -> duckdb.StatementType:
        return self._connection.extract_statements(statement)[0].type

    def check_output(self, path: str) -> None:
        """Raise `SqlError` for a path in the log directory: the rows would replace a segment of that name."""
        try:
            self._files.check_file(path)
        except FileRefused as error:
            raise SqlError(str(error)) from error

    def copy(
        self, statement: str, parameters: Mapping[str, object] | None, options: str, write: Callable[[bytes], object]
    ) -> None:
        """Hand the rows of a query to `write`, as DuckDB's COPY writes them with `options` such as `FORMAT csv`.

        Bytes are written as text where they are UTF-8, except in Parquet. Raises as `run` and as `write`; `SqlError`
        for a statement that is no query. `write` is called in another thread.
        """
        if self._kind_of(statement) != duckdb.StatementType.SELECT:
            raise SqlError("only the rows of a query can be written in this format; --format table takes any statement")
        query = statement.rstrip().rstrip(";")
        if "parquet" not in options.lower():
            kinds = [(str(row[0]), str(row[1])) for row in self.run(f"DESCRIBE {query}", parameters).rows]
            names = distinct([name for name, _ in kinds])
            texts = [
                f"{as_text(place, kind)} AS {name}"
                for place, name, (_, kind) in zip(places(len(names)), map(quoted, names), kinds, strict=True)
            ]
            columns = ", ".join(places(len(names)))
            query = f"SELECT {', '.join(texts)} FROM ({query}\n) AS query({columns})"  # behind a comment, a line ends
        with forwarding(os.path.join(self._spill, "rows"), write) as pipe:
            target = pipe.replace("'", "''")
            self._execute(f"COPY ({query}\n) TO '{target}' ({options}, USE_TMP_FILE false)", parameters).fetchall()

    def copy_records(
        self, batches: Callable[[], Iterable[pa.RecordBatch]], output_format: str, write: Callable[[bytes], object]
    ) -> None:
        """Hand records with the columns of a topic to `write` in a format of `COPY_OPTIONS`, in their order; once.

        The memory is bounded: row groups of Parquet have about 16 MB. Raises as `copy`.
        """
        for setting in ("threads = 1", "preserve_insertion_order = false"):  # one thread keeps the order
            self._connection.execute(f"SET {setting}")
        self._connection.execute("CREATE SCHEMA found; USE found")
        self._connection.from_arrow(FoundTable(batches, self._context)).project(_COLUMNS).create_view("records")
        self._connection.execute("USE main")
        options = COPY_OPTIONS[output_format]
        if output_format == "parquet":
            options += ", ROW_GROUP_SIZE_BYTES '16MB'"
        self.copy("SELECT * FROM found.records", None, options, write)

    def _explain(self, statement: str, plain: str, parameters: Mapping[str, object] | None) -> QueryResult:
        """Return DuckDB's plan, and what the scans of the statement read; they end at once but for ANALYZE."""
        context = self._context
        scans: list[Scan] = []
        context.scans = scans
        try:
            cursor = self._execute(statement, parameters)
            columns = tuple(column[0] for column in cursor.description or ())
            rows = list(self._rows(cursor))
            if not scans:
                context.is_plan_only = True
                self._execute(plain, parameters).fetchall()
        finally:
            context.scans, context.is_plan_only = None, False
        return QueryResult(columns, iter(rows), is_plan=True, scans=scans)

    def _execute(self, statement: str, parameters: Mapping[str, object] | None) -> duckdb.DuckDBPyConnection:
        self._context.begin()
        given = dict(parameters) if parameters else None
        try:
            return self._interruptible(lambda: self._connection.execute(statement, given))
        except (duckdb.Error, RuntimeError) as error:
            raise self._cause(error, statement) from error

    def _rows(self, cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[object, ...]]:
        while True:
            try:
                rows = self._interruptible(lambda: cursor.fetchmany(_FETCH_ROWS))
            except (duckdb.Error, RuntimeError) as error:
                raise self._cause(error) from error
            if not rows:
                return
            yield from rows

    def _cause(self, error: duckdb.Error | RuntimeError, statement: str = "") -> BaseException:
        """Return the error of the log that DuckDB has met, or what is wrong with the statement."""
        if isinstance(error, RuntimeError | duckdb.InterruptException):  # what DuckDB makes of SIGINT
            return KeyboardInterrupt()
        failure, self._context.failure = self._context.failure, None
        if isinstance(failure, StorageError | OSError):
            return failure
        return self._explained(error, statement)

    def _explained(self, error: duckdb.Error, statement: str) -> SqlError:
        text = str(error).strip()
        is_wrong = isinstance(error, duckdb.ParserException | duckdb.CatalogException | duckdb.BinderException)
        unquoted = self._unquoted_topic(text, statement) if is_wrong else None
        if unquoted is not None:
            return SqlError(in_two_lines(text, f"{unquoted} is a topic; write {quoted(unquoted)} with quotes"))
        if isinstance(error, duckdb.CatalogException) and re.search("Table with name .* does not exist", text):
            name = text.split("Table with name ", 1)[1].split(" does not exist", 1)[0]
            if re.search(rf"\b{DECODED}\s*\.", statement, re.IGNORECASE):
                reason = self._decoded.get(name)
                if reason:
                    return SqlError(f"{DECODED}.{quoted(name)} is not there: {reason}")
            where = text.partition("\n\n")[2]
            return SqlError(in_two_lines(f"there is no topic {name}; {self._near(name)}\n\n{where}"))
        hint = hint_for(error, text, statement) or self._field_hint(text, statement)
        if isinstance(error, duckdb.PermissionException) and not hint:
            what = text.partition(" - file system")[0]
            return SqlError(f"{what}: statements may use {self._files.described()}; --files names more")
        return SqlError(in_two_lines(text, hint))

    def _field_hint(self, text: str, statement: str) -> str:
        """Return how a statement names a field of values, if it takes that for a column of records; else ""."""
        missing = _NO_COLUMN.search(text)
        if missing is None or missing[1].startswith("_"):
            return ""
        name, is_of_records = missing[1], False
        for table in self._known:
            if table not in statement or not re.search(rf'(?<![\w."])"?{re.escape(table)}(?!\w)', statement):
                continue
            is_of_records = is_of_records or table != OFFSETS_TOPIC
            if not self._decoded.get(table, "no"):
                described = self._connection.execute(f"DESCRIBE {DECODED}.{quoted(table)}").fetchall()
                if name.lower() in (str(row[0]).lower() for row in described):
                    return f"{name} is a field of values; write FROM {DECODED}.{quoted(table)}"
        if not is_of_records or difflib.get_close_matches(name.lower(), _RECORD_COLUMNS, n=1):
            return ""
        return f"if {name} is a field of values that are JSON, write value->>'{name}'"

    def _near(self, name: str) -> str:
        """Return the remedy for the name of no table: similar names, or what there is."""
        if OFFSETS_TOPIC in self._known and re.search("offset|group", name):
            return f"{OFFSETS_TOPIC} has the committed offsets of groups"
        tables = {*self._known, ALL_TOPICS}
        near = self._alike(name) or difflib.get_close_matches(name, tables, n=3, cutoff=_SAME_WORD)
        if near:
            return f"did you mean {' or '.join(map(quoted, near))}?"
        every = "" if ALL_TOPICS in self._known or not self._known else f"; {ALL_TOPICS} has the records of all topics"
        return f"{_listing(self.tables())}{every}"

    def _alike(self, table: str) -> list[str]:
        """Return the tables of topics that differ from a name in case, or in the number behind it, only."""
        name = table.partition("~")[0].lower()
        return sorted(table for table, topic in self._known.items() if topic.lower() == name)

    def _unquoted_topic(self, message: str, statement: str) -> str | None:
        """Return a topic that a wrong statement has without the quotes that its name needs."""
        plain = QUOTED.sub(" ", statement)
        for table in self._known:
            if re.fullmatch(r"[^\W\d]\w*", table):
                if table in reserved() and f'at or near "{table}"' in message:
                    return table
            elif re.search(rf"(?<![\w.-]){re.escape(table)}(?![\w.-])", plain, re.IGNORECASE):
                return table
        return None


def _listing(tables: Sequence[str]) -> str:
    if not tables:
        return "the directory has no topics"
    shown = ", ".join(map(quoted, tables[:_LISTED_MAX]))
    return f"there are {shown}" + (f" and {len(tables) - _LISTED_MAX} more" if len(tables) > _LISTED_MAX else "")


def _explained_statement(connection: duckdb.DuckDBPyConnection, statement: str) -> str | None:
    """Return the query of an EXPLAIN; None for other statements."""
    match = _EXPLAIN.match(statement)
    if match is None:
        return None
    query = statement[match.end() :]
    try:
        kinds = [parsed.type for parsed in connection.extract_statements(query)]
    except duckdb.Error:
        return None
    return query if kinds == [duckdb.StatementType.SELECT] else None
