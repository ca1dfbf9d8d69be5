"""mount(8), fstab, umount(8), automounts, other namespaces: what calls /sbin/mount.offsetfs, and what comes of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from fixtures.machine.own_machine import USER, Machine

from offsetfs.cli.mounts import daemon_registry

pytestmark = pytest.mark.mount

LOG, MNT = "/mnt/log", "/mnt/mnt"


@pytest.fixture(autouse=True)
def places(machine: Machine) -> Iterator[None]:
    """An empty partition `orders-0` in LOG, an empty directory MNT; nothing is left behind."""
    machine.path(LOG).mkdir()
    machine.path(MNT).mkdir()
    assert machine.offsetfs("create", LOG, "orders").returncode == 0
    yield
    for mount in daemons(machine):
        machine.run("umount", "--lazy", mount["mount_point"])
        machine.wait_for_end(mount["pid"])
    machine.run("umount", "--lazy", MNT)
    machine.path("/run/fstab").write_text("")
    machine.run("sh", "-c", "rm -rf /mnt/*")


def daemons(machine: Machine) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = json.loads(machine.offsetfs("status", "--json").stdout)["mounts"]
    return mounts


def values(machine: Machine, log: str = LOG) -> list[str]:
    said = machine.offsetfs("dump", f"{log}/orders-0", "--print-data-log", "--json").stdout
    return [json.loads(line)["value"] for line in said.splitlines()]


def append(machine: Machine, data: bytes, mnt: str = MNT) -> None:
    with open(machine.path(mnt) / "orders-0" / "append", "ab", buffering=0) as file:
        file.write(data)


# --- mount and umount ------------------------------------------------------------------------------------------------


def test_mount_8_mounts_and_umount_8_drains(machine: Machine) -> None:
    mounted = machine.run("mount", "-t", "offsetfs", LOG, MNT, "-o", "linger-ms=60000,flush-ms=off")
    assert (mounted.returncode, mounted.stdout, mounted.stderr) == (0, "", "")
    seen = machine.mounted(MNT)
    assert (seen["source"], seen["fstype"]) == (LOG, "fuse.offsetfs")
    assert {"rw", "nosuid", "nodev", "noexec", "default_permissions"} <= set(seen["options"].split(","))
    append(machine, b"whole\nunfinished")
    (daemon,) = daemons(machine)
    assert machine.run("umount", MNT).returncode == 0
    machine.wait_for_end(daemon["pid"])
    assert values(machine) == ["whole", "unfinished"]
    assert machine.path(LOG + "/.kafka_cleanshutdown").exists()


def test_offsetfs_umount_of_such_a_mount_returns_when_its_daemon_has_ended(machine: Machine) -> None:
    machine.run("mount", "-t", "offsetfs", LOG, MNT, "-o", "linger-ms=60000,flush-ms=off")
    append(machine, b"whole\nunfinished")
    (daemon,) = daemons(machine)
    assert machine.offsetfs("umount", MNT).returncode == 0
    assert daemon_registry.started(daemon["pid"]) is None
    assert values(machine) == ["whole", "unfinished"]


def test_the_processes_that_use_a_mount_are_named(machine: Machine) -> None:
    machine.run("mount", "-t", "offsetfs", LOG, MNT)
    held = subprocess.Popen(machine.command("sh", "-c", f"cd {MNT}; echo; exec cat"), stdin=-1, stdout=-1)
    with held:
        assert held.stdin is not None and held.stdout is not None
        held.stdout.readline()
        try:
            assert machine.run("umount", MNT).returncode == 32
            refused = machine.offsetfs("umount", MNT)
            assert refused.returncode == 32 and f"{MNT} is busy: held by cat (pid {held.pid}, {MNT})" in refused.stderr
        finally:
            held.stdin.close()
    assert machine.offsetfs("umount", MNT).returncode == 0


def test_the_list_of_mounts_shows_the_log_directory(machine: Machine) -> None:
    machine.run("mount", "-t", "offsetfs", LOG, MNT, "-o", "ro")
    lines = [line for line in machine.run("mount").stdout.splitlines() if f" {MNT} " in line]
    assert len(lines) == 1 and lines[0].startswith(f"{LOG} on {MNT} type fuse.offsetfs (ro,nosuid,nodev,noexec,")


def test_the_type_that_findmnt_shows_mounts_as_well(machine: Machine) -> None:
    assert machine.run("mount", "-t", "fuse.offsetfs", LOG, MNT).returncode == 0
    assert machine.path(MNT + "/orders-0").is_dir()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["-o", "lingerms=5"], 1, "unknown option 'lingerms', did you mean linger-ms?", id="option"),
        pytest.param(["-o", "list=some"], 1, "list=some is not a number", id="value"),
        pytest.param(["-o", "fsname=x"], 1, "unknown option 'fsname'", id="an option of libfuse"),
        pytest.param(["-s", "-o", "intr,list=9"], 0, "", id="sloppy"),
        pytest.param(["-o", "noatime,_netdev,nofail,x-systemd.automount,comment=mine"], 0, "", id="mount's own"),
        pytest.param(["-n"], 0, "", id="no mtab"),
        pytest.param(["-v"], 0, f"mount.offsetfs: {LOG} mounted on {MNT}", id="verbose"),
    ],
)
def test_options_and_exit_codes_are_those_of_mount_8(
    machine: Machine, arguments: list[str], code: int, said: str
) -> None:
    result = machine.run("mount", "-t", "offsetfs", *arguments, LOG, MNT)
    assert result.returncode == code and said in result.stdout + result.stderr
    assert bool(machine.mounted(MNT)) == (code == 0)
    assert code == 0 or result.stderr.startswith("mount.offsetfs: ")


@pytest.mark.parametrize(
    ("log", "mnt", "code", "said"),
    [
        ("/mnt/none", MNT, 1, "/mnt/none: there is no such directory"),
        (LOG, LOG, 1, "is the log directory itself"),
        ("/usr", MNT, 1, "/usr: holds neither partitions"),
        (LOG, "/proc", 32, "another file system is already mounted there (proc)"),
    ],
)
def test_what_cannot_be_mounted_is_a_sentence(machine: Machine, log: str, mnt: str, code: int, said: str) -> None:
    result = machine.run("mount", "-t", "offsetfs", log, mnt)
    assert result.returncode == code and said in result.stderr


def test_a_fake_mount_checks_and_mounts_nothing(machine: Machine) -> None:
    assert machine.run("mount.offsetfs", LOG, MNT, "-f").returncode == 0
    assert machine.mounted(MNT) == {}
    assert machine.run("mount.offsetfs", "/mnt/none", MNT, "-f").returncode == 1


def test_a_second_writer_is_refused_with_the_code_of_a_failed_mount(machine: Machine) -> None:
    machine.run("mount", "-t", "offsetfs", LOG, MNT)
    machine.path("/mnt/other").mkdir()
    refused = machine.run("mount", "-t", "offsetfs", LOG, "/mnt/other")
    assert refused.returncode == 32 and "by process" in refused.stderr


def test_a_mount_is_not_changed_by_remount(machine: Machine) -> None:
    machine.run("mount", "-t", "offsetfs", LOG, MNT, "-o", "ro")
    refused = machine.run("mount.offsetfs", LOG, MNT, "-o", "remount,rw")
    assert refused.returncode == 1 and f"unmount {MNT}, and mount it again" in refused.stderr


# --- fstab -----------------------------------------------------------------------------------------------------------


def test_lines_of_fstab_are_mounted_once(machine: Machine) -> None:
    blank = "/mnt/with blank"
    machine.path(blank).mkdir()
    machine.path("/mnt/second").mkdir()
    assert machine.offsetfs("create", "/mnt/second", "orders").returncode == 0
    machine.path("/run/fstab").write_text(
        f"{LOG} {MNT} offsetfs ro,_netdev,nofail,x-systemd.automount,x-systemd.mount-timeout=10min 0 0\n"
        "/mnt/second /mnt/with\\040blank offsetfs create,list=7 0 0\n"
        f"{LOG} /mnt/never offsetfs noauto 0 0\n"
    )
    first = machine.run("mount", "--all")
    assert (first.returncode, first.stderr) == (0, "")
    by_place = {each["mount_point"]: each["options"] for each in daemons(machine)}
    assert "ro" in by_place[MNT] and by_place[blank]["list"] == "7" and len(by_place) == 2
    again = machine.run("mount", "--all")
    assert (again.returncode, again.stderr, len(daemons(machine))) == (0, "", 2)
    assert machine.run("umount", blank).returncode == 0


def test_a_line_of_fstab_lets_a_user_mount_and_unmount(machine: Machine) -> None:
    for name in ("home", "home/log", "home/mnt"):
        machine.path(f"/mnt/{name}").mkdir()
        os.chown(machine.path(f"/mnt/{name}"), USER, USER)
    assert machine.offsetfs("create", "/mnt/home/log", "orders", user=USER).returncode == 0
    machine.path("/run/fstab").write_text("/mnt/home/log /mnt/home/mnt offsetfs noauto,user,create 0 0\n")
    mounted = machine.run("mount", "/mnt/home/mnt", user=USER)
    assert (mounted.returncode, mounted.stderr) == (0, "")
    options = machine.mounted("/mnt/home/mnt")["options"].split(",")
    assert {"nosuid", "nodev", "noexec", f"user_id={USER}", "default_permissions"} <= set(options)
    assert "allow_other" not in options
    wrote = machine.run("sh", "-c", "echo hello >> /mnt/home/mnt/orders-0/append", user=USER)
    assert wrote.returncode == 0
    with pytest.raises(PermissionError):
        os.listdir(machine.path("/mnt/home/mnt"))
    unmounted = machine.run("umount", "/mnt/home/mnt", user=USER)
    assert (unmounted.returncode, unmounted.stderr, machine.mounted("/mnt/home/mnt")) == (0, "", {})


def test_a_user_mounts_nothing_that_fstab_does_not_offer(machine: Machine) -> None:
    refused = machine.run("mount", "-t", "offsetfs", LOG, MNT, user=USER)
    assert refused.returncode == 1 and machine.mounted(MNT) == {}


# --- lazily ----------------------------------------------------------------------------------------------------------


def test_after_a_lazy_umount_the_daemon_syncs_and_ends_with_the_last_close(machine: Machine) -> None:
    machine.run("mount", "-t", "offsetfs", LOG, MNT, "-o", "linger-ms=60000,flush-ms=off")
    (daemon,) = daemons(machine)
    appending = os.open(machine.path(MNT) / "orders-0" / "append", os.O_WRONLY)
    try:
        os.write(appending, b"before\n")
        assert machine.run("umount", "--lazy", MNT).returncode == 0
        assert machine.mounted(MNT) == {}
        os.write(appending, b"after\n")
        busy = machine.run("mount", "-t", "offsetfs", LOG, MNT)
        assert busy.returncode == 32 and f"by process {daemon['pid']}" in busy.stderr
    finally:
        os.close(appending)
    machine.wait_for_end(daemon["pid"])
    assert values(machine) == ["before", "after"]
    assert machine.path(LOG + "/.kafka_cleanshutdown").exists()
    assert machine.run("mount", "-t", "offsetfs", LOG, MNT).returncode == 0


# --- elsewhere -------------------------------------------------------------------------------------------------------


def test_mount_in_another_namespace_is_seen_there_and_not_here(machine: Machine) -> None:
    elsewhere = subprocess.Popen(
        machine.command("unshare", "--mount", "--propagation", "private", "--", "sh", "-c", "echo; exec cat"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with elsewhere:
        assert elsewhere.stdin is not None and elsewhere.stdout is not None
        try:
            elsewhere.stdout.readline()
            mounted = machine.run("mount", "-N", elsewhere.pid, "-t", "offsetfs", LOG, MNT)
            assert (mounted.returncode, mounted.stderr, machine.mounted(MNT)) == (0, "", {})
            assert os.path.isdir(f"/proc/{elsewhere.pid}/root{MNT}/orders-0")
            in_there = ["nsenter", f"--mount=/proc/{elsewhere.pid}/ns/mnt", "--", "umount", MNT]
            assert subprocess.run(in_there, check=False).returncode == 0
        finally:
            elsewhere.stdin.close()


@pytest.mark.parametrize("namespace", ["/mnt/none", "999999999", "/proc/self/status"])
def test_a_namespace_that_is_none_is_a_sentence(machine: Machine, namespace: str) -> None:
    result = machine.run("mount.offsetfs", LOG, MNT, "-N", namespace)
    assert result.returncode in (1, 2) and result.stderr.count("\n") == 1 and "Traceback" not in result.stderr


AUTOMOUNTER = r"""
import ctypes, fcntl, os, struct, subprocess, sys
mnt, *mount = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
requests, kernels_end = os.pipe()
options = f"fd={kernels_end},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
if libc.mount(b"automount", mnt.encode(), b"autofs", 0, options.encode()) != 0:
    sys.exit(f"no autofs: {os.strerror(ctypes.get_errno())}")
