"""Reading the table of mounts, and telling the kernel about ours."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from offsetfs.fs.mounting.mount import mount_options, request_timeout_s, source
from offsetfs.fs.mounting.mount_table import mount_at, mounts, parse, resolved
from offsetfs.fs.options import MountOptions

pytestmark = pytest.mark.unit

TABLE = r"""
22 1 254:0 / / rw,relatime - ext4 /dev/root rw,discard
42 22 0:39 / /mnt/kafka rw,nosuid,nodev - fuse.offsetfs data rw,user_id=0,group_id=0,default_permissions
43 22 0:40 / /mnt/with\040blank rw master:1 shared:7 - fuse.offsetfs da\134ta ro
44 22 0:41 / /mnt/kafka rw - tmpfs none rw
""".strip().splitlines(keepends=True)


def test_the_table_is_read_with_its_escapes_and_optional_fields() -> None:
    root, ours, blank, over = parse(TABLE)
    assert (root.path, root.type, root.source, root.device) == ("/", "ext4", "/dev/root", os.makedev(254, 0))
    assert (ours.path, ours.type, ours.options) == ("/mnt/kafka", "fuse.offsetfs", "rw,nosuid,nodev")
    assert (blank.path, blank.source, blank.device) == ("/mnt/with blank", "da\\ta", os.makedev(0, 40))
    assert over.type == "tmpfs"


def test_a_line_ends_with_a_newline_and_nothing_else() -> None:
    forged = "/mnt/a\r99 22 0:99 / /etc rw - fuse.offsetfs evil rw"
    (mount,) = parse([f"44 22 0:41 / {forged.replace(' ', chr(92) + '040')} rw - tmpfs none rw\n"])
    assert (mount.path, mount.type) == (forged, "tmpfs")


def test_the_real_table_is_read() -> None:
    # Not the root, which the table of a chroot lacks.
    assert any(mount.type == "proc" for mount in mounts())


def test_a_plain_directory_is_no_mount_point(tmp_path: Path) -> None:
    assert mount_at(os.fspath(tmp_path)) is None
    assert mount_at("/proc") is not None


def test_links_to_a_mount_point_are_followed_without_asking_its_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert resolved(os.fspath(tmp_path / "link" / "mnt")) == os.fspath(tmp_path / "real" / "mnt")


@pytest.mark.parametrize(
    "directory",
    ["/data", "/", "/data/x,allow_other,dev,suid", "/data/a b", "/data/ü", "/data/a\nb", "/data/a\\,suid", "/data/%s"],
)
def test_no_name_of_a_log_directory_can_add_a_mount_option(directory: str) -> None:
    options = mount_options([directory], MountOptions())
    assert {"default_permissions", "nosuid", "nodev", "noexec", "subtype=offsetfs"} < options
    (name,) = options - {"default_permissions", "nosuid", "nodev", "noexec", "subtype=offsetfs"}
    assert re.fullmatch(r"fsname=[A-Za-z0-9._/-]+", name)


@pytest.mark.parametrize(
    ("directory", "shown"),
    [
        ("/var/lib/kafka/data", "/var/lib/kafka/data"),
        ("/", "/"),
        ("/srv/a b", "offsetfs-a_b"),
        ("/srv/ä/logs", "offsetfs-logs"),
        ("/srv/a,dev/x,suid", "offsetfs-x_suid"),
        ("/srv/logs\n", "offsetfs-logs_"),
        ("/srv/a\\054suid", "offsetfs-a_054suid"),
    ],
)
def test_a_mount_is_listed_by_its_log_directory_where_that_is_harmless(directory: str, shown: str) -> None:
    assert source([directory]) == shown


def test_a_mount_of_several_log_directories_is_listed_by_their_paths() -> None:
    assert source(["/disk1/kafka", "/disk2/kafka"]) == "/disk1/kafka\\,/disk2/kafka"
    assert source(["/disk1/kafka", "/srv/a,suid"]) == "offsetfs-kafka"


@pytest.mark.parametrize(
    ("options", "added"),
    [
        (MountOptions(read_only=True), {"ro"}),
        (MountOptions(allow_other=True), {"allow_other"}),
        (MountOptions(topic_defaults={"retention.ms": "5,suid"}), set()),
    ],
)
def test_the_kernel_hears_of_an_option_only_when_it_was_chosen(options: MountOptions, added: set[str]) -> None:
    assert mount_options(["/data"], options) - mount_options(["/data"], MountOptions()) == added


@pytest.mark.parametrize(
    ("default", "longest", "seconds"),
    [
        ("0", "0", None),
        ("60", "0", 60),
        ("0", "90", 90),
        ("60", "90", 60),
        ("60", "30", 30),
        ("5", "0", 15),
        (None, None, None),
    ],
)
def test_the_kernels_patience_is_known(
    tmp_path: Path, default: str | None, longest: str | None, seconds: float | None
) -> None:
    for name, value in (("default_request_timeout", default), ("max_request_timeout", longest)):
        if value is not None:
            (tmp_path / name).write_text(value + "\n")
    assert request_timeout_s(os.fspath(tmp_path)) == seconds
