"""The prompt of `offsetfs sql LOGDIR`: statements that end with a semicolon, and commands that begin with a backslash.

Completes words of SQL, topics and columns; keeps a history; Ctrl-C ends the statement that runs, Ctrl-D the prompt.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from offsetfs.cli.sql.rows_text import table_lines
from offsetfs.common.user_directories import state_directory
from offsetfs.storage.errors import StorageError, sentence
from offsetfs.tables.sql.names import is_complete, quoted
from offsetfs.tables.sql.session import QueryResult, SqlError

if TYPE_CHECKING:
    from offsetfs.tables.sql.session import SqlSession

HELP = r"""\d            topics
\d TOPIC      columns of a topic
\x            switch between rows and a line for each column
\timing       switch the duration of statements on or off
\?            this help
\q            end, as Ctrl-D

A statement ends with a semicolon. Columns: key, value, topic, "partition", "offset", "timestamp", "timestampType",
headers, key_text, value_text, value_json. EXPLAIN SELECT … shows what is read."""

_WORD = re.compile(r"""["\w.()]+""")
_NAME = re.compile(r"""("[^"]*|[\w.-]+)\Z""")
"""The beginning of the name of a topic, before the cursor."""
_SWITCHES = {"on": True, "off": False}

_WORDS = (
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "BY",
        "ORDER",
        "LIMIT",
        "HAVING",
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "LIKE",
    ),
    *("IS", "NULL", "AS", "DISTINCT", "JOIN", "ON", "USING", "WITH", "UNION", "ALL", "CASE", "WHEN", "THEN", "ELSE"),
    *("END", "DESC", "ASC", "count", "sum", "min", "max", "avg", "now()", "INTERVAL", "EXPLAIN", "ANALYZE", "DESCRIBE"),
)


class SqlPrompt:
    """Reads statements and commands, and runs them."""

    def __init__(self, session: SqlSession, run: Callable[[str, bool], None]) -> None:
        """`run` prints the result of a statement, with a line for each column if its second argument is true."""
        self._session = session
        self._run = run
        self._is_timed = False
        self._is_expanded = False

    def loop(self) -> None:
        """Read and run until Ctrl-D or \\q."""
        completer = SqlCompleter(self._session)
        prompt: PromptSession[str] = PromptSession(
            message="offsetfs> ",
            prompt_continuation="       -> ",
            completer=completer,
            complete_while_typing=False,
            history=_history(),
            multiline=True,
            key_bindings=_bindings(),
        )
        while True:
            try:
                text = prompt.prompt().strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if not text:
                continue
            if not self._handle(text):
                return

    def _handle(self, text: str) -> bool:
        """Run what was typed; return whether to go on."""
        try:
            self._session.refresh()
            if _is_command(text):
                return self._command(_COMMANDS_OF_OTHERS.get(text.rstrip("; \n").lower(), text))
            for statement in self._session.statements(text):
                begun = time.monotonic()
                try:
                    self._run(statement, self._is_expanded)
                finally:
                    if self._is_timed:
                        click.echo(f"{(time.monotonic() - begun) * 1000:.0f} ms")
        except (SqlError, StorageError, OSError) as error:
            click.echo(str(error) if isinstance(error, SqlError) else sentence(error), err=True)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
        return True

    def _command(self, text: str) -> bool:
        word, _, rest = text.rstrip("; ").partition(" ")
        name = rest.strip().strip('"')
        if word == "\\q":
            return False
        if word in ("\\d", "\\dt") and name:
            columns = QueryResult(("column", "type"), iter(self._session.columns(name)))
            for line in table_lines(columns):
                click.echo(line)
        elif word in ("\\d", "\\dt"):
            for table in self._session.tables():
                click.echo(table)
        elif word == "\\timing":
            self._is_timed = _SWITCHES.get(name, not self._is_timed)
            click.echo(f"timing is {'on' if self._is_timed else 'off'}")
        elif word == "\\x":
            self._is_expanded = _SWITCHES.get(name, not self._is_expanded)
            click.echo(f"a line for each column is {'on' if self._is_expanded else 'off'}")
        elif word == "\\?":
            click.echo(HELP)
        else:
            click.echo(f"there is no command {word}; \\? lists them", err=True)
        return True


_COMMANDS_OF_OTHERS = {"help": "\\?", "exit": "\\q", "quit": "\\q"}
"""The commands that psql takes without a backslash."""


def _is_command(text: str) -> bool:
    """Return whether a text is a command, and no statement; those that begin with a dot are of SQLite and DuckDB."""
    return text.startswith(("\\", ".")) or text.rstrip("; \n").lower() in _COMMANDS_OF_OTHERS


class SqlCompleter(Completer):
    """Completes words of SQL, topics, and columns of all topics."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session
        self._columns: dict[str, None] = {}

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what the word before the cursor may become."""
        text = document.text_before_cursor
        if text.startswith("\\d "):
            yield from _beginning(text[3:], self._session.tables())
            return
        topics = [quoted(table) for table in self._session.tables()]
        name = _NAME.search(text)
        if name is not None and (completions := list(_beginning(name[0], topics))) and set(name[0]) & set('-."'):
            yield from completions
            return
        word = document.get_word_before_cursor(pattern=_WORD)
        _, dot, column = word.rpartition(".")
        if dot:
            yield from _beginning(column, self._known_columns())
        else:
            yield from _beginning(word, [*topics, *self._known_columns(), *_WORDS])

    def _known_columns(self) -> Iterable[str]:
        if not self._columns:
            for table in self._session.tables()[:_DESCRIBED_MAX]:
                self._columns.update(dict.fromkeys(quoted(name) for name, _ in self._session.columns(table)))
        return self._columns


_DESCRIBED_MAX = 3
"""Topics whose columns are looked up: they are the same for all but `__consumer_offsets`, which comes first."""


def _beginning(word: str, names: Iterable[str]) -> Iterator[Completion]:
    for name in names:
        if name.lower().lstrip('"').startswith(word.lower().lstrip('"')):
            yield Completion(name, start_position=-len(word))


def _history() -> History:
    """Return the history file of the user, or one in memory if it cannot be written."""
    folder = state_directory(os.environ)
    if folder is None:
        return InMemoryHistory()
    path = os.path.join(folder, "sql_history")
    try:
        os.makedirs(folder, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def _bindings() -> KeyBindings:
    """Return the keys: Enter ends a whole statement or a command, and begins a new line in others."""
    bindings = KeyBindings()

    def enter(event: KeyPressEvent) -> None:
        text = event.current_buffer.text.strip()
        if not text or _is_command(text) or is_complete(text):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    bindings.add("enter")(enter)
    return bindings
