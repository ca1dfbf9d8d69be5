"""SQL only reads a log directory: statements read and write files in named directories, and nowhere else."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import offsetfs
from offsetfs.storage import LogDirectory
from offsetfs.tables.sql.file_access import FileAccess, FileRefused
from offsetfs.tables.sql.session import SqlError, SqlSession

pytestmark = pytest.mark.unit

WRITES_IN_NAMED_DIRECTORIES = pytest.mark.promise(
    "A statement reads and writes files in the directories that `--files` names only; none is at, in or above the log "
    "directory."
)


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log directory two levels below the working directory; links to it in a directory that statements may use."""
    path = tmp_path / "kafka" / "data"
    path.mkdir(parents=True)
    with offsetfs.open(path, "a") as data:
        data.create("t")[0].append(b"one", key=b"k")
    (path / "rows.csv").write_text("a\n1\n")
    out, far = tmp_path / "out", tmp_path / "far"
    out.mkdir()
    far.mkdir()
    (out / "data").symlink_to(path)
    (out / "segment.csv").symlink_to(path / "t-0" / "00000000000000000000.log")
    (out / "sub").mkdir()
    (far / "inner").symlink_to(path / "t-0")
    (out / "sub" / "outer").symlink_to(far)
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def session(logs: Path) -> Iterator[SqlSession]:
    directory = LogDirectory.open(str(logs), read_only=True)
    with SqlSession(directory, files=["out", "single.csv", "single.db"]) as opened:
        yield opened
    directory.close()


