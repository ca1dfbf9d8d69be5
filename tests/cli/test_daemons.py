"""Which daemon serves a mount, which processes use it, how one goes to the background, and where its log goes."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from offsetfs.cli.mounts import daemon_log, daemon_registry, holders, serving_process
from offsetfs.cli.mounts.daemon_registry import Daemon
from offsetfs.fs.mounting.mount_table import Mount

pytestmark = pytest.mark.unit

DEVICE = os.makedev(0, 57)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return os.fspath(tmp_path / "offsetfs")


def this_process() -> Daemon:
    pid = os.getpid()
    return Daemon(pid, daemon_registry.started(pid) or 0, DEVICE, "/mnt", "/data", {"create": "", "list": "5"})


# --- the file of a daemon --------------------------------------------------------------------------------------------


def test_a_daemon_is_found_by_the_device_of_its_mount(place: str) -> None:
    daemon_registry.register(this_process(), place)
    assert daemon_registry.find(DEVICE, place) == this_process()
    assert daemon_registry.find(os.makedev(0, 58), place) is None


def test_a_daemon_that_ended_well_leaves_nothing(place: str) -> None:
    daemon_registry.register(this_process(), place)
    daemon_registry.unregister(this_process(), place)
    daemon_registry.unregister(this_process(), place)
    assert daemon_registry.find(DEVICE, place) is None and os.listdir(place) == []


def test_one_that_could_not_save_everything_leaves_word(place: str) -> None:
    daemon_registry.register(replace(this_process(), failures=("orders-0 is not on disk",)), place)
    found = daemon_registry.find(DEVICE, place)
    assert found is not None and found.failures == ("orders-0 is not on disk",)


def test_a_late_daemon_keeps_the_entry_of_the_next_mount_of_its_device(place: str) -> None:
    late = replace(this_process(), pid=os.getppid(), started=daemon_registry.started(os.getppid()) or 0)
    daemon_registry.register(late, place)
    daemon_registry.register(this_process(), place)
    daemon_registry.unregister(late, place)
    assert daemon_registry.find(DEVICE, place) == this_process()


def test_one_that_lives_is_found_before_one_that_died_and_clears_up_after_it(place: str) -> None:
    died = replace(this_process(), pid=os.getppid(), started=1)
    daemon_registry.register(died, place)
    assert daemon_registry.find(DEVICE, place) == died
    daemon_registry.register(this_process(), place)
    assert daemon_registry.find(DEVICE, place) == this_process() and daemon_registry.reread(died, place) is None


def test_entries_of_killed_daemons_are_removed_once_their_mounts_are_gone(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that could not save everything stay, and those whose mount is still in the table."""
    monkeypatch.setattr(daemon_registry, "mounts", lambda: [Mount(os.makedev(0, 91), "/m", "fuse.offsetfs", "x", "")])
    died = replace(this_process(), started=this_process().started - 1)
    daemons = [
        replace(died, pid=1, device=os.makedev(0, 90)),
        replace(died, pid=2, device=os.makedev(0, 91)),
        replace(died, pid=3, device=os.makedev(0, 92), failures=("orders-0 is not on disk",)),
        replace(this_process(), device=os.makedev(0, 93)),
    ]
    daemon_registry.create_own(place)
    for each in daemons:
        daemon_registry.replace_file(daemon_registry._path(each, place), json.dumps(asdict(each)).encode())
    daemon_registry.register(this_process(), place)
    assert [daemon_registry.reread(each, place) for each in daemons] == [None, *daemons[1:]]


def test_records_and_sockets_of_killed_brokers_are_removed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_registry, "own_directory", lambda: place)
    gone, other, own = 2**22 + 7, os.getppid(), os.getpid()  # the kernel has no pid above 2^22
    serving_process.register("/data", ("127.0.0.1:1",))
    record = Path(place, f"serve-{own}.json").read_text().replace('"started": ', '"started": 1')  # another process
    for pid in (gone, other):  # `other` is another process by now, and has a socket of its own
        Path(place, f"serve-{pid}.json").write_text(record.replace(f'"pid": {own}', f'"pid": {pid}'))
        Path(place, f"serve-{pid}.sock").touch()
    for name in ("serve-x.json", f"serve-{gone}.json.tmp"):
        Path(place, name).touch()
    serving_process.register("/data", ("127.0.0.1:1",))
    left = {f"serve-{own}.json", f"serve-{other}.sock", "serve-x.json"}
    assert set(os.listdir(place)) == left
    serving_process.unregister()


