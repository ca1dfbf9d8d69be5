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
from offsetfs.sql.session import SqlError, quoted
from offsetfs.storage.errors import StorageError, sentence

if TYPE_CHECKING:
    from offsetfs.sql.session import SqlSession

HELP = r"""\d            topics
\d TOPIC      columns of a topic
\timing       switch the duration of statements on or off
\?            this help
\q            end, as Ctrl-D

A statement ends with a semicolon. Columns: key, value, topic, "partition", "offset", "timestamp", "timestampType",
headers, value_text, value_json. EXPLAIN SELECT … shows what is read."""

_WORD = re.compile(r"""["\w.()]+""")

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

    def __init__(self, session: SqlSession, run: Callable[[str], None]) -> None:
        """`run` prints the result of a statement."""
        self._session = session
        self._run = run
        self._is_timed = False

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
        begun = time.monotonic()
        try:
            self._session.refresh()
            if text.startswith("\\"):
                return self._command(text)
            for statement in self._session.statements(text):
                self._run(statement)
        except (SqlError, StorageError, OSError) as error:
            click.echo(str(error) if isinstance(error, SqlError) else sentence(error), err=True)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
        if self._is_timed:
            click.echo(f"{(time.monotonic() - begun) * 1000:.0f} ms")
        return True

    def _command(self, text: str) -> bool:
        word, _, rest = text.rstrip(";").partition(" ")
        name = rest.strip().strip('"')
        if word == "\\q":
            return False
        if word == "\\d" and name:
            for line in table_lines(self._session.run(f"DESCRIBE {quoted(name)}")):
                click.echo(line)
        elif word == "\\d":
            for each in self._session.tables():
                click.echo(each)
        elif word == "\\timing":
            self._is_timed = not self._is_timed
            click.echo(f"timing is {'on' if self._is_timed else 'off'}")
        elif word == "\\?":
            click.echo(HELP)
        else:
            click.echo(f"there is no command {word}; \\? lists them", err=True)
        return True


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
        word = document.get_word_before_cursor(pattern=_WORD)
        yield from _beginning(word, [*map(quoted, self._session.tables()), *self._known_columns(), *_WORDS])

    def _known_columns(self) -> Iterable[str]:
        if not self._columns:
            for table in self._session.tables()[:_DESCRIBED_MAX]:
                self._columns.update(dict.fromkeys(quoted(name) for name, _ in self._session.columns(table)))
        return self._columns


_DESCRIBED_MAX = 3
"""Topics whose columns are looked up: they are the same for all but `__consumer_offsets`, which comes first."""


def _beginning(word: str, found: Iterable[str]) -> Iterator[Completion]:
    for each in found:
        if each.lower().lstrip('"').startswith(word.lower().lstrip('"')):
            yield Completion(each, start_position=-len(word))


def _history() -> History:
    """Return the history file of the user, or one in memory if it cannot be written."""
    folder = os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "offsetfs")
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
        if not text or text.startswith("\\") or text.endswith(";"):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    bindings.add("enter")(enter)
    return bindings
