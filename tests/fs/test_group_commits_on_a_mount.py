"""Offsets committed through a mount: written, read back, deleted, and refused, with the commands of a shell."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.mount


def sh(script: str, where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", script], cwd=where, capture_output=True, text=True)


def errno_of(act: Callable[[], object]) -> int | None:
    try:
        act()
    except OSError as error:
        return error.errno
    return None


def test_a_number_that_is_written_is_committed_and_read_back_at_once(golden_copy: Path, mount: Any) -> None:
    billing = mount(golden_copy).path / "groups/billing"
    done = sh("echo 7 > keyed-0; cat keyed-0; echo 8 >> keyed-0; cat keyed-0; cat lag", billing)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("7\n8\n")
    assert ["keyed-0", "8", "93", "85"] in [line.split()[:4] for line in done.stdout.splitlines()]
    assert (billing / "keyed-1").read_text() == "11\n"


def test_a_partition_and_a_group_without_commits_get_their_first(golden_copy: Path, mount: Any) -> None:
    root = mount(golden_copy).path
    assert sh("echo 3 > groups/billing/epochs-0; cat groups/billing/epochs-0", root).stdout == "3\n"
    done = sh("mkdir groups/new && ls groups/new && echo 93 > groups/new/keyed-0 && cat groups/new/*", root)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.splitlines()[0] == "lag" and "93" in done.stdout.split()
    assert "new" in os.listdir(root / "groups")


def test_rm_deletes_a_commit_and_it_stays_deleted(golden_copy: Path, mount: Any) -> None:
    mounted = mount(golden_copy)
    groups = mounted.path / "groups"
    done = sh("rm billing/keyed-0 && ls billing && mkdir temporary && rmdir temporary", groups)
    assert (done.returncode, done.stderr) == (0, "")
    assert "keyed-0" not in done.stdout.split() and "keyed-1" in done.stdout.split()
    assert sorted(os.listdir(groups)) == ["billing", "h-billing"]
    with open(groups / "billing/keyed-1", "w") as file:
        file.write("42\n")
        file.flush()
        os.fsync(file.fileno())
    mounted.unmount()
    again = mount(golden_copy, "ro").path / "groups/billing"
    assert not (again / "keyed-0").exists() and (again / "keyed-1").read_text() == "42\n"


REFUSED: list[tuple[str, Callable[[Path], object], int | None]] = [
    ("a negative offset", lambda g: (g / "keyed-0").write_text("-1\n"), errno.EINVAL),
    ("no number", lambda g: (g / "keyed-0").write_text("x\n"), errno.EINVAL),
    ("beyond all offsets", lambda g: (g / "keyed-0").write_text("9223372036854775808"), errno.EINVAL),
    ("beyond the end of the log", lambda g: (g / "keyed-0").write_text("9223372036854775807"), errno.ERANGE),
    ("no partition", lambda g: (g / "orders").write_text("7\n"), errno.EINVAL),
    ("a partition that is not there", lambda g: (g / "orders-5").write_text("0\n"), errno.EINVAL),
    ("a time of its own", lambda g: (g / "orders-1").touch(), None),
    ("the lag", lambda g: (g / "lag").write_text("7\n"), errno.EPERM),
    ("the lag removed", lambda g: (g / "lag").unlink(), errno.EPERM),
    ("nothing removed", lambda g: (g / "orders-0").unlink(), errno.ENOENT),
    ("a group with commits", lambda g: g.rmdir(), errno.ENOTEMPTY),
    ("no group", lambda g: (g.parent / "missing").rmdir(), errno.ENOENT),
    ("a group that is there", lambda g: g.mkdir(), errno.EEXIST),
    ("a group of no text", lambda g: os.mkdir(bytes(g.parent) + b"/\xff"), errno.EINVAL),
    ("a file beside the groups", lambda g: (g.parent / "file").write_text("7\n"), errno.EPERM),
    ("another name", lambda g: (g / "keyed-0").rename(g / "keyed-9"), errno.EPERM),
]


def test_what_is_no_commit_is_refused(golden_copy: Path, mount: Any) -> None:
    billing = mount(golden_copy).path / "groups/billing"
    listed = os.listdir(billing)
    for what, act, answer in REFUSED:
        assert errno_of(partial(act, billing)) == answer, what
        assert os.listdir(billing) == listed, what


def test_where_there_is_no_topic_it_is_made_with_the_option_create(mount: Any, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    mounted = mount(tmp_path / "log", "create")
    done = sh("mkdir orders-0 groups/g && echo 0 > groups/g/orders-0 && cat groups/g/orders-0", mounted.path)
    assert done.stdout == "0\n", done.stderr
    assert len(list(tmp_path.glob("log/__consumer_offsets-*"))) == 50
    mounted.unmount()
    again = mount(tmp_path / "log").path
    assert (again / "groups/g/orders-0").read_text() == "0\n"
    assert "cleanup.policy" in (again / "__consumer_offsets-0/info").read_text()


def test_without_the_option_and_the_topic_there_is_nowhere_to_commit(mount: Any, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    before = mount(tmp_path / "log", "create")
    (before.path / "orders-0").mkdir()
    before.unmount()
    root = mount(tmp_path / "log").path
    assert errno_of((root / "groups/billing").mkdir) == errno.EPERM
    assert "groups" not in os.listdir(root)
