"""SQL only reads a log directory: statements that write at, in or above it are refused before they run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import offsetfs
from offsetfs.sql.session import SqlError, SqlSession
from offsetfs.sql.written_paths import WriteCheck, WriteRefused
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log directory two levels below the working directory."""
    path = tmp_path / "kafka" / "data"
    path.mkdir(parents=True)
    with offsetfs.open(path, "a") as data:
        data.create("t")[0].append(b"one", key=b"k")
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def session(logs: Path) -> Iterator[SqlSession]:
    directory = LogDirectory.open(str(logs), read_only=True)
    with SqlSession(directory) as opened:
        yield opened
    directory.close()


def files_of(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def run_all(session: SqlSession, text: str) -> None:
    for each in session.statements(text):
        given = {"f": f"{session._directory.path}/x.csv", "top": "kafka"}
        list(session.run(each, session.parameters_of(each, given)).rows)


BELOW_OVERWRITE = "(FORMAT csv, PARTITION_BY (a), OVERWRITE)"


@pytest.mark.parametrize(
    "text",
    [
        f"COPY (SELECT 1 a, 2 b) TO 'kafka' {BELOW_OVERWRITE}",
        f"COPY (SELECT 1 a, 2 b) TO 'out/../kafka' {BELOW_OVERWRITE}",
        f"COPY (SELECT 1 a, 2 b) TO '.' {BELOW_OVERWRITE}",
        f"COPY (SELECT 1 a, 2 b) TO link {BELOW_OVERWRITE}",
        f'COPY (SELECT 1 a, 2 b) TO "link" {BELOW_OVERWRITE}',
        f"COPY (SELECT 1 a, 2 b) TO $$link$$ {BELOW_OVERWRITE}",
        f"COPY (SELECT 1 a, 2 b) TO $q$link$q$ {BELOW_OVERWRITE}",
        f"copy (SELECT 1 a, 2 b) tO -- a comment\n 'link' {BELOW_OVERWRITE}",
        f"COPY/**/(SELECT 1 a, 2 b)/**/TO/**/'li'\n'nk' {BELOW_OVERWRITE}",
        f"SELECT 1; COPY (SELECT 1 a, 2 b) TO 'kafka' {BELOW_OVERWRITE}",
        f"PREPARE p AS COPY (SELECT 1 a, 2 b) TO 'kafka' {BELOW_OVERWRITE}; EXECUTE p",
        f"PREPARE p AS COPY (SELECT 1 a, 2 b) TO ? {BELOW_OVERWRITE}; EXECUTE p('kafka')",
        f"EXPLAIN ANALYZE COPY (SELECT 1 a, 2 b) TO 'kafka' {BELOW_OVERWRITE}",
        f"EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1 a, 2 b) TO 'kafka' {BELOW_OVERWRITE}",
        f"WITH w AS (COPY (SELECT 1 a, 2 b) TO 'kafka' {BELOW_OVERWRITE}) SELECT * FROM w",
        f"COPY (SELECT 1 a, 2 b) TO ('kaf' || 'ka') {BELOW_OVERWRITE}",
        f"SET VARIABLE v = 'kafka'; COPY (SELECT 1 a, 2 b) TO (getvariable('v')) {BELOW_OVERWRITE}",
        f"COPY (SELECT 1 a, 2 b) TO $top {BELOW_OVERWRITE}",
        "COPY (SELECT 1) TO $f",
        "COPY (SELECT 1) TO 'link/x.csv'",
        "COPY (SELECT 1) TO 'file:{logs}/x.csv'",
        "COPY (SELECT 1) TO 'file://{logs}/x.csv'",
        "COPY (SELECT 1) TO 'file://localhost{logs}/x.csv'",
        "COPY (SELECT 1 a, 2 b) TO 'out' (FORMAT csv, PARTITION_BY (a), FILENAME_PATTERN '../../kafka/data/x')",
        "COPY (SELECT 1 a, 2 b) TO 'out' (FORMAT csv, PER_THREAD_OUTPUT, FILE_EXTENSION '/../../link/x')",
        "SET home_directory = '{logs}'; COPY (SELECT 1) TO '~/x.csv'",
        "EXPORT DATABASE 'link'",
        "EXPORT DATABASE 'kafka' (FORMAT parquet)",
        "ATTACH 'link/x.db' AS other",
        "ATTACH IF NOT EXISTS 'link/x.db' AS other",
        "ATTACH 'duckdb:link/x.db' AS other",
        "ATTACH ('link' || '/x.db') AS other",
        "ATTACH $f AS other",
        "INSTALL 'link/x.duckdb_extension'",
        "IMPORT DATABASE 'out'",
        "PRAGMA import_database('out')",
        "SET log_query_path = 'link/q.log'; SELECT 1",
        "SET log_query_path = 'link' || '/q.log'; SELECT 1",
        "SET log_query_path = ('xlink/q.log')[2:]; SELECT 1",
        "SET log_query_path = $f; SELECT 1",
        "SET GLOBAL log_query_path TO 'link/q.log'; SELECT 1",
        "PRAGMA log_query_path='link/q.log'; SELECT 1",
        "SET profiling_output = 'link/p.txt'; PRAGMA enable_profiling; SELECT 1",
        "SET temp_directory = 'kafka'",
        "SET extension_directories = ['link']",
        "CALL enable_logging(storage = 'file', storage_path = 'link')",
        "CALL enable_logging(storage = 'file', storage_path = 'li' || 'nk')",
        "CALL enable_logging(storage = 'file', storage_path = replace('lixx', 'xx', 'nk'))",
        "SELECT * FROM \"enable_logging\"(storage = 'file', storage_path = 'link')",
        "CALL \"enable_logging\"(storage = 'file', storage_path = 'link')",
        "COPY (SELECT 1 a, 2 b) TO 'out' (FORMAT csv, PARTITION_BY (a), \"FILENAME_PATTERN\" '../../kafka/data/x')",
        "FROM \"json_execute_serialized_sql\"(json_serialize_sql('WITH w AS (COPY t TO ''link/x.csv'') FROM w'))",
        "PRAGMA \"log_query_path\"='link/q.log'; SELECT 1",
        "SELECT * FROM enable_logging(storage = 'file', storage_path = 'link')",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('WITH w AS (COPY t TO ''x.csv'') FROM w'))",
    ],
)
@pytest.mark.promise("A statement that writes at, in or above the log directory is refused before it runs.")
def test_a_statement_that_writes_at_in_or_above_the_log_directory_is_refused(
    session: SqlSession, logs: Path, text: str
) -> None:
    before = files_of(logs)
    with pytest.raises(SqlError, match=r"the log directory, which SQL only reads|refused|without a slash|: write CALL"):
        run_all(session, text.replace("{logs}", str(logs)))
    assert files_of(logs) == before


