"""A daemon that was killed, and the mount it leaves: the next mount takes its place."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.machine.own_machine import TMP, USER, Machine

pytestmark = pytest.mark.mount

LOG, MNT = "/mnt/log", "/mnt/mnt"


@pytest.fixture(autouse=True)
def places(machine: Machine) -> Iterator[None]:
    for path in (LOG, MNT):
        machine.path(path).mkdir()
        os.chown(machine.path(path), USER, USER)
    machine.offsetfs("create", LOG, "orders", user=USER)
    yield
    while machine.run("umount", "--lazy", MNT).returncode == 0:
        pass
    machine.run("sh", "-c", f"rm -rf /mnt/* {TMP}/*")


def kill_daemon(machine: Machine, user: int | None = None) -> int:
    (daemon,) = json.loads(machine.offsetfs("status", "--json", user=user).stdout)["mounts"]
    os.kill(daemon["pid"], signal.SIGKILL)
    machine.wait_for_end(daemon["pid"])
    return int(daemon["pid"])


def answer(path: Path) -> int:
    try:
        os.listdir(path)
    except OSError as error:
        return error.errno or 0
    return 0


@pytest.mark.parametrize("user", [None, USER], ids=["root", "a user"])
def test_the_next_mount_takes_the_place_of_a_dead_one(machine: Machine, user: int | None) -> None:
    machine.check_readable()
    assert machine.offsetfs("mount", LOG, MNT, "-o", "linger-ms=0", user=user).returncode == 0
    wrote = machine.run("sh", "-c", f"echo one >> {MNT}/orders-0/append", user=user)
    assert wrote.returncode == 0
    pid = kill_daemon(machine, user)
    assert machine.run("ls", MNT, user=user).returncode != 0
    again = machine.offsetfs("mount", LOG, MNT, user=user)
    assert again.returncode == 0
    assert f"{MNT}: removed the stale mount that process {pid} left when it died" in again.stderr
    assert machine.run("cat", f"{MNT}/orders-0/values", user=user).stdout == "one\n"
    (now,) = json.loads(machine.offsetfs("status", "--json", user=user).stdout)["mounts"]
    assert now["pid"] != pid and now["is_alive"]


def test_it_mounts_over_a_stale_mount_in_use_and_through_mount_8(machine: Machine) -> None:
    machine.run("mount", "-t", "offsetfs", LOG, MNT)
    held = os.open(machine.path(MNT), os.O_RDONLY | os.O_DIRECTORY)
    try:
        kill_daemon(machine)
        assert answer(machine.path(MNT)) == errno.ENOTCONN
        assert machine.run("mount", "-t", "offsetfs", LOG, MNT).returncode == 0
        assert answer(machine.path(MNT)) == 0
    finally:
        os.close(held)


def test_a_stale_mount_without_a_daemon_entry_is_removed_as_well(machine: Machine) -> None:
    machine.run("mount", "-t", "offsetfs", LOG, MNT)
    kill_daemon(machine)
    machine.run("sh", "-c", "rm -f /run/offsetfs/*")
    again = machine.offsetfs("mount", LOG, MNT)
    assert again.returncode == 0 and "removed a stale mount whose daemon is gone" in again.stderr


def test_a_mount_that_lives_is_not_touched_whatever_is_written_down_about_it(machine: Machine) -> None:
    machine.run("mount", "-t", "offsetfs", LOG, MNT)
    (file,) = machine.path("/run/offsetfs").iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "started": 1}))
    refused = machine.offsetfs("mount", LOG, MNT)
    assert refused.returncode == 32
    assert answer(machine.path(MNT)) == 0


def test_a_stale_mount_of_root_is_left_by_a_user_and_the_remedy_is_reported(machine: Machine) -> None:
    machine.check_readable()
    machine.run("mount", "-t", "offsetfs", LOG, MNT, "-o", "allow_other,umask=000")
    kill_daemon(machine)
    refused = machine.offsetfs("mount", LOG, MNT, user=USER)
    assert refused.returncode == 32
    assert "cannot remove a stale mount" in refused.stderr and "umount -l" in refused.stderr
