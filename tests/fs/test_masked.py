"""`-o mask=` and `--mask`: fields are null in `decoded/`, and the topic has no raw files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.logs.decoded_orders import write, write_orders

from offsetfs.cli import exit_codes, run
from offsetfs.fs.options import MountOptionError, MountOptions

pytestmark = pytest.mark.unit

WITHHELD = "not decoded; the topic has a mask, so neither the value nor the reason is shown"
RAW = ("0", "0.json", "0.key", "values", "records.ndjson", "range/0..1", "last/1", "by-key/k", "by-time", "segments",
       "first", "latest", "follow", "follow@0", "range", "last", "segments/00000000000000000000.log")  # fmt: skip


@pytest.fixture
def orders(log: Path) -> Path:
    write_orders(log)
    write(log, b"secret", partition="users-0")
    return log


def said(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    capfd.readouterr()
    code = run([str(word) for word in words])
    return code, *capfd.readouterr()


def test_masked_fields_are_null_and_what_is_not_decoded_is_withheld(
    orders: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for words in (("--mask", "orders:photo"), ("-o", "mask=orders:photo")):
        code, out, _ = said(capfd, "cat", orders, "orders-0/decoded/values", *words)
        lines = [json.loads(line) for line in out.splitlines()]
        assert code == 0
        assert [line and line.get("photo", "none") for line in lines[:3]] == [None, None, None]
        assert lines[0]["id"] == 1 and lines[2] is None
        assert lines[3:] == [{"value": None, "value_error": WITHHELD}] * 3
        _, out, _ = said(capfd, "cat", orders, "orders-0/decoded/records.ndjson", *words)
        records = [json.loads(line) for line in out.splitlines()]
        assert [record.get("value_error") for record in records] == [None, None, None, WITHHELD, WITHHELD, WITHHELD]
        assert "plain" not in out and '"text"' not in out and "value_b64" not in out


def test_each_file_of_decoded_has_the_mask(orders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = ("0", "first", "range/0..1", "last/6", "by-time/2026-11-21")
    paths = [f"orders-0/decoded/{name}" for name in names]
    paths += [f"topics/orders/decoded/{name}" for name in ("values", "last/6", "range/2026-01-01..")]
    for path in paths:
        code, out, err = said(capfd, "cat", orders, path, "--mask", "orders:*")
        assert code == 0, err
        assert json.loads(out.splitlines()[0]) == {"id": None, "photo": None, "at": None}, path
        for secret in ("text", "plain", "/w=="):
            assert secret not in out, path


def test_a_topic_with_a_mask_has_no_raw_files(orders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for folder in ("orders-0", "topics/orders"):
        for name in RAW:
            code, out, err = said(capfd, "cat", orders, f"{folder}/{name}", "--mask", "orders:photo")
            assert code != 0 and out == "", name
            assert "the topic has a mask, so it has no raw values; read the files in decoded/\n" in err
    listed = said(capfd, "ls", orders, "orders-0", "--mask", "orders:photo")[1].split()
    assert listed == ["start", "next", "info", "append", "append.ndjson", "append.raw", "decoded"]
    assert said(capfd, "ls", orders, "topics/orders", "--mask", "orders:photo")[1].split() == ["decoded"]
    assert said(capfd, "cat", orders, "users-0/values", "--mask", "orders:photo")[:2] == (0, "secret\n")


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ("orders:photos", "mask orders:photos: values of orders have no such field; did you mean photo?"),
        ("order:photo", "mask order: there is no such topic; did you mean orders?"),
        ("users:name", "mask users: there is no subject users-value"),
        ("orders", "mask 'orders' is not TOPIC:FIELD[,FIELD]"),
    ],
)
def test_a_mistyped_mask_is_refused(orders: Path, mask: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capfd, "cat", orders, "orders-0/decoded/values", "--mask", mask)
    assert (code, out) == (exit_codes.WRONG_CALL, "")
    assert message in err


def test_a_broker_in_the_same_process_would_show_raw_values() -> None:
    with pytest.raises(MountOptionError, match="mask and listen exclude each other"):
        MountOptions.parse(["mask=orders:photo,listen=127.0.0.1:0"])


def test_masks_add_up_and_are_printed_again() -> None:
    options = MountOptions.parse(['mask="orders:a,b.c",ro', "mask=users:*"])
    assert options.masks == ("orders:a,b.c", "users:*")
    assert MountOptions.parse([f'mask="{options.texts()["mask"]}"']).masks == options.masks