def test_the_root_directory_is_above_every_log_directory(logs: Path) -> None:
    """Without DuckDB: where the check fails, the statement would delete all files of the machine."""
    for target in ("/", "//", "file:///", "/..", "../../../../../../../../../.."):
        with pytest.raises(WriteRefused, match="is above the log directory"):
            WriteCheck(str(logs)).check_statement(f"COPY t TO '{target}' {BELOW_OVERWRITE}", {})


@pytest.mark.parametrize("option", ["OVERWRITE", "overwrite true", '"OVERWRITE" true'])
@pytest.mark.promise("A statement that writes at, in or above the log directory is refused before it runs.")
def test_overwrite_deletes_nothing_behind_a_link_to_the_log_directory(
    session: SqlSession, logs: Path, option: str
) -> None:
    before = files_of(logs)
    (logs.parents[1] / "far").mkdir()
    (logs.parents[1] / "far" / "inner").symlink_to(logs / "t-0")
    (logs.parents[1] / "out" / "outer").symlink_to(logs.parents[1] / "far")
    with pytest.raises(SqlError, match="inner is a symbolic link to the log directory"):
        run_all(session, f"COPY (SELECT 1 a, 2 b) TO 'out' {BELOW_OVERWRITE.replace('OVERWRITE', option)}")
    assert files_of(logs) == before


def test_call_in_the_log_directory_is_refused(session: SqlSession, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(logs / "t-0")
    with pytest.raises(SqlError, match=r"CALL in .* is refused"):
        run_all(session, "CALL enable_logging()")
    run_all(session, "SELECT * FROM t; LOAD json; SET threads = 2")
    monkeypatch.chdir(logs.parents[1])
    run_all(session, "CALL enable_logging(); CALL disable_logging()")


@pytest.mark.parametrize(
    "text",
    [
        "COPY (SELECT 1 a, 2 b) TO 'out' (FORMAT csv, PARTITION_BY (a), OVERWRITE)",
        "COPY (SELECT key FROM t WHERE key <> '/') TO 'out/x.csv' (FORMAT csv, DELIMITER '/', QUOTE '.')",
        "COPY t TO out.csv; CREATE TABLE u AS SELECT * FROM 'out.csv'; COPY u FROM 'out.csv'",
        "COPY (SELECT 1) TO 'file:{top}/kafka/beside.csv' WITH (FORMAT csv)",
        "COPY (SELECT 1) TO 'kafka/database.csv'",
        "ATTACH 'out/x.db' AS other; CREATE TABLE other.u (copy INT); SELECT copy FROM other.u; DETACH other",
        "ATTACH ':memory:' AS other (TYPE duckdb)",
        "EXPORT DATABASE 'out/exported'",
        "SET TimeZone = 'Europe/Berlin'; SET search_path = 'main'; SET VARIABLE place = '/' || '.'",
        "SET temp_directory = 'out'; PRAGMA table_info('t'); PRAGMA enable_progress_bar",
        "PREPARE p AS SELECT * FROM t WHERE key = ? AND value <> '/'; EXECUTE p('/')",
        "CALL pragma_version()",
        "INSERT INTO memory.main.v VALUES ('/' || '.')",
    ],
)
def test_other_statements_run(session: SqlSession, logs: Path, text: str) -> None:
    run_all(session, "CREATE TABLE v (a VARCHAR)")
    run_all(session, text.replace("{top}", str(logs.parents[1])))
    assert files_of(logs)


def test_a_bind_mount_and_a_wrong_statement(session: SqlSession, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two names of one directory have one inode: here a second name is made by the answer of stat."""
    plain, other = os.stat, logs.parents[1] / "mounted"
    other.mkdir()
    monkeypatch.setattr(os, "stat", lambda path, **words: plain(logs if path == str(other) else path, **words))
    with pytest.raises(SqlError, match="is in the log directory"):
        run_all(session, "COPY (SELECT 1) TO 'mounted/x.csv'")
    with pytest.raises(SqlError, match="LINE 1"):
        run_all(session, "COPY (SELEC 1) TO 'x.csv'")
