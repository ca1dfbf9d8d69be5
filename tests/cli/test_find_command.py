"""`offsetfs find`: its output, its exit codes and its messages; the sentences of docs/use/answers.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.logs.decoded_orders import encoded, write, write_orders
from fixtures.logs.schema_records import schema_record, write_schemas

import offsetfs
from offsetfs.cli import exit_codes, run

pytestmark = pytest.mark.unit

Found = Callable[..., tuple[int, str, str]]
PAGE = (Path(__file__).parents[2] / "docs" / "use" / "answers.md").read_text()
TIME = 1_795_253_676_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Twelve records of six keys in three partitions by murmur2, a second apart, and one in another topic."""
    path = tmp_path / "logs"
    path.mkdir()
    with offsetfs.open(path, "a") as data:
        partitions = data.create("orders", 3)
        for n in range(12):
            key = b"customer-%d" % (n % 6)
            headers = [("trace-id", b"t%d" % n)]
            record = offsetfs.NewRecord(b'{"id":%d,"status":"Refused"}' % n, key, headers, TIME + 1000 * n)
            partitions[offsetfs_partition(key)].extend([record])
        (payments,) = data.create("payments")
        payments.extend([offsetfs.NewRecord(b"card 4111-1111", b"\0\1", [], TIME)])
    return path


def offsetfs_partition(key: bytes) -> int:
    from offsetfs.storage.records import partition_of

    return partition_of(key, 3)


