"""`offsetfs top` and `offsetfs status` on a real mount, and where its log goes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.mounts.left_mounts import unmount

from offsetfs.cli import exit_codes
from offsetfs.cli.mounts import metrics_samples

OFFSETFS = [sys.executable, "-m", "offsetfs"]


def offsetfs(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*OFFSETFS, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a log directory and a mount of it in the background, for all tests of this module."""
    place = tmp_path_factory.mktemp("seeing")
    (place / "log").mkdir()
    (place / "mnt").mkdir()
    options = f"create,linger-ms=0,flush-ms=off,log-file={place}/mount.log"
    mounted = offsetfs("mount", place / "log", place / "mnt", "-o", options)
    assert (mounted.returncode, mounted.stderr) == (0, "")
    (place / "mnt/orders-0").mkdir()
    yield place
    unmount(place / "mnt")


class Screen:
    """A command on a terminal of its own."""

    def __init__(self, *arguments: object) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [*OFFSETFS, *map(str, arguments)])
        self.seen = b""
        self.has_ended = False

    def wait_for(self, text: bytes, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self._terminal], [], [], 0.1)[0]:
                self.seen += os.read(self._terminal, 65536)

    def press(self, key: bytes) -> None:
        os.write(self._terminal, key)

    def end(self) -> int:
        """Return the exit code, with the rest in `seen`."""
        while True:
            try:
                data = os.read(self._terminal, 65536)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            self.seen += data
        os.close(self._terminal)
        self.has_ended = True
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def watch() -> Iterator[Callable[..., Screen]]:
    """Call it with arguments of offsetfs; what runs at the end of the test is killed."""
    screens: list[Screen] = []

    def start(*arguments: object) -> Screen:
        screens.append(Screen(*arguments))
        return screens[-1]

    yield start
    for screen in screens:
        if not screen.has_ended:
            os.kill(screen.pid, signal.SIGKILL)
            screen.end()


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Path]:
    """A directory with an empty log directory and a mount point, which is no mount at the end."""
    for name in ("log", "mnt"):
        (tmp_path / name).mkdir()
    yield tmp_path
    if os.path.ismount(tmp_path / "mnt"):
        unmount(tmp_path / "mnt")


# --- top -------------------------------------------------------------------------------------------------------------


