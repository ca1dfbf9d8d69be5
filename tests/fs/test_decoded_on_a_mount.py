"""`decoded/` on a real mount: sizes, seeking, `tail -f`, `follow`; recursive programs do not find it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.decoded_orders import ORDER, VALUES, order, write_orders
from fixtures.machine.waiting import soon

pytestmark = pytest.mark.mount


def test_programs_read_decoded_files_of_a_mount(log: Path, mount: Callable[..., Any]) -> None:
    write_orders(log)
    mounted = mount(log, "linger-ms=0")
    decoded = mounted.path / "orders-0" / "decoded"
    whole = (decoded / "values").read_bytes()
    assert whole.decode().splitlines()[:-1] == VALUES
    assert os.stat(decoded / "values").st_size == len(whole)
    skipped = subprocess.run(["tail", "-c", "+10", decoded / "values"], capture_output=True, check=True)
    assert skipped.stdout == whole[9:]
    for folder in ("orders-0", "topics/orders"):
        path = mounted.path / folder / "decoded" / "by-key" / "k.json"
        assert json.loads(path.read_bytes())["offset"] == 5
    found = subprocess.run(["grep", "-rl", "text", mounted.path / "orders-0"], capture_output=True, check=True)
    assert b"/decoded/" not in found.stdout
    with subprocess.Popen(["tail", "-f", "-n", "0", decoded / "values"], stdout=subprocess.PIPE) as tail:
        with subprocess.Popen(["cat", decoded / "follow@0.ndjson"], stdout=subprocess.PIPE) as cat:
            assert cat.stdout is not None and tail.stdout is not None
            lines = [json.loads(cat.stdout.readline()) for _ in range(6)]
            assert lines[0]["value"] == {"id": 1, "photo": "text"}
            (mounted.path / "orders-0" / "append.raw").write_bytes(order(10))
            assert json.loads(cat.stdout.readline())["value"] == {"id": 10, "photo": None}
            cat.kill()
        assert tail.stdout.readline() == b'{"id":10,"photo":null}\n'
        tail.kill()


def test_programs_read_the_schemas_of_a_mount(log: Path, mount: Callable[..., Any]) -> None:
    write_orders(log)
    schemas = mount(log, "ro").path / "schemas"
    assert json.loads((schemas / "ids" / "1").read_text()) == ORDER
    assert os.readlink(schemas / "orders-value" / "latest") == "2.avsc"
    found = subprocess.run(["grep", "-rl", "photo", schemas], capture_output=True, check=True)
    assert sorted(found.stdout.split()) == [bytes(schemas / "orders-value" / f"{number}.avsc") for number in (1, 2)]


def test_a_shell_appends_decoded_lines_to_a_mount(log: Path, mount: Callable[..., Any]) -> None:
    write_orders(log)
    mounted = mount(log, "linger-ms=0")
    for folder in ("orders-0", "topics/orders"):
        script = """printf '{"key":"k","value":{"id":7}}\\n{"value":{"id":8}}\\n' >> "$1"/decoded/append.ndjson"""
        subprocess.run(["sh", "-c", script, "sh", mounted.path / folder], check=True)
    lines = (mounted.path / "orders-0" / "decoded" / "last" / "4").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [7, 8, 7, 8]
    with pytest.raises(OSError, match="Invalid argument"):
        (mounted.path / "orders-0" / "decoded" / "append.ndjson").write_bytes(b'{"value":{"id":"x"}}\n')
    assert "id: 'x' is not a whole number" in (mounted.path / ".offsetfs" / "errors").read_text()


def test_a_mount_with_a_mask_has_no_raw_files(log: Path, mount: Callable[..., Any]) -> None:
    write_orders(log)
    mounted = mount(log, "mask=orders:photo,linger-ms=0")
    folder = mounted.path / "orders-0"
    assert sorted(os.listdir(folder)) == ["append", "append.ndjson", "append.raw", "decoded", "info", "next", "start"]
    assert sorted(os.listdir(mounted.path / "topics" / "orders")) == ["append", "append.ndjson", "decoded"]
    for name in ("0", "0.json", "values", "records.ndjson", "segments", "first", "follow", "by-time"):
        with pytest.raises(PermissionError):
            os.stat(folder / name)
    (folder / "append.raw").write_bytes(order(7, photo="secret"))
    expected = {"id": 7, "photo": None, "at": "1970-01-01T00:00:00.000Z"}
    assert soon(lambda: json.loads((folder / "decoded" / "last" / "1").read_text()) == expected)
    shown = (folder / "decoded" / "records.ndjson").read_text()
    assert "secret" not in shown and '"text"' not in shown
