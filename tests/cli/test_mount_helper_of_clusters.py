"""mount(8) and fstab mount a cluster: what calls /sbin/mount.offsetfs with kafka://, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.machine.own_machine import Machine

import offsetfs
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.mount

MNT, OPTIONS = "/mnt/mnt", "topic=orders,cache=/mnt/cache"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a broker with the topics orders and users, each with one record."""
    names = [TopicPartition("orders", 0), TopicPartition("users", 0)]
    directory = LogDirectory.open(str(tmp_path))
    directory.create_partitions(names)
    directory.close()
    with offsetfs.open(tmp_path, "a") as opened:
        for each in names:
            opened.partition(str(each)).append(b"one")
    with offsetfs.serve(tmp_path) as broker:
        yield f"kafka://{broker.bootstrap_servers}/"


@pytest.fixture(autouse=True)
def places(machine: Machine) -> Iterator[None]:
    """An empty directory MNT; nothing is left behind."""
    machine.path(MNT).mkdir()
    yield
    for mount in json.loads(machine.offsetfs("status", "--json").stdout)["mounts"]:
        machine.run("umount", "--lazy", mount["mount_point"])
        machine.wait_for_end(mount["pid"])
    machine.path("/run/fstab").write_text("")
    machine.run("sh", "-c", "rm -rf /mnt/*")


def first_record(machine: Machine) -> str:
    """Return the first line of `follow@0`, when there is one."""
    return machine.run("head", "-n", "1", f"{MNT}/orders-0/follow@0").stdout


def test_mount_8_mounts_a_cluster_and_umount_8_ends_its_mirror(machine: Machine, url: str) -> None:
    mounted = machine.run("mount", "-v", "-t", "offsetfs", url, MNT, "-o", OPTIONS)
    assert (mounted.returncode, mounted.stderr) == (0, "")
    assert f"mount.offsetfs: {url} mounted on {MNT}" in mounted.stdout
    assert first_record(machine) == "one\n"
    assert sorted(each.name for each in machine.path(f"{MNT}/topics").iterdir()) == ["orders"]
    seen = machine.mounted(MNT)
    assert (seen["fstype"], "ro" in seen["options"].split(",")) == ("fuse.offsetfs", True)
    (daemon,) = json.loads(machine.offsetfs("status", "--json").stdout)["mounts"]
    assert machine.run("umount", MNT).returncode == 0
    machine.wait_for_end(daemon["pid"])
    assert machine.path("/mnt/cache/.kafka_cleanshutdown").exists()


def test_a_line_of_fstab_mounts_a_cluster(machine: Machine, url: str) -> None:
    machine.path("/run/fstab").write_text(f"{url} {MNT} offsetfs {OPTIONS},_netdev,nofail,x-systemd.automount 0 0\n")
    mounted = machine.run("mount", MNT)
    assert (mounted.returncode, mounted.stdout, mounted.stderr) == (0, "", "")
    assert first_record(machine) == "one\n"
    assert machine.run("umount", MNT).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(["-o", "topic=orders,cash=/mnt/cache"], 1, "unknown option 'cash'", id="option"),
        pytest.param(["-o", "topic=(,cache=/mnt/cache"], 1, "not a regular expression", id="value"),
        pytest.param(["-o", "topic=none,cache=/mnt/cache"], 32, "no topic that this user may describe", id="no topic"),
        pytest.param(["-s", "-o", f"{OPTIONS},intr"], 0, "", id="sloppy"),
        pytest.param(["-f", "-o", OPTIONS], 0, "", id="fake"),
    ],
)
def test_options_and_exit_codes_of_a_cluster_are_those_of_mount_8(
    machine: Machine, url: str, arguments: list[str], code: int, message: str
) -> None:
    result = machine.run("mount.offsetfs", url, MNT, *arguments)
    assert result.returncode == code and message in result.stderr
    assert bool(machine.mounted(MNT)) == (code == 0 and "-f" not in arguments)
    assert len(result.stderr.splitlines()) == (1 if code else 0)


def test_a_cluster_that_does_not_answer_is_not_mounted(machine: Machine) -> None:
    result = machine.run("mount", "-t", "offsetfs", "kafka://127.0.0.1:1/", MNT, "-o", OPTIONS)
    assert result.returncode == 32 and not machine.mounted(MNT)
    assert result.stderr.startswith("mount.offsetfs: no broker answers: 127.0.0.1:1: Connection refused; check the ")
