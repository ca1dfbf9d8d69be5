"""`offsetfs diff`: arguments, report, exit codes, and what its page says."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fixtures.logs.planted_logs import batch, plant

from offsetfs.cli import exit_codes, run

pytestmark = pytest.mark.unit

SCHEMA = Path(__file__).parents[2] / "docs" / "use" / "report.schema.json"


def report(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    code = run(["diff", *map(str, words), "--json"])
    printed = json.loads(capsys.readouterr().out)
    jsonschema.validate(printed, json.loads(SCHEMA.read_text()))
    return code, printed


def result(printed: dict[str, Any], partition: str = "orders-0") -> str:
    return str(next(row["result"] for row in printed["tables"]["partitions"] if row["partition"] == partition))


def two(tmp_path: Path, first: list[bytes], second: list[bytes], **how: Any) -> tuple[Path, Path]:
    plant(tmp_path / "a", {0: first})
    plant(tmp_path / "b", {how.pop("start", 0): second}, **how)
    return tmp_path / "a", tmp_path / "b"


def test_a_directory_equals_itself(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = report(capsys, golden, golden)
    assert code == exit_codes.DONE
    assert {row["result"] for row in printed["tables"]["partitions"]} == {"equal"}
    assert printed["findings"] == []


def test_parted_logs_are_shown_with_both_records_and_epochs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = batch(0, b"one", b"two", leader_epoch=1)
    a, b = two(
        tmp_path,
        [same, batch(2, b"lost", leader_epoch=1, timestamp=5000)],
        [same, batch(2, b"kept", leader_epoch=4, timestamp=6000)],
    )
    code, printed = report(capsys, a, b)
    assert (code, result(printed)) == (1, "parted")
    first, second = printed["tables"]["partings"]
    assert (first["offset"], first["side"], first["leader_epoch"], first["timestamp"]) == (2, "A", 1, 5000)
    assert (second["side"], second["leader_epoch"], second["timestamp"]) == ("B", 4, 6000)
    assert json.loads(first["record"])["value"] == "lost"
    assert json.loads(second["record"])["value"] == "kept"
    (finding,) = printed["findings"]
    assert "in epochs 1 and 4" in finding["consequence"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([batch(0, b"a"), batch(1, b"b")], [batch(0, b"a")], "B is behind"),
        ([batch(0, b"a")], [batch(0, b"a"), batch(1, b"b")], "A is behind"),
    ],
)
def test_a_log_that_is_behind_differs_unless_only_what_both_have_counts(
    first: list[bytes], second: list[bytes], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = two(tmp_path, first, second)
    code, printed = report(capsys, a, b)
    assert (code, result(printed)) == (1, expected)
    assert report(capsys, a, b, "--common")[0] == exit_codes.DONE


def test_a_log_that_starts_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = two(tmp_path, [batch(0, b"a"), batch(1, b"b")], [batch(1, b"b")], start=1)
    code, printed = report(capsys, a, b)
    assert (code, result(printed)) == (1, "B starts later")
    assert report(capsys, b, a, "--common")[0] == exit_codes.DONE


def test_partitions_that_only_one_side_has(golden_copy: Path, golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(golden_copy / "codec-none-0")
    code, printed = report(capsys, golden, golden_copy)
    assert (code, result(printed, "codec-none-0")) == (1, "only in A")
    assert report(capsys, golden, golden_copy, "--common")[0] == exit_codes.DONE
    assert report(capsys, golden_copy, golden, "codec-gzip")[0] == exit_codes.DONE


def test_another_codec_is_a_notice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = report(capsys, *two(tmp_path, [batch(0, b"a", b"b")], [batch(0, b"a", b"b", codec="lz4")]))
    assert (code, result(printed)) == (exit_codes.DONE, "equal records, other batches")
    assert [finding["kind"] for finding in printed["findings"]] == ["other-batches"]


def test_quick_compares_headers_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = two(tmp_path, [batch(0, b"a"), batch(1, b"b")], [batch(0, b"a"), batch(1, b"c")])
    code, printed = report(capsys, a, b, "--quick")
    assert (code, result(printed)) == (1, "parted")
    assert printed["notes"][0].startswith("--quick compared the headers of batches")


def test_a_name_that_neither_side_has_is_a_wrong_call(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", str(golden), str(golden), "codec-nome"]) == exit_codes.WRONG_CALL
    assert "did you mean codec-none?" in capsys.readouterr().err


def test_the_text_names_the_partition_and_the_offset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = two(tmp_path, [batch(0, b"a"), batch(1, b"b")], [batch(0, b"a"), batch(1, b"c")])
    assert run(["diff", str(a), str(b)]) == 1
    assert "orders-0: parted: parted at offset 1: 1 record with other contents" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("{nope}", "{log}"), ("{log}", "{nope}")])
def test_the_code_of_a_missing_directory_is_not_that_of_a_difference(
    words: tuple[str, str], golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", *(word.format(nope=tmp_path / "nope", log=golden) for word in words)]) == exit_codes.SYSTEM
    assert "nope: there is no such directory" in capsys.readouterr().err


def test_an_empty_partition_is_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = two(tmp_path, [batch(0, b"a")], [])
    code, printed = report(capsys, a, b)
    assert (code, result(printed)) == (1, "B is behind")


def test_a_log_that_cannot_be_read_has_its_own_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from offsetfs.answers.diff import directories

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/x")

    monkeypatch.setattr(directories, "LogComparison", refuse)
    a, b = two(tmp_path, [batch(0, b"a")], [batch(0, b"a")])
    code, printed = report(capsys, a, b)
    assert (code, result(printed)) == (exit_codes.FAILED, "unreadable")
    assert "Permission denied" in os.linesep.join(printed["unseen"])


@pytest.mark.parametrize(
    "sentence",
    [
        "Every byte is equal, but for leader epochs.",
        "Time, key, value and headers of all records are equal; codec or batches differ.",
        "Each missing record has a later record of its key on that side, or is a tombstone or marker.",
        "Records at the same offset differ, as after an unclean election. The report has the first one of both sides.",
        "`--by content` compares committed records in their order, whatever their offsets",
        "`--by key` compares the latest committed value of each key.",
        "A damaged batch that differs is named, and its records count as missing.",
    ],
)
def test_the_page_says_what_the_tests_of_this_folder_show(sentence: str) -> None:
    page = SCHEMA.with_name("answers.md").read_text()
    assert sentence in " ".join(page.split())