trap = os.open(mnt, os.O_RDONLY | os.O_DIRECTORY)
os.close(kernels_end)
reader = subprocess.Popen(["ls", mnt], start_new_session=True)  # not of our process group: it has to wait
_, _, token = struct.unpack_from("iiI", os.read(requests, 4096))
code = subprocess.run(mount).returncode
fcntl.ioctl(trap, 0x9360 if code == 0 else 0x9361, token)  # AUTOFS_IOC_READY, AUTOFS_IOC_FAIL
sys.exit(code or reader.wait())
"""


def test_an_automount_point_is_mounted_on_first_access(machine: Machine) -> None:
    """What x-systemd.automount does. The mounting process stays in the automounter's group, or it waits for itself."""
    mount = ["mount", "-t", "offsetfs", LOG, MNT, "-o", "linger-ms=60000,flush-ms=off"]
    result = machine.run("python3", "-c", AUTOMOUNTER, MNT, *mount)
    if "no autofs" in result.stderr:
        pytest.skip("this kernel has no autofs")
    assert (result.returncode, result.stdout.split()) == (0, ["README", "orders-0", "topics"])
    append(machine, b"whole\nunfinished")
    assert machine.offsetfs("umount", MNT).returncode == 0
    assert [line.split()[4] for line in machine.run("mount").stdout.splitlines() if f" {MNT} " in line] == ["autofs"]
    assert values(machine) == ["whole", "unfinished"], "the trap below the mount does not keep it from being gone"
