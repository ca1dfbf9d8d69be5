"""`offsetfs serve`: wrong calls. What it serves is tested with real clients (tests/interop/test_serve.py)."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import socket
import struct
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from offsetfs.cli import exit_codes, run
from offsetfs.cli.commands import serve
from offsetfs.common.addresses import Endpoint
from offsetfs.kafka.broker.listener_settings import ListenerSettings
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("address", ["nowhere:99999999", "127.0.0.1:65536", "a:b:c", "[::1"])
def test_an_address_that_is_none_is_a_wrong_call(logs: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(logs), "--listen", address]) == exit_codes.WRONG_CALL
    assert f"{address!r} is not an address; write HOST:PORT" in capsys.readouterr().err


def test_a_wrong_setting_is_named_with_its_line(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nlog.segment.bytes=1x\n")
    assert run(["serve", str(logs), "--config", str(file)]) == exit_codes.WRONG_CALL
    assert f"serve: {file}:2: log.segment.bytes is '1x', but must be a whole number" in capsys.readouterr().err


def test_a_settings_file_that_is_not_there_is_named(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(logs), "--config", "/nowhere/server.properties"]) == exit_codes.WRONG_CALL
    assert "serve: /nowhere/server.properties: No such file or directory" in capsys.readouterr().err


def test_a_wrong_option_is_named(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(logs), "-o", "num.partition=3"]) == exit_codes.WRONG_CALL
    assert "-o: 'num.partition' is not a setting of a Kafka broker, did you mean num.partitions?" in (
        capsys.readouterr().err
    )


@pytest.mark.security(
    "A listener that other machines reach authenticates its clients, unless `--allow-anonymous` is given."
)
def test_listeners_of_the_settings_need_the_permission_as_well(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(logs), "-o", "listeners=PLAINTEXT://:9092"]) == exit_codes.WRONG_CALL
    assert "0.0.0.0: each client that reaches it could read and write" in capsys.readouterr().err


def test_settings_without_effect_are_listed_once(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        listener = f"listeners=PLAINTEXT://127.0.0.1:{other.getsockname()[1]}"
        options = ["-o", listener, "-o", "num.io.threads=8", "-o", "zookeeper.connect=a:1"]
        assert run(["serve", str(logs), *options]) == exit_codes.FAILED
    assert capsys.readouterr().err.count("settings without effect here: num.io.threads, zookeeper.connect\n") == 1


@pytest.mark.security(
    "A listener that other machines reach authenticates its clients, unless `--allow-anonymous` is given."
)
@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.7:9092"])
def test_an_address_that_others_reach_needs_a_permission(
    logs: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", str(logs), "--listen", address]) == exit_codes.WRONG_CALL
    assert "add --allow-anonymous" in capsys.readouterr().err


def test_a_port_in_use_is_named_with_a_remedy(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert run(["serve", str(logs), "--listen", address]) == exit_codes.FAILED
    assert f"{address}: another process listens on this port; choose one with --listen" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--listen", "--metrics"])
def test_a_port_in_use_is_found_before_a_recovery(
    logs: Path, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was once found after it: minutes later, and after the directory had been changed."""
    monkeypatch.setattr(LogDirectory, "open", None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert run(["serve", str(logs), "--listen", "127.0.0.1:0", option, address]) == exit_codes.FAILED
    assert f"{address}: another process listens on this port" in capsys.readouterr().err


def test_an_empty_directory_is_not_served_for_reading(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(logs), "--listen", "127.0.0.1:0", "--read-only"]) == exit_codes.WRONG_CALL
    assert capsys.readouterr().err == f"offsetfs serve: {logs}: is empty\n"


def test_listen_replaces_the_advertised_listeners_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://public:9092\nnum.partitions=3\n")
    short = ("num.partitions=4", "listeners=PLAINTEXT://127.0.0.1:19092", "advertised.listeners=")
    server = serve._settings(str(file), short, (), str(tmp_path)).server
    assert (server.listeners, server.num_partitions) == ((ListenerSettings(("127.0.0.1", 19092)),), 4)


