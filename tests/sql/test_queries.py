"""Queries over logs return what a program that reads every record finds, whatever part of the log is left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.cleaner import sealed_of
from fixtures.logs.keyed_logs import Keyed, keyed
from fixtures.logs.planted_logs import marker
from hypothesis import given, settings
from hypothesis import strategies as st

import offsetfs
from offsetfs.storage import BatchSlice, LogDirectory, TopicPartition
from offsetfs.storage.coordinators import CommittedOffset, commit_key, commit_value
from offsetfs.storage.errors import CorruptBatch
from offsetfs.storage.partition.producers import COMMIT
from offsetfs.storage.records.format.batch import build
from offsetfs.tables.arrow import record_batches
from offsetfs.tables.sql.session import SqlError, SqlSession
from offsetfs.tables.sql.topic_table import Scan

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
BEGIN = datetime(2026, 11, 20, tzinfo=UTC)
TOPICS = ("keyed", "compacted", "transactions", "compacted-tx", "codec-zstd", "segments", "retained", "appendtime")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three partitions in small segments, with timestamps that go back and forth by hours."""
    numbers = random.Random(3)
    path = tmp_path_factory.mktemp("mixed")
    with offsetfs.open(path, "a") as data:
        for partition in data.create(
            "t", 3, {"segment.bytes": "2000", "retention.ms": "-1", "index.interval.bytes": "200"}
        ):
            time = BEGIN + timedelta(hours=partition.number)
            for _ in range(40):
                time += timedelta(minutes=numbers.randrange(0, 60))
                partition.extend(
                    offsetfs.NewRecord(
                        b"%d" % numbers.randrange(1000),
                        numbers.choice((None, b"", b"a", b"offset", b"b" * 20)),
                        [("h", b"1")] * numbers.randrange(2),
                        int((time - timedelta(minutes=numbers.randrange(0, 300))).timestamp() * 1000),
                    )
                    for _ in range(numbers.randrange(1, 9))
                )
    return path


@pytest.fixture(scope="module")
def session(mixed: Path) -> Iterator[SqlSession]:
    directory = LogDirectory.open(str(mixed), read_only=True)
    with SqlSession(directory) as opened:
        yield opened
    directory.close()


Row = tuple[int, int, datetime, bytes | None]
Condition = tuple[str, Callable[[Row], bool]]


def rows_of(path: Path, topic: str, *, isolation: str = "read_uncommitted") -> list[Row]:
    """Return all records of a topic, read one by one."""
    with offsetfs.open(path, isolation=isolation) as data:  # type: ignore[arg-type]
        return [
            (
                partition.number,
                record.offset,
                datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=record.timestamp),
                record.key,
            )
            for partition in data.partitions(topic)
            for record in partition.read()
        ]


def found(session: SqlSession, topic: str, condition: str) -> list[Row]:
    query = f'SELECT "partition", "offset", "timestamp", key FROM "{topic}" WHERE {condition}'
    rows: Any = session.run(query).rows
    return sorted(((p, o, t.astimezone(UTC), k) for p, o, t, k in rows), key=lambda row: row[:2])


def scans_of(session: SqlSession, query: str) -> list[Scan]:
    return session.run(f"EXPLAIN {query}").scans


OPERATORS: dict[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
    "<>": lambda a, b: a != b,
}


@st.composite
def simple(draw: st.DrawFn) -> Condition:
    operator = draw(st.sampled_from(sorted(OPERATORS)))
    compare = OPERATORS[operator]
    which = draw(st.sampled_from(("partition", "offset", "timestamp", "key", "in")))
    if which == "key":
        key = draw(st.sampled_from((b"", b"a", b"offset", b"timestamp")))
        return f"key = '{key.decode()}'", lambda row: row[3] == key
    if which == "timestamp":
        when = BEGIN + timedelta(seconds=draw(st.integers(-10_000, 200_000)))
        return f"\"timestamp\" {operator} TIMESTAMPTZ '{when.isoformat()}'", lambda row: compare(row[2], when)
    if which == "in":
        numbers = draw(st.lists(st.integers(-2, 250), min_size=1, max_size=4))
        return f'"offset" IN ({", ".join(map(str, numbers))})', lambda row: row[1] in numbers
    place, number = (0, draw(st.integers(-1, 4))) if which == "partition" else (1, draw(st.integers(-5, 250)))
    return f'"{which}" {operator} {number}', lambda row: compare(row[place], number)


