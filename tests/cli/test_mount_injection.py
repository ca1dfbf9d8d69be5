"""Names and options of an attacker: a mount gets no option that was not chosen, and no line of a table is forged."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from fixtures.machine.own_machine import OFFSETFS, TMP, USER, Machine

pytestmark = pytest.mark.mount

ALWAYS = {"nosuid", "nodev", "noexec", "default_permissions"}
NEVER = {"suid", "dev", "exec", "allow_other", "allow_root"}

NAMES = {
    "options": "x,allow_other,dev,suid,exec",
    "an fsname": "fsname=x,allow_other",
    "an escaped comma": "x\\,allow_other",
    "an octal comma": "x\\054allow_other",
    "a line": "x\n/evil /etc fuse.offsetfs rw 0 0",
    "a carriage return": "x\r44 22 0:99 / \\etc rw - fuse.offsetfs evil rw",
    "a blank": "with blank",
    "an octal blank": "with\\040blank",
    "a tab": "with\ttab",
    "quotes": "'\"`$(id)",
    "an option": "-oallow_other",
    "more options": "--foreground",
    "not ASCII": "ä…",
    "not UTF-8": os.fsdecode(b"\xff\xfe"),
    "a color": "\x1b[31mred",
    "a hash": "#x",
    "long": "n" * 255,
}


@pytest.fixture(autouse=True)
def clean(machine: Machine) -> Iterator[None]:
    yield
    machine.run("umount", "--all", "--lazy", "--types", "fuse.offsetfs")
    machine.run("sh", "-c", f"rm -rf /mnt/* {TMP}/*")


def in_table(machine: Machine) -> tuple[str, set[str]]:
    """Return source and options of the only mount of ours, from the kernel's own table."""
    table = machine.run("cat", "/proc/self/mountinfo").stdout
    (line,) = [line for line in table.split("\n") if " - fuse.offsetfs " in line]
    place, _, rest = line.partition(" - ")
    _, source, own = rest.split(" ")
    return source, {*place.split(" ")[5].split(","), *own.split(",")}


AS_A_USER = ("options", "an escaped comma", "a line", "an option")
"""Through fusermount3, which reads options once more."""


@pytest.mark.security(
    "The kernel checks owner and mode of each file of a mount; no file in it can be executed, is a "
    "device, or is set-user-ID."
)
@pytest.mark.security(
    "Directory names and values of settings cannot inject a mount option, a line of a mount table, "
    "or a word of a systemd unit."
)
@pytest.mark.parametrize(
    ("name", "user"),
    [
        *(pytest.param(name, None, id=what) for what, name in NAMES.items()),
        *(pytest.param(NAMES[what], USER, id=f"{what}, a user") for what in AS_A_USER),
    ],
)
def test_no_name_of_a_log_directory_or_mount_point_brings_an_option(
    machine: Machine, name: str, user: int | None
) -> None:
    machine.check_readable()
    log, mnt = machine.path(f"/mnt/log/{name}"), machine.path(f"/mnt/mnt/{name}")
    for path in (log, mnt):
        path.mkdir(parents=True)
        os.chown(path, user or 0, user or 0)
    # By names relative to where they lie: some look like options.
    script = 'cd /mnt && exec "$@"'
    mounted = machine.run(
        *("sh", "-c", script, "sh", *OFFSETFS, "mount", "-o", "create", "--", f"log/{name}", f"mnt/{name}"),
        user=user,
    )
    assert (mounted.returncode, mounted.stderr) == (0, "")
    source, options = in_table(machine)
    assert options >= ALWAYS and not options & NEVER
    assert "," not in source and source.isprintable() and source.isascii()
    (known,) = json.loads(machine.offsetfs("status", "--json", user=user).stdout)["mounts"]
    assert (known["mount_point"], known["log_directory"]) == (f"/mnt/mnt/{name}", f"/mnt/log/{name}")
    said = machine.offsetfs("status", user=user).stdout
    assert all(character.isprintable() for line in said.splitlines() for character in line) and said.count("\n") == 3
    assert machine.offsetfs("umount", f"/mnt/mnt/{name}", user=user).returncode == 0


