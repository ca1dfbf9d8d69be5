"""`offsetfs schemas`: the list, one schema, and what is wrong with a topic."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.logs.schema_records import (
    RECORD,
    Headers,
    deletion,
    encoded,
    reference,
    schema_key,
    schema_record,
    write_log,
    write_schemas,
)

from offsetfs.cli import exit_codes, run
from offsetfs.cli.commands.schemas import SAMPLE_RECORDS
from offsetfs.schemas.avro_fingerprint import fingerprint_of

pytestmark = pytest.mark.unit

Said = Callable[..., tuple[int, str, str]]
GUID = "04be51b2-a72a-4cef-9758-9b235d30be99"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs `offsetfs schemas`; returns its exit code and output."""

    def said(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        return run(["schemas", *map(str, words)]), *capsys.readouterr()

    return said


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """A log directory in which a registry stored schemas."""
    write_schemas(
        tmp_path,
        [
            schema_record("orders-value", 1, 1),
            schema_record("orders-value", 2, 2, "second", guid=GUID),
            schema_record("old", 1, 3, "third"),
            deletion("old", 1),
            schema_record("a/b", 1, 4, "message A {}\n", schemaType="PROTOBUF", references=[reference("x", "old", 1)]),
            schema_record(":.test:orders-value", 1, 1, "other"),
        ],
    )
    return tmp_path


def test_versions_are_listed_with_id_type_state_and_references(registry: Path, said: Said) -> None:
    code, out, err = said(registry)
    assert (code, err) == (exit_codes.DONE, "")
    assert [line.split() for line in out.split("\n\n")[0].splitlines()] == [
        ["SUBJECT", "VERSION", "ID", "TYPE", "STATE", "REFERENCES"],
        [":.test:orders-value", "1", "1", "AVRO", "active"],
        ["a/b", "1", "4", "PROTOBUF", "active", "x=old/1"],
        ["old", "1", "3", "AVRO", "deleted"],
        ["orders-value", "1", "1", "AVRO", "active"],
        ["orders-value", "2", "2", "AVRO", "active"],
    ]


def test_the_list_as_json_has_the_names_of_a_registry(registry: Path, said: Said) -> None:
    code, out, err = said(registry, "--json")
    found = json.loads(out)
    assert (code, err, found["records"], found["left_out"], found["broken_references"]) == (0, "", 6, [], [])
    assert found["versions"][1] == {
        "subject": "a/b",
        "version": 1,
        "id": 4,
        "guid": None,
        "schemaType": "PROTOBUF",
        "state": "active",
        "references": [{"name": "x", "subject": "old", "version": 1}],
        "origin": "_schemas-0 offset 4",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("2", "second\n"),
        ("orders-value", "second\n"),
        ("orders-value/1", RECORD + "\n"),
        ("orders-value/latest", "second\n"),
        ("a/b", "message A {}\n"),
        ("a/b/1", "message A {}\n"),
        ("3", "third\n"),
        ("old", "third\n"),
        (GUID.upper(), "second\n"),
    ],
)
def test_a_schema_is_printed_by_id_subject_version_or_guid(registry: Path, said: Said, name: str, text: str) -> None:
    assert said(registry, name) == (exit_codes.DONE, text, "")


def test_a_second_schema_with_the_same_id_is_named(registry: Path, said: Said) -> None:
    note = ":.test:orders-value/1 (active, _schemas-0 offset 5) has another schema with this name"
    assert said(registry, "1") == (exit_codes.DONE, RECORD + "\n", f"offsetfs schemas: {note}\n")


def test_one_schema_as_json_has_its_text(registry: Path, said: Said) -> None:
    code, out, _ = said(registry, "a/b", "--json")
    assert (code, json.loads(out)["schema"]) == (exit_codes.DONE, "message A {}\n")


@pytest.mark.parametrize("name", ["9", "orders", "orders/latest", GUID[:-1], "9" * 5000])
def test_an_unknown_schema_is_refused_with_names_that_exist(registry: Path, said: Said, name: str) -> None:
    code, out, err = said(registry, name)
    assert (code, out) == (exit_codes.WRONG_CALL, "")
    assert err.startswith(f"offsetfs schemas: there is no schema {name}; the subjects are ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [("orders-value/9", "orders-value has "), ("oders-value", "did you mean "), ("oders-value/1", "did you mean ")],
)
def test_a_mistyped_schema_has_a_suggestion(registry: Path, said: Said, name: str, hint: str) -> None:
    code, out, err = said(registry, name)
    assert (code, out) == (exit_codes.WRONG_CALL, "")
    assert err.startswith(f"offsetfs schemas: there is no schema {name}; {hint}") and err.count("\n") == 1


