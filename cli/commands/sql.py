"""`offsetfs sql`: queries over the topics of a log directory."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.archives import attached
from offsetfs.cli.arguments.cluster_options import ClusterQuestion, check_cluster_options, cluster_options, is_cluster
from offsetfs.cli.arguments.schema_registry import registry_of
from offsetfs.cli.arguments.sources import opened_source
from offsetfs.cli.exit_codes import DONE, FAILED, OUTPUT_CLOSED, SYSTEM, WRONG_CALL, Failure, of_output
from offsetfs.cli.terminal.output_files import is_special, replaced_file
from offsetfs.common.extras import install_command
from offsetfs.common.formatting import printable
from offsetfs.storage.errors import StorageError, counted, sentence
from offsetfs.tables.sql.formats import COPY_OPTIONS

if TYPE_CHECKING:
    from offsetfs.storage import LogDirectory
    from offsetfs.tables.sql.session import SqlSession

_TABLE = "table"
_FORMATS_OF_ENDINGS = {"jsonl": "ndjson", "txt": _TABLE, "": _TABLE}


@click.command("sql", short_help="Query topics with SQL.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("statements", metavar="[STATEMENT]...", nargs=-1)
@click.option("--file", "-f", "file", metavar="FILE", type=click.Path(), help="Statements of a file; - reads stdin.")
@click.option(
    "--param",
    "-p",
    "texts",
    metavar="NAME=VALUE",
    multiple=True,
    help="The value of $NAME, a text: $NAME::INT is a number.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice((_TABLE, *COPY_OPTIONS)),
    help="How rows are written; default table, or that of the name of -o.",
)
@click.option(
    "--output", "-o", metavar="FILE", type=click.Path(), help="A file for the rows, replaced when all are in it."
)
@click.option(
    "--files",
    metavar="FILE|DIR",
    type=click.Path(),
    multiple=True,
    help="A directory or file that statements may read and write; default the working directory.",
)
@click.option(
    "--schema",
    "schema_words",
    metavar="NAME=FILE|DIR",
    multiple=True,
    help="A schema in a file, or files of a directory, for decoded.TOPIC; may be repeated.",
)
@click.option(
    "--schema-registry",
    "registry_word",
    metavar="URL|FILE",
    help="A registry for schemas that are nowhere else, or a properties file with schema.registry.url.",
)
@click.option(
    "--mask",
    "mask_words",
    metavar="TOPIC:FIELD[,FIELD]",
    multiple=True,
    help="Fields that are null, by path, *.NAME or #TAG; the raw values of TOPIC are not shown; may be repeated.",
)
@click.option(
    "--isolation",
    type=click.Choice(("read_uncommitted", "read_committed")),
    default="read_uncommitted",
    show_default=True,
    help="Whether records of open and aborted transactions are rows.",
)
@click.option(
    "--damage",
    type=click.Choice(("fail", "skip")),
    default="fail",
    show_default=True,
    help="Damaged batches: end, or leave them out.",
)
@click.option("--topic", "topics", metavar="TOPIC", multiple=True, help="With kafka://: a topic to copy; default all.")
@cluster_options
def command(
    log_directory: str,
    statements: tuple[str, ...],
    file: str | None,
    texts: tuple[str, ...],
    output_format: str | None,
    output: str | None,
    files: tuple[str, ...],
    schema_words: tuple[str, ...],
    registry_word: str | None,
    mask_words: tuple[str, ...],
    isolation: str,
    damage: str,
    topics: tuple[str, ...],
) -> int:
    """Run SQL over the topics of LOGDIR, or open a prompt if there is no STATEMENT. LOGDIR is only read, also beside a
    broker or a mount; it may be a cluster, whose topics are copied first. Needs `pip install 'offsetfs[sql]'`.

    Each topic is a table with the columns key, value, topic, "partition", "offset", "timestamp", "timestampType",
    headers, and key_text, value_text and value_json where key and value are text or JSON. "offset" needs its quotes.
    value->>'FIELD' is a field of a JSON value, header(headers, 'NAME') a header as text. The table all_topics has the
    records of all topics, __consumer_offsets the committed offsets of groups. decoded.TOPIC has the fields of
    values with a schema as columns: Avro, Protobuf, JSON Schema. The language is that of DuckDB.

    Conditions on partition, offset and a lower bound of timestamp are look-ups in the indexes: EXPLAIN SELECT … shows
    what is read.

    \b
    offsetfs sql /var/lib/kafka/data "SELECT key, count(*) FROM orders
        WHERE timestamp > now() - INTERVAL 1 HOUR GROUP BY key ORDER BY 2 DESC LIMIT 10"
    offsetfs sql /var/lib/kafka/data "SELECT value->>'status' AS status, count(*) FROM orders GROUP BY 1"
    offsetfs sql /var/lib/kafka/data "SELECT topic, count(*) FROM all_topics GROUP BY 1" -o counts.csv
    offsetfs sql /var/lib/kafka/data "SELECT status, sum(amount) FROM decoded.payments GROUP BY 1"
    offsetfs sql /var/lib/kafka/data -f report.sql -p day=2026-11-20 -o report.csv
    offsetfs sql /var/lib/kafka/data "SELECT * FROM orders" -o orders.parquet
    offsetfs sql kafka://broker1:9092/ --topic orders "SELECT count(*) FROM orders"
    offsetfs sql /var/lib/kafka/data

    Exit codes: 1 wrong call or statement, or damaged batches were left out; 2 system error, 8 interrupted, 32 a log
    could not be read.
    """
    _check_packages()
    if not is_cluster(log_directory):
        if topics:
            raise Failure("--topic goes with a cluster; a statement names its topics", WRONG_CALL)
        log_directory = attached(log_directory)
        preflight.check_directory(log_directory, read_only=True, may_be_empty=True)
    parameters = _parameters(texts)
    text = _text(statements, file)
    if text is None and (output is not None or output_format not in (None, _TABLE)):
        raise Failure("--format and -o go with a statement; the prompt prints tables", WRONG_CALL)
    if output == "-":
        output = None
    output_format = output_format or _format_of(output)
    if output_format == "parquet" and output is None:
        raise Failure("--format parquet needs a file: -o FILE", WRONG_CALL)
    from offsetfs.schemas.masks import MaskError, parse_masks
    from offsetfs.schemas.schema_files import SchemaFileError, read_schema_files
    from offsetfs.tables.sql.session import SqlError, SqlSession

    try:
        schemas = read_schema_files(schema_words)
    except (SchemaFileError, OSError) as error:
        raise Failure(f"--schema: {printable(sentence(error))}", WRONG_CALL) from error
    registry = registry_of(registry_word)
    try:
        masks = parse_masks(mask_words)
    except MaskError as error:
        raise Failure(printable(str(error)), WRONG_CALL) from error
    with _opened(log_directory, topics) as directory:
        try:
            session = SqlSession(
                directory,
                isolation=isolation,
                skips_damage=damage == "skip",
                files=files or None,
                schemas=schemas,
                masks=masks,
                registry=registry,
            )
        except SqlError as error:
            raise Failure(str(error), WRONG_CALL) from error
        with session:
            if text is None:
                _prompt(session, log_directory, parameters)
            else:
                with _ending_at_sigterm():
                    _run_all(session, text, parameters, output_format, output)
            for partition, note in session.notes.items():
                click.echo(f"offsetfs sql: {partition}: {note}", err=True)
            for finding in session.damage:
                click.echo(f"offsetfs sql: left out: {printable(sentence(finding))}", err=True)
            return WRONG_CALL if session.damage else DONE


@contextlib.contextmanager
def _opened(log_directory: str, topics: Sequence[str]) -> Iterator[LogDirectory]:
    """Open LOGDIR, or the cache of a cluster with these topics, all if there are none; `Failure`."""
    from offsetfs.schemas.schemas_topic import SCHEMAS_TOPIC
    from offsetfs.storage import LogDirectory

    if is_cluster(log_directory):
        with opened_source(log_directory, question=ClusterQuestion(topics, [SCHEMAS_TOPIC])) as opened:
            yield opened.directories[0]
        return
    check_cluster_options()
    try:
        directory = LogDirectory.open(log_directory, read_only=True)
    except StorageError as error:
        raise Failure(str(error)) from error
    with contextlib.closing(directory):
        yield directory


@contextlib.contextmanager
def _ending_at_sigterm() -> Iterator[None]:
    """Let SIGTERM end a statement as Ctrl-C does: temporary files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_packages() -> None:
    name = ""
    try:
        for name in ("duckdb", "numpy", "pyarrow"):
            importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise Failure(f"{error.name} is missing: {install_command('sql')}", SYSTEM) from error
    except ImportError as error:  # a library that does not fit this machine, or its memory
        reason = str(error).strip().partition("\n")[0]
        raise Failure(f"{name} cannot be loaded: {reason}", SYSTEM) from error


