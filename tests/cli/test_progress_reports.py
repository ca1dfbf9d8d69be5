"""Progress reports of long operations: to systemd, to terminals and scripts, to umount."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offsetfs.cli.commands import mount
from offsetfs.cli.exit_codes import Failure
from offsetfs.cli.mounts import daemon_registry
from offsetfs.cli.mounts import unmount_progress as leaving
from offsetfs.cli.mounts.daemon_registry import Daemon
from offsetfs.cli.mounts.detach import ParentPipe
from offsetfs.cli.mounts.service_manager import ServiceManager
from offsetfs.cli.mounts.unmount_progress import UnmountProgress
from offsetfs.cli.terminal.progress import CLEAR_LINE, Line
from offsetfs.common.formatting import printable
from offsetfs.fs.options import MountOptions
from offsetfs.storage import Unsynced
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import NotALogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.recovery.recover_all import RecoveryProgress

pytestmark = pytest.mark.unit


class Manager:
    """systemd's end of the socket."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(30)
        self.socket.bind("\0" + address[1:] if address[0] == "@" else address)
        self.environment = {"NOTIFY_SOCKET": address}

    def heard(self) -> list[str]:
        """The lines of the next datagram."""
        return self.socket.recv(4096).decode().split("\n")


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    address = f"{tmp_path}/notify" if request.param == "path" else f"@offsetfs-test-{os.getpid()}-{tmp_path.name}"
    manager = Manager(address)
    yield manager
    manager.socket.close()


# --- the service manager ---------------------------------------------------------------------------------------------


def test_the_service_manager_hears_each_step(manager: Manager) -> None:
    service = ServiceManager(manager.environment)
    service.busy("opening /data", 120)
    assert manager.heard() == ["STATUS=opening /data", "EXTEND_TIMEOUT_USEC=120000000"]
    service.ready("/data is mounted at /mnt")
    assert manager.heard() == ["READY=1", "STATUS=/data is mounted at /mnt"]
    service.stopping("ending", 60)
    assert manager.heard() == ["STOPPING=1", "STATUS=ending", "EXTEND_TIMEOUT_USEC=60000000"]


@pytest.mark.security(
    "Directory names and values of settings cannot inject a mount option, a line of a mount table, "
    "or a word of a systemd unit."
)
def test_a_name_with_a_newline_is_no_word_of_its_own_to_the_service_manager(manager: Manager) -> None:
    ServiceManager(manager.environment).busy("/data\nMAINPID=1", 1)
    assert manager.heard() == ["STATUS=/data\\nMAINPID=1", "EXTEND_TIMEOUT_USEC=1000000"]


def test_without_a_service_manager_no_socket_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*words: object) -> socket.socket:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refused)
    for environment in ({}, {"NOTIFY_SOCKET": ""}):
        ServiceManager(environment).ready("ready")
        ServiceManager(environment).stopping("ending", 1)


@pytest.mark.expect_log("cannot be notified of READY=1")
def test_a_missing_service_manager_is_reported_once(tmp_path: Path) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": f"{tmp_path}/gone"})
    service.ready("ready")
    service.stopping("ending", 1)


