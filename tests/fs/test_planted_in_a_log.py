"""An attacker with write access to a log directory plants links, FIFOs, sockets, devices and directories as its files.

Nothing of it is followed, nothing waits for it, nothing is written through it, and the partitions beside it are read.
The target of each link is a valid segment with a secret in it: code that followed the link would show it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.planted_logs import batch, crash

pytestmark = [pytest.mark.mount, pytest.mark.damages]

SECONDS_MAX = 20
SECRET = b"only-the-owner-may-see-this"

NEEDED = {
    "log": "00000000000000000000.log",
    "index": "00000000000000000000.index",
    "timeindex": "00000000000000000000.timeindex",
    "epochs": "leader-epoch-checkpoint",
}
"""Without these the log does not open, and says which it is."""

NOT_NEEDED = {
    "txnindex": "00000000000000000000.txnindex",
    "snapshot": "00000000000000000000.snapshot",
    "metadata": "partition.metadata",
    "values-map": "00000000000000000000.values-map",
    "records-map": "00000000000000000000.records-map",
}
"""What can be made again, or is not looked at: the records are there."""


def plant_socket(path: Path, secret: Path) -> None:
    directory = os.open(path.parent, os.O_PATH)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(f"/proc/self/fd/{directory}/{path.name}")  # a path of any length
    os.close(directory)


PLANTS: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda path, secret: path.symlink_to(secret),
    "dangling": lambda path, secret: path.symlink_to(secret.parent / "made"),
    "zeroes": lambda path, secret: path.symlink_to("/dev/zero"),
    "fifo": lambda path, secret: os.mkfifo(path),
    "socket": plant_socket,
    "device": lambda path, secret: os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5)),
    "directory": lambda path, secret: path.mkdir(),
}
if os.geteuid() != 0:
    del PLANTS["device"]


STATES = {"rw": tuple(PLANTS), "ro": ("link", "fifo"), "crashed": ("link", "dangling", "fifo")}
"""How it is mounted, and what is tried there: the difference is which process opens the files, and for what."""


def plant_all(log: Path, model: Path, secret: Path, plants: tuple[str, ...]) -> dict[str, str]:
    """Make a partition for each plant and file, a copy of `model`; return which file of it is not what it should be."""
    planted = {}
    for plant in plants:
        for kind, name in (NEEDED | NOT_NEEDED).items():
            partition = f"{plant}.{kind}-0"
            shutil.copytree(model, log / partition)
            (log / partition / name).unlink(missing_ok=True)
            PLANTS[plant](log / partition / name, secret)
            planted[partition] = name
    return planted


LOOK = """
cd "$1" && ls -lR .
cat values 0 1 info start "segments/$2" | head -c 1000000
echo hello >> append
"""


@pytest.mark.security(
    "A link, FIFO, socket, device or directory in place of a file is never followed, waited for or written through."
)
@pytest.mark.parametrize("state", STATES)
def test_what_is_planted_in_a_partition_is_never_followed_and_never_waited_for(
    mount: Callable[..., Any], golden_copy: Path, state: str
) -> None:
    secret = golden_copy.parent / "secret"
    secret.write_bytes(batch(0, SECRET, SECRET))
    before = secret.read_bytes()
    planted = plant_all(golden_copy, golden_copy / "keyed-0", secret, STATES[state])
    if state == "crashed":
        crash(golden_copy)
    mounted = mount(golden_copy, "ro" if state == "ro" else "", faulty=True)
    values = (mounted.path / "keyed-0/values").read_bytes()
    for partition, name in planted.items():
        command = ["bash", "-c", LOOK, "-", partition, name]
        done = subprocess.run(command, cwd=mounted.path, capture_output=True, timeout=SECONDS_MAX)
        assert SECRET not in done.stdout, f"{partition}: the link was followed"
        if values in done.stdout:
            assert name in NOT_NEEDED.values() or state == "crashed", partition  # recovery rebuilds indexes
        else:
            assert name in NEEDED.values() or state == "crashed", (partition, done.stderr)  # and looks at all files
            assert b"Invalid argument" in done.stderr, partition
            assert re.search(f"EINVAL .*/{partition}/{name}: .*not a regular file", mounted.errors()), partition
    mounted.unmount()
    assert b"Traceback" not in b"".join(mounted.lines)
    assert secret.read_bytes() == before
    assert sorted(os.listdir(secret.parent)) == ["kafka-4.1", "mnt0", "secret"]


@pytest.mark.security("A link in place of a partition directory is not a partition.")
def test_a_link_in_the_place_of_a_partition_is_no_partition(mount: Callable[..., Any], golden_copy: Path) -> None:
    elsewhere = golden_copy.parent / "elsewhere"
    shutil.copytree(golden_copy / "keyed-0", elsewhere)
    before = sorted(os.listdir(elsewhere))
    (golden_copy / "linked-0").symlink_to(elsewhere)
    (golden_copy / "dangling-0").symlink_to(golden_copy.parent / "made")
    mounted = mount(golden_copy, "create,delete", faulty=True)
    for name in ("linked-0", "dangling-0"):
        assert name not in os.listdir(mounted.path)
        for act in (os.stat, os.mkdir, os.rmdir):
            with pytest.raises(OSError):
                act(mounted.path / name)
    mounted.unmount()
    assert sorted(os.listdir(elsewhere)) == before
    assert not (golden_copy.parent / "made").exists()


def test_temporary_files_that_are_planted_as_hard_links_are_not_written_through(
    mount: Callable[..., Any], tmp_path: Path
) -> None:
    log, victim = tmp_path / "log", tmp_path / "victim"
    log.mkdir()
    victim.write_text("of another user")
    mounted = mount(log, "create")
    (mounted.path / "t-0").mkdir()
    names = (
        *("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"),
        *("t-0/leader-epoch-checkpoint", "t-0/00000000000000000000.index", ".kafka_cleanshutdown"),
    )
    for name in names:
        os.link(victim, log / f"{name}.tmp")
    (mounted.path / "t-0" / "append").write_bytes(b"a line\n")
    assert mounted.unmount() == 0
    assert victim.read_text() == "of another user"
    assert not (log / "recovery-point-offset-checkpoint.tmp").exists()
    again = mount(log)
    assert (again.path / "t-0" / "values").read_bytes() == b"a line\n"