def _parameters(texts: tuple[str, ...]) -> dict[str, object]:
    """Return the parameters. Each is a text: 001 stays 001, and a statement casts it where it needs a number."""
    parameters: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise Failure(f"--param {text!r} is not NAME=VALUE", WRONG_CALL)
        parameters[name] = value
    return parameters


def _text(statements: tuple[str, ...], file: str | None) -> str | None:
    """Return the statements to run; None for the prompt."""
    if statements and file is not None:
        raise Failure("give statements or --file, not both", WRONG_CALL)
    if statements:
        return ";\n".join(statements)
    if file is None and sys.stdin.isatty():
        return None
    if file in (None, "-"):
        return sys.stdin.read()
    assert file is not None
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"--file: {sentence(error)}", WRONG_CALL) from error


def _format_of(output: str | None) -> str:
    ending = "" if output is None else os.path.splitext(output)[1].removeprefix(".").lower()
    output_format = _FORMATS_OF_ENDINGS.get(ending, ending)
    if output_format not in (_TABLE, *COPY_OPTIONS):
        known = ", ".join(f".{name}" for name in (*COPY_OPTIONS, "jsonl", "txt"))
        raise Failure(f"{output}: no format is known by this ending ({known}); give --format", WRONG_CALL)
    return output_format