def test_records_that_no_registry_writes_are_counted_on_stderr(registry: Path, said: Said) -> None:
    write_schemas(registry, [(b"\x1b[31m", b"x"), (b"x", None), (None, b"x")])
    code, out, err = said(registry)
    assert code == exit_codes.WRONG_CALL and len(out.splitlines()) == 6
    assert err.splitlines() == [
        "offsetfs schemas: left out 2 records, the first at _schemas-0 offset 6: the key is not JSON",
        "offsetfs schemas: left out 1 record, the first at _schemas-0 offset 8: the key is null",
    ]
    code, out, _ = said(registry, "--json")
    assert json.loads(out)["left_out"][1] == {"reason": "the key is null", "count": 1, "first": "_schemas-0 offset 8"}


def test_records_of_newer_registries_are_named_and_are_no_error(registry: Path, said: Said) -> None:
    records = [(encoded({"keytype": name}), b"{}") for name in ("NOOP", "EXPORTER", "EXPORTER")]
    write_schemas(registry, [*records, (schema_key("old", 1, seq=4, node=0), schema_record("old", 1, 9)[1])])
    code, _, err = said(registry)
    assert (code, err.splitlines()) == (
        exit_codes.DONE,
        [
            "offsetfs schemas: warning: 2 records not used: EXPORTER",
            "offsetfs schemas: warning: 1 record not used: out of sequence",
        ],
    )


def test_control_characters_of_a_subject_are_escaped(tmp_path: Path, said: Said) -> None:
    write_schemas(tmp_path, [schema_record("a\x1b[31m\n", 1, 1, references=[reference("\r", "none", 1)])])
    code, out, err = said(tmp_path)
    assert code == exit_codes.DONE and "\x1b" not in out + err and len(out.splitlines()) == 2
    assert "leads to no schema" in err and err.count("\n") == 1