def combined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    both = st.tuples(inner, inner)
    return st.one_of(
        both.map(lambda ab: (f"({ab[0][0]} AND {ab[1][0]})", lambda row: ab[0][1](row) and ab[1][1](row))),
        both.map(lambda ab: (f"({ab[0][0]} OR {ab[1][0]})", lambda row: ab[0][1](row) or ab[1][1](row))),
    )


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(condition=st.recursive(simple(), combined, max_leaves=4))
@pytest.mark.promise("A condition that is a look-up in an index returns the rows that a look at every record returns.")
def test_a_condition_finds_what_a_look_at_every_record_finds(
    session: SqlSession, mixed: Path, condition: Condition
) -> None:
    text, is_true = condition
    assert found(session, "t", text) == [row for row in rows_of(mixed, "t") if is_true(row)]


@pytest.mark.long
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("version", ["kafka-4.1", "kafka-0.10.2.2"])
def test_the_logs_of_brokers_have_the_rows_that_a_reader_finds(version: str, isolation: str) -> None:
    directory = LogDirectory.open(str(GOLDEN / version), read_only=True)
    with SqlSession(directory, isolation=isolation) as session:
        topics = set(session.tables()) & {
            *TOPICS,
            *(each.topic for each in directory.partitions() if version != "kafka-4.1"),
        }
        assert topics
        for topic in sorted(topics - {"__consumer_offsets"}):
            rows = rows_of(GOLDEN / version, topic, isolation=isolation)
            assert found(session, topic, "true") == rows
            assert list(session.run(f'SELECT count(*) FROM "{topic}"').rows) == [(len(rows),)]
            if rows:
                middle = rows[len(rows) // 2]
                assert found(session, topic, f"\"timestamp\" >= '{middle[2].isoformat()}'") == [
                    row for row in rows if row[2] >= middle[2]
                ]
    directory.close()


# --- what is read ----------------------------------------------------------------------------------------------------


def test_conditions_on_partition_and_offset_read_only_their_ranges(session: SqlSession) -> None:
    (scan,) = scans_of(session, 'SELECT key FROM t WHERE "partition" = 1 AND "offset" IN (3, 120)')
    assert [(str(each.partition), each.start, each.stop) for each in scan.ranges] == [("t-1", 3, 4), ("t-1", 120, 121)]
    assert scan.columns == ("key", "offset", "partition")
    assert sum(each.size_bytes for each in scan.ranges) < scan.size_bytes / 4


def test_a_lower_bound_of_time_skips_to_the_first_record_of_that_time(session: SqlSession, mixed: Path) -> None:
    newest = max(row[2] for row in rows_of(mixed, "t"))
    (scan,) = scans_of(session, f"SELECT key FROM t WHERE \"timestamp\" >= '{newest.isoformat()}'")
    (only,) = scan.ranges
    with offsetfs.open(mixed) as data:
        assert only.start == data.partition(str(only.partition)).offset_at(newest)
    assert not scans_of(session, 'SELECT key FROM t WHERE "timestamp" > now() + INTERVAL 1 HOUR')[0].ranges


@pytest.fixture(scope="module")
def stamped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose batches the broker stamped, with a clock that goes back, some with times of the producer."""
    numbers = random.Random(5)
    path = tmp_path_factory.mktemp("stamped")
    with closing(LogDirectory.open(str(path))) as directory:
        log = directory.create_partition(TopicPartition("t", 0), {"segment.bytes": "2000", "retention.ms": "-1"})
        for number in range(120):
            first = int(BEGIN.timestamp() * 1000) + 60_000 * (number - numbers.randrange(20))
            times = [first, first - numbers.randrange(600_000), first + numbers.randrange(600_000)]
            records = [Keyed(delta, b"a", b"x" * 20, each) for delta, each in enumerate(times)]
            append_time = None if number % 3 == 0 else first
            log.append_replicated(keyed(3 * number, *records, append_time=append_time, codec="lz4"))
    return path


def test_bounds_of_time_skip_broker_stamped_batches_and_no_row(stamped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = 0

    def counted(slices: Iterable[BatchSlice], *words: Any) -> Iterator[Any]:
        def each() -> Iterator[BatchSlice]:
            nonlocal decoded
            for one in slices:
                decoded += 1
                yield one

        return record_batches(each(), *words)

    monkeypatch.setattr("offsetfs.tables.sql.topic_table.record_batches", counted)
    rows = rows_of(stamped, "t")
    times = sorted({row[2] for row in rows})
    directory = LogDirectory.open(str(stamped), read_only=True)
    with SqlSession(directory) as session:
        for when in (times[0] - timedelta(days=1), *times[::40], times[-1], times[-1] + timedelta(microseconds=1)):
            at = f"TIMESTAMPTZ '{when.isoformat()}'"
            for name, compare in OPERATORS.items():
                expected = [row for row in rows if compare(row[2], when)]
                assert found(session, "t", f'"timestamp" {name} {at}') == expected
                either = f'"timestamp" {name} {at} OR "offset" = 7'
                assert found(session, "t", either) == [row for row in rows if row in expected or row[1] == 7]
        quarter, half = times[len(times) // 4], times[len(times) // 2]
        for condition in (
            f"\"timestamp\" < TIMESTAMPTZ '{quarter.isoformat()}'",
            f"\"timestamp\" BETWEEN TIMESTAMPTZ '{quarter.isoformat()}' AND TIMESTAMPTZ '{half.isoformat()}'",
        ):
            decoded = 0
            assert found(session, "t", condition)
            assert decoded < 80  # of 120, 40 with times of the producer
        decoded = 0
        assert found(session, "t", f"\"timestamp\" < TIMESTAMPTZ '{times[0].isoformat()}'") == []
        assert decoded == 40
    directory.close()


def test_a_count_reads_no_other_column_than_the_partition(session: SqlSession) -> None:
    (scan,) = scans_of(session, "SELECT count(*) FROM t")
    assert scan.columns == ("partition",)


def test_a_limit_ends_the_reading(session: SqlSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsetfs.tables.arrow.ARROW_BYTES", 1)
    read = 0

    def counted(*words: object) -> Iterator[object]:
        nonlocal read
        for each in original(*words):  # type: ignore[arg-type]
            read += 1
            yield each

    from offsetfs.tables.arrow import record_batches as original

    monkeypatch.setattr("offsetfs.tables.sql.topic_table.record_batches", counted)
    assert len(list(session.run("SELECT key FROM t LIMIT 2").rows)) == 2
    assert read < 10
    read = 0
    assert len(list(session.run("SELECT key FROM t").rows)) > 300
    assert read > 100


# --- names and values ------------------------------------------------------------------------------------------------


def test_values_are_text_and_json_where_they_are(tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        data.create("x.y-z")[0].extend(offsetfs.NewRecord(value) for value in (b'{"a": [1]}', b"{", b"\xff", None))
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    with SqlSession(directory) as session:
        assert session.tables() == ["x.y-z"]
        rows = session.run('SELECT value_text, value_json->\'$.a[0]\' FROM "x.y-z" ORDER BY "offset"').rows
        assert list(rows) == [('{"a": [1]}', "1"), ("{", None), (None, None), (None, None)]
        for wrong in "SELECT 1 FROM x.y-z", "SELECT 1 FROM X.y-z WHERE value = 'x.y-z'":
            with pytest.raises(SqlError, match=r'x\.y-z is a topic; write "x\.y-z" with quotes'):
                session.run(wrong)
        with pytest.raises(SqlError) as raised:
            session.run('SELECT 1 FRM "x.y-z"')
        assert "quotes" not in str(raised.value)
    directory.close()


def test_a_time_beyond_those_of_arrow_becomes_the_last_one(tmp_path: Path) -> None:
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(TopicPartition("t", 0), {"retention.ms": "-1"})
        for offset, time in enumerate((1 << 62, 9_300_000_000_000_000, -1, 0)):
            log.append_replicated(keyed(offset, Keyed(0, b"k", b"v", time)))
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    with SqlSession(directory) as session:
        columns = '"offset", epoch_ms("timestamp")'
        late = session.run(f"SELECT {columns} FROM t WHERE \"timestamp\" > '2200-01-01' ORDER BY 1")
        assert list(late.rows) == [(0, 9_223_372_036_854_775), (1, 9_223_372_036_854_775)]
        assert list(session.run('SELECT "offset" FROM t WHERE "timestamp" < \'1970-01-01\'').rows) == [(2,)]
    directory.close()
    with offsetfs.open(tmp_path) as data:
        (batch,) = data.partition("t-0").arrow()
        assert batch.column("timestamp").cast("int64").to_pylist() == [*[9_223_372_036_854_775_000] * 2, -1000, 0]


def test_offsets_of_groups_are_a_table() -> None:
    directory = LogDirectory.open(str(GOLDEN / "kafka-4.1"), read_only=True)
    with SqlSession(directory) as session:
        columns = 'topic, "partition", "offset", metadata'
        query = f"SELECT {columns} FROM __consumer_offsets WHERE \"group\" = 'billing' ORDER BY ALL"
        rows = list(session.run(query).rows)
    directory.close()
    assert ("keyed", 0, 10, "") in rows
    assert ("codec-lz4", 0, 123, "") in rows


def test_a_transaction_that_ends_does_not_replace_a_later_commit(tmp_path: Path) -> None:
    """Two transactions stage offsets, and end behind a later commit."""
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(TopicPartition("__consumer_offsets", 0))
        for offset, producer_id in ((10, 7), (20, 8), (30, -1)):
            value = commit_value(CommittedOffset(offset, -1, "", 1000))
            sequence: dict[str, Any] = {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": 0,
                "transactional": True,
            }
            record = commit_key("g", TopicPartition("t", 0)), value, (), 1000
            log.append(sealed_of(bytes(build([record], **(sequence if producer_id >= 0 else {})))))
        for producer_id in (7, 8):
            log.append(marker(producer_id, COMMIT))
    with closing(LogDirectory.open(str(tmp_path), read_only=True)) as directory, SqlSession(directory) as session:
        assert list(session.run('SELECT "offset" FROM __consumer_offsets').rows) == [(30,)]


def test_topics_that_are_created_later_are_found(tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data, SqlSession(data._directory) as session:
        assert session.tables() == []
        data.create("later")[0].append(b"1")
        session.refresh()
        assert list(session.run("SELECT count(*) FROM later").rows) == [(1,)]
        data.partition("later-0").append(b"2")
        assert list(session.run("SELECT count(*) FROM later").rows) == [(2,)]


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1 FROM tt", "there is no topic tt; did you mean t?"),
        ("SELECT 1 FROM zzzzzz", "there is no topic zzzzzz; there are t"),
        ("SELECT 1 FROM records", "there is no topic records; there are t; all_topics has the records of all topics"),
        ("SELECT 1 FROM alltopics", "there is no topic alltopics; did you mean all_topics?"),
        ("SELECT offset FROM t", 'write "offset" with quotes'),
        ("SELECT kee FROM t", "\nline 1, at 'kee': SELECT kee FROM t"),
        ("SELEC 1", "\nline 1, at 'SELEC': SELEC 1"),
        ("SELECT 1 FROM t WHERE key LIKE 'a%'", "key and value are bytes: key_text, value_text and value_json are"),
        ("SELECT length(value) FROM t", "octet_length(value) is a size"),
        ("SELECT 1 FROM t WHERE value->>'n' > 9", "(value->>'NAME')::DOUBLE is a number"),
        ("SELECT sum(value->>'n') FROM t", "(value->>'NAME')::DOUBLE is a number"),
        ("SELECT value->>'n' + 1 FROM t", "(value->>'NAME')::DOUBLE is a number"),
        ("SELECT key::INT FROM t", "key and value are bytes"),
        ("SELECT 1 FROM t WHERE key = 'kéy'", "compare the text with key_text or value_text; encode('…') makes bytes"),
        ("INSERT INTO t VALUES (1)", "topics can only be read here; offsetfs append"),
        ("DELETE FROM t", "topics can only be read here"),
        ("UPDATE t SET key = NULL", "topics can only be read here"),
        ("DROP TABLE t", "topics can only be read here"),
    ],
)
def test_a_wrong_statement_says_what_is_wrong_and_where(session: SqlSession, query: str, message: str) -> None:
    with pytest.raises(SqlError) as raised:
        list(session.run(query).rows)
    assert message in str(raised.value)
    assert str(raised.value).count("\n") <= 1


def test_the_remedy_comes_first(session: SqlSession) -> None:
    with pytest.raises(SqlError) as raised:
        session.run("SELECT offset, key\nFROM t")
    first, second = str(raised.value).splitlines()
    assert first.startswith('OFFSET is a word of SQL; write "offset" with quotes, or TABLE.offset (Parser Error: ')
    assert second.startswith("line 1, at ") and second.endswith(": SELECT offset, key")


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[SqlSession]:
    with offsetfs.open(tmp_path, "a") as data:
        values = b'{"a": {"b": 1}, "c": "x"}', b"no json", b"\xff", None
        headers = [("h", b"1"), ("h", b"2"), ("bytes", b"\xff"), ("null", None)]
        data.create("t")[0].extend(offsetfs.NewRecord(value, b"k", headers) for value in values)
        data.create("u")[0].extend([offsetfs.NewRecord(b"u")])
    with closing(LogDirectory.open(str(tmp_path), read_only=True)) as directory, SqlSession(directory) as session:
        yield session


def test_a_field_of_the_value_is_taken_from_its_bytes(documents: SqlSession) -> None:
    for path, expected in ("c", "x"), ("$.a.b", "1"), ("nothing", None):
        assert list(documents.run(f"SELECT value->>'{path}' FROM t").rows) == [(expected,), (None,), (None,), (None,)]
    of_text = "value_json->>'c', value_text->>'c', value_json->'a'->>'b', '[1, 2]'::JSON->>1, NULL->>'a'"
    assert next(documents.run(f'SELECT {of_text} FROM t WHERE "offset" = 0').rows) == ("x", "x", "1", "2", None)
    assert documents.warnings("SELECT value->>'c', value_json->'c' FROM t") == []


@pytest.mark.parametrize("field", ["value->'c'", "t.value -> 'c'", "value::json->>'c'", "key->'c'"])
def test_what_makes_no_json_of_bytes_is_warned_of(documents: SqlSession, field: str) -> None:
    (warning,) = documents.warnings(f"SELECT {field} FROM t")
    assert " is bytes, of which " in warning and warning.endswith("->>'FIELD', or use value_json")


def test_a_header_is_found_by_its_name(documents: SqlSession) -> None:
    query = (
        "SELECT header(headers, 'h'), header(headers, 'bytes'), header(headers, 'null'), header(headers, 'no') FROM t"
    )
    assert next(documents.run(query).rows) == ("2", None, None, None)
    assert list(documents.run("SELECT header(headers, 'h') FROM u").rows) == [(None,)]
    with pytest.raises(SqlError, match=r"^headers is a list; header\(headers, 'NAME'\) is the text of a header"):
        list(documents.run("SELECT headers['h'] FROM t").rows)


def test_all_topics_are_one_table(documents: SqlSession) -> None:
    query = "SELECT topic, count(*) FROM all_topics GROUP BY 1 ORDER BY 1"
    assert list(documents.run(query).rows) == [("t", 4), ("u", 1)]
    assert list(documents.run("SELECT value_text FROM all_topics WHERE topic = 'u'").rows) == [("u",)]
    assert documents.tables() == ["t", "u"]


def test_a_topic_hides_the_table_of_all_topics(tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        data.create("all_topics")
        data.create("t")[0].extend([offsetfs.NewRecord(b"v")])
    with closing(LogDirectory.open(str(tmp_path), read_only=True)) as directory, SqlSession(directory) as session:
        assert list(session.run("SELECT count(*) FROM all_topics").rows) == [(0,)]


def test_keys_are_text_where_they_are(tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        data.create("group")[0].extend(offsetfs.NewRecord(b"", key) for key in (b"user-1", b"\xff", None, b"other"))
    with closing(LogDirectory.open(str(tmp_path), read_only=True)) as directory, SqlSession(directory) as session:
        assert list(session.run("SELECT key_text FROM \"group\" WHERE key_text LIKE 'user-%'").rows) == [("user-1",)]
        assert list(session.run('SELECT count(key_text), count(key) FROM "group"').rows) == [(2, 3)]
        with pytest.raises(SqlError, match='group is a topic; write "group" with quotes'):
            session.run("SELECT 1 FROM group")


def test_a_statement_that_creates_a_table_has_no_rows(session: SqlSession) -> None:
    for statement in "CREATE TABLE made AS SELECT key FROM t", "-- again\nCREATE OR REPLACE TABLE made(a INT)":
        assert session.run(statement).columns == ()
    assert list(session.run("INSERT INTO made VALUES (1), (2)").rows) == [(2,)]
    session.run("DROP TABLE made")


def test_no_hint_about_the_column_where_offset_is_a_clause(session: SqlSession) -> None:
    with pytest.raises(SqlError) as raised:
        session.run("SELECT key FRM t LIMIT 1 OFFSET 2")
    assert "quotes" not in str(raised.value)


@pytest.mark.damages
@pytest.mark.promise("A damaged batch ends a statement with its path and offset, unless `--damage skip` is given.")
def test_damage_ends_a_query_with_the_offset_or_is_left_out(mixed: Path, tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        (partition,) = data.create("t")
        for number in range(3):
            partition.append(b"%d" % number * 50)
    file = next((tmp_path / "t-0").glob("*.log"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    with SqlSession(directory) as session, pytest.raises(CorruptBatch) as raised:
        list(session.run("SELECT value FROM t").rows)
    assert raised.value.offset == 1
    with SqlSession(directory, skips_damage=True) as session:
        assert len(list(session.run("SELECT value FROM t").rows)) == 2
        assert [each.offset for each in session.damage] == [1]
    directory.close()


@pytest.mark.damages
def test_damage_where_a_time_begins_ends_the_query(tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        (partition,) = data.create("t")
        for number in range(3):
            partition.append(b"%d" % number * 50, timestamp=1_795_266_300_000 + 1000 * number)
    file = next((tmp_path / "t-0").glob("*.log"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    query = 'SELECT "offset" FROM t WHERE "timestamp" >= to_timestamp(1795266301)'
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    with SqlSession(directory) as session, pytest.raises(CorruptBatch) as raised:
        list(session.run(query).rows)
    assert raised.value.offset == 1
    with SqlSession(directory, skips_damage=True) as session:
        assert list(session.run(query).rows) == [(2,)]
        assert {each.offset for each in session.damage} == {1}
    directory.close()


@pytest.mark.parametrize("copy", ["COPY (SELECT 1) TO '{}'", 'COPY (SELECT 1) TO "{}"', "ATTACH '{}' AS other"])
def test_statements_do_not_write_into_the_log_directory(tmp_path: Path, copy: str) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        data.create("t")[0].append(b"one")
    file = next((tmp_path / "t-0").glob("*.log"))
    content = file.read_bytes()
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    with SqlSession(directory) as session, pytest.raises(SqlError, match="Cannot access file"):
        list(session.run(copy.format(file)).rows)
    directory.close()
    assert file.read_bytes() == content


def test_progress_counts_the_bytes_that_are_read(session: SqlSession) -> None:
    reported: list[tuple[int, int]] = []
    session.show_progress(lambda done, total: reported.append((done, total)))
    try:
        list(session.run("SELECT key FROM t").rows)
        everything = reported[-1]
        reported.clear()
        list(session.run('SELECT key FROM t WHERE "partition" = 0').rows)
    finally:
        session.show_progress(None)
    assert 0 < reported[-1][0] < everything[0]
    assert all(done <= total for done, total in [*reported, everything])


def test_topics_whose_names_differ_in_case_only_have_tables_of_their_own(tmp_path: Path) -> None:
    """Names of DuckDB have no case: one view replaced the other."""
    with offsetfs.open(tmp_path, "a") as data, SqlSession(data._directory) as session:
        data.create("Orders")[0].append(b"upper")
        session.refresh()
        assert list(session.run('SELECT value_text, topic FROM "Orders"').rows) == [("upper", "Orders")]
        data.create("orders")[0].append(b"lower")
        data.create("other")[0].append(b"x")
        session.refresh()
        assert session.tables() == ["Orders~1", "orders~0", "other"]
        assert list(session.run('SELECT value_text, topic FROM "Orders~1"').rows) == [("upper", "Orders")]
        assert list(session.run('SELECT value_text, topic FROM "orders~0"').rows) == [("lower", "orders")]
        with pytest.raises(SqlError, match=r'there is no topic orders; did you mean "Orders~1" or "orders~0"'):
            session.run("SELECT * FROM orders")
        data._directory.delete_partition(TopicPartition("Orders", 0))
        session.refresh()
        assert session.tables() == ["orders", "other"]
        assert list(session.run("SELECT value_text, topic FROM orders").rows) == [("lower", "orders")]


def test_the_name_of_a_table_never_moves_to_another_topic(tmp_path: Path) -> None:
    """A number that counted topics moved: "orders~2" answered from Orders once ORDERS existed."""
    with offsetfs.open(tmp_path, "a") as data, SqlSession(data._directory) as session:
        topics: dict[str, set[str]] = {}
        for change in ("Orders", "orders", "ORDERS", "oRders", "-Orders", "-orders", "orders", "-oRders", "-ORDERS"):
            if change.startswith("-"):
                data._directory.delete_partition(TopicPartition(change[1:], 0))
            else:
                data.create(change)[0].append(change.encode())
            session.refresh()
            for table in session.tables():
                rows = list(session.run(f'SELECT value_text FROM "{table}"').rows)
                topics.setdefault(table, set()).update(str(value) for (value,) in rows)
        assert (
            topics["orders~0"] == {"orders"} and topics["ORDERS~3f"] == {"ORDERS"} and topics["oRders~2"] == {"oRders"}
        )
        assert all(len(answered) == 1 for answered in topics.values())
        data.create("ORDERS")[0].append(b"ORDERS")
        session.refresh()
        for gone in ("orders~2", "orders", "OrDers"):
            with pytest.raises(SqlError, match='did you mean "ORDERS~3f" or "orders~0"'):
                session.run(f'SELECT * FROM "{gone}"')


def test_a_temporary_directory_in_the_log_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        data.create("t")[0].append(b"x")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        with pytest.raises(SqlError, match="set TMPDIR to another directory"):
            SqlSession(data._directory)
    assert not [each for each in tmp_path.iterdir() if "sql" in each.name]
