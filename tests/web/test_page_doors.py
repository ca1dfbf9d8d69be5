"""The page of `offsetfs web`, of a mount and of `offsetfs serve`: the same rules at each of these doors."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fixtures.browser.web_process import DOORS, door_process, door_words
from fixtures.machine.free_ports import free_port
from fixtures.machine.waiting import LIMIT_S
from fixtures.security import certificates

import offsetfs
from offsetfs.cli import exit_codes, run

each_door = pytest.mark.parametrize(
    "door", [pytest.param(door, marks=pytest.mark.mount if door == "mount" else pytest.mark.unit) for door in DOORS]
)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    with offsetfs.open(path, "a") as directory:
        directory.create("orders")[0].append(b"value")
    return path


@contextlib.contextmanager
def asked(address: str) -> Iterator[Any]:
    """Yield what asks the page at `address` a question: for status and answer."""
    place = urlsplit(address)
    assert place.hostname is not None
    made: http.client.HTTPConnection
    if place.scheme == "https":
        context = ssl.create_default_context(cafile=os.fspath(certificates.authority().chain))
        made = http.client.HTTPSConnection(place.hostname, place.port, timeout=LIMIT_S, context=context)
    else:
        made = http.client.HTTPConnection(place.hostname, place.port, timeout=LIMIT_S)
    own = {"authorization": f"Bearer {place.query.removeprefix('token=')}"}

    def ask(path: str, **headers: str) -> tuple[int, Any]:
        made.request("GET", path, headers={**own, **headers})
        answer = made.getresponse()
        return answer.status, json.loads(answer.read())

    with contextlib.closing(made):
        yield ask


@each_door
@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.security("The page of a mount and that of `offsetfs serve` have the same rules.")
def test_each_door_has_the_same_rules(door: str, is_tls: bool, logs: Path, tmp_path: Path) -> None:
    certificate = certificates.server()
    options = {"tls_cert": certificate.chain, "tls_key": certificate.key} if is_tls else {}
    listen = f"127.0.0.1:{free_port()}"
    with door_process(door, logs, tmp_path / "mnt", listen, **options) as (process, address):
        assert address.startswith(f"{'https' if is_tls else 'http'}://{listen}/?token=")
        with asked(address) as ask:
            status, found = ask("/api/records?topic=orders")
            assert status == 200 and found["records"][0]["value"]["content"] == "value"
            for status, headers in (
                (401, {"authorization": "Bearer x"}),
                (401, {"authorization": ""}),
                (421, {"host": "evil.example"}),
                (403, {"origin": "http://evil.example"}),
            ):
                assert ask("/api/overview", **headers)[0] == status, headers
            if door == "mount":  # it reads through the mount: an append is seen at once, before it is on disk
                (tmp_path / "mnt/orders-0/append").write_text("appended\n")
                _, found = ask("/api/records?topic=orders&partition=0&from=1")
                assert [each["value"]["content"] for each in found["records"]] == ["appended"]
        process.terminate()
        assert process.wait(LIMIT_S) == exit_codes.DONE
    with pytest.raises(OSError, match="refused"):
        http.client.HTTPConnection(listen, timeout=LIMIT_S).request("GET", "/")


@each_door
def test_each_door_refuses_other_machines_without_tls(
    door: str, logs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mnt").mkdir()
    for listen, options, expected in (
        ("0.0.0.0:9380", {}, "tls-cert, or add"),
        ("[::]:9380", {"host": "x"}, "tls-cert, or add"),
        ("logs.example.com:9380", {}, "tls-cert, or add"),
        ("127.0.0.1:0", {"tls_key": tmp_path / "x"}, "tls-key goes with"),
        ("127.0.0.1:0", {"tls_cert": tmp_path / "no"}, "No such file"),
        ("x:y", {}, "write HOST:PORT"),
    ):
        capfd.readouterr()
        code = run(door_words(door, logs, tmp_path / "mnt", listen, **options))
        out, err = capfd.readouterr()
        assert (code, out) == (exit_codes.WRONG_CALL, ""), (listen, err)
        assert expected in err.splitlines()[-1], err


@each_door
def test_only_its_user_learns_the_token_afterwards(
    door: str, logs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with door_process(door, logs, tmp_path / "mnt", "127.0.0.1:0") as (_, address):
        assert run(["status", str(logs)]) == exit_codes.DONE
        assert (f"page: {address}" in capfd.readouterr().out) == (door != "web")
        if door == "mount":
            read = [each.read_text() for each in (tmp_path / "mnt/.offsetfs").iterdir() if each.is_file()]
            assert not any(address.partition("token=")[2] in text for text in read)