@pytest.mark.mount
def test_top_once_prints_a_table_without_a_terminal(place: Path) -> None:
    (place / "mnt/orders-0/append").write_text("one\ntwo\n")
    done = offsetfs("top", place / "mnt", "--once", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{place}/log on {place}/mnt, rw, for ")
    heading = next(line for line in lines if line.startswith("PARTITION"))
    (row,) = lines[lines.index(heading) + 1 :]
    assert row.split()[0] == "orders-0" and row.split()[-1] == "0"


@pytest.mark.mount
@pytest.mark.parametrize("how", ["q", "ctrl-c", "sigterm"])
def test_top_shows_a_screen_until_it_is_ended_and_leaves_the_terminal_as_it_was(
    place: Path, watch: Callable[..., Screen], how: str
) -> None:
    (place / "mnt/orders-0/append").write_text("one\n")
    screen = watch("top", place / "mnt", "--interval", "0.1")
    screen.wait_for(b"orders-0")
    if how == "sigterm":
        os.kill(screen.pid, signal.SIGTERM)
    else:
        screen.press({"q": b"q", "ctrl-c": b"\x03"}[how])
    assert screen.end() == 0
    assert b"Traceback" not in screen.seen
    entered, left = screen.seen.index(b"\x1b[?1049h"), screen.seen.rindex(b"\x1b[?1049l")
    assert entered < left and screen.seen.rindex(b"\x1b[?25h") > screen.seen.rindex(b"\x1b[?25l")


@pytest.mark.mount
def test_top_without_a_terminal_states_what_to_do(place: Path) -> None:
    done = offsetfs("top", place / "mnt")
    assert done.returncode == exit_codes.WRONG_CALL
    assert done.stderr == "offsetfs top: the live view needs a terminal; use --once\n"


@pytest.mark.mount
def test_top_ends_when_the_mount_goes(bare: Path, watch: Callable[..., Screen]) -> None:
    assert offsetfs("mount", bare / "log", bare / "mnt", "-o", "create").returncode == 0
    screen = watch("top", bare / "mnt", "--interval", "0.5")
    screen.wait_for(b"PARTITION")
    deadline = time.monotonic() + 30
    while (done := offsetfs("umount", bare / "mnt")).returncode != 0:  # busy, while top is looking
        assert "is busy" in done.stderr and time.monotonic() < deadline, done.stderr
    assert screen.end() == exit_codes.FAILED
    assert b"is no longer mounted" in screen.seen and b"Traceback" not in screen.seen


@pytest.mark.unit
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["/"], "/ is not an offsetfs mount"),
        (["/nowhere"], "/nowhere is not an offsetfs mount"),
        (["/", "--interval", "0"], "0 must be 0.1 or greater"),
    ],
)
def test_top_refuses_what_it_cannot_watch(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    from offsetfs.cli import run

    assert run(["top", *arguments]) == exit_codes.WRONG_CALL
    assert sentence in capsys.readouterr().err


# --- status ----------------------------------------------------------------------------------------------------------


@pytest.mark.mount
def test_status_states_since_when_and_what_is_not_on_disk(place: Path) -> None:
    before = time.time()
    (place / "mnt/.offsetfs/flush").write_text("*")
    first, second, third = offsetfs("status", place / "mnt").stdout.splitlines()[:3]
    assert first == f"{place}/log on {place}/mnt"
    assert re.fullmatch(r"  rw, pid \d+, since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, all on disk", second)
    assert third.startswith("  options: create") and "batch-bytes" not in third, "only what differs from the defaults"
    (place / "mnt/orders-0/append").write_text("x" * 1000 + "\n")
    (mount,) = json.loads(offsetfs("status", place / "mnt", "--json").stdout)["mounts"]
    assert (mount["mode"], mount["faults"], mount["is_alive"]) == ("rw", 0, True)
    assert mount["unsynced_bytes"] > 1000 and 0 < mount["unsynced_age_seconds"] < 60 + time.time() - before
    assert " not on disk for " in offsetfs("status", place / "mnt").stdout.splitlines()[1]


@pytest.mark.mount
def test_status_does_not_wait_for_a_daemon_that_does_not_answer(place: Path) -> None:
    (mount,) = json.loads(offsetfs("status", place / "mnt", "--json").stdout)["mounts"]
    assert mount["mount_point"] == str(place / "mnt")
    os.kill(mount["pid"], signal.SIGSTOP)
    try:
        begun = time.monotonic()
        done = offsetfs("status")
        assert time.monotonic() - begun < 20
        lines = done.stdout.splitlines()
        assert lines[lines.index(f"{place}/log on {place}/mnt") + 1].endswith(", no answer")
    finally:
        os.kill(mount["pid"], signal.SIGCONT)


@pytest.mark.unit
def test_a_mount_that_answers_late_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "late")
    monkeypatch.setattr(metrics_samples, "TIMEOUT_S", 0.5)
    assert metrics_samples.read_files_or_none(str(tmp_path), "late") is None
    children = Path("/proc/thread-self/children").read_text().split()
    assert "cat" not in [Path(f"/proc/{child}/comm").read_text().strip() for child in children]


# --- the log ---------------------------------------------------------------------------------------------------------


@pytest.mark.mount
def test_the_log_goes_to_the_file_that_was_named_also_when_it_was_moved_away(place: Path) -> None:
    log = place / "mount.log"
    assert f" INFO {place}/log is mounted at {place}/mnt\n" in log.read_text()
    log.rename(place / "mount.log.1")
    (place / "mnt/.offsetfs/log-level").write_text("debug")
    (place / "mnt/.offsetfs/log-level").write_text("info")
    assert " INFO log level is info\n" in log.read_text()
    assert oct(log.stat().st_mode & 0o777) == "0o600"


@pytest.mark.mount
def test_a_log_file_that_cannot_be_written_is_reported_and_nothing_is_mounted(bare: Path) -> None:
    done = offsetfs("mount", bare / "log", bare / "mnt", "-o", f"create,log-file={bare}/no/such/file")
    assert done.returncode == exit_codes.WRONG_CALL
    assert done.stderr == f"offsetfs mount: log-file={bare}/no/such/file: No such file or directory\n"
    assert not os.path.ismount(bare / "mnt")


@pytest.mark.mount
def test_a_service_writes_into_the_journal_with_priorities(bare: Path) -> None:
    with open(bare / "journal", "wb") as journal:
        status = os.fstat(journal.fileno())
        environment = {**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        command = [*OFFSETFS, "mount", "-f", "-o", "create", str(bare / "log"), str(bare / "mnt")]
        with subprocess.Popen(command, stderr=journal, env=environment) as daemon:
            deadline = time.monotonic() + 30
            while b"is mounted at" not in (bare / "journal").read_bytes():
                assert daemon.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(timeout=30) == 0
    lines = (bare / "journal").read_text().splitlines()
    assert f"<6>{bare}/log is mounted at {bare}/mnt" in lines
    assert all(line.startswith("<6>") for line in lines)