@pytest.mark.security("An unknown option is refused, whatever program passes it on.")
@pytest.mark.parametrize(
    "texts",
    [
        "allow_root",
        "suid",
        "dev",
        "exec",
        "fsname=x",
        "subtype=ext4",
        "fsname=x,allow_other,dev,suid",
        "ro\nallow_other",
        "ro\\,allow_root",
        "max_read=1",
        "blkdev",
        "default_permissions=0",
        "nonempty",
        "auto_unmount",
        "context=x",
        "fd=3",
        "rootmode=40000",
        "user_id=0",
        '"suid"',
    ],
)
def test_an_unknown_option_is_refused_from_every_caller(machine: Machine, texts: str) -> None:
    for path in ("/mnt/log", "/mnt/mnt"):
        machine.path(path).mkdir()
    for refused in (
        machine.offsetfs("mount", "/mnt/log", "/mnt/mnt", "-o", f"create,{texts}"),
        machine.run("mount.offsetfs", "/mnt/log", "/mnt/mnt", "-o", f"create,{texts}"),
    ):
        assert refused.returncode == 1 and "unknown option" in refused.stderr and refused.stderr.count("\n") == 1
        assert machine.mounted("/mnt/mnt") == {}


@pytest.mark.parametrize(
    "texts", ["suid,dev,exec", "exec,fsname=x,allow_root", "uid=5,retention.ms=5,intr=\\054suid", 'create,x="a,suid"']
)
def test_a_sloppy_mount_passes_none_of_it_on(machine: Machine, texts: str) -> None:
    for path in ("/mnt/log", "/mnt/mnt"):
        machine.path(path).mkdir()
    mounted = machine.run("mount.offsetfs", "/mnt/log", "/mnt/mnt", "-s", "-o", f"create,{texts}")
    assert mounted.returncode == 0, mounted.stderr
    source, options = in_table(machine)
    assert options >= ALWAYS and not options & NEVER and source == "/mnt/log"


@pytest.mark.security(
    "Directory names and values of settings cannot inject a mount option, a line of a mount table, "
    "or a word of a systemd unit."
)
def test_values_of_topic_settings_stay_values(machine: Machine) -> None:
    for path in ("/mnt/log", "/mnt/mnt"):
        machine.path(path).mkdir()
    mounted = machine.offsetfs("mount", "/mnt/log", "/mnt/mnt", "-o", 'create,cleanup.policy="compact,delete"')
    assert mounted.returncode == 0
    _, options = in_table(machine)
    assert options >= ALWAYS and "delete" not in options


def test_the_mount_point_of_another_user_cannot_forge_the_table_of_mounts(machine: Machine) -> None:
    name = NAMES["a carriage return"].replace("\\etc", "\\mnt\\log")
    machine.path(f"/mnt/{name}").mkdir(parents=True)
    machine.run("mount", "-t", "tmpfs", "none", f"/mnt/{name}")
    try:
        for path in ("/mnt/log", "/mnt/mnt"):
            machine.path(path).mkdir()
        said = machine.offsetfs("status")
        assert (said.returncode, said.stdout) == (0, "nothing is mounted\n")
        assert machine.offsetfs("mount", "/mnt/log", "/mnt/mnt", "-o", "create").returncode == 0
        assert machine.offsetfs("umount", "/mnt/mnt").returncode == 0
    finally:
        machine.run("umount", f"/mnt/{name}")


def test_a_blank_in_fstab_and_in_the_table_of_mounts_is_written_in_octal(machine: Machine) -> None:
    log, mnt = "/mnt/my log", "/mnt/my mnt\\"
    for path in (log, mnt):
        machine.path(path).mkdir()
    machine.path("/run/fstab").write_text("/mnt/my\\040log /mnt/my\\040mnt\\134 offsetfs create 0 0\n")
    try:
        mounted = machine.run("mount", mnt)
        assert (mounted.returncode, mounted.stderr) == (0, "")
        table = machine.run("cat", "/proc/self/mounts").stdout
        assert "offsetfs-my_log /mnt/my\\040mnt\\134 fuse.offsetfs rw,nosuid,nodev,noexec,relatime," in table
        with open(machine.path(mnt) / "README") as file:
            assert file.read()
        assert machine.offsetfs("umount", mnt).returncode == 0
    finally:
        machine.path("/run/fstab").write_text("")