def files_of(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def run_all(session: SqlSession, text: str) -> None:
    for each in session.statements(text):
        given = {"f": f"{session._directory.path}/x.csv", "top": "kafka"}
        list(session.run(each, session.parameters_of(each, given)).rows)


OVERWRITE = "(FORMAT csv, PARTITION_BY (a), OVERWRITE)"

REFUSED = [
    *(
        f"COPY (SELECT 1 a, 2 b) TO {target} {OVERWRITE}"
        for target in (
            *("'kafka'", "'out/../kafka'", "'.'", "'{logs}/..'", "'out/data'", '"kafka"', "$$kafka$$", "E'\\x6bafka'"),
            *("'out/sub'", "'out/'", "('kaf' || 'ka')", "$top", "/**/'kaf'\n'ka'"),
        )
    ),
    f"SET VARIABLE v = 'kafka'; COPY (SELECT 1 a, 2 b) TO (getvariable('v')) {OVERWRITE}",
    f"SELECT 1; COPY (SELECT 1 a, 2 b) TO 'kafka' {OVERWRITE}",
    f"PREPARE p AS COPY (SELECT 1 a, 2 b) TO ? {OVERWRITE}; EXECUTE p('kafka')",
    f"EXPLAIN ANALYZE COPY (SELECT 1 a, 2 b) TO 'kafka' {OVERWRITE}",
    f"WITH w AS (COPY (SELECT 1 a, 2 b) TO 'kafka' {OVERWRITE}) SELECT * FROM w",
    *(
        f"COPY (SELECT 1) TO {target}"
        for target in (
            *("$f", "'out/data/x.csv'", "'out/segment.csv'", "'file:{logs}/x.csv'", "'file://{logs}/x.csv'"),
            *(
                "'file://localhost{logs}/x.csv'",
                "'/proc/self/cwd/kafka/data/x.csv'",
                "'out/new/../../kafka/data/x.csv'",
            ),
            *("'outside.csv'", "'~/x.csv'", "'/dev/stdout'", "'s3://bucket/x.csv'", "'https://127.0.0.1/x.csv'"),
        )
    ),
    "COPY (SELECT 1 a, 2 b) TO 'out/n' (FORMAT csv, PARTITION_BY (a), FILENAME_PATTERN '../../../kafka/data/x')",
    "COPY (SELECT 1 a, 2 b) TO 'out/n' (FORMAT csv, PER_THREAD_OUTPUT, FILE_EXTENSION '/../../../kafka/data/x')",
    *("EXPORT DATABASE 'kafka/data/e'", "EXPORT DATABASE E'{logs}/e'", "EXPORT DATABASE 'out/data/e' (FORMAT parquet)"),
    "ATTACH '{logs}/e.db'",
    "ATTACH 'duckdb:{logs}/e.db'",
    "ATTACH 'sqlite:{logs}/e.db'",
    "ATTACH ('{logs}' || '/e.db')",
    "SET VARIABLE x = '{logs}/e.db'; ATTACH getvariable('x')",
    "ATTACH $f AS other",
    *("INSTALL httpfs", "INSTALL '{logs}/x.duckdb_extension'", "LOAD httpfs", "LOAD '{logs}/x.duckdb_extension'"),
    "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'a')",
    *("IMPORT DATABASE 'kafka'", "PRAGMA import_database('kafka')"),
    *(
        f"{verb} {name} = '{{logs}}/x'; SELECT 1"
        for verb in ("SET", "SET GLOBAL", "PRAGMA")
        for name in ("log_query_path", "profiling_output", "profile_output", "temp_directory", "secret_directory")
    ),
    *("SET home_directory = '{logs}'", "SET extension_directories = ['{logs}']", "SET file_search_path = '{logs}'"),
    *("SET enable_external_access = true", "RESET enable_external_access", "SET lock_configuration = false"),
    *("RESET lock_configuration", "SET allowed_directories = ['/']", "RESET allowed_directories"),
    *(
        "SET allowed_paths = ['{logs}/x']",
        "SET allowed_configs = ['temp_directory']",
        "SET allow_persistent_secrets = true",
    ),
    *("SET custom_extension_repository = '{logs}'", "RESET temp_directory", "SET disabled_filesystems = ''"),
    "CALL enable_profiling(save_location = '{logs}/p'); SELECT 1",
    "CALL enable_logging(storage = 'file', storage_path = '{logs}'); SELECT 1",
    "CALL enable_logging(storage = 'file'); SELECT 1",
    "SELECT * FROM \"enable_logging\"(storage = 'file', storage_path = '{logs}')",
    "FROM json_execute_serialized_sql(json_serialize_sql('WITH w AS (COPY (SELECT 1) TO ''{logs}/x'') FROM w'))",
    *(
        "FROM 'kafka/data/rows.csv'",
        "FROM 'out/data/rows.csv'",
        "FROM read_text('/etc/hostname')",
        "FROM glob('/etc/*')",
    ),
]


@WRITES_IN_NAMED_DIRECTORIES
def test_no_statement_reads_or_writes_a_file_outside_of_the_named_directories(session: SqlSession, logs: Path) -> None:
    """Each way by which DuckDB writes. One session: what one statement sets does not help those behind it."""
    before = files_of(logs.parents[1])
    for text in REFUSED:
        with pytest.raises(SqlError) as raised:
            run_all(session, text.replace("{logs}", str(logs)))
            pytest.fail(f"has run: {text}")
        assert str(raised.value) and files_of(logs.parents[1]) == before, text


@pytest.mark.parametrize(
    "text",
    [
        "COPY (SELECT 1 a, 2 b) TO 'out/parts' (FORMAT csv, PARTITION_BY (a), OVERWRITE)",
        "COPY t TO 'out/t.csv'; CREATE TABLE u AS SELECT * FROM 'out/t.csv'; COPY u FROM 'out/t.csv'",
        "COPY (SELECT 1) TO 'single.csv'; COPY (SELECT 2) TO 'single.csv'; FROM 'single.csv'",
        "COPY (SELECT 1) TO 'file:{top}/out/x.csv'; COPY (SELECT 1) TO ('out' || '/y.csv')",
        "ATTACH 'out/x.db' AS other; CREATE TABLE other.u (copy INT); SELECT copy FROM other.u; DETACH other",
        "ATTACH 'single.db' AS other; CREATE TABLE other.u (a INT); DETACH other; ATTACH 'single.db' AS again",
        "ATTACH ':memory:' AS other; USE other; EXPORT DATABASE 'out/exported'; IMPORT DATABASE 'out/exported'",
        "SET TimeZone = 'Europe/Berlin'; SET search_path = 'main'; SET VARIABLE place = '/'; SET memory_limit = '2GB'",
        "SET threads = 2; PRAGMA table_info('t'); LOAD json; LOAD parquet; LOAD icu; CALL pragma_version()",
        "PREPARE p AS SELECT * FROM t WHERE key_text = ? AND value_text <> '/'; EXECUTE p('/')",
        "INSERT INTO memory.main.v VALUES ('/' || '.'); CREATE SECRET s (TYPE http, BEARER_TOKEN 'a')",
        "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    ],
)
def test_other_statements_run(session: SqlSession, logs: Path, text: str) -> None:
    before = files_of(logs)
    run_all(session, "CREATE TABLE v (a VARCHAR)")
    run_all(session, text.replace("{top}", str(logs.parents[1])))
    assert files_of(logs) == before


def test_messages_name_what_statements_may_use(session: SqlSession, logs: Path) -> None:
    for text, remedy in {
        "FROM read_text('/etc/hostname')": f"statements may use {logs.parents[1] / 'out'}, .*--files names more",
        "SET temp_directory = 'out'": "statements change no setting",
        "LOAD httpfs": "extensions are native code",
    }.items():
        with pytest.raises(SqlError, match=remedy):
            run_all(session, text)


@WRITES_IN_NAMED_DIRECTORIES
def test_a_directory_at_in_or_above_the_log_directory_is_refused(logs: Path) -> None:
    above = "is above the log directory.* or single files"
    for named, reason in {
        "kafka/data": "is the log directory",
        "kafka/data/t-0": "is in the log directory",
        "out/data/new": "is in the log directory",
        "kafka": above,
        ".": above,
        "/": above,
    }.items():
        with pytest.raises(FileRefused, match=reason):
            FileAccess(str(logs), [named])


def test_the_working_directory_is_used_unless_it_leads_to_the_log_directory(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert FileAccess(str(logs), None).directories == []
    for inside in (logs, logs / "t-0", logs.parent):
        monkeypatch.chdir(inside)
        assert FileAccess(str(logs), None).described() == "no files"
    monkeypatch.chdir(logs.parents[1] / "out")
    assert FileAccess(str(logs), None).directories == [str(logs.parents[1] / "out")]


def test_a_bind_mount_of_the_log_directory_is_recognized(
    logs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two names of one directory have one inode: here a second name is made by the answer of stat."""
    plain, other = os.stat, tmp_path / "out" / "mounted here"
    other.mkdir()
    monkeypatch.setattr(os, "stat", lambda path, **words: plain(logs if path == str(other) else path, **words))
    with pytest.raises(FileRefused, match="is in the log directory"):
        FileAccess(str(logs), [str(other / "x.csv")])
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 2 8:1 /kafka {str(other).replace(' ', chr(92) + '040')} rw - ext4 /dev/sda rw\n")
    monkeypatch.setattr("offsetfs.tables.sql.file_access._MOUNTS", str(mounts))
    with pytest.raises(FileRefused, match="is above the log directory"):
        FileAccess(str(logs), ["out"])


def test_rows_go_to_a_function_and_its_error_is_raised(session: SqlSession, logs: Path) -> None:
    rows = io.BytesIO()
    session.copy("SELECT i FROM range(3) t(i)", None, "FORMAT csv, HEADER true", rows.write)
    assert rows.getvalue() == b"i\n0\n1\n2\n"

    def full(block: bytes) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        session.copy("SELECT i FROM range(1000000) t(i)", None, "FORMAT csv", full)
    with pytest.raises(SqlError, match="line 1, at 'nothing'"):
        session.copy("SELECT nothing", None, "FORMAT parquet", rows.write)
    session.copy("SELECT 1", None, "FORMAT csv, HEADER false", rows.write)
    assert rows.getvalue().endswith(b"\n1\n")


@pytest.mark.parametrize("url", ["s3://bucket/kafka", "gs://bucket/kafka", "az://container/kafka"])
def test_an_archive_lies_at_no_path(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a path it is below the working directory; files there were refused: /tmp, for a command that runs in /."""
    monkeypatch.chdir(tmp_path)
    access = FileAccess(url, None)
    assert access.directories == [str(tmp_path)]
    access.check_file(str(tmp_path / "out.parquet"))
    monkeypatch.chdir("/")
    FileAccess(url, ["/tmp"])
