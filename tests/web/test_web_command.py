"""`offsetfs web`: where it listens, and how it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fixtures.browser.web_process import web_process
from fixtures.machine.free_ports import free_port
from fixtures.machine.waiting import LIMIT_S
from fixtures.security import certificates

import offsetfs
from offsetfs.cli import exit_codes, run

pytestmark = pytest.mark.unit


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    with offsetfs.open(path, "a") as directory:
        directory.create("orders")[0].append(b"value")
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_with_the_token_and_ends_at_a_signal(logs: Path, number: signal.Signals) -> None:
    certificate = certificates.server()
    tls = ["--tls-cert", certificate.chain, "--tls-key", certificate.key] if number is signal.SIGTERM else []
    with web_process(logs, *tls) as (process, address):
        place = urlsplit(address)
        assert place.hostname == "127.0.0.1" and place.port is not None
        assert place.scheme == ("https" if tls else "http")
        asked: http.client.HTTPConnection
        if tls:
            context = ssl.create_default_context(cafile=os.fspath(certificates.authority().chain))
            asked = http.client.HTTPSConnection(place.hostname, place.port, timeout=LIMIT_S, context=context)
        else:
            asked = http.client.HTTPConnection(place.hostname, place.port, timeout=LIMIT_S)
        with contextlib.closing(asked):
            token = place.query.removeprefix("token=")
            asked.request("GET", "/api/records?topic=orders", headers={"authorization": f"Bearer {token}"})
            found = json.load(asked.getresponse())
            assert found["records"][0]["value"]["content"] == "value"
            process.send_signal(number)  # the connection is open
            assert process.wait(LIMIT_S) == exit_codes.DONE


@pytest.mark.security("The page is served to other machines only with TLS, unless `--insecure` is given.")
def test_other_machines_need_tls(logs: Path) -> None:
    for host in ("0.0.0.0", "[::]", "logs.example.com"):
        assert run(["web", str(logs), "--listen", f"{host}:9380"]) == exit_codes.WRONG_CALL
    named = ["--insecure", "--host", "logs.example.com"]
    with web_process(logs, *named, listen=f"0.0.0.0:{free_port()}") as (
        _,
        address,
    ):
        assert urlsplit(address).hostname == "logs.example.com"
    with web_process(logs, "--insecure", listen=f"0.0.0.0:{free_port()}") as (_, address):
        assert urlsplit(address).hostname == socket.getfqdn().lower()


def test_a_wrong_call_is_one_line_with_the_remedy(
    logs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    taken = free_port()
    with web_process(logs, listen=f"127.0.0.1:{taken}"):
        for words, expected in (
            ((logs, "--listen", f"127.0.0.1:{taken}"), "choose another"),
            ((logs, "--listen", "x:y"), "write HOST:PORT"),
            ((logs, "--listen", "0.0.0.0:1"), "--tls-cert, or add --insecure"),
            ((logs, "--tls-key", "x"), "goes with --tls-cert"),
            ((logs, "--tls-cert", tmp_path / "no"), "No such file"),
            ((logs, "--mask", "orders"), "TOPIC:FIELD"),
            ((logs, "--mask", "other:x"), "no such topic"),
            ((tmp_path / "no",), "no"),
        ):
            capfd.readouterr()
            code = run(["web", *map(str, words)])
            out, err = capfd.readouterr()
            assert code in (exit_codes.WRONG_CALL, exit_codes.SYSTEM, exit_codes.FAILED), words
            assert out == "" and err.count("\n") == 1 and expected in err, err