def test_a_pid_that_means_another_process_by_now_is_not_taken_for_the_daemon() -> None:
    assert this_process().is_alive
    assert not replace(this_process(), started=1).is_alive


def test_a_process_that_has_ended_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = daemon_registry.started(process.pid)
        assert started is not None and started > 0
    assert daemon_registry.started(process.pid) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": 1}', b'{"pid": "x"}', b"\xff", b"9" * (2 << 20)])
def test_a_file_without_content_is_no_daemon(place: str, content: bytes) -> None:
    daemon_registry.register(this_process(), place)
    Path(place, f"0-57-{os.getpid()}.json").write_bytes(content)
    assert daemon_registry.find(DEVICE, place) is None


def test_a_directory_that_others_can_write_to_is_not_trusted(place: str) -> None:
    daemon_registry.register(this_process(), place)
    os.chmod(place, 0o777)
    assert daemon_registry.find(DEVICE, place) is None
    with pytest.raises(PermissionError):
        daemon_registry.register(this_process(), place)


@pytest.mark.security("The files in which offsetfs records its own mounts are not written through a planted link.")
def test_a_link_in_the_place_of_the_directory_is_not_followed(place: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    os.symlink(tmp_path / "elsewhere", place)
    with pytest.raises(PermissionError):
        daemon_registry.register(this_process(), place)


def test_each_user_has_a_place() -> None:
    assert daemon_registry.directory(0, {"XDG_RUNTIME_DIR": "/run/user/0"}) == "/run/offsetfs"
    assert daemon_registry.directory(1000, {"XDG_RUNTIME_DIR": "/run/user/1000"}) == "/run/user/1000/offsetfs"
    assert daemon_registry.directory(1000, {}).endswith("/offsetfs-1000")


# --- the users of a mount -------------------------------------------------------------------------------------------

HOLD_FILE = "import sys; f = open('file'); import os; os.chdir('/'); print(flush=True); input()"
HOLD_DIRECTORY = "print(flush=True); input()"
HOLD_MAPPING = (
    "import mmap, os; f = open('file'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ);"
    "f.close(); os.chdir('/'); print(flush=True); input()"
)
HOLD_NOTHING = "import os; os.chdir('/'); print(flush=True); input()"


@pytest.mark.parametrize(
    ("program", "held"),
    [
        pytest.param(HOLD_FILE, "file", id="an open file"),
        pytest.param(HOLD_DIRECTORY, "", id="the current directory"),
        pytest.param(HOLD_NOTHING, None, id="nothing"),
    ],
)
def test_a_process_that_holds_a_mount_is_named(tmp_path: Path, program: str, held: str | None) -> None:
    (tmp_path / "file").write_bytes(b"x")
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = {each.pid: each for each in holders.holders(os.fspath(tmp_path), DEVICE)}
        assert (process.pid in found) == (held is not None)
        if held is not None:
            assert found[process.pid].path == os.fspath(tmp_path / held)
            assert "python" in found[process.pid].command


def test_a_process_that_only_maps_a_file_is_named_by_the_device(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    command = [sys.executable, "-c", HOLD_MAPPING]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = [each.pid for each in holders.holders("/no/such/mount", os.stat(tmp_path).st_dev)]
        assert process.pid in found


def test_we_do_not_name_ourselves(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb"):
        assert os.getpid() not in [each.pid for each in holders.holders(os.fspath(tmp_path), DEVICE)]


# --- the background --------------------------------------------------------------------------------------------------

DETACH = """
import sys
from offsetfs.cli.mounts.detach import detach
from offsetfs.cli.exit_codes import Failure
def work(word):
    {work}
try:
    sys.exit(detach(work, print))
except Failure as failure:
    print(failure.message)
    sys.exit(failure.code)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("work", "code", "said"),
    [
        pytest.param("word.ready(); return 0", 0, "", id="ready"),
        pytest.param("word.ready(); return 5", 0, "", id="what comes after is the daemon's own"),
        pytest.param("word.failed('in use', 32); return 32", 32, "in use\n", id="failed"),
        pytest.param("word.progress('half'); word.failed('no', 1); return 1", 1, "no\n", id="after progress"),
        pytest.param(
            "return 0", 4, "the background process ended unexpectedly; see the log of the mount\n", id="silent"
        ),
        pytest.param(
            "raise SystemExit(3)", 4, "the background process ended unexpectedly; see the log of the mount\n", id="died"
        ),
        pytest.param(
            "import os; os.kill(os.getpid(), 9)",
            4,
            "the background process ended unexpectedly; see the log of the mount\n",
            id="killed",
        ),
    ],
)
def test_the_parent_ends_with_the_exit_code_of_the_child(work: str, code: int, said: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", DETACH.format(work=work)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (result.returncode, result.stdout) == (code, said)


def test_a_daemon_has_a_session_of_its_own_and_nothing_open_of_its_parents(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    work = (
        f"import os, signal; open({os.fspath(pid_file)!r}, 'w').write(str(os.getpid())); word.ready(); signal.pause()"
    )
    reader, stray = os.pipe()
    subprocess.run([sys.executable, "-c", DETACH.format(work=work)], pass_fds=(stray,), check=True, timeout=60)
    os.close(stray)
    pid = int(pid_file.read_text())
    try:
        links = Path(f"/proc/{pid}/fd")
        assert sorted((each.name, os.readlink(each)) for each in links.iterdir()) == [
            (number, os.devnull) for number in "012"
        ]
        assert os.getsid(pid) == pid
        assert select.select([reader], [], [], 10)[0] and os.read(reader, 1) == b""
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(reader)


def test_until_it_is_ready_a_daemon_stays_in_the_process_group_of_its_caller() -> None:
    work = "import os, sys; word.failed(str(os.getpgrp()), 1); return 1"
    result = subprocess.run(
        [sys.executable, "-c", DETACH.format(work=work)], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.stdout == f"{os.getpgrp()}\n"


def test_ctrl_c_ends_the_parent_which_ends_the_child_without_a_word_of_its_own() -> None:
    # Not signal.pause(): a signal that comes right before that call does not end it.
    work = "import time; print('begun', flush=True)\n    while True: time.sleep(0.05)"
    with subprocess.Popen(
        [sys.executable, "-c", DETACH.format(work=work)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)  # to the end of both, which share the pipe
    assert said.count("Traceback") == 1 and said.rstrip().endswith("KeyboardInterrupt")


def test_ctrl_c_between_the_fork_and_the_wait_ends_the_child() -> None:
    work = "import time\n    while True: time.sleep(0.05)"
    interrupted = """
import os, signal
fork = os.fork
def interrupted():
    pid = fork()
    if pid:
        os.kill(os.getpid(), signal.SIGINT)
    return pid
os.fork = interrupted
"""
    done = subprocess.run(
        [sys.executable, "-c", interrupted + DETACH.format(work=work)], capture_output=True, text=True, timeout=60
    )  # to the end of both, which share the pipes
    assert done.stderr.count("Traceback") == 1 and done.stderr.rstrip().endswith("KeyboardInterrupt")


# --- the log ---------------------------------------------------------------------------------------------------------


def test_a_line_of_the_log_cannot_move_the_cursor_or_begin_another() -> None:
    formatter = daemon_log._Printable("%(message)s")
    record = logging.LogRecord("x", logging.INFO, "", 0, "name \x1b[2J\r\nERROR forged\x00", None, None)
    assert formatter.format(record) == "name \\x1b[2J\\r\n  ERROR forged\\x00"


def test_without_syslog_each_user_has_a_file() -> None:
    assert daemon_log.file_path(0, {}) == "/var/log/offsetfs.log"
    assert daemon_log.file_path(7, {"HOME": "/home/a"}) == "/home/a/.local/state/offsetfs/offsetfs.log"
    assert daemon_log.file_path(7, {"HOME": "/home/a", "XDG_STATE_HOME": "/s"}) == "/s/offsetfs/offsetfs.log"
