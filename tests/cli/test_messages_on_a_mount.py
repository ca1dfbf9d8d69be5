"""What the commands say where a mount is involved: whose it is, what keeps it busy, what may not be done."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.machine.own_machine import STRANGER, TMP, USER, Machine
from fixtures.mounts.left_mounts import unmount

pytestmark = pytest.mark.mount

OFFSETFS = [sys.executable, "-m", "offsetfs"]


def offsetfs(*arguments: object, **how: Any) -> subprocess.CompletedProcess[str]:
    command = [*OFFSETFS, *map(str, arguments)]
    result: subprocess.CompletedProcess[str] = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, **how
    )
    return result


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory with a log directory `log` that is mounted at `mnt`."""
    for name in ("log", "mnt"):
        (tmp_path / name).mkdir()
    assert offsetfs("create", tmp_path / "log", "orders").returncode == 0
    assert offsetfs("mount", tmp_path / "log", tmp_path / "mnt").returncode == 0
    yield tmp_path
    if os.path.ismount(tmp_path / "mnt"):
        unmount(tmp_path / "mnt")


@pytest.mark.parametrize(
    "arguments",
    [
        ("mount", "{mnt}", "{other}"),
        ("ls", "{mnt}"),
        ("cat", "{mnt}", "orders-0/values"),
        ("append", "{mnt}", "orders-0"),
        ("clean", "{mnt}"),
        ("config", "{mnt}"),
        ("create", "{mnt}", "t"),
        ("delete", "{mnt}", "orders"),
        ("convert", "{mnt}"),
        ("verify", "{mnt}"),
        ("repair", "{mnt}"),
        ("dump", "{mnt}"),
        ("hand-over", "{log}", "orders-0", "{mnt}"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_mount_as_log_directory_is_refused_with_its_log_directory(place: Path, arguments: tuple[str, ...]) -> None:
    (place / "other").mkdir()
    names = {name: place / name for name in ("mnt", "log", "other")}
    done = offsetfs(*(each.format(**names) for each in arguments), stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert done.stderr == (
        f"offsetfs {arguments[0]}: {place}/mnt: is an offsetfs mount, not a log directory: "
        f"give its log directory, {place}/log\n"
    )


def test_a_second_mount_of_a_directory_names_the_first_one(place: Path) -> None:
    (place / "second").mkdir()
    done = offsetfs("mount", place / "log", place / "second")
    assert done.returncode == 32
    assert f"{place}/log is mounted at {place}/mnt by process " in done.stderr
    assert f"offsetfs umount {place}/mnt" in done.stderr and "-o ro" in done.stderr


def test_mounting_over_files_warns_and_mounts(place: Path) -> None:
    assert offsetfs("umount", place / "mnt").returncode == 0
    (place / "mnt" / "notes").write_text("mine")
    done = offsetfs("mount", place / "log", place / "mnt")
    assert done.returncode == 0
    assert done.stderr == (
        f"offsetfs mount: warning: {place}/mnt: is not empty; the mount hides 1 entry until it is unmounted\n"
    )


def test_a_busy_mount_states_what_helps_and_lazy_detaches_it(place: Path) -> None:
    with open(place / "mnt" / "orders-0" / "values", "rb") as held:
        refused = offsetfs("umount", place / "mnt")
        assert refused.returncode == 32
        assert f"held by python (pid {os.getpid()}" in refused.stderr or f"(pid {os.getpid()}" in refused.stderr
        assert refused.stderr.endswith(": end these processes, or detach it with --lazy\n")
        (mount,) = json.loads(offsetfs("status", place / "mnt", "--json").stdout)["mounts"]
        daemon = os.pidfd_open(mount["pid"])
        lazy = offsetfs("umount", "--lazy", place / "mnt")
        assert lazy.returncode == 0 and "ends when the last file is closed" in lazy.stderr
        assert not os.path.ismount(place / "mnt")
        assert held.read() == b""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, daemon, os.WEXITED)
    os.close(daemon)


def test_lazy_waits_as_ever_where_the_mount_is_not_busy(place: Path) -> None:
    done = offsetfs("umount", "--lazy", place / "mnt")
    assert (done.returncode, done.stderr) == (0, "")
    assert (place / "log" / ".kafka_cleanshutdown").exists()


def test_status_of_a_mount_whose_daemon_is_gone_has_an_exit_code(place: Path) -> None:
    assert offsetfs("status").returncode in (0, 32)  # other mounts of this machine count as well
    (mount,) = json.loads(offsetfs("status", place / "mnt", "--json").stdout)["mounts"]
    daemon = os.pidfd_open(mount["pid"])
    signal.pidfd_send_signal(daemon, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, daemon, os.WEXITED)
    while json.loads(offsetfs("status", place / "mnt", "--json").stdout)["mounts"][0]["is_alive"]:
        pass
    os.close(daemon)
    done = offsetfs("status", place / "mnt")
    assert done.returncode == 32
    assert "its daemon is DEAD" in done.stdout and f"remove it with: offsetfs umount {place}/mnt" in done.stdout
    offsetfs("umount", place / "mnt")


def test_a_record_that_is_too_large_is_reported_with_its_size_and_the_limit(place: Path) -> None:
    assert offsetfs("config", place / "log", "orders", "max.message.bytes=1000").returncode == 0
    with pytest.raises(OSError, match="Message too long"):
        (place / "mnt" / "orders-0" / "append").write_bytes(b"x" * 5000 + b"\n")
    line = (place / "mnt" / ".offsetfs" / "errors").read_text().splitlines()[-1]
    assert " EMSGSIZE " in line and "a record" in line and " 50" in line
    assert "max.message.bytes allows 1000 bytes" in line


def test_follow_from_an_offset_beyond_the_end_states_what_it_waits_for(place: Path) -> None:
    command = [*OFFSETFS, "follow", os.fspath(place / "log"), "orders", "--from", "7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stderr is not None and follower.stdout is not None
        said = follower.stderr.readline()
        assert said == (
            "offsetfs follow: orders-0 ends at offset 0: waiting for offset 7, records before it are not printed\n"
        )
        (place / "mnt" / "orders-0" / "append").write_text("".join(f"{number}\n" for number in range(9)))
        assert follower.stdout.readline() == "7\n"
        follower.terminate()


# --- other users -----------------------------------------------------------------------------------------------------


@pytest.fixture
def users_mount(machine: Machine) -> Iterator[None]:
    """A mount of the ordinary user, at /run/m."""
    for name in ("/run/l", "/run/m"):
        machine.path(name).mkdir(exist_ok=True)
        os.chown(machine.path(name), USER, USER)
    assert machine.offsetfs("create", "/run/l", "orders", "--if-not-exists", user=USER).returncode == 0
    done = machine.offsetfs("mount", "/run/l", "/run/m", user=USER)
    assert done.returncode == 0, done.stderr
    yield
    machine.offsetfs("umount", "/run/m", user=USER)


def test_the_mount_of_another_user_is_shown_with_its_directory_and_owner(machine: Machine, users_mount: None) -> None:
    done = machine.offsetfs("status", user=STRANGER)
    assert done.returncode == 0
    assert "/run/l on /run/m\n" in done.stdout and "user nobody" in done.stdout


def test_umount_of_another_users_mount_names_the_user_with_the_right(machine: Machine, users_mount: None) -> None:
    done = machine.offsetfs("umount", "/run/m", user=STRANGER)
    assert done.returncode == 1
    assert done.stderr == (
        "offsetfs umount: /run/m: is a mount of user nobody: run offsetfs umount as nobody or as root\n"
    )


def test_root_sees_the_daemon_of_a_users_mount_and_waits_for_it(machine: Machine, users_mount: None) -> None:
    (mount,) = json.loads(machine.offsetfs("status", "--json").stdout)["mounts"]
    assert (mount["user"], mount["is_alive"], mount["log_directory"]) == ("nobody", True, "/run/l")
    done = machine.offsetfs("umount", "/run/m")
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.path("/run/l/.kafka_cleanshutdown").exists()


def test_the_error_of_a_writer_beside_another_users_mount_names_the_mount_point(
    machine: Machine, users_mount: None
) -> None:
    done = machine.offsetfs("clean", "/run/l")
    assert done.returncode == 32 and "/run/l is mounted at /run/m by process " in done.stderr


# --- what the machine refuses ----------------------------------------------------------------------------------------


def test_a_read_only_disk_is_named_with_what_still_works(machine: Machine) -> None:
    machine.run("mkdir", "-p", "/run/disk", "/run/mp")
    assert machine.run("mount", "-t", "tmpfs", "none", "/run/disk").returncode == 0
    machine.offsetfs("create", "/run/disk", "orders")
    assert machine.run("mount", "-o", "remount,ro", "/run/disk").returncode == 0
    try:
        for verb in (("mount", "/run/disk", "/run/mp"), ("clean", "/run/disk"), ("append", "/run/disk", "orders")):
            done = machine.offsetfs(*verb)
            assert done.returncode == 1
            assert done.stderr.startswith(f"offsetfs {verb[0]}: /run/disk: its file system is read-only")
            assert "offsetfs mount -o ro" in done.stderr
        assert machine.offsetfs("mount", "/run/disk", "/run/mp", "-o", "ro").returncode == 0
        assert machine.offsetfs("umount", "/run/mp").returncode == 0
    finally:
        machine.run("umount", "/run/disk")


def test_root_without_the_right_to_mount_gets_an_error(machine: Machine) -> None:
    machine.run("mkdir", "-p", "/run/cl", "/run/cm")
    machine.offsetfs("create", "/run/cl", "orders")
    dropped = ("setpriv", "--bounding-set=-sys_admin", "--")
    done = machine.run(*dropped, *OFFSETFS, "mount", "/run/cl", "/run/cm", TMPDIR=TMP)
    assert done.returncode == 2
    assert "CAP_SYS_ADMIN is missing" in done.stderr and "offsetfs ls, cat, follow and append" in done.stderr
