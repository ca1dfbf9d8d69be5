"""An ordinary user mounts, writes, reads and unmounts, through fusermount3; other users have no access."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator

import pytest
from fixtures.machine.own_machine import STRANGER, TMP, USER, Machine

pytestmark = pytest.mark.mount

HOME = "/mnt/home"
LOG, MNT = f"{HOME}/log", f"{HOME}/mnt"


@pytest.fixture(autouse=True)
def home(machine: Machine) -> Iterator[None]:
    """A home of the user's own, open to everybody, with a log and a place to mount it."""
    machine.check_readable()
    for path in (HOME, LOG, MNT):
        machine.path(path).mkdir()
        os.chown(machine.path(path), USER, USER)
    created = machine.offsetfs("create", LOG, "orders", user=USER)
    assert (created.returncode, created.stderr) == (0, "")
    yield
    machine.run("umount", "--lazy", MNT)
    machine.wait_for_daemons()
    removed = machine.run("rm", "-rf", HOME, f"{TMP}/offsetfs-{USER}")
    assert removed.returncode == 0, removed.stderr


def mount(machine: Machine, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return machine.offsetfs("mount", LOG, MNT, *options, user=USER, **environment)


def sh(machine: Machine, script: str, user: int = USER) -> subprocess.CompletedProcess[str]:
    return machine.run("sh", "-c", script, user=user)


def test_a_user_mounts_appends_reads_and_unmounts(machine: Machine) -> None:
    mounted = mount(machine, "-o", "linger-ms=60000,flush-ms=off")
    assert (mounted.returncode, mounted.stderr) == (0, "")
    seen = machine.mounted(MNT)
    assert (seen["source"], seen["fstype"]) == (LOG, "fuse.offsetfs")
    assert {"nosuid", "nodev", "noexec", "default_permissions", f"user_id={USER}"} <= set(seen["options"].split(","))
    assert sh(machine, f"printf 'one\\ntwo' >> {MNT}/orders-0/append").returncode == 0
    (daemon,) = json.loads(machine.offsetfs("status", "--json", user=USER).stdout)["mounts"]
    unmounted = machine.offsetfs("umount", MNT, user=USER)
    assert (unmounted.returncode, unmounted.stderr) == (0, "")
    machine.wait_for_end(daemon["pid"])
    assert machine.path(f"{LOG}/.kafka_cleanshutdown").exists()
    assert mount(machine, "-o", "ro").returncode == 0
    assert sh(machine, f"cat {MNT}/orders-0/values").stdout == "one\ntwo\n"


def test_fusermount_unmounts_and_the_daemon_drains(machine: Machine) -> None:
    mount(machine, "-o", "linger-ms=60000,flush-ms=off")
    (daemon,) = json.loads(machine.offsetfs("status", "--json", user=USER).stdout)["mounts"]
    sh(machine, f"echo one >> {MNT}/orders-0/append")
    assert machine.run("fusermount3", "-u", MNT, user=USER).returncode == 0
    machine.wait_for_end(daemon["pid"])
    mount(machine, "-o", "ro")
    assert sh(machine, f"cat {MNT}/orders-0/values").stdout == "one\n"


@pytest.mark.security(
    "The files of a mount belong to its owner; other users read or write them only if `umask`, `uid` "
    "or `gid` permit it."
)
def test_files_belong_to_the_user_and_other_users_may_not_read_them(machine: Machine) -> None:
    mount(machine)
    sh(machine, f"echo one >> {MNT}/orders-0/append")
    said = sh(machine, f"cd {MNT}/orders-0 && stat -c '%a %u %g %n' 0 append values .")
    owner = f"{USER} {USER}"
    wanted = [f"440 {owner} 0", f"200 {owner} append", f"440 {owner} values", f"550 {owner} ."]
    assert said.stdout.splitlines() == wanted
    assert sh(machine, f"stat -c %a {LOG}/orders-0/*.log").stdout.strip().endswith("0")
    for user in (STRANGER, 0):
        for command in (f"ls {MNT}", f"cat {MNT}/orders-0/0", f"stat {MNT}/README", f"echo x >> {MNT}/orders-0/append"):
            refused = sh(machine, command, user)
            assert refused.returncode != 0 and "ermission denied" in refused.stderr, command


@pytest.mark.security(
    "A mount is private: other users have access only with `allow_other`, and only if the administrator permits it."
)
def test_others_are_let_in_only_where_the_administrator_agreed(machine: Machine) -> None:
    for configuration, code in (("", 1), ("# user_allow_other\n", 1), ("user_allow_other\n", 0)):
        machine.path("/run/fuse.conf").write_text(configuration)
        assert machine.run("mount", "--bind", "/run/fuse.conf", "/etc/fuse.conf").returncode == 0
        try:
            result = mount(machine, "-o", "allow_other,umask=022")
            assert result.returncode == code
            if code:
                assert "allow_other needs the line user_allow_other in /etc/fuse.conf" in result.stderr
                assert machine.mounted(MNT) == {}
        finally:
            machine.run("umount", "/etc/fuse.conf")
    assert {"allow_other", "default_permissions"} <= set(machine.mounted(MNT)["options"].split(","))
    assert sh(machine, f"cat {MNT}/orders-0/next", STRANGER).stdout == "0\n"
    refused = sh(machine, f"echo x >> {MNT}/orders-0/append", STRANGER)
    assert refused.returncode != 0 and "ermission denied" in refused.stderr


@pytest.mark.security(
    "The kernel checks owner and mode of each file of a mount; no file in it can be executed, is a "
    "device, or is set-user-ID."
)
def test_default_permissions_keep_others_out_of_what_is_not_for_them(machine: Machine) -> None:
    machine.path("/run/fuse.conf").write_text("user_allow_other\n")
    machine.run("mount", "--bind", "/run/fuse.conf", "/etc/fuse.conf")
    try:
        assert mount(machine, "-o", "allow_other").returncode == 0
    finally:
        machine.run("umount", "/etc/fuse.conf")
    refused = sh(machine, f"cat {MNT}/orders-0/next", STRANGER)
    assert refused.returncode != 0 and "ermission denied" in refused.stderr


@pytest.mark.security(
    "A user without root can mount only at a directory that the user can write, and only a log "
    "directory that the user can write or, with `-o ro`, read."
)
def test_a_user_mounts_what_the_modes_of_the_directories_allow(machine: Machine) -> None:
    machine.run("mkdir", "-p", "/mnt/closed")
    refused = machine.offsetfs("mount", LOG, "/mnt/closed", user=USER)
    assert refused.returncode == 32 and refused.stderr.count("\n") == 1 and machine.mounted("/mnt/closed") == {}
    mount(machine)
    sh(machine, f"echo one >> {MNT}/orders-0/append")
    assert machine.offsetfs("umount", MNT, user=USER).returncode == 0
    machine.run("chown", "-R", "0:0", LOG)
    machine.run("chmod", "-R", "u=rwX,go=rX", LOG)
    refused = mount(machine)
    assert refused.returncode == 1 and "no permission" in refused.stderr and machine.mounted(MNT) == {}
    assert mount(machine, "-o", "ro").returncode == 0  # of root, but mode 0755: any user can read its files anyway
    assert sh(machine, f"cat {MNT}/orders-0/values").stdout == "one\n"
    assert machine.offsetfs("umount", MNT, user=USER).returncode == 0
    os.chmod(machine.path(LOG), stat.S_IRWXU)
    for options in ((), ("-o", "ro")):
        refused = mount(machine, *options)
        assert refused.returncode == 1 and "no permission" in refused.stderr and machine.mounted(MNT) == {}


def test_a_user_without_a_home_has_a_log_beside_his_daemons(machine: Machine) -> None:
    assert mount(machine, HOME="/nonexistent", XDG_STATE_HOME="/nonexistent").returncode == 0
    place = machine.path(f"{TMP}/offsetfs-{USER}")
    if not machine.path("/dev/log").exists():
        assert "is mounted at" in (place / "offsetfs.log").read_text()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(each.stat().st_mode) & 0o077 == 0 for each in place.iterdir())


def test_a_device_without_access_for_users_is_reported(machine: Machine) -> None:
    device = machine.path("/run/dev/fuse")
    os.chmod(device, 0o600)
    try:
        refused = mount(machine)
    finally:
        os.chmod(device, 0o666)
    assert refused.returncode == 1 and "/dev/fuse: Permission denied" in refused.stderr