def _run_all(
    session: SqlSession, text: str, parameters: Mapping[str, object], output_format: str, output: str | None
) -> None:
    from offsetfs.tables.sql.session import SqlError

    place = ""
    try:
        statements = session.statements(text)
        if not statements:
            raise Failure("there is no statement", WRONG_CALL)
        lines = _lines_of(text, statements)
        for number, (statement, line) in enumerate(zip(statements, lines, strict=True), 1):
            place = f"statement {number}, line {line}: " if len(statements) > 1 else ""
            is_last = number == len(statements)
            _run(session, statement, parameters, output_format if is_last else _TABLE, output if is_last else None)
    except SqlError as error:
        # The statement with a mark below the wrong word takes several lines.
        first, *others = map(printable, str(error).expandtabs(4).split("\n"))
        for shown in (f"offsetfs sql: {place}{first}", *others):
            click.echo(shown, err=True)
        raise click.exceptions.Exit(WRONG_CALL) from error
    except StorageError as error:
        raise Failure(f"{place}{sentence(error)}; --damage skip leaves damaged batches out", FAILED) from error


def _lines_of(text: str, statements: list[str]) -> list[int]:
    """Return the line of the text in which each statement begins, counted from 1."""
    lines, reached = [], 0
    for statement in statements:
        place = text.find(statement, reached)
        if place >= 0:
            reached = place + len(statement)
        lines.append(text.count("\n", 0, max(place, 0)) + 1)
    return lines