@pytest.mark.damages
def test_a_damaged_batch_is_left_out_and_named(registry: Path, said: Said) -> None:
    write_schemas(registry, [schema_record("late", 1, 9)])
    (segment,) = (registry / "_schemas-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    code, out, err = said(registry)
    assert code == exit_codes.WRONG_CALL and [line.split()[0] for line in out.splitlines()] == ["SUBJECT", "late"]
    assert "left out: " in err and "checksum" in err


def test_a_directory_without_schemas_names_the_option(tmp_path: Path, said: Said) -> None:
    write_schemas(tmp_path, [schema_record("a", 1, 1)], "registry-0")
    code, out, err = said(tmp_path)
    assert (code, err.count("\n")) == (exit_codes.DONE, 1) and "has no topic _schemas; --topic names" in err
    assert [line.split() for line in out.splitlines()][1:] == [
        ["registry", "key", "none", "1"],
        ["registry", "value", "none", "1"],
    ]
    for words in (("a",), ("--topic", "schemas")):
        code, _, err = said(tmp_path, *words)
        assert (code, err.count("\n")) == (exit_codes.WRONG_CALL, 1) and "has no topic " in err
    assert said(tmp_path, "a", "--topic", "registry")[0] == exit_codes.DONE
    code, _, err = said(tmp_path, "--topic", "a/b")
    assert (code, err.count("\n")) == (exit_codes.WRONG_CALL, 1) and err.startswith("offsetfs schemas: --topic: ")


def test_several_directories_and_an_empty_topic_are_read(tmp_path: Path, said: Said) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    write_schemas(tmp_path / "one", [(b"k", b"v")], "orders-0")
    write_schemas(tmp_path / "two", [], "_schemas-0")
    code, out, err = said(f"{tmp_path / 'one'},{tmp_path / 'two'}", "7")
    assert (code, out) == (1, "") and err.endswith("there is no schema 7; the topic has no schemas\n")


# --- usage -----------------------------------------------------------------------------------------------------------


def confluent(number: int, rest: bytes = b"payload") -> bytes:
    return b"\0" + number.to_bytes(4, "big") + rest


def usage(out: str) -> list[list[str]]:
    return [re.split(r"  +", line) for line in out.split("\n\n")[-1].splitlines()[1:]]


def test_the_usage_names_known_and_unknown_schemas_of_each_topic(registry: Path, said: Said) -> None:
    guid = ("__value_schema_id", b"\1" + uuid.UUID(GUID).bytes)
    records: list[tuple[bytes | None, bytes | None, Headers]] = [
        *((b"key", confluent(2), ()) for _ in range(5)),
        *((b"key", confluent(7), ()) for _ in range(3)),
        *((b"key", confluent(3), ()) for _ in range(2)),
        (b"key", b"\x06text", (guid,)),
        (None, None, ()),
        (None, b"text", ()),
    ]
    write_log(registry, "orders-1", records)
    code, out, err = said(registry)
    assert (code, err) == (exit_codes.DONE, "")
    assert usage(out) == [
        ["orders", "key", "none", "11"],
        ["orders", "key", "null", "2"],
        ["orders", "value", "confluent", "2", "5", "orders-value/2 (AVRO)"],
        ["orders", "value", "confluent", "7", "3", "unknown, first at orders-1 offset 5"],
        ["orders", "value", "confluent", "3", "2", "old/1 (AVRO)"],
        ["orders", "value", "confluent-header", GUID, "1", "orders-value/2 (AVRO)"],
        ["orders", "value", "none", "1"],
        ["orders", "value", "null", "1"],
    ]
    found = json.loads(said(registry, "--json")[1])
    assert found["counted_records"] == {"orders": 13} and found["usage"][3] == {
        "topic": "orders",
        "field": "value",
        "form": "confluent",
        "name": "7",
        "records": 3,
        "schema": None,
        "schemaType": None,
        "first": {"partition": 1, "offset": 5},
    }


def test_files_of_the_user_name_schemas_that_the_topic_lacks(registry: Path, said: Said) -> None:
    fingerprint = bytes.fromhex(fingerprint_of(RECORD))[::-1]
    values = [confluent(7), confluent(2), b"\xc3\1" + fingerprint, b"plain"]
    write_log(registry, "orders-0", [(None, value, ()) for value in values])
    lost, folder = registry.parent / "lost.avsc", registry.parent / "folder"
    folder.mkdir()
    lost.write_text('"string"')
    (folder / "orders.json").write_text("{}")
    (folder / "2.proto").write_text("message A {}")
    code, out, err = said(registry, "--schema", f"7={lost}", "--schema", folder)
    assert code == exit_codes.DONE
    assert usage(out)[1:] == [
        ["orders", "value", "confluent", "7", "1", f"{lost} (AVRO)"],
        ["orders", "value", "confluent", "2", "1", f"{folder}/2.proto (PROTOBUF)"],
        ["orders", "value", "avro-fingerprint", fingerprint_of(RECORD), "1", "orders-value/1 (AVRO)"],
        ["orders", "value", "none", "1", f"{folder}/orders.json (JSON)"],
    ]
    assert [line.partition(" has no fingerprint")[1] != "" for line in err.splitlines()] == [True, True, True]


def test_a_sample_counts_the_newest_records_and_all_every_one(registry: Path, said: Said) -> None:
    records = [(None, confluent(2 if number < 500 else 1), ()) for number in range(SAMPLE_RECORDS + 600)]
    write_log(registry, "orders-0", records)
    assert [row[4] for row in usage(said(registry)[1])[1:]] == ["1000"]
    assert [row[4] for row in usage(said(registry, "--usage", "all")[1])[1:]] == ["1100", "500"]
    assert "orders-0" not in said(registry, "--usage", "none")[1]


def test_unknown_names_are_shown_up_to_a_number(registry: Path, said: Said) -> None:
    write_log(registry, "numbers-0", [(None, confluent(number), ()) for number in range(100, 130)])
    rows = usage(said(registry)[1])[1:]
    assert len(rows) == 11 and rows[-1] == ["numbers", "value", "20 more unknown names", "20"]
    assert len(json.loads(said(registry, "--json")[1])["usage"]) == 31


@pytest.mark.damages
def test_a_damaged_batch_of_a_topic_is_not_counted_and_named(registry: Path, said: Said) -> None:
    write_log(registry, "orders-0", [(None, confluent(2), ())] * 200)
    (segment,) = (registry / "orders-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    code, out, err = said(registry)
    assert code == exit_codes.WRONG_CALL and usage(out)[-1][4] == "100"
    assert err.startswith("offsetfs schemas: not counted: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("lost.avsc", "lost.avsc: is neither NAME=FILE nor a directory"),
        ("7=lost.avsc", "lost.avsc: No such file or directory"),
        ("7=lost.txt", "lost.txt: the type is unknown; the ending is one of .avsc, .proto, .json, .desc, .pb"),
        ("=lost.avsc", "=lost.avsc: is neither NAME=FILE nor a directory"),
        ("empty", "empty: has no file that ends in .avsc, .proto, .json, .desc, .pb"),
        ("7=latin.json", "latin.json: is not UTF-8 at byte 0"),
    ],
)
def test_a_file_that_is_no_schema_is_refused_in_one_line(
    registry: Path,
    said: Said,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    word: str,
    reason: str,
) -> None:
    work = tmp_path_factory.mktemp("work")
    (work / "empty").mkdir()
    (work / "latin.json").write_bytes(b"\xe4")
    monkeypatch.chdir(work)
    assert said(registry, "--schema", word) == (exit_codes.WRONG_CALL, "", f"offsetfs schemas: --schema: {reason}\n")
    assert said(registry, "1", "--schema", word)[0] == exit_codes.WRONG_CALL