def test_a_recovery_asks_the_service_manager_for_time_as_it_gets_on(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recover(path: str, *, on_progress: Callable[[RecoveryProgress], None], **how: object) -> None:
        on_progress(RecoveryProgress(5_000_000, 10_000_000, 1, 3, TopicPartition("orders", 0)))
        raise NotALogDirectory("it ends here")

    monkeypatch.setenv("NOTIFY_SOCKET", manager.environment["NOTIFY_SOCKET"])
    monkeypatch.setattr("offsetfs.cli.terminal.progress.QUIET_SECONDS", 0)
    monkeypatch.setattr(LogDirectory, "open", recover)
    with pytest.raises(Failure, match="it ends here"):
        mount._Daemon(["/data"], {}, "/mnt", MountOptions())._open(ParentPipe(None))
    assert manager.heard()[0] == "STATUS=opening /data"
    status, extension = manager.heard()
    assert status.startswith("STATUS=recovering orders-0, 1 of 3 partitions done, 5 MB of 10 MB, about ")
    assert extension == "EXTEND_TIMEOUT_USEC=120000000"


# --- the end of a mount ----------------------------------------------------------------------------------------------


def test_an_ending_mount_reports_the_remaining_work(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "REPORT_SECONDS", 0.001)
    reported = threading.Event()
    published: list[str] = []

    def publish(text: str) -> None:
        published.append(text)
        if text == "closing the logs":
            reported.set()

    lefts = iter([Unsynced(3, size=5_000_000), Unsynced(1, size=900)])
    reporter = UnmountProgress(ServiceManager(manager.environment), publish)
    reporter.begin("SIGTERM", lambda: next(lefts, Unsynced()))
    assert manager.heard()[:2] == ["STOPPING=1", "STATUS=ending (SIGTERM): 3 batches, 5 MB, not on disk yet"]
    assert manager.heard() == ["STATUS=ending: 1 batch, 900 B, not on disk yet", "EXTEND_TIMEOUT_USEC=60000000"]
    assert manager.heard()[0] == "STATUS=ending: closing the logs"
    assert reported.wait(30)
    reporter.end()
    count = len(published)
    assert published[:2] == ["1 batch, 900 B, not on disk yet", "closing the logs"]
    assert len(published) == count, "nothing is reported after the end"


def test_progress_that_never_began_ends_without_a_report() -> None:
    published: list[str] = []
    UnmountProgress(ServiceManager({}), published.append).end()
    assert published == []


def test_what_is_left_to_do_is_in_the_daemons_file(tmp_path: Path) -> None:
    place = os.fspath(tmp_path / "offsetfs")
    pid = os.getpid()
    daemon = Daemon(pid, daemon_registry.started(pid) or 0, os.makedev(0, 57), "/mnt", "/data")
    daemon_registry.register(replace(daemon, ending="closing the logs"), place)
    now = daemon_registry.reread(daemon, place)
    assert now is not None and now.ending == "closing the logs"


def test_an_ending_daemon_is_not_taken_for_a_mount_of_the_same_number(tmp_path: Path) -> None:
    place = os.fspath(tmp_path / "offsetfs")
    device = os.makedev(0, 57)
    for pid, ending in ((os.getpid(), "closing the logs"), (os.getppid(), "")):
        daemon_registry.register(
            Daemon(pid, daemon_registry.started(pid) or 0, device, "/mnt", "/data", ending=ending), place
        )
    found = daemon_registry.find(device, place)
    assert found is not None and found.pid == os.getppid()


# --- a line of progress ----------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_script_reads_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    line = Line("offsetfs umount", every_seconds=5, now=clock)
    for clock.now in (1.9, 2.0, 3.0, 6.9, 7.0):
        line.show(f"at {clock.now}")
    line.clear()
    assert capsys.readouterr().err == "offsetfs umount: at 2.0\noffsetfs umount: at 7.0\n" and line.was_shown


def test_on_a_terminal_one_line_is_rewritten_and_taken_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    clock = Clock()
    line = Line("offsetfs umount", every_seconds=5, now=clock)
    line.clear()
    for clock.now in (1.0, 2.0, 2.5):
        line.show(f"at {clock.now}")
    line.clear()
    shown = [CLEAR_LINE + "offsetfs umount: at 2.0", CLEAR_LINE + "offsetfs umount: at 2.5", CLEAR_LINE]
    assert capsys.readouterr().err.replace("\x1b[K", "") == "".join(shown).replace("\x1b[K", "")


@pytest.mark.security("Control characters of records and names never reach a log, `.offsetfs` or `info`.")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/mnt/ä b", "/mnt/ä b"),
        ("/mnt/a\nb", "/mnt/a\\nb"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\udcff\u202e", "\\udcff\\u202e"),
    ],
)
def test_what_others_named_is_made_fit_to_print(text: str, shown: str) -> None:
    assert printable(text) == shown