def _run(
    session: SqlSession, statement: str, parameters: Mapping[str, object], output_format: str, output: str | None
) -> None:
    used = session.parameters_of(statement, parameters)
    for warning in session.warnings(statement):
        click.echo(f"offsetfs sql: warning: {warning}", err=True)
    if output is not None:
        session.check_output(output)
        if is_special(output):
            _write_special(session, statement, used, output_format, output)
            return
        with replaced_file(output) as path:
            if output_format == _TABLE:
                with open(path, "w", encoding="utf-8") as target:
                    for line in _lines(session, statement, used):
                        target.write(line + "\n")
            else:
                with open(path, "wb") as rows:
                    _copy(session, statement, used, COPY_OPTIONS[output_format], rows, output)
    elif output_format == _TABLE:
        for line in _lines(session, statement, used):
            click.echo(line)
    else:
        _copy(session, statement, used, COPY_OPTIONS[output_format], sys.stdout.buffer, "standard output")


def _write_special(
    session: SqlSession, statement: str, parameters: Mapping[str, object], output_format: str, output: str
) -> None:
    """Write rows into a device or a pipe as they come: a file must not take its place."""
    try:
        with open(output, "wb") as target:
            if output_format != _TABLE:
                _copy(session, statement, parameters, COPY_OPTIONS[output_format], target, output)
                return
            for line in _lines(session, statement, parameters):
                target.write(line.encode() + b"\n")
    except OSError as error:
        raise Failure(f"{output}: {error.strerror or error}", of_output(error)) from error


@contextlib.contextmanager
def _progress(session: SqlSession) -> Iterator[None]:
    """Show a progress bar of the bytes that are read."""
    from offsetfs.cli.terminal.progress import bytes_progress

    with bytes_progress("Reading") as show:
        session.show_progress(show)
        try:
            yield
        finally:
            session.show_progress(None)


def _lines(
    session: SqlSession, statement: str, parameters: Mapping[str, object], *, is_expanded: bool = False
) -> Iterator[str]:
    from offsetfs.cli.sql.rows_text import expanded_lines, plan_lines, table_lines

    with _progress(session):  # until the first line can be printed
        result = session.run(statement, parameters)
        shown = expanded_lines if is_expanded else table_lines
        lines = plan_lines(result) if result.is_plan else shown(result)
        first = next(lines, None)
    return iter(()) if first is None else itertools.chain((first,), lines)


def _copy(
    session: SqlSession,
    statement: str,
    parameters: Mapping[str, object],
    options: str,
    target: IO[bytes],
    name: str,
) -> None:
    def write(block: bytes) -> None:
        try:
            target.write(block)
            target.flush()
        except BrokenPipeError as error:  # the reader has what it wants, as head(1)
            raise click.exceptions.Exit(OUTPUT_CLOSED) from error
        except OSError as error:
            raise Failure(f"{name}: {error.strerror or error}", of_output(error)) from error

    with _progress(session):
        session.copy(statement, parameters, options, write)


def _prompt(session: SqlSession, log_directory: str, parameters: Mapping[str, object]) -> None:
    try:
        from offsetfs.cli.sql.prompt import SqlPrompt
    except ModuleNotFoundError as error:
        raise Failure(f"{error.name} is missing: {install_command('sql')}", SYSTEM) from error

    def run(statement: str, is_expanded: bool) -> None:
        used = session.parameters_of(statement, parameters)
        for warning in session.warnings(statement):
            click.echo(f"warning: {warning}", err=True)
        for line in _lines(session, statement, used, is_expanded=is_expanded):
            click.echo(line)

    click.echo(f"{counted(len(session.tables()), 'topic')} of {printable(log_directory)}; \\? lists the commands")
    SqlPrompt(session, run).loop()