def test_more_advertised_addresses_than_listeners_are_a_wrong_call(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--listen", "127.0.0.1:0", "--advertise", "a:1", "--advertise", "b:2"]
    assert run(["serve", str(logs), *options]) == exit_codes.WRONG_CALL
    assert "--advertise: 2 addresses for 1 listener; give one" in capsys.readouterr().err


def test_a_second_start_names_the_process_and_not_its_port(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = LogDirectory.open(str(logs))
    try:
        with socket.create_server(("127.0.0.1", 0)) as other:
            address = f"127.0.0.1:{other.getsockname()[1]}"
            assert run(["serve", str(logs), "--listen", address]) == exit_codes.FAILED
    finally:
        directory.close()
    assert f"{logs}: in use by process {os.getpid()}" in capsys.readouterr().err


def test_an_address_of_another_machine_is_named(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(logs), "--listen", "192.0.2.7:9092", "--allow-anonymous"]) == exit_codes.FAILED
    assert "192.0.2.7:9092: this machine does not have this address" in capsys.readouterr().err


def test_a_directory_in_use_names_the_process(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = LogDirectory.open(str(logs))
    try:
        assert run(["serve", str(logs), "--listen", "127.0.0.1:0"]) == exit_codes.FAILED
    finally:
        directory.close()
    error = capsys.readouterr().err
    assert f"in use by process {os.getpid()}: stop it first" in error and error.count("\n") == 1


def test_a_port_that_needs_root_is_named(
    logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bind = socket.socket.bind

    def refuse(self: socket.socket, address: tuple[str, int] | str) -> None:
        if self.family == socket.AF_INET:
            raise PermissionError(errno.EACCES, "Permission denied")
        bind(self, address)

    monkeypatch.setattr(socket.socket, "bind", refuse)
    assert run(["serve", str(logs), "--listen", "127.0.0.1:80"]) == exit_codes.WRONG_CALL
    assert (
        "serve: 127.0.0.1:80: ports below 1024 need root; choose a higher one with --listen HOST:PORT\n"
        in capsys.readouterr().err
    )


def test_a_directory_without_permission_is_named_with_its_owner(
    logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert run(["serve", str(logs)]) == exit_codes.WRONG_CALL
    assert f"serve: {logs}: no permission to read and write it; it belongs to user" in capsys.readouterr().err


def test_a_directory_that_cannot_be_opened_is_a_sentence(
    logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(logs / ".lock"))

    monkeypatch.setattr(LogDirectory, "open", refuse)
    assert run(["serve", str(logs)]) == exit_codes.WRONG_CALL
    assert capsys.readouterr().err == f"offsetfs serve: {logs}/.lock: Permission denied\n"


@pytest.mark.security("Metrics are served on addresses of this machine only, unless `--allow-anonymous` is given.")
def test_metrics_on_an_address_that_others_reach_need_a_permission(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", str(logs), "--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0"]) == exit_codes.WRONG_CALL
    error = capsys.readouterr().err
    assert "each client that reaches it could read the metrics" in error and "add --allow-anonymous" in error


def test_a_port_of_the_metrics_in_use_is_named_with_a_remedy(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert run(["serve", str(logs), "--listen", "127.0.0.1:0", "--metrics", address]) == exit_codes.FAILED
    assert f"{address}: another process listens on this port; choose one with --metrics" in capsys.readouterr().err


def test_the_address_of_the_metrics_is_printed_and_answers(
    logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def scrape(*arguments: object, takes_commands: bool) -> None:
        ready(*arguments, takes_commands=takes_commands)
        printed = capsys.readouterr().out
        assert re.match(re.escape(str(logs)) + r" is served at 127\.0\.0\.1:\d+: 0 partitions\n", printed)
        (address,) = re.findall(r"metrics are at (http://127\.0\.0\.1:\d+/metrics)\n", printed)

        def read() -> None:
            with urllib.request.urlopen(address, timeout=30) as response:
                seen.append(str(response.read(), "utf-8"))
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=read).start()

    ready: Callable[..., None] = serve._ready
    monkeypatch.setattr(serve, "_ready", scrape)
    assert run(["serve", str(logs), "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]) == exit_codes.DONE
    assert f'offsetfs_broker_info{{log_directory="{logs}"' in seen[0]


def test_verbose_logs_connections_and_requests(
    logs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", logger="offsetfs.kafka.broker")  # restored at the end of the test
    caplog.handler.setLevel(0)
    request = struct.pack(">ihhih3s", 13, 18, 0, 7, 3, b"abc")  # ApiVersions v0 of the client abc

    def ask(_logs: str, _content: str, _page: object, listeners: list[Endpoint], *_: object, **__: object) -> None:
        port = listeners[0].address[1]

        def exchange() -> None:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(request)
                client.recv(1 << 16)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=exchange).start()

    monkeypatch.setattr(serve, "_ready", ask)
    assert run(["serve", str(logs), "--listen", "127.0.0.1:0", "-v"]) == exit_codes.DONE
    messages = [
        each.getMessage() for each in caplog.records if each.name == "offsetfs.kafka.broker.connections.connection"
    ]
    assert messages == [
        f"127.0.0.1: {each}" for each in ("connected", "ApiVersions v0 of 'abc', 'User:ANONYMOUS'", "disconnected")
    ]


def test_the_limit_of_open_files_is_raised(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the usual limit of 1,024 the broker refused connections long before `max.connections`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen: list[int] = []

    def end(*_: object, **__: object) -> None:
        seen.append(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(serve, "_ready", end)
    open_now = len(os.listdir("/proc/self/fd"))  # other tests of this process left files open
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, open_now + 256), hard))
    try:
        assert run(["serve", str(logs), "--listen", "127.0.0.1:0"]) == exit_codes.DONE
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert seen == [hard]
