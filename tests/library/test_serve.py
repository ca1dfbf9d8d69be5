"""`offsetfs.serve`: a broker in a thread of the caller's process."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import trio
from fixtures.broker.running import framed

import offsetfs
from offsetfs.kafka.broker import embedded
from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol import messages as m
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

_METADATA = 3
_VERSION = 8


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _fd: None)


def address_of(broker: offsetfs.EmbeddedBroker) -> tuple[str, int]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return host.strip("[]"), int(port)


def metadata(broker: offsetfs.EmbeddedBroker, *topics: str) -> m.MetadataResponse:
    """Ask for topics, which creates them."""
    wanted = [m.MetadataRequestTopic(name=each) for each in topics]
    with socket.create_connection(address_of(broker), timeout=60) as peer:
        peer.sendall(framed(_METADATA, "Metadata", _VERSION, m.MetadataRequest(topics=wanted)))
        with peer.makefile("rb") as answers:
            data = answers.read(int.from_bytes(answers.read(4), "big"))
    response: m.MetadataResponse = codec.reader("MetadataResponse", _VERSION)(memoryview(data), 4)[0]
    return response


def is_clean(path: Path) -> bool:
    return (path / ".kafka_cleanshutdown").exists()


def test_a_missing_directory_is_created_and_cleanly_closed(tmp_path: Path) -> None:
    logs = tmp_path / "new" / "logs"
    with offsetfs.serve(logs) as broker:
        assert metadata(broker, "orders").topics[0].error_code == 0
        assert not is_clean(logs)
    assert is_clean(logs)
    assert (logs / "orders-0").is_dir()


def test_settings_have_kafkas_names(tmp_path: Path) -> None:
    settings: dict[str, str | int | bool] = {"num.partitions": 4, "auto.create.topics.enable": True}
    with offsetfs.serve(tmp_path, settings={**settings, "log.segment.bytes": "1048576"}) as broker:
        assert len(metadata(broker, "orders").topics[0].partitions) == 4
    with offsetfs.serve(tmp_path, settings={"auto.create.topics.enable": False}) as broker:
        assert metadata(broker, "users").topics[0].error_code != 0


def test_an_unknown_setting_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(offsetfs.errors.InvalidConfig, match="settings: 'num\\.partition' is not a setting"):
        offsetfs.serve(tmp_path, settings={"num.partition": 4})
    with pytest.raises(offsetfs.errors.InvalidConfig, match="num\\.partitions"):
        offsetfs.serve(tmp_path, settings={"num.partitions": "four"})
    with offsetfs.serve(tmp_path):
        pass  # nothing kept the lock


def test_an_address_that_others_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"0\.0\.0\.0: .*allow_anonymous=True"):
        offsetfs.serve(tmp_path, listen="0.0.0.0:0")
    with pytest.raises(ValueError, match="HOST:PORT"):
        offsetfs.serve(tmp_path, listen="127.0.0.1:http")


def test_a_port_in_use_is_an_error_of_the_caller_and_leaves_the_directory_free(tmp_path: Path) -> None:
    with offsetfs.serve(tmp_path / "one") as broker:
        with pytest.raises(OSError, match=r"another process listens on this port.* listen="):
            offsetfs.serve(tmp_path / "two", listen=broker.bootstrap_servers)
        with offsetfs.serve(tmp_path / "two") as second:
            assert second.bootstrap_servers != broker.bootstrap_servers


def test_a_directory_that_is_served_is_locked(tmp_path: Path) -> None:
    with offsetfs.serve(tmp_path), pytest.raises(offsetfs.errors.LogDirectoryLocked) as caught:
        offsetfs.serve(tmp_path)
    assert caught.value.pid == os.getpid()


def test_read_only_writes_nothing(tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        data.create("orders")
    before = {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")}
    with offsetfs.serve(tmp_path, read_only=True) as broker:
        assert [each.name for each in metadata(broker, "orders", "users").topics if not each.error_code] == ["orders"]
    assert {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")} == before
    with pytest.raises(offsetfs.errors.NotALogDirectory):
        offsetfs.serve(tmp_path / "missing", read_only=True)


def test_two_brokers_at_once_and_one_after_the_other(tmp_path: Path) -> None:
    for _ in range(2):
        with offsetfs.serve(tmp_path / "one") as one, offsetfs.serve(tmp_path / "two") as two:
            assert metadata(one, "first").topics[0].name == "first"
            assert metadata(two, "second").topics[0].name == "second"
    assert not (tmp_path / "two" / "first-0").exists()


def test_starts_and_closes_in_any_thread(tmp_path: Path) -> None:
    found: list[offsetfs.EmbeddedBroker] = []
    starter = threading.Thread(target=lambda: found.append(offsetfs.serve(tmp_path)))
    starter.start()
    starter.join()
    assert metadata(found[0], "orders").topics[0].error_code == 0
    closers = [threading.Thread(target=found[0].close) for _ in range(3)]
    for each in closers:
        each.start()
    for each in closers:
        each.join(30)
    found[0].close()
    assert is_clean(tmp_path)
    assert repr(found[0]).endswith("closed>")


async def test_serves_beside_an_event_loop_of_the_caller(tmp_path: Path) -> None:
    with offsetfs.serve(tmp_path) as broker:
        stream = await trio.open_tcp_stream(*address_of(broker))
        async with stream:
            await stream.send_all(framed(_METADATA, "Metadata", _VERSION, m.MetadataRequest(topics=[])))
            assert await stream.receive_some(4)


def test_signals_of_the_main_thread_do_not_end_it(tmp_path: Path) -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: received.append(number))
    try:
        with offsetfs.serve(tmp_path) as broker:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert metadata(broker, "orders").topics[0].error_code == 0
        with pytest.raises(KeyboardInterrupt), offsetfs.serve(tmp_path):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert received == [signal.SIGUSR1]
    assert is_clean(tmp_path)


def test_an_open_connection_does_not_delay_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsetfs.kafka.broker.broker.DRAIN_S", 50.0)
    with offsetfs.serve(tmp_path) as broker:
        peer = socket.create_connection(address_of(broker))
        # A connection that the broker has not accepted yet would be reset.
        peer.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        with peer.makefile("rb") as responses:
            assert responses.read(int.from_bytes(responses.read(4), "big"))
        began = time.monotonic()
    assert time.monotonic() - began < 30
    with peer:
        assert peer.recv(1) == b""


def test_a_failed_last_flush_is_raised_by_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = offsetfs.serve(tmp_path)

    def fail(self: LogDirectory) -> None:
        close(self)
        raise OSError(5, "Input/output error", str(tmp_path))

    close = LogDirectory.close
    monkeypatch.setattr(LogDirectory, "close", fail)
    with pytest.raises(OSError, match="Input/output error"):
        broker.close()
    broker.close()


def test_a_disk_that_hangs_does_not_hang_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = offsetfs.serve(tmp_path)
    hangs = threading.Event()

    def close_later(self: LogDirectory) -> None:
        hangs.wait(60)
        close(self)

    close = LogDirectory.close
    monkeypatch.setattr(LogDirectory, "close", close_later)
    monkeypatch.setattr(embedded, "END_S", 0.05)
    with pytest.raises(TimeoutError, match="the disk does not answer"):
        broker.close()
    hangs.set()
    monkeypatch.setattr(embedded, "END_S", 60)
    broker.close()


@pytest.mark.long
def test_a_program_that_never_calls_close_ends_and_closes_the_directory(tmp_path: Path) -> None:
    program = f"""if True:
        import offsetfs
        from confluent_kafka import Producer
        producer = Producer({{"bootstrap.servers": offsetfs.serve({str(tmp_path)!r}).bootstrap_servers}})
        producer.produce("orders", b"one")
        print(producer.flush(10))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert is_clean(tmp_path)


def test_import_offsetfs_loads_no_broker() -> None:
    unwanted = {"trio", "offsetfs.kafka", "offsetfs.kafka.broker", "offsetfs.kafka.protocol"}
    program = f"import sys, offsetfs; print(sorted({unwanted} & sys.modules.keys()))"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"