@pytest.fixture
def find(log: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Found:
    """Runs `offsetfs find` with words behind the directory; returns its exit code and output."""

    def find(*words: str, directory: object = log) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        code = run(["find", str(directory), *words])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return find


def test_a_key_is_found_in_its_partition(find: Found) -> None:
    number = offsetfs_partition(b"customer-4")
    code, out, err = find("orders", "--key", "customer-4")
    assert code == exit_codes.DONE
    assert [json.loads(line)["value"] for line in out.splitlines()] == [
        '{"id":4,"status":"Refused"}',
        '{"id":10,"status":"Refused"}',
    ]
    assert {json.loads(line)["partition"] for line in out.splitlines()} == {number}
    assert err == f"offsetfs find: the key is in orders-{number}, by murmur2 of 3 partitions\n"


def test_a_key_of_another_partitioner_is_found_in_all_partitions(find: Found) -> None:
    codes = {each: find("orders", "--key", "customer-4", "--partitioner", each) for each in ("crc32", "fnv1a", "any")}
    assert codes["any"][0] == exit_codes.DONE and codes["any"][2] == ""
    for code, out, err in codes.values():
        assert bool(out) == (code == exit_codes.DONE)
        assert ("--partitioner any searches all partitions" in err) == (code == 1)
    assert 1 in {code for code, _, _ in codes.values()}
    assert "If nothing is found there, try `--partitioner any`." in PAGE


def test_a_named_partition_is_searched_whatever_its_key(find: Found) -> None:
    number = offsetfs_partition(b"customer-4")
    code, out, err = find(f"orders-{(number + 1) % 3}", "--key", "customer-4")
    assert (code, out, err) == (1, "", "")


def test_a_key_of_any_bytes_is_found(find: Found) -> None:
    assert find("payments", "--key-base64", "AAE=", "--values")[:2] == (0, "card 4111-1111\n")
    assert find("payments", "--key-base64", "AAE", "--values")[0] == exit_codes.WRONG_CALL


def test_forms_of_the_output(find: Found) -> None:
    assert find("--text", "4111")[1].startswith('{"topic":"payments","partition":0,"offset":0,')
    assert find("--text", "4111", "--paths")[:2] == (0, "payments-0/0\n")
    assert find("--text", "4111", "--values")[:2] == (0, "card 4111-1111\n")
    assert find("--text", "refused", "--count")[:2] == (1, "0\n")
    assert find("--text", "refused", "-i", "--count")[:2] == (0, "12\n")
    assert find("--header", "trace-id=t7", "--values")[1] == '{"id":7,"status":"Refused"}\n'
    assert find("--regex", '"id":1[01],', "orders", "--count")[1] == "2\n"
    assert find("--text", "t11", "--in", "any", "--values")[1] == '{"id":11,"status":"Refused"}\n'


def test_the_newest_come_first(find: Found) -> None:
    ids = [json.loads(line)["id"] for line in find("orders", "--last", "3", "--values")[1].splitlines()]
    assert ids == [11, 10, 9]
    ids = [json.loads(line)["id"] for line in find("orders", "--first", "2", "--values")[1].splitlines()]
    assert ids == [0, 1]
    assert "prints, of the last N of each partition, the N newest by their times, newest first." in " ".join(
        PAGE.split()
    )


def test_more_may_be_asked_for_than_fits_a_machine_word(find: Found) -> None:
    for option in "--first", "--last":
        assert len(find("orders", option, str(10**30), "--paths")[1].splitlines()) == 12
        assert len(find("orders-0", option, str(10**30), "--paths")[1].splitlines()) == 4


def test_times_and_offsets_are_bounds(find: Found) -> None:
    assert find("orders", "--from", f"@{TIME // 1000 + 3}", "--to", f"@{TIME // 1000 + 5}", "--count")[1] == "2\n"
    assert find("payments-0", "--from", "0", "--to", "1", "--count")[1] == "1\n"
    code, _, err = find("orders", "--from", "1")
    assert code == exit_codes.WRONG_CALL and "an offset belongs to one partition, such as orders-0" in err
    assert "A record between two times is found wherever it is in the log." in PAGE


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("orders", "--regex", "("), "--regex: missing )"),
        (("orders", "--text", "\udcff", "-i"), "--text: it is not Unicode text"),
        (("orders", "--first", "1", "--last", "1"), "--first and --last exclude each other"),
        (("orders", "--last", "1", "--count"), "--last and --count exclude each other"),
        (("orders", "--paths", "--values"), "exclude each other"),
        (("orders", "--key", "a", "--key-base64", "YQ=="), "exclude each other"),
        (("orders", "--from", "yesterday"), "give an offset (42) or a time"),
        (("ordes",), "did you mean orders?"),
        (("orders", "--partitioner", "md5"), "partitioner"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_wrong_call_is_one_line(find: Found, words: tuple[str, ...], sentence: str) -> None:
    code, out, err = find(*words)
    assert (code, out) == (exit_codes.WRONG_CALL, "") and sentence in err and err.count("\n") == 1


@pytest.mark.damages
def test_damage_is_reported_and_the_exit_code_says_so(find: Found, log: Path) -> None:
    segment = log / "payments-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    code, out, err = find("orders", "payments", "--text", "Refused", "--count")
    assert (code, out) == (exit_codes.FAILED, "12\n")
    assert err.startswith("offsetfs find: left out: ") and "payments-0" in err and err.count("\n") == 1
    assert "Damaged batches are left out and reported, and the exit code is 32." in PAGE


def test_several_directories_are_searched_together(find: Found, log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.rename(log / "payments-0", other / "payments-0")
    assert find("--text", "4111", "--paths", directory=f"{log},{other}")[:2] == (0, "payments-0/0\n")


def test_a_directory_that_cannot_be_opened_is_reported(find: Found, log: Path, tmp_path: Path) -> None:
    code, out, err = find("orders", "--count", directory=f"{log},{tmp_path / 'absent'}")
    assert (code, out) == (exit_codes.FAILED, "12\n")
    assert err.count("absent") == err.count("\n") == 1 and "there is no such directory" in err


def test_an_empty_directory_is_reported(find: Found, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, out, err = find("--text", "a", directory=tmp_path / "empty")
    assert (code, out) == (exit_codes.FAILED, "") and "is empty" in err and err.count("\n") == 1


@pytest.mark.long
def test_a_full_disk_is_one_line(log: Path) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "offsetfs", "find", log, "orders"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == exit_codes.SYSTEM
    assert ended.stderr == "offsetfs find: standard output: No space left on device\n"


@pytest.mark.long
def test_a_reader_that_ends_ends_the_search(log: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run([sys.executable, "-m", "offsetfs", "find", log], stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (exit_codes.OUTPUT_CLOSED, b"")


def test_the_exit_code_is_that_of_grep(find: Found) -> None:
    assert find("orders", "--text", "nothing like this") == (1, "", "")
    assert "The exit code is 1 if no record matches, as of grep." in PAGE


# --- conditions in SQL, and decoded values ---------------------------------------------------------------------------


def test_a_condition_in_sql_is_asked_of_the_columns_of_sql(find: Found) -> None:
    where = "value->>'id' IN ('3', '9', '11')"
    assert find("orders", "--where", where, "--count")[:2] == (0, "3\n")
    number = offsetfs_partition(b"customer-3")
    assert find("orders", "--where", where, "--key", "customer-3", "--paths")[1].count(f"orders-{number}/") == 2
    assert find("orders", "--where", "key_text = 'customer-3'", "--text", '"id":9,', "--count")[1] == "1\n"
    assert find("--where", "value_text LIKE 'card%'", "--paths")[1] == "payments-0/0\n"
    assert find("orders", "--where", "header(headers, 'trace-id') = 't7'", "--values")[1].startswith('{"id":7,')
    times = ("--from", f"@{TIME // 1000 + 3}", "--to", f"@{TIME // 1000 + 5}")
    assert find("orders", "--where", "true", *times, "--count")[1] == "2\n"
    assert find("payments-0", "--where", "true", "--from", "1", "--count")[:2] == (1, "0\n")


def test_the_newest_that_meet_a_condition_come_first(find: Found) -> None:
    for limit, wanted in (("--last", [11, 9]), ("--first", [1, 3])):
        lines = find("orders", "--where", "(value_json->>'id')::INT % 2 = 1", limit, "2", "--values")[1].splitlines()
        assert [json.loads(line)["id"] for line in lines] == wanted


@pytest.mark.parametrize(
    "condition", ["nothing = 1", "value->>'id' = '3'; SELECT 1", "(", "EXISTS (SELECT * FROM read_text('/etc/passwd'))"]
)
def test_a_wrong_condition_is_one_line(find: Found, condition: str) -> None:
    code, out, err = find("orders", "--where", condition)
    assert (code, out) == (exit_codes.WRONG_CALL, "")
    assert err.startswith("offsetfs find: --where: ") and err.count("\n") == 1


def test_a_condition_stays_in_the_partitions_that_are_searched(find: Found) -> None:
    paths = find("orders-1", "--where", "true) OR (true", "--paths")[1].splitlines()
    assert all(path.startswith("orders-1/") for path in paths)


def test_a_condition_counts_what_it_finds(find: Found) -> None:
    for words in (
        ["orders-1", "--where", "true) OR (true"],
        ["--where", "true"],
        ["orders", "--where", '"offset" < 2'],
    ):
        assert int(find(*words, "--count")[1]) == len(find(*words, "--paths")[1].splitlines())


@pytest.mark.parametrize("limit", ["--first", "--last"])
@pytest.mark.parametrize("number", ["1", "3", "1000"])
def test_a_condition_that_all_meet_changes_no_limit(find: Found, limit: str, number: str) -> None:
    assert find("orders", "--where", "true", limit, number) == find("orders", limit, number)


def test_a_condition_stays_within_the_offsets(find: Found) -> None:
    assert find("orders-0", "--where", "true) OR (true", "--from", "1", "--to", "3", "--count")[1] == "2\n"


def test_conditions_and_lines_have_decoded_values(find: Found, tmp_path: Path) -> None:
    decoded = tmp_path / "decoded"
    decoded.mkdir()
    write_orders(decoded)
    code, out, _ = find("orders", "--where", "id = 2 AND key = 'k'", "--decoded", directory=decoded)
    assert code == exit_codes.DONE
    assert json.loads(out)["value"] == {"id": 2, "photo_b64": "/w==", "at": "2026-11-21T13:05:00.123Z"}
    lines = [json.loads(line) for line in find("orders", "--decoded", directory=decoded)[1].splitlines()]
    assert [line.get("value_error") for line in lines[:4]] == [None, None, None, "the record names no schema"]
    # A column that only the topic has: then the condition is asked of that.
    assert find("orders", "--where", "value_text = 'plain'", "--paths", directory=decoded)[1] == "orders-0/3\n"
    assert "`--decoded` prints values by their schemas, with `--mask` without" in PAGE


def test_fields_that_have_names_of_columns_hide_none_of_the_others(find: Found, tmp_path: Path) -> None:
    fields = [("Timestamp", {"type": "long", "logicalType": "timestamp-millis"}), ("offset", "long"),
        ("partition", "string"), ("_offset", "long"), ("amount", "double")]  # fmt: skip
    event = {"type": "record", "name": "Event", "fields": [{"name": name, "type": type_} for name, type_ in fields]}
    events = tmp_path / "events"
    events.mkdir()
    write_schemas(events, [schema_record("events-value", 1, 1, json.dumps(event))])
    write(events, *(
        encoded(1, event, {"Timestamp": n, "offset": 90 - n, "partition": f"p{n % 2}", "_offset": 7, "amount": n * 1.5})
        for n in range(9)
    ), partition="events-0")  # fmt: skip

    def found(condition: str, *words: str) -> str:
        code, out, err = find("events", "--where", condition, *words, directory=events)
        assert (code, err) == (0, "")
        return out

    assert found("amount > 6 AND partition = 'p1'", "--paths") == "events-0/5\nevents-0/7\n"
    assert found("amount > 6 AND key = 'k'", "--last", "1", "--paths") == "events-0/8\n"
    assert found("\"offset\" > 87 AND timestamp < '1970-01-02T00:00:00Z'", "--count") == "3\n"
    assert found("_offset = 4", "--paths") == "events-0/4\n"
    assert found("amount >= 0", "--from", "2026-11-21", "--to", "2026-11-22", "--count") == "9\n"
    assert find("events", "--where", "amount > 0", "--to", "2026-11-21", "--count", directory=events)[1] == "0\n"


def test_a_condition_that_one_topic_cannot_be_asked_names_the_topic_first(find: Found, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    write_orders(mixed)
    write(mixed, b"plain", partition="texts-0")
    for words in ("--paths",), ("--count",), ("--decoded", "--last", "1"):
        code, out, err = find("orders", "texts", "--where", "id = 1", *words, directory=mixed)
        assert (code, out) == (exit_codes.WRONG_CALL, "")
        assert err.startswith("offsetfs find: --where: texts: ") and err.count("\n") == 1
    assert "the condition is empty; give one" in find("orders", "--where", " ")[2]


@pytest.mark.long
def test_times_of_a_condition_are_in_utc_as_those_of_the_bounds(log: Path) -> None:
    command = [sys.executable, "-m", "offsetfs", "find", str(log), "payments", "--count"]
    for words in (["--from", "2026-11-21T09:34:36"], ["--where", "timestamp >= '2026-11-21 09:34:36'"]):
        environment = {**os.environ, "TZ": "America/New_York"}
        ended = subprocess.run([*command, *words], env=environment, capture_output=True, text=True)
        assert ended.stdout == "1\n", ended.stderr


def test_a_first_guess_that_finds_nothing_has_the_remedy(find: Found) -> None:
    for words, reason in (
        (["orders", "Refused"], "has no such topic or partition; --text finds a text, --key a key"),
        (["--from", f"{TIME}"], f"such as orders-0; the time is @{TIME // 1000}"),
        (["--to", f"{TIME // 1000}"], f"such as orders-0; the time is @{TIME // 1000}"),
        (["payments-0", "--from", f"{TIME}"], f"payments-0 ends at offset 1, before offset {TIME}"),
    ):
        code, out, err = find(*words)
        assert (code, out, err.count("\n")) == (1, "", 1) and reason in err, words
    assert find("payments-0", "--from", "1") == (1, "", "")


def test_masked_fields_are_neither_printed_nor_found(find: Found, tmp_path: Path) -> None:
    masked = tmp_path / "masked"
    masked.mkdir()
    write_orders(masked)
    words = ["orders", "--mask", "orders:photo"]
    code, out, _ = find(*words, "--decoded", directory=masked)
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == exit_codes.DONE and "text" not in out and "plain" not in out
    assert lines[0]["value"] == {"id": 1, "photo": None, "at": "1970-01-01T00:00:00.000Z"}
    assert find(*words, "--where", "id = 1", "--paths", directory=masked)[1] == "orders-0/0\n"
    photo = "photo::VARCHAR LIKE '%text%'"
    assert find("orders", "--where", photo, "--count", directory=masked)[1] == "1\n"
    assert find(*words, "--where", photo, "--count", directory=masked)[1] == "0\n"
    for more, reason in (
        ([], "--mask: without --decoded, --count or --paths raw values would be printed"),
        (["--values"], "--mask: without --decoded, --count or --paths raw values would be printed"),
        (["--count", "--text", "x"], "--mask: --text and --regex search raw values; use --where, or --in key"),
        (["--count", "--mask", "x"], "mask 'x' is not TOPIC:FIELD[,FIELD], such as"),
        (["--decoded", "--mask", "orders:photos"], "values of orders have no such field; did you mean photo?"),
        (["--count", "--where", "value_text = 'plain'"], "--where: "),
    ):
        code, out, err = find(*words, *more, directory=masked)
        assert (code, out) == (exit_codes.WRONG_CALL, "") and reason in err and err.count("\n") == 1, more


@pytest.mark.damages
def test_damage_that_a_condition_meets_is_reported_once(find: Found, log: Path) -> None:
    segment = log / "payments-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    code, out, err = find("--where", "true", "--count")
    assert (code, out) == (exit_codes.FAILED, "12\n")
    assert "payments-0" in err and err.count("\n") == 1
