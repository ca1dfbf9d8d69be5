"""`offsetfs sql`: output, parameters, files of statements, the prompt, and what goes wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import pyarrow.parquet
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import offsetfs
from offsetfs.cli import exit_codes, run
from offsetfs.cli.commands import sql as command_module
from offsetfs.cli.sql.prompt import SqlCompleter, SqlPrompt
from offsetfs.storage import LogDirectory
from offsetfs.tables.sql.session import SqlSession

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[2] / "docs" / "use" / "sql.md"


@pytest.fixture
def logs(tmp_path: Path) -> str:
    path = tmp_path / "logs"
    path.mkdir()
    with offsetfs.open(path, "a") as data:
        first, _ = data.create("orders", 2, {"retention.ms": "-1"})
        first.extend(
            offsetfs.NewRecord(b'{"n": %d}' % n, b"k%d" % (n % 3), [("h", b"1")], 1_795_266_300_000 + n)
            for n in range(9)
        )
        # A time of its own: with that of today the segment would be rolled, a week after the first one.
        first.append(b"\xff\n", key="schlüssel".encode(), timestamp=1_795_266_300_009)
    return str(path)


def sql(capsys: pytest.CaptureFixture[str], *words: str, code: int = exit_codes.DONE) -> tuple[str, str]:
    capsys.readouterr()
    assert run(["sql", *words]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_a_table_is_printed_with_aligned_columns(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT key, count(*) AS n FROM orders GROUP BY key ORDER BY key"
    assert sql(capsys, logs, query)[0] == (
        "key       | n\n----------+--\nk0        | 3\nk1        | 3\nk2        | 3\nschlüssel | 1\n(4 rows)\n"
    )
    assert sql(capsys, logs, 'SELECT value FROM orders WHERE "offset" = 9')[0] == "value\n------\n\\xff0a\n(1 row)\n"


@pytest.mark.parametrize("kind", ["csv", "json", "ndjson"])
def test_bytes_within_lists_and_structs_are_text_where_they_are_utf_8(
    logs: str, capfdbinary: pytest.CaptureFixture[bytes], kind: str
) -> None:
    with offsetfs.open(logs, "a") as data:
        headers = [("h", "ä'".encode()), ("none", None), ("raw", b"\xff"), ("empty", b"")]
        data.create("headed", 1, {"retention.ms": "-1"})[0].append(
            b"\xc3\xb6", headers=headers, timestamp=1_795_266_300_000
        )
        data.partition("headed-0").append(b"", timestamp=1_795_266_300_000)
    query = (
        "SELECT headers, map {'m': value} AS \"a map\", [[value]] AS l, {'it''s': {'v': value}} AS s, {'n': 1} AS n"
        ' FROM headed ORDER BY "offset"'
    )
    assert run(["sql", logs, query, "--format", kind]) == 0
    printed = capfdbinary.readouterr().out.decode()
    if kind == "csv":
        first = next(csv.DictReader(io.StringIO(printed)))
        assert "'value': 'ä\\''" in first["headers"] and "{m=ö}" in first["a map"]
        return
    first, second = json.loads(printed) if kind == "json" else map(json.loads, printed.splitlines())
    assert first == {
        "headers": [
            {"key": "h", "value": "ä'"},
            {"key": "none", "value": None},
            {"key": "raw", "value": "\\xFF"},
            {"key": "empty", "value": ""},
        ],
        "a map": {"m": "ö"},
        "l": [["ö"]],
        "s": {"it's": {"v": "ö"}},
        "n": {"n": 1},
    }
    assert second["headers"] is None and second["l"] == [[""]]


def test_characters_of_east_asia_take_two_cells(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT * FROM (VALUES ('中文', 1), ('a', 2), ('e\u0301', 3)) AS found(text, number)"
    assert sql(capsys, logs, query)[0] == (
        "text | number\n-----+-------\n中文 |      1\na    |      2\ne\u0301    |      3\n(3 rows)\n"
    )


def test_all_formats_have_the_same_rows(logs: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    query = 'SELECT "offset", key, value, "timestamp" FROM orders ORDER BY ALL'
    outputs: dict[str, bytes] = {}
    for kind in ("csv", "json", "ndjson"):
        capfdbinary.readouterr()
        assert run(["sql", logs, query, "--format", kind]) == 0
        outputs[kind] = capfdbinary.readouterr().out
        target = tmp_path / f"rows.{kind}"
        assert run(["sql", logs, query, "-o", str(target)]) == 0
        assert target.read_bytes() == outputs[kind]
    rows = list(csv.DictReader(io.StringIO(outputs["csv"].decode())))
    assert len(rows) == 10
    assert rows[9]["key"] == "schlüssel"
    assert rows[9]["value"] == "\\xFF\\x0A"
    parsed = json.loads(outputs["json"])
    assert [json.loads(line) for line in outputs["ndjson"].splitlines()] == parsed
    assert [{**each, "offset": str(each["offset"])} for each in parsed] == rows
    assert run(["sql", logs, query, "-o", str(tmp_path / "rows.parquet")]) == 0
    assert pyarrow.parquet.read_table(tmp_path / "rows.parquet")["value"].to_pylist()[9] == b"\xff\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "logs",
        "rows.csv",
        "rows.json",
        "rows.ndjson",
        "rows.parquet",
    ]


def test_statements_of_a_file_take_parameters(logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.sql"
    file.write_text(
        '-- first\nCREATE TEMP TABLE seen AS SELECT * FROM orders WHERE "offset" >= $first;\n'
        "SELECT count(*) AS n FROM seen WHERE \"timestamp\" > $since AND key <> 'k1;'\n"
    )
    words = ("-f", str(file), "-p", "first=2", "-p", "since=2026-11-21 13:05:00+00", "--format", "csv", "-o")
    sql(capsys, logs, *words, str(tmp_path / "n.csv"))
    assert (tmp_path / "n.csv").read_text() == "n\n8\n"


def test_explain_names_ranges_and_columns_as_the_page_shows(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown, _ = sql(capsys, logs, 'EXPLAIN SELECT value FROM orders WHERE "partition" = 0 AND "offset" > 5')
    assert re.search(
        r"^reads of orders: 1 partition of 2, about \d+ of \d+ bytes; columns value, offset, partition$", shown, re.M
    )
    assert re.search(r"^  orders-0  offsets 6 to 9, about \d+ bytes$", shown, re.M)
    assert "reads of orders: 1 partition of 2, about" in PAGE.read_text()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("SELECT 1 FROM order",), 1, "Parser Error"),
        (
            ("SELECT 1 FROM ordres",),
            1,
            "there is no topic ordres; did you mean orders?\nline 1, at 'ordres': SELECT 1 FROM ordres",
        ),
        (("SELECT $day",), 1, "the statement has the parameter $day; give it with --param day=VALUE"),
        (
            ("\\d",),
            1,
            "commands that begin with a backslash are those of the prompt; SHOW TABLES and DESCRIBE TOPIC are",
        ),
        ((".tables",), 1, "SHOW TABLES"),
        (("SET threads = 1", "--format", "csv"), 1, "only the rows of a query can be written in this format; --format"),
        (("EXPLAIN SELECT 1", "--format", "json"), 1, "--format table takes any statement"),
        (("SELECT ?",), 1, "the statement has a parameter without a name; write $NAME, and give --param NAME=VALUE"),
        (
            ("SELECT length(key) FROM orders",),
            1,
            "are what text functions take, octet_length(value) is a size (Binder Error: ",
        ),
        (("SELECT 1", "-p", "day"), 1, "--param 'day' is not NAME=VALUE"),
        (("SELECT 1", "--format", "parquet"), 1, "--format parquet needs a file: -o FILE"),
        (("SELECT 1", "-o", "/no/such/place.csv"), 1, "/no/such/place.csv: No such file or directory"),
        (
            ("SELECT 1", "-o", "rows.csv.gz"),
            1,
            "rows.csv.gz: no format is known by this ending (.csv, .json, .ndjson, ",
        ),
        (("SELECT 1", "-o", "rows.tsv"), 1, ".parquet, .jsonl, .txt); give --format"),
        (("SELECT 1", "-f", "x.sql"), 1, "give statements or --file, not both"),
        (("-f", "/no/such.sql"), 1, "/no/such.sql: "),
        ((" ",), 1, "there is no statement"),
    ],
)
def test_wrong_calls_are_one_sentence(
    logs: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, message: str
) -> None:
    out, err = sql(capsys, logs, *words, code=code)
    assert out == ""
    assert message in err
    assert err.startswith("offsetfs sql: ")


def test_a_full_disk_leaves_the_former_file(logs: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    target.write_text("former")
    sql(capsys, logs, "SELECT error('full')", "-o", str(target), code=exit_codes.WRONG_CALL)
    assert target.read_text() == "former"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["logs", "rows.csv"]


@pytest.mark.damages
def test_damage_is_named_and_can_be_left_out(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = next(Path(logs, "orders-0").glob("*.log"))
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    _, err = sql(capsys, logs, "SELECT count(*) FROM orders", code=exit_codes.FAILED)
    assert str(file) in err
    assert "--damage skip" in err
    out, err = sql(capsys, logs, "SELECT count(*) AS n FROM orders", "--damage", "skip", code=1)
    assert out == "n\n-\n9\n(1 row)\n"
    assert f"left out: {file}" in err


def test_a_missing_package_is_named(
    logs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    _, err = sql(capsys, logs, "SELECT 1", code=exit_codes.SYSTEM)
    assert " -m pip install " in err


def test_the_prompt_runs_statements_and_commands(
    logs: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    directory = LogDirectory.open(logs, read_only=True)
    ran: list[str] = []
    with SqlSession(directory) as session, create_pipe_input() as keys, create_app_session(keys, DummyOutput()):
        keys.send_text("SELECT 1\rAS one;\r\\d\r\\d orders\r\\timing\r\\nope\rSELECT 1 FROM nope;\r\\q\r")
        SqlPrompt(session, lambda statement, _: (ran.append(statement), list(session.run(statement).rows))[0]).loop()  # type: ignore[func-returns-value]
    directory.close()
    captured = capsys.readouterr()
    assert ran == ["SELECT 1\nAS one;", "SELECT 1 FROM nope;"]
    assert captured.out.startswith("orders\n")
    assert "value_json" in captured.out
    assert "timing is on" in captured.out
    assert "there is no command \\nope" in captured.err
    assert "there is no topic nope" in captured.err
    assert "SELECT 1" in (tmp_path / "offsetfs" / "sql_history").read_text()


def typed(logs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[str, str]:
    """Return what the prompt of the command prints, which must have ended by itself."""
    monkeypatch.setenv("XDG_STATE_HOME", f"{logs}.state")
    capsys.readouterr()
    directory = LogDirectory.open(logs, read_only=True)
    with SqlSession(directory) as session, create_pipe_input() as keys, create_app_session(keys, DummyOutput()):
        keys.send_text(text)
        command_module._prompt(session, logs, {"day": "2026-11-20"})
    directory.close()
    captured = capsys.readouterr()
    return captured.out.partition("lists the commands\n")[2], captured.err


@pytest.mark.parametrize("word", ["exit", "quit", "EXIT;", "quit ;", "\\q", "\\q;"])
def test_the_prompt_ends_as_those_of_other_databases(
    logs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    assert typed(logs, capsys, monkeypatch, f"{word}\r") == ("", "")


def test_the_prompt_takes_parameters_and_no_output(
    logs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = typed(logs, capsys, monkeypatch, "SELECT $day::DATE AS day;\rSELECT $other;\rexit\r")
    assert out.splitlines()[2] == "2026-11-20"
    assert err == "the statement has the parameter $other; give it with --param other=VALUE\n"
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    for words in ("-o", "rows.csv"), ("--format", "json"), ("-o", "rows.txt"):
        assert "the prompt prints tables" in sql(capsys, logs, *words, code=exit_codes.WRONG_CALL)[1]


def test_commands_of_other_prompts_are_taken_or_named(
    logs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = typed(logs, capsys, monkeypatch, "help\r.tables\r\\dt\r\\timing off\r\\timing on\r\\timing on\rexit\r")
    assert err == "there is no command .tables; \\? lists them\n"
    assert out.startswith("\\d            topics\n")
    assert out.endswith("\norders\ntiming is off\ntiming is on\ntiming is on\n")


def test_a_semicolon_within_a_text_or_a_comment_ends_no_statement(
    logs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = typed(logs, capsys, monkeypatch, "SELECT 'a;\rb' AS c -- d;\r, 'it''s;' AS e;\rexit\r")
    assert err == ""
    assert out.splitlines()[2] == "a;\\nb | it's;"


def test_the_duration_of_each_statement_is_shown(
    logs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = typed(logs, capsys, monkeypatch, "\\timing\rSELECT 1; SELECT kee;\rexit\r")
    assert len(re.findall(r"^\d+ ms$", out, re.M)) == 2


def test_columns_can_have_a_line_each(
    logs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = 'SELECT key, value FROM orders WHERE "offset" < 2 ORDER BY "offset";'
    out, _ = typed(logs, capsys, monkeypatch, f"\\x\r{query}\r\\x off\rSELECT 1 AS one;\r\\d orders\rexit\r")
    assert out.startswith(
        "a line for each column is on\n"
        '-[ 1 ]-+---\nkey   | k0\nvalue | {"n": 0}\n-[ 2 ]-+---\nkey   | k1\nvalue | {"n": 1}\n(2 rows)\n'
        "a line for each column is off\none\n---\n  1\n(1 row)\ncolumn        | type\n"
    )


def test_topics_columns_and_words_are_completed(logs: str) -> None:
    with offsetfs.open(logs, "a") as data:
        data.create("user-events")
    directory = LogDirectory.open(logs, read_only=True)
    with SqlSession(directory) as session:
        completer = SqlCompleter(session)

        def completed(text: str) -> list[str]:
            return [each.text for each in completer.get_completions(Document(text), CompleteEvent())]

        assert completed("\\d or") == ["orders"]
        assert completed("SELECT * FROM user-e") == completed('SELECT * FROM "user-') == ['"user-events"']
        assert completed("SELECT orders.val") == completed("SELECT o.val") == ["value", "value_text", "value_json"]
        assert completed("SELECT orders.k") == ["key", "key_text"]
        assert completed("SELECT val") == ["value", "value_text", "value_json"]
        assert completed("SELECT off") == ['"offset"']
        assert set(completed("select * from or")) == {"orders", "ORDER", "OR"}
    directory.close()


def test_nothing_is_written_into_the_log_directory(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(logs).rglob("*")}
    sql(capsys, logs, "SELECT count(*) FROM orders", "SHOW TABLES", "DESCRIBE orders")
    _, err = sql(capsys, logs, "DELETE FROM orders", code=1)
    assert "Can only delete from base table" in err
    assert {path: path.stat().st_mtime_ns for path in Path(logs).rglob("*")} == before


@pytest.mark.long
def test_ctrl_c_ends_a_statement(logs: str) -> None:
    query = "SELECT 'begun'; SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    command = [sys.executable, "-u", "-m", "offsetfs", "sql", logs, query]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        while b"(1 row)" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == exit_codes.INTERRUPTED, err
    assert b"Traceback" not in err


@pytest.mark.parametrize("pause_s", [0.0, 0.05])
def test_an_interruption_before_a_statement_begins_ends_it(logs: str, pause_s: float) -> None:
    """DuckDB forgets one that comes before a statement has begun."""
    directory = LogDirectory.open(logs, read_only=True)
    with SqlSession(directory) as session:
        execute = session._connection.execute

        def begun_late(statement: str, given: dict[str, object] | None) -> duckdb.DuckDBPyConnection:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(pause_s)
            return execute(statement, given)

        class Connection:
            def __getattr__(self, name: str) -> object:
                return begun_late if name == "execute" else getattr(connection, name)

        connection = session._connection
        session._connection = Connection()  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            session.run("SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b")
        session._connection = connection
        assert list(session.run("SELECT 1").rows) == [(1,)]
    directory.close()


def test_ctrl_c_ends_the_search_for_a_next_row(logs: str) -> None:
    directory = LogDirectory.open(logs, read_only=True)
    with SqlSession(directory) as session, pytest.raises(KeyboardInterrupt):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        list(session.run("SELECT * FROM range(100000000) a, range(10000000) b WHERE a.range + b.range < 2").rows)
    directory.close()


def test_an_output_in_the_log_directory_is_refused(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    segment = Path(logs, "orders-0", f"{0:020}.log")
    content = segment.read_bytes()
    printed = sql(capsys, logs, "SELECT 1", "--format", "csv", "-o", str(segment), code=exit_codes.WRONG_CALL)
    assert "is in the log directory, which SQL only reads" in printed[1]
    assert segment.read_bytes() == content


# --- files for the rows ----------------------------------------------------------------------------------------------


def read_all(path: Path, into: list[bytes]) -> threading.Thread:
    """Read a pipe to its end, in a thread."""
    thread = threading.Thread(target=lambda: into.append(path.read_bytes()))
    thread.start()
    return thread


@pytest.mark.parametrize("kind", ["table", "csv", "ndjson", "parquet"])
def test_a_pipe_gets_the_rows_and_stays_a_pipe(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    query = 'SELECT "offset", key FROM orders ORDER BY 1'
    plain = tmp_path / "plain"
    sql(capsys, logs, query, "--format", kind, "-o", str(plain))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reading = read_all(pipe, found)
    sql(capsys, logs, query, "--format", kind, "-o", str(pipe))
    reading.join()
    assert found == [plain.read_bytes()] and found[0]
    assert pipe.is_fifo()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["logs", "pipe", "plain"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
@pytest.mark.parametrize("kind", ["table", "csv"])
def test_a_device_is_written_to_and_stays_a_device(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    for name, number in ("null", 3), ("full", 7):
        os.mknod(tmp_path / name, 0o666 | stat.S_IFCHR, os.makedev(1, number))
    sql(capsys, logs, "SELECT key FROM orders", "--format", kind, "-o", str(tmp_path / "null"))
    assert (tmp_path / "null").is_char_device()
    words = ("SELECT key FROM orders", "--format", kind, "-o", str(tmp_path / "full"))
    _, err = sql(capsys, logs, *words, code=exit_codes.SYSTEM)
    assert err == f"offsetfs sql: {tmp_path}/full: No space left on device\n"
    assert (tmp_path / "full").is_char_device()


def test_a_directory_is_refused_and_a_link_is_followed(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    _, err = sql(capsys, logs, "SELECT 1", "-o", str(tmp_path / "folder"), code=exit_codes.WRONG_CALL)
    assert err == f"offsetfs sql: {tmp_path}/folder is a directory: give a file\n"
    target, link = tmp_path / "folder" / "rows.csv", tmp_path / "link.csv"
    target.write_text("former")
    target.chmod(0o640)
    link.symlink_to(target)
    sql(capsys, logs, "SELECT 1 AS n", "-o", str(link))
    assert link.is_symlink() and target.read_text() == "n\n1\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    link.unlink()
    link.symlink_to(Path(logs, "orders-0", "new.csv"))
    _, err = sql(capsys, logs, "SELECT 1", "-o", str(link), code=exit_codes.WRONG_CALL)
    assert "is in the log directory" in err


@pytest.mark.long
def test_an_error_after_some_rows_leaves_no_file(logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in "table", "csv", "json", "parquet":
        query = "SELECT CASE WHEN range = 299999 THEN error('late') ELSE range END FROM range(300000)"
        words = (query, "--format", kind, "-o", str(tmp_path / "rows"))
        assert "late" in sql(capsys, logs, *words, code=exit_codes.WRONG_CALL)[1]
    assert [each.name for each in tmp_path.iterdir()] == ["logs"]


def test_a_file_of_statements_that_is_missing_is_one_sentence(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = sql(capsys, logs, "-f", "/nowhere.sql", code=exit_codes.WRONG_CALL)[1]
    assert error == "offsetfs sql: --file: /nowhere.sql: No such file or directory\n"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.txt"])
def test_a_signal_leaves_no_file(logs: str, tmp_path: Path, number: signal.Signals, name: str) -> None:
    (tmp_path / "tmp").mkdir()
    query = "SELECT a.range FROM range(10000000) a, range(10000000) b"
    command = [sys.executable, "-u", "-m", "offsetfs", "sql", logs, query, "-o", str(tmp_path / name)]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as process:
        while not any(each.stat().st_size > 100_000 for each in tmp_path.glob(f"*{name}*")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == exit_codes.INTERRUPTED, err
    assert b"Traceback" not in err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["logs", "tmp"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_columns_of_one_name_have_each_its_own_value(
    logs: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    query = (
        'SELECT a.key, b.key, a."offset", b."offset" AS "KEY_1" FROM orders a JOIN orders b'
        ' ON b."offset" = a."offset" + 1 WHERE a."offset" = 0 -- the end'
    )
    outputs: dict[str, bytes] = {}
    for kind in ("csv", "json", "ndjson", "table"):
        capfdbinary.readouterr()
        assert run(["sql", logs, query, "--format", kind]) == 0
        outputs[kind] = capfdbinary.readouterr().out
    assert outputs["csv"] == b"key,key_1,offset,KEY_1_1\nk0,k1,0,1\n"
    row = {"key": "k0", "key_1": "k1", "offset": 0, "KEY_1_1": 1}
    assert json.loads(outputs["json"]) == [row]
    assert json.loads(outputs["ndjson"]) == row
    assert b"key | key | offset | KEY_1\n" in outputs["table"]
    assert run(["sql", logs, query, "-o", str(tmp_path / "rows.parquet")]) == 0
    assert pyarrow.parquet.read_table(tmp_path / "rows.parquet").num_columns == 4


def test_a_parameter_is_a_text(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT $id AS id, typeof($id) AS kind, $id::INT + 1 AS next"
    assert sql(capsys, logs, query, "-p", "id=001")[0].splitlines()[2] == "001 | VARCHAR |    2"
    query = 'SELECT count(*) AS n FROM orders WHERE "offset" = $offset'  # a comparison with a number casts the text
    assert sql(capsys, logs, query, "-p", "offset=3")[0].splitlines()[2] == "1"


def test_an_error_names_the_statement_and_its_line(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.sql"
    file.write_text("SELECT 'ä;' AS a;\n\n  SELECT 1;\nSELECT kee\nFROM orders;\nSELECT 2")
    out, err = sql(capsys, logs, "-f", str(file), code=exit_codes.WRONG_CALL)
    assert err.startswith("offsetfs sql: statement 3, line 4: Binder Error")
    assert out.count("(1 row)") == 2
    file.write_text("SELECT 1;\nSELECT $day")
    assert "statement 2, line 2: the statement has the parameter $day" in sql(capsys, logs, "-f", str(file), code=1)[1]


@pytest.mark.long
def test_a_reader_that_ends_early_ends_the_statement(logs: str) -> None:
    query = "SELECT range FROM range(10000000000)"
    command = [sys.executable, "-u", "-m", "offsetfs", "sql", logs, query, "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"range\n"
        process.stdout.close()
        assert process.wait(timeout=60) == exit_codes.OUTPUT_CLOSED
        assert process.stderr.read() == b""


def test_a_minus_is_standard_output(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sql(capsys, logs, "SELECT 1 AS one", "-o", "-", "--format", "csv") == ("one\n1\n", "")
    _, err = sql(capsys, logs, "SELECT 1", "-o", "-", "--format", "parquet", code=exit_codes.WRONG_CALL)
    assert "--format parquet needs a file" in err
    assert "-" not in os.listdir(tmp_path)
